//! Numbers in texts of all other languages: cardinals, decimals, ordinals with a mark, percents.
//!
//! Numerals that inflect are written in the form for counting. Numbers with a currency, a unit that is
//! attached to them, a range or a date are left.

use stage_families::numbers::Language;

use super::Reading;
use super::one;
use super::token::{Token, is_mark, value};

/// Languages that write ordinals with a full stop, which may also end a sentence.
const ORDINAL_STOPS: [&str; 5] = ["cs", "de", "hu", "pl", "tr"];
/// Kings, days and classes have ordinals up to this one; years and amounts have none.
const LARGEST_USUAL_ORDINAL: u64 = 31;
const CURRENCIES: &str = "$€£¥₹₺₽₩₪₫฿¢";
/// Text after a number that changes its reading: ranges, times, dates, units, formulas.
const SIGNS: &str = "-/:°_*^=+%#'";
const PERCENTS: [char; 3] = ['%', '٪', '％'];
/// Prepositions that Amharic attaches to a number.
const AMHARIC_PREFIXES: [char; 4] = ['በ', 'ከ', 'ለ', 'የ'];
/// Korean words behind numbers of Chinese origin, and particles. Other counters take native numerals.
const KOREAN_NOUNS: [&str; 16] = [
    "년", "일", "원", "분", "초", "호", "층", "점", "도", "위", "세기", "은", "는", "을", "를",
    "의",
];
/// Behind a Chinese 2 these keep 二; other words take 两.
const CHINESE_NOUNS: &str = "月日号级";
const CHINESE_YEAR: char = '年';

pub(super) fn read(token: &Token<'_>, language: Language) -> Option<Reading> {
    let before = before(token, language)?;
    let (words, amount) = number(&token.plain, language)?;
    let (words, taken_after) = if before.has_percent {
        (ends(token.after(), language).then(|| language.percent(&words, amount))?, 0)
    } else {
        behind(token, words, amount, language)?
    };
    let words = if before.is_negative { language.negative(&words) } else { words };
    Some(Reading { words, taken_before: before.taken, taken_after })
}

/// The text before a number: the part that belongs to it.
struct Before {
    is_negative: bool,
    has_percent: bool,
    taken: usize,
}

/// None if something else is attached to the number.
fn before(token: &Token<'_>, language: Language) -> Option<Before> {
    let text = token.before();
    if text.trim_end_matches(' ').ends_with(|last: char| CURRENCIES.contains(last)) {
        return None;
    }
    if let Some((sign, rest)) =
        PERCENTS.iter().find_map(|sign| Some((sign, text.strip_suffix(*sign)?)))
    {
        let stands_alone = rest.is_empty() || rest.ends_with([' ', '(', '"']);
        let is_turkish = language.code() == "tr" && stands_alone;
        return is_turkish.then_some(Before {
            is_negative: false,
            has_percent: true,
            taken: sign.len_utf8(),
        });
    }
    let is_attached = token.is_glued_left() && !has_no_spaces(text.chars().next_back(), language);
    let (is_negative, taken) =
        if is_attached && !is_amharic_prefix(text, language) { token.sign()? } else { (false, 0) };
    Some(Before { is_negative, has_percent: false, taken })
}

/// True for a letter of a script that puts no spaces between words.
fn has_no_spaces(letter: Option<char>, language: Language) -> bool {
    let is_cjk = |letter| matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}');
    ["zh", "ja", "ko"].contains(&language.code()) && letter.is_some_and(is_cjk)
}

fn is_amharic_prefix(text: &str, language: Language) -> bool {
    let rest = text.strip_suffix(AMHARIC_PREFIXES);
    language.code() == "am" && rest.is_some_and(|rest| !rest.ends_with(char::is_alphanumeric))
}

/// The words of a number with what stands behind it, and the length of that.
fn behind(
    token: &Token<'_>,
    words: String,
    amount: Option<u64>,
    language: Language,
) -> Option<(String, usize)> {
    let after = token.after();
    let spaced = after.strip_prefix(' ').unwrap_or(after);
    if let Some(rest) = spaced.strip_prefix(PERCENTS) {
        let is_last = !rest.starts_with(char::is_alphanumeric);
        let taken = after.len() - rest.len();
        return is_last.then(|| (language.percent(&words, amount), taken));
    }
    if spaced.starts_with(|next: char| CURRENCIES.contains(next)) {
        return None;
    }
    if let Some(ordinal) = amount.and_then(|amount| ordinal(amount, after, language)) {
        return Some(ordinal);
    }
    if amount == Some(1)
        && let Some(one) = one::before_noun(token.before(), after, language.code())
    {
        return one.map(|(words, taken)| (words.to_owned(), taken));
    }
    if let Some(words) = chinese_year(&token.plain, after, language) {
        return Some((words, 0));
    }
    let is_whole = match after.strip_prefix('.') {
        Some(rest) => ends_sentence(amount?, rest, language),
        None => ends(after, language) && !is_chinese_pair(amount, after, language),
    };
    is_whole.then_some((words, 0))
}

