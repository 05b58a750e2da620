//! Hangul in the academic romanisation, letter by letter.

const FIRST: u32 = 0xac00;
const LAST: u32 = 0xd7a3;
const VOWELS: usize = 21;
const FINALS: usize = 28;

const INITIAL: [&str; 19] = [
    "g", "kk", "n", "d", "tt", "l", "m", "b", "pp", "s", "ss", "", "j", "jj", "ch", "k", "t", "p",
    "h",
];
const VOWEL: [&str; VOWELS] = [
    "a", "ae", "ya", "yae", "eo", "e", "yeo", "ye", "o", "wa", "wae", "oe", "yo", "u", "wo", "we",
    "wi", "yu", "eu", "ui", "i",
];
const FINAL: [&str; FINALS] = [
    "", "g", "kk", "gs", "n", "nj", "nh", "d", "l", "lg", "lm", "lb", "ls", "lt", "lp", "lh", "m",
    "b", "bs", "s", "ss", "ng", "j", "ch", "k", "t", "p", "h",
];

/// Syllables are spelt out; a syllable without an initial consonant is separated by a hyphen from a
/// preceding one. Everything else stays.
pub fn romanise(text: &str) -> String {
    let mut romanised = String::with_capacity(text.len());
    let mut was_syllable = false;
    for character in text.chars() {
        let code = u32::from(character);
        let is_syllable = (FIRST..=LAST).contains(&code);
        match is_syllable {
            true => {
                let at = (code - FIRST) as usize;
                let (first, rest) = (at / (VOWELS * FINALS), at % (VOWELS * FINALS));
                if INITIAL[first].is_empty() && was_syllable {
                    romanised.push('-');
                }
                romanised.extend([INITIAL[first], VOWEL[rest / FINALS], FINAL[rest % FINALS]]);
            }
            false => romanised.push(character),
        }
        was_syllable = is_syllable;
    }
    romanised
}
