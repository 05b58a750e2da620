//! Signs as words.

use super::words;

/// In the order of the words.
pub const SIGNS: [char; 7] = ['&', '@', '%', '#', '$', '£', '°'];

pub fn expand(text: &str, code: &str) -> String {
    let words = words::of(code).map_or(&[][..], |words| &words.signs);
    let mut expanded = String::with_capacity(text.len());
    for character in text.chars() {
        let at = SIGNS.iter().position(|sign| *sign == character);
        match at.and_then(|at| words.get(at)) {
            Some(word) => expanded.extend([" ", word, " "]),
            None => expanded.push(character),
        }
    }
    expanded
}
