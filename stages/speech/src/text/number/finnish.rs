//! Finnish numbers: cardinals and ordinals in the nominative, decimals, percents, clock times.
//!
//! Finnish numerals inflect with their noun. Only the nominative is written, like the digits
//! themselves; a number with an explicit case (`5:n`) is left.

use super::token::{Token, first_word, value};
use super::{Language, Reading, digit_by_digit};

const UNITS: [&str; 10] = [
    "nolla",
    "yksi",
    "kaksi",
    "kolme",
    "neljä",
    "viisi",
    "kuusi",
    "seitsemän",
    "kahdeksan",
    "yhdeksän",
];

/// Ordinals inside a longer one; the first two differ when alone.
const ORDINAL_UNITS: [&str; 10] = [
    "nollas",
    "yhdes",
    "kahdes",
    "kolmas",
    "neljäs",
    "viides",
    "kuudes",
    "seitsemäs",
    "kahdeksas",
    "yhdeksäs",
];

/// Powers of a thousand from the millions on: alone, counted, ordinal.
const LARGE: [(u64, &str, &str, &str); 3] = [
    (1_000_000_000_000, "biljoona", "biljoonaa", "biljoonas"),
    (1_000_000_000, "miljardi", "miljardia", "miljardis"),
    (1_000_000, "miljoona", "miljoonaa", "miljoonas"),
];

const LIMIT: u64 = 1_000_000_000_000_000;

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

pub(super) fn cardinal(number: u64) -> Option<String> {
    match number {
        0 => Some(UNITS[0].to_owned()),
        LIMIT.. => None,
        _ => Some(large_cardinal(number)),
    }
}

fn large_cardinal(number: u64) -> String {
    let mut words = Vec::new();
    let mut rest = number;
    for (power, alone, counted, _) in LARGE {
        match rest / power {
            0 => {}
            1 => words.push(alone.to_owned()),
            count => words.push(format!("{} {counted}", below_thousand(count))),
        }
        rest %= power;
    }
    match rest / 1000 {
        0 => {}
        1 => words.push("tuhat".to_owned()),
        count => words.push(format!("{}tuhatta", below_thousand(count))),
    }
    if !rest.is_multiple_of(1000) {
        words.push(below_thousand(rest % 1000));
    }
    words.join(" ")
}

fn below_thousand(number: u64) -> String {
    let unit = |number: u64| UNITS[number as usize];
    let hundreds = match number / 100 {
        0 => String::new(),
        1 => "sata".to_owned(),
        count => format!("{}sataa", unit(count)),
    };
    let rest = match number % 100 {
        0 => String::new(),
        rest @ 1..=9 => unit(rest).to_owned(),
        10 => "kymmenen".to_owned(),
        rest @ 11..=19 => format!("{}toista", unit(rest - 10)),
        rest if rest % 10 == 0 => format!("{}kymmentä", unit(rest / 10)),
        rest => format!("{}kymmentä{}", unit(rest / 10), unit(rest % 10)),
    };
    hundreds + &rest
}

pub(super) fn ordinal(number: u64) -> Option<String> {
    match number {
        0 => Some(ORDINAL_UNITS[0].to_owned()),
        1 => Some("ensimmäinen".to_owned()),
        2 => Some("toinen".to_owned()),
        LIMIT.. => None,
        _ => Some(large_ordinal(number)),
    }
}

fn large_ordinal(number: u64) -> String {
    let mut words = Vec::new();
    let mut rest = number;
    for (power, _, _, ordinal) in LARGE {
        match rest / power {
            0 => {}
            1 => words.push(ordinal.to_owned()),
            count => words.push(format!("{} {ordinal}", ordinal_below_thousand(count))),
        }
        rest %= power;
    }
    match rest / 1000 {
        0 => {}
        1 => words.push("tuhannes".to_owned()),
        count => words.push(format!("{}tuhannes", ordinal_below_thousand(count))),
    }
    if !rest.is_multiple_of(1000) {
        words.push(ordinal_below_thousand(rest % 1000));
    }
    words.join(" ")
}

