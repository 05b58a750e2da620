//! Numbers with decimals as words.

use super::Language;

/// The names of decimal places: in Russian without their ending, in Hungarian whole.
const RUSSIAN: [&str; 6] = ["десят", "сот", "тысячн", "десятитысячн", "стотысячн", "миллионн"];
const HUNGARIAN: [&str; 3] = ["tized", "század", "ezred"];

pub fn decimal(language: Language, number: u64, digits: &str) -> Option<String> {
    let (whole, point) = (language.cardinal(number)?, &language.words.point);
    // Names of places, and numbers, do not depend on zeros at the end.
    let trimmed = digits.trim_end_matches('0');
    match language.code {
        "ru" => russian(language, number, trimmed),
        "hu" if !trimmed.is_empty() => {
            let place = HUNGARIAN.get(trimmed.len() - 1)?;
            Some(format!("{whole} {point} {} {place}", language.cardinal(value(trimmed)?)?))
        }
        "pl" | "cs" => {
            let zero = language.cardinal(0)?;
            let zeros = match trimmed.len() {
                0 => 1,
                length => length - trimmed.trim_start_matches('0').len(),
            };
            let zeros = format!("{zero} ").repeat(zeros);
            Some(format!("{whole} {point} {zeros}{}", language.cardinal(value(trimmed)?)?))
        }
        _ if digits.is_empty() => None,
        "zh" | "ja" => Some(format!("{whole}{point}{}", language.digits(digits)?)),
        _ => Some(format!("{whole} {point} {}", language.digits(digits)?)),
    }
}

/// Digits as a number, 0 without any.
fn value(digits: &str) -> Option<u64> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

/// Wholes and tenths, hundredths and so on, in the feminine.
fn russian(language: Language, number: u64, digits: &str) -> Option<String> {
    let (value, place) = (value(digits)?, RUSSIAN.get(digits.len().saturating_sub(1))?);
    let ending = |number: u64| if number % 10 == 1 && number % 100 != 11 { "ая" } else { "ых" };
    let spelt = |number| language.spelling().before_noun(number);
    let whole = format!("{} цел{}", spelt(number)?, ending(number));
    Some(format!("{whole} {} {place}{}", spelt(value)?, ending(value)))
}
