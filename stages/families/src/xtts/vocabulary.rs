//! `vocab.json`: a file of the `tokenizers` library with a BPE. It is edited as JSON, so that
//! unknown parts stay the same, and ids never change.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use stage_formats::FormatError;

use super::published::TextTokens;
pub(super) use crate::symbols::damaged as refused;

pub const STOP: &str = "[STOP]";
pub const UNKNOWN: &str = "[UNK]";
pub const SPACE: &str = "[SPACE]";
pub const START: &str = "[START]";

/// The id of `[START]` in the published vocabulary.
const PUBLISHED_START: i64 = 261;
/// The id of `[SPACE]`; characters follow.
const SPACE_ID: i64 = 2;
/// The largest id that a model can have.
const LARGEST_ID: i64 = 1 << 22;

/// A checked file. Ids may have gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct XttsVocabulary {
    file: Map<String, Value>,
}

impl XttsVocabulary {
    /// # Errors
    ///
    /// For a file that is not a BPE of the `tokenizers` library, or has two tokens with one id.
    pub fn read(json: &[u8]) -> Result<XttsVocabulary, FormatError> {
        let file = serde_json::from_slice(json).map_err(|error| refused(error.to_string()))?;
        let vocabulary = XttsVocabulary { file };
        if vocabulary.file.get("model").and_then(|model| model.get("type")) != Some(&json!("BPE")) {
            return Err(refused("it is not a BPE of the `tokenizers` library"));
        }
        vocabulary.text_tokens()?;
        Ok(vocabulary)
    }

    /// Single characters and language tags. With a number of rows it has that length, with
    /// `[START]` at its published id and an unused id before its last token.
    pub fn fresh(
        characters: &str,
        languages: &[String],
        rows: Option<i64>,
    ) -> Result<XttsVocabulary, FormatError> {
        let mut tokens: Vec<String> = Vec::new();
        for character in characters.chars().filter(|character| !character.is_whitespace()) {
            let character = character.to_string();
            if !tokens.contains(&character) {
                tokens.push(character);
            }
        }
        let first = SPACE_ID + 1;
        let mut vocab = json!({ STOP: 0, UNKNOWN: 1, SPACE: SPACE_ID });
        let mut added = vec![added(STOP, 0), added(UNKNOWN, 1), added(SPACE, SPACE_ID)];
        for (id, character) in (first..).zip(&tokens) {
            vocab[character] = json!(id);
        }
        let start = match rows {
            Some(_) if first + tokens.len() as i64 > PUBLISHED_START => {
                return Err(refused(format!("more than {} characters", PUBLISHED_START - first)));
            }
            Some(_) => PUBLISHED_START,
            None => first + (tokens.len() + languages.len()) as i64,
        };
        let tags = if rows.is_some() { start + 1 } else { start - languages.len() as i64 };
        let specials = languages.iter().map(|language| format!("[{language}]"));
        for (id, token) in (tags..).zip(specials).chain([(start, START.to_owned())]) {
            vocab[&token] = json!(id);
            added.push(self::added(&token, id));
        }
        if let Some(rows) = rows {
            vocab["[LAST]"] = json!(rows - 1);
            added.push(self::added("[LAST]", rows - 1));
        }
        let file = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": null, "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null,
            "decoder": null,
            "model": {
                "type": "BPE", "dropout": null, "unk_token": UNKNOWN,
                "continuing_subword_prefix": null, "end_of_word_suffix": null,
                "fuse_unk": false, "vocab": vocab, "merges": [],
            },
        });
        XttsVocabulary::read(file.to_string().as_bytes())
    }

    /// The same vocabulary gives the same bytes.
    pub fn to_json(&self) -> Result<Vec<u8>, FormatError> {
        serde_json::to_vec(&self.file).map_err(|error| refused(error.to_string()))
    }

    /// All tokens with their ids.
    ///
    /// # Errors
    ///
    /// For ids that are not small numbers, and for two tokens with one id.
    pub fn ids(&self) -> Result<BTreeMap<String, i64>, FormatError> {
        let model = self.model()?.iter().map(|(token, id)| (token.clone(), id));
        let added = self.file.get("added_tokens").and_then(Value::as_array);
        let added = added.into_iter().flatten().filter_map(|token| {
            Some((token.get("content")?.as_str()?.to_owned(), token.get("id")?))
        });
        let (mut ids, mut tokens) = (BTreeMap::new(), BTreeMap::new());
        for (token, id) in model.chain(added) {
            let id = id.as_i64().filter(|id| (0..LARGEST_ID).contains(id));
            let id =
                id.ok_or_else(|| refused(format!("the id of `{token}` is not a small number")))?;
            let before = ids.insert(token.clone(), id);
            let other = tokens.insert(id, token.clone());
            if before.is_some_and(|before| before != id) {
                return Err(refused(format!("`{token}` has two ids")));
            }
            if let Some(other) = other.filter(|other| *other != token) {
                return Err(refused(format!("`{other}` and `{token}` have the same id {id}")));
            }
        }
        Ok(ids)
    }

    /// The tokens that are matched before all merges.
    pub(super) fn separate(&self) -> BTreeSet<String> {
        let added = self.file.get("added_tokens").and_then(Value::as_array).into_iter().flatten();
        let content = |token: &Value| Some(token.get("content")?.as_str()?.to_owned());
        added.filter_map(content).collect()
    }

    /// The rows of its embedding (its largest id + 1), and the ids of `[START]` and `[STOP]`.
    pub fn text_tokens(&self) -> Result<TextTokens, FormatError> {
        let ids = self.ids()?;
        let largest = ids.values().max().copied().unwrap_or(0);
        Ok(TextTokens { rows: largest + 1, start: id(&ids, START)?, stop: id(&ids, STOP)? })
    }

    /// A part of the model, for additions.
    pub(super) fn part(&mut self, name: &str) -> Result<&mut Value, FormatError> {
        let part = self.file.get_mut("model").and_then(|model| model.get_mut(name));
        part.ok_or_else(|| refused(format!("it has no `model.{name}`")))
    }

    /// Lists a token among those that are matched before all merges.
    pub(super) fn add_special(&mut self, token: &str, id: i64) -> Result<(), FormatError> {
        match self.file.entry("added_tokens").or_insert_with(|| json!([])) {
            Value::Array(list) => {
                list.push(added(token, id));
                Ok(())
            }
            _ => Err(refused("`added_tokens` is not a list")),
        }
    }

    pub(super) fn file(&self) -> &Map<String, Value> {
        &self.file
    }

    fn model(&self) -> Result<&Map<String, Value>, FormatError> {
        let vocab = self.file.get("model").and_then(|model| model.get("vocab"));
        vocab.and_then(Value::as_object).ok_or_else(|| refused("it has no `model.vocab`"))
    }
}

