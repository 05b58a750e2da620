//! Numbers with decimals as words.

use super::spelling::{before_noun, by_rules, cardinal, point};
use super::words;

/// What Russian calls the places behind the point, without their ending, and Hungarian whole.
const RUSSIAN: [&str; 6] = ["десят", "сот", "тысячн", "десятитысячн", "стотысячн", "миллионн"];
const HUNGARIAN: [&str; 3] = ["tized", "század", "ezred"];

/// None if the language has no words for this number of decimals.
pub fn decimal(number: u64, digits: &str, code: &str) -> Option<String> {
    let (whole, point) = (cardinal(number, code)?, point(code)?);
    let digits = digits.trim_end_matches('0');
    match code {
        "ar" => arabic(number, digits),
        "ru" => russian(number, digits),
        "hu" if !digits.is_empty() => {
            let place = HUNGARIAN.get(digits.len() - 1)?;
            Some(format!("{whole} {point} {} {place}", cardinal(value(digits)?, code)?))
        }
        "pl" | "cs" => {
            let zero = cardinal(0, code)?;
            let zeros = match digits.len() {
                0 => 1,
                length => length - digits.trim_start_matches('0').len(),
            };
            let zeros = format!("{zero} ").repeat(zeros);
            Some(format!("{whole} {point} {zeros}{}", cardinal(value(digits)?, code)?))
        }
        _ if digits.is_empty() && code != "it" => Some(whole),
        _ => {
            let digits = if digits.is_empty() { "0" } else { digits };
            let own = digits.bytes().map(|digit| cardinal(u64::from(digit - b'0'), code));
            let own: Option<Vec<String>> = own.collect();
            Some(format!("{whole} {point} {}", own?.join(" ")))
        }
    }
}

/// Digits as a number, 0 without any.
fn value(digits: &str) -> Option<u64> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// Wholes and tenths, hundredths and so on, in the feminine.
fn russian(number: u64, digits: &str) -> Option<String> {
    let (value, place) = (value(digits)?, RUSSIAN.get(digits.len().saturating_sub(1))?);
    let ending = |number: u64| if number % 10 == 1 && number % 100 != 11 { "ая" } else { "ых" };
    let spelt = |number| before_noun(number, "ru");
    let whole = format!("{} цел{}", spelt(number)?, ending(number));
    Some(format!("{whole} {} {place}{}", spelt(value)?, ending(value)))
}

/// Hundredths; nothing is said of none, neither before nor behind the comma.
fn arabic(number: u64, digits: &str) -> Option<String> {
    let hundredths = format!("{digits}00").get(..2)?.parse().ok()?;
    let feminine = &words::of("ar")?.numbers.as_ref()?.feminine;
    let words = || by_rules(feminine, hundredths, "ar");
    let whole = cardinal(number, "ar")?;
    match (number, hundredths) {
        (_, 0) => Some(whole),
        (0, _) => Some(format!(", {}", words()?)),
        _ => Some(format!("{whole} , {}", words()?)),
    }
}
