//! Gujarati numbers: cardinals to the lakhs of crores, decimals, percents and rupees.
//!
//! The numbers below a hundred are irregular.

use stage_families::spelling::Spelling;

use super::token::{Token, first_word, value};
use super::{Language, Reading, digit_by_digit};

const CARDINALS: Spelling<'_> = Spelling {
    rules: "0 શૂન્ય;1 એક;2 બે;3 ત્રણ;4 ચાર;\
        5 પાંચ;6 છ;7 સાત;8 આઠ;9 નવ;\
        10 દસ;11 અગિયાર;12 બાર;13 તેર;14 ચૌદ;\
        15 પંદર;16 સોળ;17 સત્તર;18 અઢાર;19 ઓગણીસ;\
        20 વીસ;21 એકવીસ;22 બાવીસ;23 ત્રેવીસ;24 ચોવીસ;\
        25 પચ્ચીસ;26 છવ્વીસ;27 સત્તાવીસ;28 અઠ્ઠાવીસ;29 ઓગણત્રીસ;\
        30 ત્રીસ;31 એકત્રીસ;32 બત્રીસ;33 તેત્રીસ;34 ચોત્રીસ;\
        35 પાંત્રીસ;36 છત્રીસ;37 સાડત્રીસ;38 આડત્રીસ;39 ઓગણચાલીસ;\
        40 ચાલીસ;41 એકતાલીસ;42 બેતાલીસ;43 તેતાલીસ;44 ચુંમાલીસ;\
        45 પિસ્તાલીસ;46 છેતાલીસ;47 સુડતાલીસ;48 અડતાલીસ;49 ઓગણપચાસ;\
        50 પચાસ;51 એકાવન;52 બાવન;53 ત્રેપન;54 ચોપન;\
        55 પંચાવન;56 છપ્પન;57 સત્તાવન;58 અઠ્ઠાવન;59 ઓગણસાઠ;\
        60 સાઠ;61 એકસઠ;62 બાસઠ;63 ત્રેસઠ;64 ચોસઠ;\
        65 પાંસઠ;66 છાસઠ;67 સડસઠ;68 અડસઠ;69 અગણોસિત્તેર;\
        70 સિત્તેર;71 એકોતેર;72 બોતેર;73 તોતેર;74 ચુંમોતેર;\
        75 પંચોતેર;76 છોતેર;77 સિત્યોતેર;78 ઇઠ્યોતેર;79 ઓગણાએંસી;\
        80 એંસી;81 એક્યાસી;82 બ્યાસી;83 ત્યાસી;84 ચોર્યાસી;\
        85 પંચાસી;86 છ્યાસી;87 સત્યાસી;88 અઠ્યાસી;89 નેવ્યાસી;\
        90 નેવું;91 એકાણું;92 બાણું;93 ત્રાણું;94 ચોરાણું;\
        95 પંચાણું;96 છન્નું;97 સત્તાણું;98 અઠ્ઠાણું;99 નવ્વાણું;\
        100 એકસો[ >];200 બસો[ >];300/100 <સો[ >];1000 < હજાર[ >];100000 < લાખ[ >];10000000 < કરોડ[ >]",
    attributes: "",
};

/// A crore of crores.
const LIMIT: u64 = 100_000_000_000_000;

/// Endings directly after the digits that do not change the cardinal.
const ENDINGS: [&str; 12] =
    ["માં", "ના", "ની", "નું", "નો", "નાં", "ને", "થી", "એ", "માંથી", "માંના", "નીં"];

pub(super) fn cardinal(number: u64) -> Option<String> {
    (number < LIMIT).then(|| CARDINALS.spell(number)).flatten()
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
