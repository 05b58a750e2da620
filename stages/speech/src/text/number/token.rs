//! Finds number tokens, with the text around them.

/// Digits with the characters between them: from the first digit to the last of a run such as `1
/// 234,5` or `14.30`. Gujarati digits are read like the others.
pub(super) struct Token<'a> {
    whole: &'a str,
    pub start: usize,
    pub end: usize,
    /// The token with all digits as ASCII.
    pub plain: String,
}

/// Characters allowed between two digits of one token.
const INNER: [char; 6] = ['.', ',', ':', '-', '/', ' '];

impl<'a> Token<'a> {
    /// The first token at or after a byte position.
    pub fn next(text: &'a str, from: usize) -> Option<Token<'a>> {
        let start = from + text[from..].find(|character| digit(character).is_some())?;
        let mut end = start;
        let mut plain = String::new();
        let mut characters = text[start..].char_indices().peekable();
        while let Some((index, character)) = characters.next() {
            let next_is_digit = characters.peek().is_some_and(|(_, next)| digit(*next).is_some());
            match digit(character) {
                Some(value) => plain.push(value),
                None if INNER.contains(&character) && next_is_digit => {
                    // A space only joins groups of thousands.
                    if character == ' ' && !is_group(&text[start + index + 1..], &plain) {
                        break;
                    }
                    plain.push(character);
                }
                None => break,
            }
            end = start + index + character.len_utf8();
        }
        Some(Token { whole: text, start, end, plain })
    }

    pub fn text(&self) -> &'a str {
        &self.whole[self.start..self.end]
    }

    pub fn before(&self) -> &'a str {
        &self.whole[..self.start]
    }

    pub fn after(&self) -> &'a str {
        &self.whole[self.end..]
    }

    /// Tests if a letter or sign is attached to the left, as in `A4` or `v2`.
    pub fn is_glued_left(&self) -> bool {
        self.before().chars().next_back().is_some_and(|before| {
            before.is_alphanumeric() || is_mark(before) || "_/.,:-+*#^=\\".contains(before)
        })
    }
}

/// The value of a number of digits; None for leading zeros, which are codes and not counts.
pub(super) fn value(digits: &str) -> Option<u64> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_code = digits.len() > 1 && digits.starts_with('0');
    if !is_plain || is_code {
        return None;
    }
    digits.parse().ok()
}

/// The first word of a text, in lower case.
pub(super) fn first_word(text: &str) -> String {
    text.chars()
        .take_while(|character| character.is_alphabetic() || is_mark(*character))
        .collect::<String>()
        .to_lowercase()
}

/// Vowel signs and the virama of Gujarati, which are part of a word but not letters.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{0A81}'..='\u{0A83}' | '\u{0ABC}'..='\u{0ACD}' | '\u{0300}'..='\u{036F}')
}

fn digit(character: char) -> Option<char> {
    match character {
        '0'..='9' => Some(character),
        '\u{0AE6}'..='\u{0AEF}' => char::from_digit(character as u32 - 0x0AE6, 10),
        _ => None,
    }
}

/// Tests if exactly three digits follow, after one to three digits or a group before them.
fn is_group(after: &str, plain: &str) -> bool {
    let following = after.chars().take_while(|character| digit(*character).is_some()).count();
    let head = plain.rsplit(' ').next().unwrap_or_default();
    let head_fits = match plain.contains(' ') {
        true => head.len() == 3,
        false => (1..=3).contains(&head.len()) && !head.starts_with('0'),
    };
    following == 3 && head_fits && head.bytes().all(|byte| byte.is_ascii_digit())
}
