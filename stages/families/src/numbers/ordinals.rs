//! Ordinals as words.

use serde::Deserialize;

use super::Language;
use super::spelling::Spelling;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ordinals {
    /// The letters or signs that may follow the digits.
    #[serde(default)]
    pub marks: Vec<String>,
    /// The same for the feminine, in languages in which an `a` takes the place of each `o` at the end.
    #[serde(default)]
    pub feminine_marks: Vec<String>,
    /// Larger numbers have no ordinal.
    limit: u64,
    rules: Option<String>,
    /// Quotients are ordinals, too: `<` in the rules is not a cardinal.
    #[serde(default)]
    inflects_quotients: bool,
    #[serde(default)]
    exact: String,
    #[serde(default)]
    endings: String,
}

impl Ordinals {
    pub fn spell(&self, number: u64, language: Language) -> Option<String> {
        if number >= self.limit {
            return None;
        }
        let exact = pairs(&self.exact).find(|(own, _)| own.parse() == Ok(number));
        if let Some((_, word)) = exact {
            return Some(word.to_owned());
        }
        if let Some(rules) = &self.rules {
            return match self.inflects_quotients {
                true => Spelling { rules, attributes: "" }.spell(number),
                false => language.by_rules(rules, number),
            };
        }
        let cardinal = language.cardinal(number)?;
        let mut endings = pairs(&self.endings);
        endings.find_map(|(end, other)| Some(format!("{}{other}", cardinal.strip_suffix(end)?)))
    }
}

fn pairs(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split(';').filter_map(|pair| pair.split_once(' '))
}
