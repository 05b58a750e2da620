//! Numbers as words: cardinals, decimals and ordinals. Amounts of money are read as numbers with the
//! name of the sign after them; the original also reads the cents.

use super::words;
use crate::numbers::Language;
use crate::rewritten::rewritten;

/// The language without decimals in the original: each side of the comma is a number.
const WITHOUT_DECIMALS: &str = "tr";

/// Languages with commas between thousands; all others have dots.
const COMMAS: [&str; 2] = ["en", "ru"];

/// Each number of a text that the original spells; other digits stay.
pub fn expand(text: &str, code: &str) -> String {
    let is_spelt = words::of(code).is_some_and(|words| words.numbers);
    let Some(language) = Language::of_xtts(code).filter(|_| is_spelt) else {
        return text.to_owned();
    };
    rewritten(text, |rest, before, expanded| {
        let is_inside = before.is_some_and(char::is_alphanumeric);
        let is_number = rest.starts_with(|first: char| first.is_ascii_digit());
        is_number.then(|| number(rest, language, is_inside, expanded))
    })
}

/// Writes the number at the start of a text; returns its length.
fn number(text: &str, language: Language, is_inside: bool, expanded: &mut String) -> usize {
    let code = language.code();
    let (thousands, decimals) = if COMMAS.contains(&code) { (',', '.') } else { ('.', ',') };
    let digits = if is_inside { leading(text) } else { grouped(text, thousands) };
    let mut length = digits.len();
    let whole: String = digits.chars().filter(char::is_ascii_digit).collect();
    let spelt = whole.parse().ok().and_then(|whole| Some((whole, language.cardinal(whole)?)));
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
        if let Some((mark, words)) = ordinal(whole, &text[length..], language) {
            (spelt, length) = (words, length + mark);
        }
    } else if let Some(words) = decimal(whole, behind, language) {
        (spelt, length) = (words, length + 1 + behind.len());
    }
    if code == "de" {
        // The text is in lower case already; only `Komma` is not in the original.
        spelt = spelt.replace('M', "m");
    }
    expanded.push_str(&spelt);
    length
}

/// The original reads decimals as a number of Python, which has no zeros at its end.
fn decimal(number: u64, digits: &str, language: Language) -> Option<String> {
    let digits = digits.trim_end_matches('0');
    match language.code() {
        "ar" => arabic(number, digits, language),
        "it" if digits.is_empty() => language.decimal(number, "0"),
        "ru" | "pl" | "cs" => language.decimal(number, digits),
        _ if digits.is_empty() => language.cardinal(number),
        _ => language.decimal(number, digits),
    }
}

/// Hundredths. A zero is not spoken, neither before nor after the comma.
fn arabic(number: u64, digits: &str, language: Language) -> Option<String> {
    let hundredths = format!("{digits}00").get(..2)?.parse().ok()?;
    let words = || language.feminine(hundredths);
    let whole = language.cardinal(number)?;
    match (number, hundredths) {
        (_, 0) => Some(whole),
        (0, _) => Some(format!(", {}", words()?)),
        _ => Some(format!("{whole} , {}", words()?)),
    }
}

/// The length of the mark that a text behind a number begins with, such as `st`, `ª` or `.`, and the
/// ordinal.
fn ordinal(number: u64, text: &str, language: Language) -> Option<(usize, String)> {
    let marks = &words::of(language.code())?.marks;
    let length = marks.iter().find_map(|mark| mark_length(text, mark))?;
    Some((length, language.ordinal(number)?))
}

fn mark_length(text: &str, mark: &str) -> Option<usize> {
    let (mark, is_last) = match mark.strip_suffix('!') {
        Some(mark) => (mark, true),
        None => (mark, false),
    };
    let rest = text.strip_prefix(mark)?;
    let ends = rest.chars().next().is_none_or(char::is_whitespace);
    (!is_last || ends).then_some(mark.len())
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
