//! Cleaning of texts before tokenization, by language: the 17 of XTTS v2 as in the original, all
//! others minimally.

mod abbreviations;
mod chinese;
mod korean;
mod numbers;
mod symbols;
mod words;

use super::language::LanguageCode;

/// An unsupported language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Japanese in kanji or kana is not supported")]
pub struct Uncleanable;

impl Uncleanable {
    pub const HELP: &str = "romanise the texts first, in a `command` stage with cutlet, as the \
                            original project does";
}

/// # Errors
///
/// For Japanese that is not romanised.
pub fn clean(text: &str, language: &LanguageCode) -> Result<String, Uncleanable> {
    match language.code() {
        "ja" => japanese(text),
        code if words::of(code).is_some() => Ok(multilingual(text, code)),
        _ => Ok(basic(text)),
    }
}

/// The most characters that the original synthesises at once, if it supports the language.
pub fn character_limit(code: &str) -> Option<usize> {
    words::of(code).map(|words| words.characters)
}

/// For languages that the original does not support: straight quotes dropped, lower case, single
/// spaces. Digits stay; `text.normalize` or a `command` stage spells them out.
fn basic(text: &str) -> String {
    collapse(&text.replace('"', "").to_lowercase())
}

fn multilingual(text: &str, code: &str) -> String {
    let mut text = text.replace('"', "");
    if code == "tr" {
        // In other languages, the lower case of `İ` has a combining mark.
        text = text.replace('İ', "i");
    }
    let text = match code {
        "zh" => chinese::normalise(&text.to_lowercase()),
        _ => numbers::expand(&text.to_lowercase(), code),
    };
    let text = abbreviations::expand(&text, code);
    let text = collapse(&symbols::expand(&text, code));
    match code {
        "zh" => chinese::transliterate(&text),
        "ko" => korean::romanise(&text),
        _ => text,
    }
}

/// Romanised texts only: readings of kanji need a dictionary.
fn japanese(text: &str) -> Result<String, Uncleanable> {
    let is_romanised = |character: char| !('\u{3000}'..='\u{9fff}').contains(&character);
    match text.chars().all(is_romanised) {
        true => Ok(text.to_lowercase()),
        false => Err(Uncleanable),
    }
}

/// Replaces each run of white space by one space, and drops it at both ends.
fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
