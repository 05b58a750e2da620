//! Numbers as words by the rules of a language, from `languages.toml`.

use super::words;
use crate::spelling::Spelling;

/// Numbers from here on stay digits.
const LIMIT: u64 = 1_000_000_000_000;

pub fn has(code: &str) -> bool {
    find(code).is_some()
}

/// None if the language has no rules, or the number is too large.
pub fn cardinal(number: u64, code: &str) -> Option<String> {
    let spelling = find(code).filter(|_| number < LIMIT)?;
    let spelt = spelling.spell(number)?;
    // Italian drops one of two vowels before `otto`.
    Some(if code == "it" { spelt.replace("oo", "o") } else { spelt })
}

/// A number by other rules, in which `<` stands for a cardinal.
pub fn by_rules(rules: &str, number: u64, code: &str) -> Option<String> {
    find(code)?.by_rules(rules, number)
}

/// The form of a number before a noun, from the attributes of the language.
pub fn before_noun(number: u64, code: &str) -> Option<String> {
    find(code)?.before_noun(number)
}

/// The word for the decimal point.
pub fn point(code: &str) -> Option<&'static str> {
    Some(&words::of(code)?.numbers.as_ref()?.point)
}

fn find(code: &str) -> Option<Spelling<'static>> {
    let numbers = words::of(code)?.numbers.as_ref()?;
    Some(Spelling { rules: &numbers.rules, attributes: &numbers.attributes })
}
