//! Numbers as words: cardinals and decimals. Ordinals and amounts of money are read as cardinals
//! followed by the name of the sign; the original has inflected forms.

use super::spelling;

/// Languages with commas between thousands; all others have dots.
const COMMAS: [&str; 3] = ["en", "ru", "ko"];

/// Each number of a text that the language can spell; other digits stay.
pub fn expand(text: &str, code: &str) -> String {
    if !spelling::has(code) {
        return text.to_owned();
    }
    let mut expanded = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, None);
    while let Some(character) = rest.chars().next() {
        let length = match character.is_ascii_digit() {
            true => number(rest, code, before.is_some_and(char::is_alphanumeric), &mut expanded),
            false => {
                expanded.push(character);
                character.len_utf8()
            }
        };
        before = rest[..length].chars().next_back();
        rest = &rest[length..];
    }
    expanded
}

/// Writes the number at the start of a text; returns its length.
fn number(text: &str, code: &str, is_inside: bool, expanded: &mut String) -> usize {
    let (thousands, decimals) = if COMMAS.contains(&code) { (',', '.') } else { ('.', ',') };
    let (digits, mut length) = match is_inside {
        true => (leading(text), leading(text).len()),
        false => grouped(text, thousands),
    };
    let whole: String = digits.chars().filter(char::is_ascii_digit).collect();
    let spelt = whole.parse().ok().and_then(|whole| spelling::cardinal(whole, code));
    let Some(mut spelt) = spelt else {
        expanded.push_str(digits);
        return length;
    };
    // A dot before digits is also a decimal point unless it separates thousands.
    let behind = text[length..].strip_prefix([decimals, '.', ',']).map(leading);
    if let Some(fraction) = behind.filter(|fraction| !fraction.is_empty())
        && let Some(words) = spelling::fraction(fraction, code)
    {
        spelt = format!("{spelt} {words}");
        length += 1 + fraction.len();
    }
    expanded.push_str(&spelt);
    length
}

fn leading(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

/// The first digits with the groups of three after them, and their length.
fn grouped(text: &str, separator: char) -> (&str, usize) {
    let mut length = leading(text).len();
    if length <= 3 {
        while let Some(group) = text[length..].strip_prefix(separator).map(leading)
            && group.len() == 3
        {
            length += 1 + group.len();
        }
    }
    (&text[..length], length)
}
