//! Checks the published `config.json` against the values that are used in its place.

use stage_formats::FormatError;

use super::config::XttsConfig;
use super::language::LanguageCode;
use super::published::{given, parsed};
use super::vocabulary::XttsVocabulary;
use crate::sizes::refused;

/// Rates by their places in the file. All releases have these.
const RATES: [(&str, &str, i64); 5] = [
    ("audio", "sample_rate", 22_050),
    ("audio", "dvae_sample_rate", 22_050),
    ("audio", "output_sample_rate", 24_000),
    ("model_args", "input_sample_rate", 22_050),
    ("model_args", "output_sample_rate", 24_000),
];

/// Notes on values of the file that others replace.
///
/// # Errors
///
/// For another model, and for rates that no XTTS model has.
pub fn compare(
    file: &[u8],
    config: &XttsConfig,
    vocabulary: &XttsVocabulary,
) -> Result<Vec<(String, u64)>, FormatError> {
    let file = parsed(file)?;
    if let Some(model) = given(&file, "", "model").filter(|model| *model != "xtts") {
        return Err(refused(format!("`model` is {model}, expected \"xtts\"")));
    }
    for (part, name, rate) in RATES {
        let other = given(&file, part, name).filter(|given| given.as_f64() != Some(rate as f64));
        if let Some(given) = other {
            return Err(refused(format!("`{name}` is {given}, expected {rate}")));
        }
    }
    let mut notes = Vec::new();
    let gpt = &config.gpt;
    for (name, used) in [
        ("gpt_number_text_tokens", gpt.text_tokens),
        ("gpt_start_text_token", gpt.start_text_token),
        ("gpt_stop_text_token", gpt.stop_text_token),
    ] {
        let other =
            given(&file, "model_args", name).filter(|given| given.as_f64() != Some(used as f64));
        if let Some(given) = other {
            let note =
                format!("`{name}` of `config.json`, {given}, replaced by {used} of `vocab.json`");
            notes.push((note, 1));
        }
    }
    let tags = vocabulary.separate();
    for language in &config.languages {
        if !tags.contains(&LanguageCode::of(language).tag()) {
            let note =
                format!("`{language}` of `languages` in `config.json` has no tag in `vocab.json`");
            notes.push((note, 1));
        }
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn compared(file: &Value) -> Result<Vec<(String, u64)>, FormatError> {
        let languages = ["en".to_owned(), "fi".to_owned()];
        let vocabulary = XttsVocabulary::fresh("ab", &languages, None).unwrap();
        let tokens = vocabulary.text_tokens().unwrap();
        let config = XttsConfig { languages: languages.to_vec(), ..XttsConfig::small(tokens.rows) };
        compare(file.to_string().as_bytes(), &config, &vocabulary)
    }

    #[test]
    fn other_rates_and_other_models_are_refused() {
        for (file, told) in [
            (json!({"audio": {"sample_rate": 16_000}}), "`sample_rate` is 16000, expected 22050"),
            (json!({"audio": {"output_sample_rate": 1e12}}), "expected 24000"),
            (
                json!({"model_args": {"input_sample_rate": -22_050}}),
                "`input_sample_rate` is -22050",
            ),
            (json!({"model_args": {"output_sample_rate": 48_000}}), "48000, expected 24000"),
            (json!({"audio": {"dvae_sample_rate": 24_000}}), "`dvae_sample_rate` is 24000"),
            (json!({"model": "vits"}), "`model` is \"vits\""),
        ] {
            let error = compared(&file).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn numbers_that_the_vocabulary_replaces_are_noted() {
        let args = json!({"gpt_number_text_tokens": 1, "gpt_start_text_token": 7,
            "gpt_stop_text_token": null, "input_sample_rate": 22_050});
        let notes = compared(&json!({"model": "xtts", "model_args": args})).unwrap();
        let told: Vec<&str> = notes.iter().map(|(note, _)| note.as_str()).collect();
        let rows = "`gpt_number_text_tokens` of `config.json`, 1, replaced by 8 of `vocab.json`";
        assert_eq!(told, [rows]);
        assert_eq!(compared(&json!({})).unwrap(), []);
    }
}
