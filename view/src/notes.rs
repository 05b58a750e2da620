//! The notes of stages in words: what they found, and how often.

use std::collections::BTreeMap;

use engine::units;

use crate::escape::clean;

/// The start of notes on single characters, of which there may be many.
const CHARACTER: &str = "U+";

/// `odd byte: 2`.
fn note_text(note: &str, count: u64) -> String {
    format!("{}: {}", clean(note), units::count(count))
}

/// The most frequent ones first, and those on single characters last.
pub fn note_texts(notes: &BTreeMap<String, u64>) -> Vec<String> {
    let mut notes: Vec<(&String, &u64)> = notes.iter().collect();
    notes.sort_by_key(|(note, count)| (note.starts_with(CHARACTER), std::cmp::Reverse(**count)));
    notes.into_iter().map(|(note, count)| note_text(note, *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_on_single_characters_hide_no_others() {
        let notes = [
            ("U+002C replaced", 431),
            ("digits left", 12),
            ("U+00AB replaced", 7),
            ("clipped", 40),
        ];
        let notes = notes.map(|(note, count)| (note.to_owned(), count)).into();
        let told = ["clipped: 40", "digits left: 12", "U+002C replaced: 431", "U+00AB replaced: 7"];
        assert_eq!(note_texts(&notes), told);
    }
}
