//! Gujarati numbers: cardinals to the lakhs of crores, decimals, percents and rupees.
//!
//! The numbers below a hundred are irregular and in a table.

use super::token::{Token, first_word, value};
use super::{Language, Reading, digit_by_digit};

const BELOW_HUNDRED: [&str; 100] = [
    "શૂન્ય",
    "એક",
    "બે",
    "ત્રણ",
    "ચાર",
    "પાંચ",
    "છ",
    "સાત",
    "આઠ",
    "નવ",
    "દસ",
    "અગિયાર",
    "બાર",
    "તેર",
    "ચૌદ",
    "પંદર",
    "સોળ",
    "સત્તર",
    "અઢાર",
    "ઓગણીસ",
    "વીસ",
    "એકવીસ",
    "બાવીસ",
    "ત્રેવીસ",
    "ચોવીસ",
    "પચ્ચીસ",
    "છવ્વીસ",
    "સત્તાવીસ",
    "અઠ્ઠાવીસ",
    "ઓગણત્રીસ",
    "ત્રીસ",
    "એકત્રીસ",
    "બત્રીસ",
    "તેત્રીસ",
    "ચોત્રીસ",
    "પાંત્રીસ",
    "છત્રીસ",
    "સાડત્રીસ",
    "આડત્રીસ",
    "ઓગણચાલીસ",
    "ચાલીસ",
    "એકતાલીસ",
    "બેતાલીસ",
    "તેતાલીસ",
    "ચુંમાલીસ",
    "પિસ્તાલીસ",
    "છેતાલીસ",
    "સુડતાલીસ",
    "અડતાલીસ",
    "ઓગણપચાસ",
    "પચાસ",
    "એકાવન",
    "બાવન",
    "ત્રેપન",
    "ચોપન",
    "પંચાવન",
    "છપ્પન",
    "સત્તાવન",
    "અઠ્ઠાવન",
    "ઓગણસાઠ",
    "સાઠ",
    "એકસઠ",
    "બાસઠ",
    "ત્રેસઠ",
    "ચોસઠ",
    "પાંસઠ",
    "છાસઠ",
    "સડસઠ",
    "અડસઠ",
    "અગણોસિત્તેર",
    "સિત્તેર",
    "એકોતેર",
    "બોતેર",
    "તોતેર",
    "ચુંમોતેર",
    "પંચોતેર",
    "છોતેર",
    "સિત્યોતેર",
    "ઇઠ્યોતેર",
    "ઓગણાએંસી",
    "એંસી",
    "એક્યાસી",
    "બ્યાસી",
    "ત્યાસી",
    "ચોર્યાસી",
    "પંચાસી",
    "છ્યાસી",
    "સત્યાસી",
    "અઠ્યાસી",
    "નેવ્યાસી",
    "નેવું",
    "એકાણું",
    "બાણું",
    "ત્રાણું",
    "ચોરાણું",
    "પંચાણું",
    "છન્નું",
    "સત્તાણું",
    "અઠ્ઠાણું",
    "નવ્વાણું",
];

const CRORE: u64 = 10_000_000;
const LAKH: u64 = 100_000;
const LIMIT: u64 = CRORE * CRORE;

/// Endings directly after the digits that do not change the cardinal.
const ENDINGS: [&str; 12] =
    ["માં", "ના", "ની", "નું", "નો", "નાં", "ને", "થી", "એ", "માંથી", "માંના", "નીં"];

pub(super) fn cardinal(number: u64) -> Option<String> {
    match number {
        0 => Some(BELOW_HUNDRED[0].to_owned()),
        LIMIT.. => None,
        _ => Some(words(number).join(" ")),
    }
}

fn words(number: u64) -> Vec<String> {
    let mut found = Vec::new();
    if number >= CRORE {
        found.extend(words(number / CRORE));
        found.push("કરોડ".to_owned());
    }
    for (power, above, name) in [(LAKH, CRORE, "લાખ"), (1000, LAKH, "હજાર")] {
        let count = number % above / power;
        if count > 0 {
            found.push(BELOW_HUNDRED[count as usize].to_owned());
            found.push(name.to_owned());
        }
    }
    match number % 1000 / 100 {
        0 => {}
        2 => found.push("બસો".to_owned()),
        count => found.push(format!("{}સો", BELOW_HUNDRED[count as usize])),
    }
    if !number.is_multiple_of(100) {
        found.push(BELOW_HUNDRED[(number % 100) as usize].to_owned());
    }
    found
}

pub(super) fn read(token: &Token<'_>) -> Option<Reading> {
    let (words, amount) = number(&token.plain)?;
    if let Some(reading) = rupees(token, &words) {
        return Some(reading);
    }
    if token.is_glued_left() {
        return None;
    }
    let after = token.after();
    if let Some(rest) = after.strip_prefix(' ').unwrap_or(after).strip_prefix('%') {
        return Some(Reading {
            words: format!("{words} ટકા"),
            taken_before: 0,
            taken_after: after.len() - rest.len(),
        });
    }
    match after.chars().next() {
        // The first ordinals are irregular, so only case endings can follow.
        Some(next) if next.is_alphanumeric() => {
            let ending = first_word(after);
            (amount.is_some() && ENDINGS.contains(&ending.as_str())).then(|| Reading::of(words))
        }
        Some(next) if "-/:°$£€_*^=+".contains(next) => None,
        _ => Some(Reading::of(words)),
    }
}

/// An amount with the rupee sign before it.
fn rupees(token: &Token<'_>, words: &str) -> Option<Reading> {
    let before = token.before();
    let bare = before.strip_suffix(' ').unwrap_or(before).strip_suffix('₹')?;
    let ends_well =
        !token.after().starts_with(|next: char| next.is_alphanumeric() || "-/%:".contains(next));
    ends_well.then(|| Reading {
        words: format!("{words} રૂપિયા"),
        taken_before: before.len() - bare.len(),
        taken_after: 0,
    })
}

/// An integer, with commas by lakhs or thousands or without, or a decimal with a point.
fn number(plain: &str) -> Option<(String, Option<u64>)> {
    let (whole, fraction) = match plain.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (plain, None),
    };
    let amount = value(&without_groups(whole)?)?;
    let words = cardinal(amount)?;
    match fraction {
        None => Some((words, Some(amount))),
        Some(fraction) => {
            let digits = digit_by_digit(fraction, Language::Gujarati)?;
            Some((format!("{words} દશાંશ {digits}"), None))
        }
    }
}

/// The digits without commas, if the commas separate lakhs or thousands.
fn without_groups(whole: &str) -> Option<String> {
    let groups: Vec<&str> = whole.split(',').collect();
    let (last, front) = groups.split_last()?;
    if front.is_empty() {
        return Some((*last).to_owned());
    }
    let by_lakhs = front[1..].iter().all(|group| group.len() == 2) && front[0].len() <= 2;
    let by_thousands = front[1..].iter().all(|group| group.len() == 3) && front[0].len() <= 3;
    (last.len() == 3 && !front[0].is_empty() && (by_lakhs || by_thousands)).then(|| groups.concat())
}
