//! Finds number tokens, with the text around them.

/// Digits with the characters between them: from the first digit to the last of a run such as `1
/// 234,5` or `14.30`. Digits of other scripts are read like the others.
pub(super) struct Token<'a> {
    whole: &'a str,
    pub start: usize,
    pub end: usize,
    /// The token with all digits as ASCII.
    pub plain: String,
}

/// Characters allowed between two digits of one token.
const INNER: [char; 8] = ['.', ',', ':', '-', '/', ' ', '٫', '٬'];
/// The zeros of decimal digits: ASCII, Arabic, Persian, Devanagari, Gujarati and fullwidth.
const ZEROS: [char; 6] = ['0', '٠', '۰', '०', '૦', '０'];

/// Signs between the numbers of a range.
const RANGES: [char; 5] = ['-', '\u{2010}', '\u{2011}', '\u{2013}', '\u{2014}'];
/// Signs that split digits of one number, or make it a fraction.
const SPLITS: [char; 4] = ['\'', '’', '\u{2044}', '\u{2215}'];

/// More digits in a row are a code or a telephone number, unless they end with thousands.
const MOST_DIGITS: usize = 9;

impl<'a> Token<'a> {
    /// The first token at or after a byte position. A space joins groups of thousands only if the
    /// language writes them so.
    pub fn next(text: &'a str, from: usize, joins_spaces: bool) -> Option<Token<'a>> {
        let start = from + text[from..].find(|character| digit(character).is_some())?;
        let mut end = start;
        let mut plain = String::new();
        let mut characters = text[start..].char_indices().peekable();
        while let Some((index, character)) = characters.next() {
            let next_is_digit = characters.peek().is_some_and(|(_, next)| digit(*next).is_some());
            match digit(character) {
                Some(value) => plain.push(value),
                None if INNER.contains(&character) && next_is_digit => {
                    let joins = || joins_spaces && is_group(&text[start + index + 1..], &plain);
                    if character == ' ' && !joins() {
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

    pub fn whole(&self) -> &'a str {
        self.whole
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

    /// True for what may be a list or a telephone number: `600 100 200`, `13812345678`, and `8 800 555`
    /// of `8 800 555 35 35`. `600 100 000` is a number.
    pub fn is_list(&self) -> bool {
        let groups: Vec<&str> = self.plain.split(' ').collect();
        let is_round = self.plain.ends_with("000");
        let runs = || self.plain.split(|character: char| !character.is_ascii_digit());
        let is_wide = groups.len() > 2 && groups[0].len() == 3;
        let is_long = || runs().any(|run| run.len() > MOST_DIGITS);
        let goes_on = || groups.len() > 1 && self.is_beside_digits();
        (!is_round && (is_wide || is_long())) || goes_on()
    }

    /// True for a part of a number whose marks are not those of this language, of a range, or of a fraction:
    /// `10 000` in English, `1’000`, `12 - 34`, `10%–20%`, `1⁄2`.
    pub fn is_part_of_other(&self, joins_spaces: bool) -> bool {
        let is_digit = |character: Option<char>| character.is_some_and(|it| digit(it).is_some());
        let signs = |text: char| "%٪％ºª° \u{a0}".contains(text);
        let (before, after) = (self.before(), self.after());
        let behind = after.trim_start_matches(signs);
        let ahead = before.trim_end_matches(signs);
        let is_range = |sign: char| RANGES.contains(&sign);
        let follows = behind
            .strip_prefix(is_range)
            .is_some_and(|rest| is_digit(rest.trim_start().chars().next()));
        let precedes = ahead
            .strip_suffix(is_range)
            .is_some_and(|rest| is_digit(rest.trim_end_matches(signs).chars().next_back()));
        let is_split = |sign: char| SPLITS.contains(&sign);
        let splits = after.strip_prefix(is_split).is_some_and(|rest| is_digit(rest.chars().next()))
            || before.strip_suffix(is_split).is_some_and(|rest| is_digit(rest.chars().next_back()));
        follows || precedes || splits || (!joins_spaces && self.is_group_of_spaces())
    }

    /// True for one of two groups of digits with a space between them, of which the second has three digits,
    /// or the first has three and the second four.
    fn is_group_of_spaces(&self) -> bool {
        let run = |text: &str| text.chars().take_while(|it| digit(*it).is_some()).count();
        let own = self.plain.chars().count();
        let is_plain = self.plain.bytes().all(|byte| byte.is_ascii_digit());
        let next = self.after().strip_prefix(' ').map_or(0, run);
        let reversed: String = self.before().chars().rev().collect();
        let last = reversed.strip_prefix(' ').map_or(0, run);
        let fits = |first: usize, second: usize| {
            ((1..=3).contains(&first) && second == 3) || (first == 3 && second == 4)
        };
        is_plain && !self.plain.starts_with('0') && fits(own, next) || is_plain && fits(last, own)
    }

    /// True if other digits are only a space away.
    fn is_beside_digits(&self) -> bool {
        let mut after = self.after().chars();
        let mut before = self.before().chars().rev();
        let follows = after.next() == Some(' ') && after.next().and_then(digit).is_some();
        follows || (before.next() == Some(' ') && before.next().and_then(digit).is_some())
    }

    /// True if a minus stands before the number, and its length; None if something else is attached
    /// to the number.
    pub fn sign(&self) -> Option<(bool, usize)> {
        if !self.is_glued_left() {
            return Some((false, 0));
        }
        let before = self.before().strip_suffix('-')?;
        let stands_alone = before.is_empty() || before.ends_with([' ', '(', '"']);
        stands_alone.then_some((true, 1))
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

/// Vowel signs and the virama of Devanagari and Gujarati and the vowels of Arabic, which are part of a
/// word but not letters.
pub(super) fn is_mark(character: char) -> bool {
    matches!(
        character,
        '\u{0300}'..='\u{036F}'
            | '\u{064B}'..='\u{0652}'
            | '\u{0900}'..='\u{0903}'
            | '\u{093A}'..='\u{094F}'
            | '\u{0A81}'..='\u{0A83}'
            | '\u{0ABC}'..='\u{0ACD}'
    )
}

pub(super) fn digit(character: char) -> Option<char> {
    ZEROS.iter().find_map(|zero| {
        let value = (character as u32).checked_sub(*zero as u32).filter(|value| *value < 10)?;
        char::from_digit(value, 10)
    })
}

/// Tests if exactly three digits follow, after one to three digits or a group before them.
fn is_group(after: &str, plain: &str) -> bool {
    let following = after.chars().take_while(|character| digit(*character).is_some()).count();
    let head = plain.rsplit(' ').next().unwrap_or_default();
    let head_fits = if plain.contains(' ') {
        head.len() == 3
    } else {
        (1..=3).contains(&head.len()) && !head.starts_with('0')
    };
    following == 3 && head_fits && head.bytes().all(|byte| byte.is_ascii_digit())
}
