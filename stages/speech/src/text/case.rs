//! Upper and lower case by the rules of a language: those of Unicode (SpecialCasing), except that a
//! capital `İ` becomes a plain `i` where no rule keeps its dot.

use unicode_normalization::char::canonical_combining_class;

const DOT_ABOVE: char = '\u{307}';
/// The combining class of marks above a letter.
const ABOVE: u8 = 230;

/// The rules for letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Letters {
    #[default]
    Usual,
    /// Turkish and Azerbaijani have a dotted and a dotless i.
    Turkic,
    /// A Lithuanian i keeps its dot below an accent.
    Lithuanian,
}

impl Letters {
    /// By the code of a language, with or without a region.
    pub fn of(language: &str) -> Letters {
        let code = language.trim().split(['-', '_']).next().unwrap_or_default();
        match code.to_ascii_lowercase().as_str() {
            "tr" | "az" | "crh" | "tt" | "ba" | "gag" => Letters::Turkic,
            "lt" => Letters::Lithuanian,
            _ => Letters::Usual,
        }
    }
}

pub fn lower(text: &str, letters: Letters) -> String {
    let marked = match letters {
        Letters::Lithuanian => with_kept_dots(text),
        Letters::Usual | Letters::Turkic => without_dots(text, letters),
    };
    // Sigma at the end of a word is final.
    marked.to_lowercase()
}

/// Lower-case i for each capital with a dot, and in Turkic languages dotless for each without.
fn without_dots(text: &str, letters: Letters) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        if letter == 'İ' {
            result.push('i');
            continue;
        }
        if letter != 'I' && letter != 'i' {
            result.push(letter);
            continue;
        }
        // The dot may stand behind marks below the letter.
        let marks: String = rest
            .clone()
            .take_while(|mark| ![0, ABOVE].contains(&canonical_combining_class(*mark)))
            .collect();
        let has_dot = rest.as_str()[marks.len()..].starts_with(DOT_ABOVE);
        result.push(match letter {
            'I' if !has_dot && letters == Letters::Turkic => 'ı',
            _ => 'i',
        });
        result.push_str(&marks);
        let taken = marks.len() + if has_dot { DOT_ABOVE.len_utf8() } else { 0 };
        rest = rest.as_str()[taken..].chars();
    }
    result
}

/// The dot of a Lithuanian i, j or į is written when an accent follows.
fn with_kept_dots(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        let accented = match letter {
            'Ì' => "i\u{307}\u{300}",
            'Í' => "i\u{307}\u{301}",
            'Ĩ' => "i\u{307}\u{303}",
            'İ' => "i\u{307}",
            'I' | 'J' | 'Į' => {
                result.extend(letter.to_lowercase());
                let mut marks =
                    rest.clone().take_while(|mark| canonical_combining_class(*mark) != 0);
                if marks
                    .find(|mark| canonical_combining_class(*mark) == ABOVE)
                    .is_some_and(|mark| mark != DOT_ABOVE)
                {
                    result.push(DOT_ABOVE);
                }
                continue;
            }
            _ => {
                result.push(letter);
                continue;
            }
        };
        result.push_str(accented);
    }
    result
}

pub fn upper(text: &str, letters: Letters) -> String {
    match letters {
        Letters::Usual => text.to_uppercase(),
        Letters::Turkic => text.replace('i', "İ").to_uppercase(),
        Letters::Lithuanian => without_lithuanian_dots(text).to_uppercase(),
    }
}

fn without_lithuanian_dots(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == DOT_ABOVE && result.ends_with(['i', 'j', 'į']) {
            continue;
        }
        result.push(letter);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capital_i_with_a_dot_leaves_no_dot_behind() {
        for text in ["İSTANBUL", "I\u{307}STANBUL", "i\u{307}stanbul"] {
            assert_eq!(lower(text, Letters::Usual), "istanbul");
            assert_eq!(lower(text, Letters::Turkic), "istanbul");
        }
        assert_eq!(lower("I\u{323}\u{307}", Letters::Turkic), "i\u{323}");
        assert_eq!(lower("ISPARTA", Letters::Usual), "isparta");
    }

    #[test]
    fn turkish_has_two_kinds_of_i() {
        assert_eq!(lower("ISPARTA ve İZMİR", Letters::of("tr-TR")), "ısparta ve izmir");
        assert_eq!(upper("ısparta ve izmir", Letters::of("az")), "ISPARTA VE İZMİR");
    }

    /// The examples of SpecialCasing.txt.
    #[test]
    fn lithuanian_keeps_the_dot_below_an_accent() {
        let lithuanian = Letters::of("lt");
        for (upper_case, lower_case) in [
            ("\u{cc}", "i\u{307}\u{300}"),
            ("\u{cd}", "i\u{307}\u{301}"),
            ("\u{128}", "i\u{307}\u{303}"),
            ("I\u{300}", "i\u{307}\u{300}"),
            ("J\u{303}", "j\u{307}\u{303}"),
            ("\u{12e}\u{301}", "\u{12f}\u{307}\u{301}"),
            ("JIS ĖJO Į ŪKĮ", "jis ėjo į ūkį"),
        ] {
            assert_eq!(lower(upper_case, lithuanian), lower_case);
            assert!(!upper(lower_case, lithuanian).contains(DOT_ABOVE));
        }
    }

    #[test]
    fn a_sigma_at_the_end_of_a_word_is_final() {
        assert_eq!(lower("ΟΔΥΣΣΕΥΣ ΣΑΣ", Letters::Usual), "οδυσσευς σας");
    }
}
