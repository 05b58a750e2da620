//! Makes foreign text safe to print: ids, transcripts and messages come from the user's data and
//! may hold terminal escapes, direction overrides or megabytes.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// The longest text that is printed whole; far more than any path or reason.
const LONGEST: usize = 2_000;

/// The text with every character that could move the cursor, recolour, or reorder what is around
/// it written as an escape. Line breaks count as such too: one text stays on one line.
pub fn clean(text: &str) -> Cow<'_, str> {
    let end = text.char_indices().nth(LONGEST).map(|(at, _)| at);
    if end.is_none() && !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len().min(4 * LONGEST));
    for letter in text[..end.unwrap_or(text.len())].chars() {
        match letter {
            '\n' => cleaned.push_str("\\n"),
            '\r' => cleaned.push_str("\\r"),
            '\t' => cleaned.push_str("\\t"),
            letter if is_unsafe(letter) => {
                cleaned.push_str(&format!("\\u{{{:x}}}", u32::from(letter)));
            }
            letter => cleaned.push(letter),
        }
    }
    if end.is_some() {
        cleaned.push('…');
    }
    Cow::Owned(cleaned)
}

/// The same for text of several lines: the line breaks stay.
pub fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// The text in at most so many columns; what is cut off leaves an ellipsis.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let mut kept = String::new();
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used >= columns {
            break;
        }
        kept.push(letter);
    }
    kept.push('…');
    Cow::Owned(kept)
}

/// How many columns a terminal needs for the text.
pub fn width(text: &str) -> usize {
    text.chars().map(|letter| letter.width().unwrap_or(0)).sum()
}

fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Direction marks, embeddings, overrides and isolates.
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
            // Separators that break lines, and letters that cannot be seen.
            | '\u{2028}' | '\u{2029}' | '\u{200B}' | '\u{2060}' | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_and_direction_overrides_are_shown_not_obeyed() {
        assert_eq!(clean("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(clean("gpj\u{202e}exe\u{0}"), "gpj\\u{202e}exe\\u{0}");
        assert_eq!(clean("one\ntwo\u{9b}0m"), "one\\ntwo\\u{9b}0m");
        assert_eq!(clean_lines("one\n\u{7}two"), "one\n\\u{7}two");
    }

    #[test]
    fn letters_of_every_script_stay() {
        for text in ["äiti öisin", "ગુજરાતી ક્‍ષ", "漢字", "e\u{301}"] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn a_text_of_ten_megabytes_is_bounded() {
        let text = "ä".repeat(5_000_000);
        assert!(clean(&text).len() < 5_000);
    }

    #[test]
    fn texts_are_cut_by_columns_and_not_by_bytes() {
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
    }
}
