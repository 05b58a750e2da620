//! Signs and words at the ends of sentences.

/// Signs that end a sentence if a space follows.
const WITH_SPACE: &[char] = &['.', '!', '?', '\u{2026}'];
/// Signs that end a sentence in any case: of Chinese and Japanese, Arabic, Urdu, Devanagari,
/// Ethiopic, Burmese and Khmer.
const WITHOUT_SPACE: &[char] =
    &['。', '！', '？', '｡', '؟', '۔', '।', '॥', '።', '፧', '፨', '။', '។', '៕'];
/// Signs between the end of a sentence and the space behind it.
const CLOSING: &[char] = &['"', '\'', ')', ']', '}', '»', '”', '’', '›', '」', '』', '）', '】'];
/// Signs before the first word of a sentence.
const OPENING: &[char] = &[
    '"', '\'', '(', '[', '{', '«', '“', '‘', '„', '‚', '‹', '»', '”', '¿', '¡', '-', '–', '—',
    '「', '『', '（', '【',
];
/// Words with a dot that end no sentence, in small letters without the last dot.
const NO_ENDS: &[&str] = &[
    // English
    "mr", "mrs", "ms", "dr", "prof", "st", "rev", "hon", "gen", "col", "lt", "capt", "sgt",
    "messrs", "mt", "ft", "e.g", "i.e", "cf", "vs", "viz", "ca", "approx", "ph.d",
    // French, Spanish, Italian
    "mme", "mlle", "sr", "sra", "srta", "dra", "sig", // German
    "hr", "fr", "z.b", "d.h", "u.a", "bzw", "evtl", "ggf", "vgl", // Finnish, Swedish
    "esim", "vrt", "ts", "ns", "t.ex", "bl.a", "s.k",
];
/// Words with a dot that end no sentence if a number follows.
const BEFORE_A_NUMBER: &[&str] =
    &["no", "nos", "nr", "p", "pp", "s", "ch", "sec", "vol", "fig", "figs", "art", "str", "ed"];
/// Words with a dot that may end a sentence: they do if the next word begins with a capital.
const MAY_END: &[&str] = &[
    "etc", "inc", "ltd", "co", "corp", "jr", "bros", "a.m", "p.m", "b.c", "a.d", "esq", "dept",
    "usw", "jne", "ym", "osv",
];

/// The bytes of the sign that ends the text, with the quotes and brackets behind it.
pub fn closing(text: &str, at: usize) -> usize {
    let behind = &text[at..];
    let signs = behind.chars().take_while(|sign| is_end(*sign) || CLOSING.contains(sign));
    at + signs.map(char::len_utf8).sum::<usize>()
}

pub fn is_end(sign: char) -> bool {
    WITH_SPACE.contains(&sign) || WITHOUT_SPACE.contains(&sign)
}

/// Tests if a sentence ends with the signs of `text` from `at` to `end`, which are signs of ends and
/// closing ones. `start` is where the sentence begins.
pub fn ends(text: &str, start: usize, at: usize, end: usize, own: &[String]) -> bool {
    let behind = &text[end..];
    if behind.trim_start().is_empty() || text[at..end].contains(WITHOUT_SPACE) {
        return true;
    }
    if !behind.starts_with(char::is_whitespace) {
        return false;
    }
    let next = first_letter(behind);
    if next.is_some_and(char::is_lowercase) {
        return false;
    }
    // Only a single dot shortens a word.
    let is_dot = text[at..end].trim_end_matches(CLOSING) == ".";
    !is_dot || !is_short(&text[start..at], next, own)
}

/// The first letter or digit behind the end of a sentence.
fn first_letter(text: &str) -> Option<char> {
    let bare =
        text.trim_start_matches(|sign: char| sign.is_whitespace() || OPENING.contains(&sign));
    bare.chars().next()
}

/// Tests if the dot belongs to the last word of a text. `next` is the letter that follows.
fn is_short(before: &str, next: Option<char>, own: &[String]) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(OPENING);
    let small = word.to_lowercase();
    let is_capital = next.is_some_and(char::is_uppercase);
    if NO_ENDS.contains(&small.as_str()) || own.contains(&small) {
        return true;
    }
    if BEFORE_A_NUMBER.contains(&small.as_str()) && next.is_some_and(char::is_numeric) {
        return true;
    }
    if MAY_END.contains(&small.as_str()) || is_dotted(word) {
        return !is_capital;
    }
    is_initial(word) || is_ordinal(before, word, next)
}

/// `U.S`, `z.B`: single letters with dots between them.
fn is_dotted(word: &str) -> bool {
    word.contains('.') && word.split('.').all(|part| part.chars().count() == 1)
}

/// `J`, as in `J. R. R. Tolkien`; `I` is a word.
fn is_initial(word: &str) -> bool {
    let mut letters = word.chars();
    let first = letters.next().filter(|letter| letter.is_uppercase());
    first.is_some() && letters.next().is_none() && word != "I"
}

/// The number of a list, as in `1. First`, or a day, as in `3. 4. 1926`.
fn is_ordinal(before: &str, word: &str, next: Option<char>) -> bool {
    let is_number = !word.is_empty() && word.chars().all(char::is_numeric);
    let is_first = before.trim() == word;
    let is_day = word.chars().count() <= 2 && next.is_some_and(char::is_numeric);
    is_number && (is_first || is_day)
}
