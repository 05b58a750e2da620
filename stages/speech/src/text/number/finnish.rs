//! Finnish numbers: cardinals and ordinals in the nominative, decimals, percents, clock times.
//!
//! Finnish numerals inflect with their noun. Only the nominative is written, like the digits
//! themselves; a number with an explicit case (`5:n`) is left.

use stage_families::spelling::Spelling;

use super::token::{Token, first_word, value};
use super::{Language, Reading, digit_by_digit};

const CARDINALS: Spelling<'_> = Spelling {
    rules: "0 nolla;1 yksi;2 kaksi;3 kolme;4 neljä;5 viisi;6 kuusi;7 seitsemän;8 kahdeksan;\
        9 yhdeksän;10 kymmenen;11/10 >toista;20 <kymmentä[>];100 sata[>];200/100 <sataa[>];\
        1000 tuhat[ >];2000/1000 <tuhatta[ >];\
        1000000 miljoona[ >];2000000/1000000 < miljoonaa[ >];\
        1000000000 miljardi[ >];2000000000/1000000000 < miljardia[ >];\
        1000000000000 biljoona[ >];2000000000000/1000000000000 < biljoonaa[ >]",
    attributes: "",
};

/// Ordinals as parts of a longer one; 1 and 2 differ when alone.
const ORDINALS: Spelling<'_> = Spelling {
    rules: "0 nollas;1 yhdes;2 kahdes;3 kolmas;4 neljäs;5 viides;6 kuudes;7 seitsemäs;8 kahdeksas;\
        9 yhdeksäs;10 kymmenes;11/10 >toista;20 <kymmenes[>];100 sadas[>];200/100 <sadas[>];\
        1000 tuhannes[ >];2000/1000 <tuhannes[ >];\
        1000000 miljoonas[ >];2000000/1000000 < miljoonas[ >];\
        1000000000 miljardis[ >];2000000000/1000000000 < miljardis[ >];\
        1000000000000 biljoonas[ >];2000000000000/1000000000000 < biljoonas[ >]",
    attributes: "",
};

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
    (number < LIMIT).then(|| CARDINALS.spell(number)).flatten()
}

pub(super) fn ordinal(number: u64) -> Option<String> {
    match number {
        1 => Some("ensimmäinen".to_owned()),
        2 => Some("toinen".to_owned()),
        LIMIT.. => None,
        _ => ORDINALS.spell(number),
    }
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