/// An ordinal with a mark such as `st`, `º` or `-й`.
fn ordinal(number: u64, after: &str, language: Language) -> Option<(String, usize)> {
    let is_there = |mark: &&String| {
        let rest = after.strip_prefix(mark.as_str());
        // Korean particles and Amharic suffixes are attached to the mark.
        let takes_suffixes = ["ko", "am"].contains(&language.code());
        let is_word = |next: char| next.is_alphanumeric() || is_mark(next);
        rest.is_some_and(|rest| takes_suffixes || !rest.starts_with(is_word))
    };
    if let Some(mark) = language.feminine_marks().iter().find(is_there) {
        return Some((language.feminine_ordinal(number)?, mark.len()));
    }
    let mark = language.ordinal_marks().iter().find(is_there)?;
    Some((language.ordinal(number)?, mark.len()))
}

/// Years are read digit by digit in Chinese.
fn chinese_year(plain: &str, after: &str, language: Language) -> Option<String> {
    let is_year = language.code() == "zh" && plain.len() == 4 && after.starts_with(CHINESE_YEAR);
    is_year.then(|| language.digits(plain))?
}

/// True for a Chinese 2 before a word that may take another numeral.
fn is_chinese_pair(amount: Option<u64>, after: &str, language: Language) -> bool {
    let next = after.chars().next();
    let is_noun = next.is_some_and(|next| CHINESE_NOUNS.contains(next));
    language.code() == "zh" && amount == Some(2) && has_no_spaces(next, language) && !is_noun
}

/// True if a number ends here: nothing behind it changes its reading.
fn ends(after: &str, language: Language) -> bool {
    let mut next = after.chars();
    let (first, second) = (next.next(), next.next());
    let is_spaced = second.is_none_or(char::is_whitespace);
    match (first, language.code()) {
        (None, _) => true,
        (Some('\''), "tr") => second.is_some_and(char::is_alphabetic),
        (Some(':' | '\''), _) => is_spaced,
        (Some(first), "ko") if has_no_spaces(Some(first), language) => {
            KOREAN_NOUNS.iter().any(|noun| after.starts_with(noun))
        }
        (Some(first), _) if has_no_spaces(Some(first), language) => true,
        (Some(first), _) => !(first.is_alphanumeric() || is_mark(first) || SIGNS.contains(first)),
    }
}

/// Tests if the full stop behind a number ends the sentence, and makes the number no ordinal.
fn ends_sentence(amount: u64, after: &str, language: Language) -> bool {
    let next = after.trim_start();
    let ends_text = next.chars().all(|character| "\"').! ?".contains(character));
    if ends_text {
        return true;
    }
    if !ORDINAL_STOPS.contains(&language.code()) {
        return next.len() < after.len() || after.starts_with(['.', '"', ')']);
    }
    // All German nouns begin with a capital.
    let begins = next.len() < after.len() && next.starts_with(char::is_uppercase);
    begins && amount > LARGEST_USUAL_ORDINAL && language.code() != "de"
}

/// An integer, with groups of digits or without, or a decimal; the value if it is an integer.
pub(super) fn number(plain: &str, language: Language) -> Option<(String, Option<u64>)> {
    let groups = &language.words().groups;
    if let Some(amount) = without_groups(plain, groups) {
        return Some((language.cardinal(value(&amount)?)?, Some(value(&amount)?)));
    }
    let (at, mark) =
        plain.char_indices().rfind(|(_, mark)| language.words().decimal.contains(*mark))?;
    let (whole, fraction) = (&plain[..at], &plain[at + mark.len_utf8()..]);
    let is_fraction = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let whole = value(&without_groups(whole, groups).filter(|_| is_fraction)?)?;
    Some((language.decimal(whole, fraction)?, None))
}

/// The digits without the marks between thousands, or between lakhs, if they are all of one kind.
fn without_groups(whole: &str, marks: &str) -> Option<String> {
    let Some(mark) = whole.chars().find(|character| !character.is_ascii_digit()) else {
        return Some(whole.to_owned());
    };
    let parts: Vec<&str> = whole.split(mark).collect();
    let (last, front) = parts.split_last().filter(|_| marks.contains(mark))?;
    let (first, middle) = front.split_first()?;
    let all = |length| middle.iter().all(|part| part.len() == length) && first.len() <= length;
    let has_digits = parts.concat().bytes().all(|byte| byte.is_ascii_digit());
    let is_begun = !first.is_empty() && !first.starts_with('0');
    let fits = last.len() == 3 && is_begun && (all(3) || (mark == ',' && all(2)));
    (fits && has_digits).then(|| parts.concat())
}
