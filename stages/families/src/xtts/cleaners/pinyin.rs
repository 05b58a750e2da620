//! Chinese characters as pinyin with tone digits.

use pinyin::ToPinyin;

/// Each character by its most usual reading, 5 for no tone; all else stays. Readings that depend
/// on the word are not told apart.
pub fn transliterate(text: &str) -> String {
    let mut transliterated = String::with_capacity(text.len());
    for character in text.chars() {
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
