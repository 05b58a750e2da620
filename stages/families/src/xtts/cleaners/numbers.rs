//! Numbers as words: cardinals, decimals and ordinals. Amounts of money are read as numbers with the
//! name of the sign after them; the original also reads the cents.

use super::{decimals, ordinals, spelling};
use crate::rewritten::rewritten;

/// The language without decimals in the original: each side of the comma is a number.
const WITHOUT_DECIMALS: &str = "tr";

/// Languages with commas between thousands; all others have dots.
const COMMAS: [&str; 2] = ["en", "ru"];

/// Each number of a text that the language can spell; other digits stay.
pub fn expand(text: &str, code: &str) -> String {
    if !spelling::has(code) {
        return text.to_owned();
    }
    rewritten(text, |rest, before, expanded| {
        let is_inside = before.is_some_and(char::is_alphanumeric);
        let is_number = rest.starts_with(|first: char| first.is_ascii_digit());
        is_number.then(|| number(rest, code, is_inside, expanded))
    })
}

/// Writes the number at the start of a text; returns its length.
fn number(text: &str, code: &str, is_inside: bool, expanded: &mut String) -> usize {
    let (thousands, decimals) = if COMMAS.contains(&code) { (',', '.') } else { ('.', ',') };
    let digits = if is_inside { leading(text) } else { grouped(text, thousands) };
    let mut length = digits.len();
    let whole: String = digits.chars().filter(char::is_ascii_digit).collect();
    let spelt =
        whole.parse().ok().and_then(|whole| Some((whole, spelling::cardinal(whole, code)?)));
    let Some((whole, mut spelt)) = spelt else {
        expanded.push_str(digits);
        return length;
    };
    // A dot before digits is also a decimal point unless it separates thousands.
    let behind = match code {
        WITHOUT_DECIMALS => "",
        _ => text[length..].strip_prefix([decimals, '.', ',']).map_or("", leading),
    };
    if behind.is_empty() {
        if let Some((mark, words)) = ordinals::ordinal(whole, &text[length..], code) {
            (spelt, length) = (words, length + mark);
        }
    } else if let Some(words) = decimals::decimal(whole, behind, code) {
        (spelt, length) = (words, length + 1 + behind.len());
    }
    expanded.push_str(&spelt);
    length
}

fn leading(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

/// The first digits with the groups of three after them.
fn grouped(text: &str, separator: char) -> &str {
    let mut length = leading(text).len();
    if length <= 3 {
        while let Some(group) = text[length..].strip_prefix(separator).map(leading)
            && group.len() == 3
        {
            length += 1 + group.len();
        }
    }
    &text[..length]
}
