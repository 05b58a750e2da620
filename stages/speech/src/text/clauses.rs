//! The clauses of a text, each with the mark that ends it.

/// A part of a text that is spoken in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// With its mark, so that abbreviations are known as such. It has no line break.
    pub text: String,
    /// One of `.`, `,`, `;`, `:`, `!` and `?`.
    pub mark: Option<char>,
}

/// The longest clause in bytes: espeak-ng reads at most a thousand of a line.
const MAX_BYTES: usize = 900;

/// The mark that a character stands for, and whether it ends a clause without a space behind it.
fn mark_of(character: char) -> Option<(char, bool)> {
    Some(match character {
        '.' | ',' | ';' | ':' | '!' | '?' => (character, false),
        '\u{2026}' | '\u{964}' | '\u{965}' | '\u{6D4}' | '\u{1362}' => ('.', true),
        '\u{3002}' | '\u{FF0E}' | '\u{FF61}' => ('.', true),
        '\u{60C}' | '\u{3001}' | '\u{FF0C}' | '\u{1363}' => (',', true),
        '\u{61B}' | '\u{FF1B}' | '\u{1364}' => (';', true),
        '\u{FF1A}' | '\u{1365}' => (':', true),
        '\u{FF01}' => ('!', true),
        '\u{61F}' | '\u{FF1F}' | '\u{37E}' | '\u{1367}' => ('?', true),
        _ => return None,
    })
}

/// The clauses of a text in order. Those without a letter or digit are left out.
pub fn clauses(text: &str) -> Vec<Clause> {
    let mut clauses = Vec::new();
    let mut start = 0;
    for (at, character) in text.char_indices() {
        let Some((mark, alone)) = mark_of(character) else { continue };
        let end = at + character.len_utf8();
        let behind = text[end..].trim_start_matches(is_closing);
        if alone || behind.is_empty() || behind.starts_with(char::is_whitespace) {
            push(&mut clauses, &text[start..end], Some(mark));
            start = end;
        }
    }
    push(&mut clauses, &text[start..], None);
    clauses
}

/// Tests if a character may stand between a mark and the space behind it.
fn is_closing(character: char) -> bool {
    matches!(
        character,
        '"' | '\'' | ')' | ']' | '\u{2019}' | '\u{201D}' | '\u{BB}' | '.' | '!' | '?'
    )
}

fn push(clauses: &mut Vec<Clause>, text: &str, mark: Option<char>) {
    let spoken: Vec<&str> = text.split_whitespace().collect();
    // Double brackets would be read as phonemes.
    let mut rest = spoken.join(" ").replace("[[", "[ [");
    if !rest.contains(char::is_alphanumeric) {
        return;
    }
    while rest.len() > MAX_BYTES {
        let starts = rest.char_indices().map(|(at, _)| at);
        let limit = starts.take_while(|at| *at <= MAX_BYTES).last().unwrap_or(MAX_BYTES);
        let at = rest[..limit].rfind(' ').unwrap_or(limit);
        let behind = rest.split_off(at);
        clauses.push(Clause {
            text: std::mem::replace(&mut rest, behind.trim_start().to_owned()),
            mark: None,
        });
    }
    clauses.push(Clause { text: rest, mark });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<(String, Option<char>)> {
        clauses(text).into_iter().map(|clause| (clause.text, clause.mark)).collect()
    }

    #[test]
    fn a_mark_ends_a_clause_if_a_space_or_nothing_stands_behind_it() {
        for (text, expected) in [
            ("Hello, world.", vec![("Hello,", Some(',')), ("world.", Some('.'))]),
            ("It is 3.5 at 10:30", vec![("It is 3.5 at 10:30", None)]),
            ("\"Why?\" he asked!", vec![("\"Why?", Some('?')), ("\" he asked!", Some('!'))]),
            ("What?! No...", vec![("What?", Some('?')), ("No.", Some('.'))]),
            ("\u{928}\u{964}\u{915}", vec![("\u{928}\u{964}", Some('.')), ("\u{915}", None)]),
            (
                "\u{4F60}\u{FF0C}\u{597D}\u{3002}",
                vec![("\u{4F60}\u{FF0C}", Some(',')), ("\u{597D}\u{3002}", Some('.'))],
            ),
            (" a\n b ", vec![("a b", None)]),
            ("- . !", vec![]),
            ("[[a]]", vec![("[ [a]]", None)]),
        ] {
            let expected: Vec<(String, Option<char>)> =
                expected.into_iter().map(|(part, mark)| (part.to_owned(), mark)).collect();
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn a_long_clause_is_split_between_words() {
        let text = "\u{E4}\u{E4}\u{E4} ".repeat(400);
        let parts = clauses(&text);
        assert!(parts.len() > 2 && parts.iter().all(|clause| clause.text.len() <= MAX_BYTES));
        let joined: Vec<&str> = parts.iter().map(|clause| clause.text.as_str()).collect();
        assert_eq!(joined.join(" "), text.trim());
        assert!(clauses(&"x".repeat(2_000)).len() == 3);
    }
}
