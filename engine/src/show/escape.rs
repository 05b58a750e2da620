//! Makes external text safe to print, and fits it into columns.

use std::borrow::Cow;

pub use stage_core::escape::clean;
use unicode_width::UnicodeWidthChar;

/// Like [`clean`], for text of several lines: line breaks stay.
pub fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// Shortens the text to this number of columns, with an ellipsis.
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

/// The number of terminal columns of the text.
pub fn width(text: &str) -> usize {
    text.chars().map(|letter| letter.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_text_stay_apart() {
        assert_eq!(clean_lines("one\n\u{7}two"), "one\n\\u{7}two");
    }

    #[test]
    fn texts_are_cut_by_columns_and_not_by_bytes() {
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
    }
}