/// The id of a token that a vocabulary must have.
pub(super) fn id(ids: &BTreeMap<String, i64>, token: &str) -> Result<i64, FormatError> {
    ids.get(token).copied().ok_or_else(|| refused(format!("it has no token `{token}`")))
}

/// A token that is matched before all merges.
fn added(token: &str, id: i64) -> Value {
    json!({
        "id": id, "special": true, "content": token, "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn fresh(rows: Option<i64>) -> XttsVocabulary {
        XttsVocabulary::fresh("ab a", &["fi".to_owned()], rows).unwrap()
    }

    #[test]
    fn rows_are_counted_by_the_largest_id_and_not_by_entries() {
        let tokens = fresh(None).text_tokens().unwrap();
        assert_eq!(tokens, TextTokens { rows: 7, start: 6, stop: 0 });
        let long = fresh(Some(6681));
        assert_eq!(long.text_tokens().unwrap(), TextTokens { rows: 6681, start: 261, stop: 0 });
        assert_eq!(long.ids().unwrap().len(), 8);
    }

    #[test]
    fn what_is_no_vocabulary_is_refused() {
        for (file, told) in [
            ("[]", "invalid type"),
            ("{}", "not a BPE"),
            (r#"{"model": {"type": "BPE"}}"#, "no `model.vocab`"),
            (r#"{"model": {"type": "BPE", "vocab": {"a": 0}}}"#, "no token `[START]`"),
            (r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}}}"#, "have the same id 0"),
            (r#"{"model": {"type": "BPE", "vocab": {"a": -1}}}"#, "not a small number"),
            (r#"{"model": {"type": "BPE", "vocab": {"a": 99999999}}}"#, "not a small number"),
        ] {
            let error = XttsVocabulary::read(file.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
