//! Chinese texts: numbers in characters, every mark as a comma, and characters as pinyin with tone
//! digits.

use pinyin::ToPinyin;

use crate::numbers::Language;
use crate::rewritten::rewritten;

const DIGITS: [char; 10] = ['零', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
/// Longer numbers are read digit by digit.
const LONGEST: usize = 3;

/// Numbers and marks.
pub fn normalise(text: &str) -> String {
    rewritten(text, |rest, _, normalised| {
        let first = rest.chars().next()?;
        if first.is_ascii_digit() {
            return Some(number(rest, normalised));
        }
        is_mark(first).then(|| {
            normalised.push(',');
            first.len_utf8()
        })
    })
}

/// Writes the number at the start of a text; returns its length.
fn number(text: &str, normalised: &mut String) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let fraction = text[whole..].strip_prefix('.').map_or(0, digits);
    let mut length = whole + if fraction > 0 { fraction + 1 } else { 0 };
    if text[length..].starts_with('%') {
        normalised.push_str("百分之");
        length += 1;
    }
    cardinal(&text[..whole], normalised);
    if fraction > 0 {
        normalised.push('点');
        spell(&text[whole + 1..whole + 1 + fraction], normalised);
    }
    length
}

fn spell(digits: &str, normalised: &mut String) {
    normalised.extend(digits.bytes().map(|digit| DIGITS[usize::from(digit - b'0')]));
}

fn cardinal(digits: &str, normalised: &mut String) {
    let value = match digits.parse() {
        Ok(value) if digits.len() <= LONGEST && !digits.starts_with('0') => value,
        _ => return spell(digits, normalised),
    };
    let spelt = Language::of("zh").and_then(|chinese| chinese.cardinal(value));
    // The original says 两 before hundreds.
    normalised.push_str(&spelt.unwrap_or_default().replace("二百", "两百"));
}

fn is_mark(character: char) -> bool {
    let is_wide = matches!(
        character,
        '·' | '\u{2010}'..='\u{2027}'
            | '\u{3001}'..='\u{301f}'
            | '\u{ff01}'..='\u{ff0f}'
            | '\u{ff1a}'..='\u{ff20}'
            | '\u{ff3b}'..='\u{ff40}'
            | '\u{ff5b}'..='\u{ff65}'
    );
    is_wide || character.is_ascii_punctuation()
}

/// Each character by its most common reading, 5 for no tone; everything else stays. Readings that
/// depend on the word are not distinguished.
pub fn transliterate(text: &str) -> String {
    let mut transliterated = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        // The tone of 一 changes before 百.
        if character == '一' && characters.peek() == Some(&'百') {
            transliterated.push_str("yi4");
            continue;
        }
        let Some(reading) = character.to_pinyin() else {
            transliterated.push(character);
            continue;
        };
        let reading = reading.with_tone_num_end();
        transliterated.extend(reading.chars().map(|c| if c == 'ü' { 'v' } else { c }));
        if !reading.ends_with(|last: char| last.is_ascii_digit()) {
            transliterated.push('5');
        }
    }
    transliterated
}
