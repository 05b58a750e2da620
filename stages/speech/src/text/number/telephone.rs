//! Telephone numbers and codes, which are read digit by digit.

use stage_families::numbers::Language;

use super::token::{Token, digit, is_mark};

/// Words before a telephone number, in small letters and without the full stop.
const WORDS: [&str; 33] = [
    "tel",
    "telefono",
    "cell",
    "cellulare",
    "fax",
    "phone",
    "telephone",
    "mobile",
    "téléphone",
    "tél",
    "portable",
    "teléfono",
    "móvil",
    "telefone",
    "telemóvel",
    "celular",
    "telefon",
    "telefonnummer",
    "handy",
    "mobil",
    "telefoon",
    "gsm",
    "puh",
    "puhelin",
    "telefonszám",
    "тел",
    "телефон",
    "телефона",
    "هاتف",
    "फ़ोन",
    "फोन",
    "ફોન",
    "ስልክ",
];
/// Signs between the groups of a number behind one of these words, or behind a plus sign.
const SEPARATORS: [char; 4] = [' ', '-', '/', '.'];
/// Groups behind a plus sign, or that begin with a zero, are one number from this number of digits on.
const MIN_DIGITS: usize = 8;
/// The same behind one of the words.
const MIN_DIGITS_BEHIND_WORD: usize = 5;

/// The words of the digits, and the end of the last one. None for a number that counts.
pub(super) fn read(token: &Token<'_>, language: Language) -> Option<(String, usize)> {
    let before = token.before();
    let is_international = stands_alone(before.strip_suffix('+'));
    if token.is_glued_left() && !is_international {
        return None;
    }
    let digits_of = |text: &str| text.chars().filter_map(digit).collect::<String>();
    let text = &token.whole()[token.start..];
    let follows_word = follows_word(before);
    let found = if is_international || follows_word {
        let run = run(text, &SEPARATORS);
        let least = if follows_word { MIN_DIGITS_BEHIND_WORD } else { MIN_DIGITS };
        (digits_of(run).len() >= least).then_some(run)
    } else {
        let group = run(text, &[]);
        let is_code = digits_of(group).len() > 1 && digits_of(group).starts_with('0');
        let whole = run(text, &[' ']);
        let is_whole = digits_of(whole).len() >= MIN_DIGITS && ends(&text[whole.len()..]);
        is_code.then_some(if is_whole { whole } else { group })
    }?;
    let words = language.digits(&digits_of(found)).filter(|_| ends(&text[found.len()..]))?;
    Some((words, token.start + found.len()))
}

/// True for what nothing is attached to.
fn stands_alone(before: Option<&str>) -> bool {
    before
        .is_some_and(|before| !before.ends_with(|last: char| !last.is_whitespace() && last != '('))
}

fn follows_word(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '.', ':', '°', '(']).to_lowercase();
    let word = before.rsplit(|last: char| !last.is_alphabetic() && !is_mark(last)).next();
    word.is_some_and(|word| WORDS.contains(&word))
}

/// The digits at the start of a text, with single separators between them.
fn run<'t>(text: &'t str, separators: &[char]) -> &'t str {
    let mut end = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next_is_digit = characters.peek().is_some_and(|(_, next)| digit(*next).is_some());
        if digit(character).is_some() {
            end = at + character.len_utf8();
        } else if !(separators.contains(&character) && next_is_digit) {
            break;
        }
    }
    &text[..end]
}

/// True if nothing behind the digits makes them another number, such as a date or a decimal.
fn ends(after: &str) -> bool {
    let mut next = after.chars();
    let (first, second) = (next.next(), next.next());
    match first {
        None => true,
        Some('.' | ',' | ':' | '-' | '/') => second.is_none_or(|second| digit(second).is_none()),
        Some(first) => {
            !(first.is_alphanumeric() || is_mark(first) || "°_*^=+%#€$£".contains(first))
        }
    }
}
