//! Refuses a `vocab.json` that tokenizes texts in another way than the published one: models were
//! trained with a deterministic BPE after splitting at white space.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use serde_json::{Map, Value, json};
use stage_formats::FormatError;

use super::vocabulary::{SPACE, UNKNOWN, XttsVocabulary, id, refused};

const MODEL_SETTINGS: [&str; 5] = [
    "dropout",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "byte_fallback",
    "ignore_merges",
];

type Checked = Result<(), FormatError>;

impl XttsVocabulary {
    /// The tokenizer of the library.
    ///
    /// # Errors
    ///
    /// For settings that the published file does not have, and for merges that do not fit.
    pub(super) fn tokenizer(&self) -> Result<tokenizers::Tokenizer, FormatError> {
        self.check_settings()?;
        let ids = self.ids()?;
        id(&ids, UNKNOWN)?;
        let space = id(&ids, SPACE)?;
        let json = self.to_json()?;
        let text = String::from_utf8(json).map_err(|error| refused(error.to_string()))?;
        let bpe = caught(|| tokenizers::Tokenizer::from_str(&text))?;
        // Without a separate token, spaces become letters and brackets.
        let spaces = caught(|| bpe.encode([SPACE, SPACE].concat(), false))?;
        match spaces.get_ids().iter().map(|id| i64::from(*id)).eq([space, space]) {
            true => Ok(bpe),
            false => Err(refused(format!("`added_tokens` lacks `{SPACE}`"))),
        }
    }

    fn check_settings(&self) -> Checked {
        let file = self.file();
        for name in ["normalizer", "truncation", "padding"] {
            check_off(file, name, name)?;
        }
        let splitter = file.get("pre_tokenizer").and_then(|part| part.get("type"));
        if splitter != Some(&json!("Whitespace")) {
            let given = splitter.map_or("none".to_owned(), Value::to_string);
            let message = format!("`pre_tokenizer` is {given}, expected \"Whitespace\"");
            return Err(refused(message));
        }
        let model = file.get("model").and_then(Value::as_object);
        let model = model.ok_or_else(|| refused("it has no `model`"))?;
        for name in MODEL_SETTINGS {
            check_off(model, name, &format!("model.{name}"))?;
        }
        match model.get("unk_token") {
            Some(Value::String(unknown)) if unknown == UNKNOWN => Ok(()),
            _ => Err(refused(format!("`model.unk_token` is not `{UNKNOWN}`"))),
        }
    }
}

/// A setting that is off: not given, null, false, 0 or an empty text.
fn check_off(part: &Map<String, Value>, name: &str, shown: &str) -> Checked {
    let is_off = match part.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(_) => false,
    };
    match is_off {
        true => Ok(()),
        false => Err(refused(format!("`{shown}` is set, but XTTS models are trained without it"))),
    }
}

/// The library panics on some files and texts; here that is an error like the others.
pub(super) fn caught<T>(
    work: impl FnOnce() -> Result<T, tokenizers::Error>,
) -> Result<T, FormatError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| refused(error.to_string())),
        Err(_) => Err(refused("the tokenizer library cannot use it")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refusal(change: impl FnOnce(&mut Value)) -> String {
        let fresh = XttsVocabulary::fresh("ab", &["fi".to_owned()], None).unwrap();
        let mut file: Value = serde_json::from_slice(&fresh.to_json().unwrap()).unwrap();
        change(&mut file);
        match XttsVocabulary::read(file.to_string().as_bytes()).and_then(|file| file.tokenizer()) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn settings_that_read_texts_in_another_way_are_refused_by_name() {
        let long = json!({"max_length": 3, "strategy": "LongestFirst", "stride": 0});
        for (part, name, value) in [
            ("model", "dropout", json!(0.5)),
            ("model", "continuing_subword_prefix", json!("##")),
            ("model", "end_of_word_suffix", json!("</w>")),
            ("model", "byte_fallback", json!(true)),
            ("model", "ignore_merges", json!(true)),
            ("model", "unk_token", Value::Null),
            ("", "truncation", long),
            ("", "padding", json!({"strategy": "BatchLongest"})),
            ("", "normalizer", json!({"type": "Lowercase"})),
            ("", "pre_tokenizer", json!({"type": "ByteLevel"})),
            ("", "pre_tokenizer", Value::Null),
        ] {
            let told = refusal(|file| match part {
                "" => file[name] = value,
                part => file[part][name] = value,
            });
            assert!(told.contains(&format!("{name}`")), "{name}: {told}");
        }
        assert_eq!(refusal(|file| file["model"]["dropout"] = json!(0.0)), "");
        assert_eq!(refusal(|file| file["model"]["continuing_subword_prefix"] = json!("")), "");
        assert!(refusal(|file| file["model"]["type"] = json!("WordPiece")).contains("not a BPE"));
    }

    #[test]
    fn merges_that_cannot_be_read_and_missing_tokens_are_refused() {
        for merge in [json!("zz qq"), json!("a b c"), json!(3), json!(" ")] {
            let told = refusal(|file| file["model"]["merges"] = json!([merge]));
            assert!(told.starts_with("the vocab.json file cannot be read: "), "{merge}: {told}");
        }
        for token in ["[SPACE]", "[UNK]", "[START]", "[STOP]"] {
            let told = refusal(|file| {
                file["model"]["vocab"].as_object_mut().unwrap().remove(token);
                let added = file["added_tokens"].as_array_mut().unwrap();
                added.retain(|own| own["content"] != token);
            });
            assert!(told.contains(&format!("no token `{token}`")), "{told}");
        }
        let told = refusal(|file| file["added_tokens"] = json!([]));
        assert!(told.contains("`added_tokens` lacks `[SPACE]`"), "{told}");
    }

    #[test]
    fn a_panic_of_the_library_is_an_error() {
        let error = caught::<()>(|| panic!("start byte index 2 is out of bounds")).unwrap_err();
        assert!(error.to_string().ends_with("the tokenizer library cannot use it"));
    }
}
