//! Languages by their codes.

use super::cleaners;

/// A language code: `en`, `pt-BR`, `zh`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LanguageCode(String);

/// The most characters of a piece in languages that the original does not support.
const OTHER_LIMIT: usize = 250;
/// Of a language tag after BCP 47.
const LONGEST_CODE: usize = 35;

impl LanguageCode {
    /// The part before the region, in lower case.
    pub fn of(code: &str) -> LanguageCode {
        let own = code.trim().split(['-', '_']).next().unwrap_or_default();
        LanguageCode(own.to_lowercase())
    }

    /// Tests if a text may be the code of a language: letters, digits and hyphens.
    pub fn is_code(text: &str) -> bool {
        let is_part = |part: &str| {
            !part.is_empty() && part.chars().all(|character| character.is_ascii_alphanumeric())
        };
        text.len() <= LONGEST_CODE && text.split(['-', '_']).all(is_part)
    }

    pub fn code(&self) -> &str {
        &self.0
    }

    /// The tag at the start of texts of the language. The vocabulary has Chinese with its region.
    pub fn tag(&self) -> String {
        match self.code() {
            "zh" => "[zh-cn]".to_owned(),
            code => format!("[{code}]"),
        }
    }

    /// The model may cut off longer texts.
    pub fn character_limit(&self) -> usize {
        cleaners::character_limit(self.code()).unwrap_or(OTHER_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_letters_digits_and_hyphens() {
        for code in ["fi", "pt-br", "zh-CN", "pt_BR", "es-419"] {
            assert!(LanguageCode::is_code(code), "{code}");
        }
        for text in ["", "e t", "[et]", "et]", "\0", "-fi", &"a".repeat(36), "ä"] {
            assert!(!LanguageCode::is_code(text), "{text:?}");
        }
    }

    #[test]
    fn regions_are_cut_and_chinese_has_its_own_tag() {
        assert_eq!(LanguageCode::of("pt-BR").tag(), "[pt]");
        assert_eq!(LanguageCode::of("zh-cn").tag(), "[zh-cn]");
        assert_eq!(LanguageCode::of("ZH").tag(), "[zh-cn]");
        assert_eq!(LanguageCode::of("am").tag(), "[am]");
        assert_eq!(
            (LanguageCode::of("ja").character_limit(), LanguageCode::of("fi").character_limit()),
            (71, 250)
        );
    }
}
