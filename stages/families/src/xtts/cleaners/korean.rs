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

/// Syllables are spelt out, with a hyphen between two that could be divided elsewhere too. Everything
/// else stays.
pub fn romanise(text: &str) -> String {
    let mut romanised = String::with_capacity(text.len());
    let mut last = None;
    for character in text.chars() {
        let code = u32::from(character);
        if !(FIRST..=LAST).contains(&code) {
            romanised.push(character);
            last = None;
            continue;
        }
        let at = (code - FIRST) as usize;
        let (first, rest) = (INITIAL[at / (VOWELS * FINALS)], at % (VOWELS * FINALS));
        if last.is_some_and(|last| is_ambiguous(last, first)) {
            romanised.push('-');
        }
        let end = FINAL[rest % FINALS];
        romanised.extend([first, VOWEL[rest / FINALS], end]);
        last = Some(end);
    }
    romanised
}

/// True when the consonants between two vowels are an end and a beginning in more than one way, or
/// when the second syllable begins with its vowel.
fn is_ambiguous(end: &str, first: &str) -> bool {
    let both = [end, first].concat();
    let is_division = |at: &usize| FINAL.contains(&&both[..*at]) && INITIAL.contains(&&both[*at..]);
    first.is_empty() || (0..both.len()).filter(is_division).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As hangul_romanize 0.1.0 writes them.
    #[test]
    fn a_hyphen_stands_where_syllables_could_be_divided_elsewhere() {
        for (text, expected) in [
            ("번째", "beon-jjae"),
            ("첫번째", "cheosbeon-jjae"),
            ("안녕하세요", "annyeonghase-yo"),
            ("한국어", "hangug-eo"),
            ("아까", "a-kka"),
            ("어 아", "eo a"),
        ] {
            assert_eq!(romanise(text), expected);
        }
    }
}
