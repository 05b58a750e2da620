//! Finnish numbers in texts: percents, euros, clock times, dates and compounds.
//!
//! Finnish numerals inflect with their noun. Only the nominative is written, like the digits
//! themselves; a number with an explicit case (`5:n`) is left.

use stage_families::numbers::Language;

use super::Reading;
use super::token::{Token, first_word, value};

/// Months after the day, which is then an ordinal in the nominative.
const MONTHS: [&str; 12] = [
    "tammikuuta",
    "helmikuuta",
    "maaliskuuta",
    "huhtikuuta",
    "toukokuuta",
    "kesäkuuta",
    "heinäkuuta",
    "elokuuta",
    "syyskuuta",
    "lokakuuta",
    "marraskuuta",
    "joulukuuta",
];

pub(super) fn read(token: &Token<'_>, finnish: Language) -> Option<Reading> {
    let (is_negative, taken_before) = token.sign()?;
    let mut reading = if is_after_clock(token.before()) {
        let number = || number(&token.plain, finnish).map(|(words, _)| words);
        Reading::of(clock(&token.plain, finnish).or_else(number)?)
    } else {
        with_neighbours(token, finnish)?
    };
    if is_negative {
        reading.words = finnish.negative(&reading.words);
        reading.taken_before = taken_before;
    }
    Some(reading)
}

/// A number and its right context: a unit sign, a compound, or a month.
fn with_neighbours(token: &Token<'_>, finnish: Language) -> Option<Reading> {
    let (words, amount) = number(&token.plain, finnish)?;
    let after = token.after();
    let spaced = after.strip_prefix(' ').unwrap_or(after);
    for (sign, one, many) in [("%", "prosentti", "prosenttia"), ("€", "euro", "euroa")] {
        if let Some(rest) = spaced.strip_prefix(sign) {
            let unit = if amount == Some(1) { one } else { many };
            let is_last = !rest.starts_with(|next: char| next.is_alphanumeric() || next == ':');
            let taken_after = after.len() - rest.len();
            return is_last.then(|| Reading {
                words: format!("{words} {unit}"),
                taken_before: 0,
                taken_after,
            });
        }
    }
    let mut next = after.chars();
    match (next.next(), next.next()) {
        (Some('-'), Some(letter)) if letter.is_alphabetic() => Some(Reading {
            words: finnish.cardinal(amount?)?.replace(' ', ""),
            taken_before: 0,
            taken_after: 1,
        }),
        (Some('.'), _) => before_full_stop(words, amount?, &after[1..], finnish),
        (Some(':'), Some(next)) if !next.is_whitespace() => None,
        (Some(next), _) if next.is_alphanumeric() || "-/°$£₹_*^=+".contains(next) => None,
        _ => Some(Reading::of(words)),
    }
}

/// A full stop after a number ends the sentence or makes it an ordinal.
fn before_full_stop(
    words: String,
    amount: u64,
    after_stop: &str,
    finnish: Language,
) -> Option<Reading> {
    let next = after_stop.trim_start();
    if MONTHS.contains(&first_word(next).as_str()) && next.len() < after_stop.len() {
        return Some(Reading { words: finnish.ordinal(amount)?, taken_before: 0, taken_after: 1 });
    }
    let ends_text = next.chars().all(|character| "\"').! ?".contains(character));
    // Kings and school classes have low ordinals; years and amounts have none.
    let ends_sentence =
        amount > 31 && next.len() < after_stop.len() && next.starts_with(char::is_uppercase);
    (ends_text || ends_sentence).then(|| Reading::of(words))
}

/// An integer, with or without groups of thousands, or a decimal with a comma; the value if it is
/// an integer.
fn number(plain: &str, finnish: Language) -> Option<(String, Option<u64>)> {
    let joined = plain.replace(' ', "");
    if let Some(amount) = value(&joined) {
        return Some((finnish.cardinal(amount)?, Some(amount)));
    }
    let (whole, fraction) = joined.split_once(',')?;
    Some((finnish.decimal(value(whole)?, fraction)?, None))
}

fn is_after_clock(before: &str) -> bool {
    let before = before.trim_end().to_lowercase();
    ["klo", "kello"].iter().any(|word| {
        before.strip_suffix(word).is_some_and(|rest| !rest.ends_with(char::is_alphanumeric))
    })
}

/// A time of day with minutes: `14.30` or `14:30`.
fn clock(plain: &str, finnish: Language) -> Option<String> {
    let (hours, minutes) = plain.split_once(['.', ':'])?;
    let hours = hours.parse::<u64>().ok().filter(|hours| *hours < 24 && plain.len() <= 5)?;
    let minutes_value =
        minutes.parse::<u64>().ok().filter(|value| *value < 60 && minutes.len() == 2)?;
    let hours = finnish.cardinal(hours)?;
    match minutes_value {
        0 => Some(format!("{hours} nolla nolla")),
        1..=9 => Some(format!("{hours} nolla {}", finnish.cardinal(minutes_value)?)),
        _ => Some(format!("{hours} {}", finnish.cardinal(minutes_value)?)),
    }
}
