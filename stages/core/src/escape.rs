//! Makes external text safe to show: names of tensors and files, transcripts and messages come from
//! the user's data and may contain terminal escapes, direction overrides or megabytes.

use std::borrow::Cow;

/// The longest text that is shown in full; far longer than any path or reason.
const LONGEST: usize = 2_000;

/// The text with every character that could move the cursor, change colours, or reorder its
/// neighbours escaped. That includes line breaks: one text stays on one line.
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

/// The same for a text that is not needed unescaped.
pub fn cleaned(text: String) -> String {
    match clean(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(cleaned) => cleaned,
    }
}

fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Direction marks, embeddings, overrides and isolates.
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
            // Separators that break lines, and invisible characters.
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
        assert_eq!(cleaned(text.clone()), clean(&text));
    }
}