fn ordinal_below_thousand(number: u64) -> String {
    let unit = |number: u64| ORDINAL_UNITS[number as usize];
    let hundreds = match number / 100 {
        0 => String::new(),
        1 => "sadas".to_owned(),
        count => format!("{}sadas", unit(count)),
    };
    let rest = match number % 100 {
        0 => String::new(),
        rest @ 1..=9 => unit(rest).to_owned(),
        10 => "kymmenes".to_owned(),
        rest @ 11..=19 => format!("{}toista", unit(rest - 10)),
        rest if rest % 10 == 0 => format!("{}kymmenes", unit(rest / 10)),
        rest => format!("{}kymmenes{}", unit(rest / 10), unit(rest % 10)),
    };
    hundreds + &rest
}

pub(super) fn read(token: &Token<'_>) -> Option<Reading> {
    let (is_negative, taken_before) = sign(token)?;
    let mut reading = if is_after_clock(token.before()) {
        Reading::of(clock(&token.plain).or_else(|| number(&token.plain).map(|(words, _)| words))?)
    } else {
        with_neighbours(token)?
    };
    if is_negative {
        reading.words.insert_str(0, "miinus ");
        reading.taken_before = taken_before;
    }
    Some(reading)
}

/// The sign before the number; None if something else is attached to it.
fn sign(token: &Token<'_>) -> Option<(bool, usize)> {
    if !token.is_glued_left() {
        return Some((false, 0));
    }
    let before = token.before().strip_suffix('-')?;
    let stands_alone = before.is_empty() || before.ends_with([' ', '(', '"']);
    stands_alone.then_some((true, 1))
}

/// A number and its right context: a unit sign, a compound, or a month.
fn with_neighbours(token: &Token<'_>) -> Option<Reading> {
    let (words, amount) = number(&token.plain)?;
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
            words: cardinal(amount?)?.replace(' ', ""),
            taken_before: 0,
            taken_after: 1,
        }),
        (Some('.'), _) => before_full_stop(words, amount?, &after[1..]),
        (Some(':'), Some(next)) if !next.is_whitespace() => None,
        (Some(next), _) if next.is_alphanumeric() || "-/°$£₹_*^=+".contains(next) => None,
        _ => Some(Reading::of(words)),
    }
}

/// A full stop after a number ends the sentence or makes it an ordinal.
fn before_full_stop(words: String, amount: u64, after_stop: &str) -> Option<Reading> {
    let next = after_stop.trim_start();
    if MONTHS.contains(&first_word(next).as_str()) && next.len() < after_stop.len() {
        return Some(Reading { words: ordinal(amount)?, taken_before: 0, taken_after: 1 });
    }
    let ends_text = next.chars().all(|character| "\"').! ?".contains(character));
    // Kings and school classes have low ordinals; years and amounts have none.
    let ends_sentence =
        amount > 31 && next.len() < after_stop.len() && next.starts_with(char::is_uppercase);
    (ends_text || ends_sentence).then(|| Reading::of(words))
}

/// An integer, with or without groups of thousands, or a decimal with a comma; the value if it is
/// an integer.
fn number(plain: &str) -> Option<(String, Option<u64>)> {
    let joined = plain.replace(' ', "");
    if let Some(amount) = value(&joined) {
        return Some((cardinal(amount)?, Some(amount)));
    }
    let (whole, fraction) = joined.split_once(',')?;
    let words = cardinal(value(whole)?)?;
    let digits = digit_by_digit(fraction, Language::Finnish)?;
    Some((format!("{words} pilkku {digits}"), None))
}

fn is_after_clock(before: &str) -> bool {
    let before = before.trim_end().to_lowercase();
    ["klo", "kello"].iter().any(|word| {
        before.strip_suffix(word).is_some_and(|rest| !rest.ends_with(char::is_alphanumeric))
    })
}

/// A time of day with minutes: `14.30` or `14:30`.
fn clock(plain: &str) -> Option<String> {
    let (hours, minutes) = plain.split_once(['.', ':'])?;
    let hours = hours.parse::<u64>().ok().filter(|hours| *hours < 24 && plain.len() <= 5)?;
    let minutes_value =
        minutes.parse::<u64>().ok().filter(|value| *value < 60 && minutes.len() == 2)?;
    let hours = cardinal(hours)?;
    match minutes_value {
        0 => Some(format!("{hours} nolla nolla")),
        1..=9 => Some(format!("{hours} nolla {}", cardinal(minutes_value)?)),
        _ => Some(format!("{hours} {}", cardinal(minutes_value)?)),
    }
}
