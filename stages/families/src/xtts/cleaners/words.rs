//! The words of a language for its cleaning, from `languages.toml`, which describes them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanerWords {
    pub characters: usize,
    #[serde(default)]
    pub signs: Vec<String>,
    #[serde(default)]
    pub abbreviations: BTreeMap<String, String>,
    /// True if the original spells numbers.
    #[serde(default)]
    pub numbers: bool,
    /// The letters after the digits of an ordinal.
    #[serde(default)]
    pub marks: Vec<String>,
}

static ALL: LazyLock<BTreeMap<String, CleanerWords>> =
    LazyLock::new(|| toml::from_str(include_str!("languages.toml")).unwrap_or_default());

/// None for languages that the original does not support.
pub fn of(code: &str) -> Option<&'static CleanerWords> {
    ALL.get(code)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_file_has_the_languages_of_the_original() {
        let all: BTreeMap<String, CleanerWords> =
            toml::from_str(include_str!("languages.toml")).unwrap();
        assert_eq!(all.len(), 17);
        let has =
            |what: fn(&CleanerWords) -> bool| all.values().filter(|words| what(words)).count();
        assert_eq!(has(|words| words.signs.len() == super::super::symbols::SIGNS.len()), 16);
        assert_eq!(has(|words| words.numbers), 14);
        assert_eq!(has(|words| !words.marks.is_empty()), 13);
        assert_eq!(has(|words| !words.abbreviations.is_empty()), 12);
    }
}
