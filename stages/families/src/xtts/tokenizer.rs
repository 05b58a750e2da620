//! Texts as ids: the cleaner of the language, its tag, `[SPACE]` for spaces, and the BPE of
//! `vocab.json` by the `tokenizers` library.

use std::collections::{BTreeMap, BTreeSet};

use stage_core::Reject;
use stage_formats::FormatError;

use super::cleaners::{self, Uncleanable};
use super::language::LanguageCode;
use super::published::TextTokens;
use super::vocabulary::{SPACE, UNKNOWN, XttsVocabulary, id};
use crate::dropped::is_spoken;

pub struct XttsTokenizer {
    bpe: tokenizers::Tokenizer,
    ids: BTreeMap<String, i64>,
    /// Tokens that are matched before all merges.
    separate: BTreeSet<String>,
    tokens: TextTokens,
    unknown: i64,
}

/// The reason why a text cannot be tokenized.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error(transparent)]
    Uncleanable(#[from] Uncleanable),
    #[error("the vocabulary has no tag `{0}`")]
    NoTag(String),
    #[error("the text is empty after cleaning")]
    Empty,
    #[error("the vocabulary lacks {}", listed(.0))]
    Unknown(Vec<char>),
    #[error("the text has the token `[UNK]`, which stands for unknown characters")]
    UnknownToken,
    #[error("the text has the token `[STOP]`, which ends it")]
    Stop,
    #[error("the tokenizer cannot encode the text: {0}")]
    Refused(String),
}

/// Characters, with code points if they may be invisible.
fn listed(characters: &[char]) -> String {
    let one = |character: &char| format!("`{character}` (U+{:04X})", *character as u32);
    characters.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl TextError {
    pub fn help(&self) -> &'static str {
        match self {
            TextError::Uncleanable(_) => Uncleanable::HELP,
            TextError::NoTag(_) => "add the language to the vocabulary with `xtts.extend`",
            TextError::Unknown(lacking) if lacking.iter().any(|own| is_spoken(*own)) => {
                "spell out numbers and unify signs with `text.normalize`, before the training and \
                 before the synthesis; `xtts.extend` adds other letters if a clip has them; \
                 `on_unknown = \"report\"` of `xtts.synthesize` speaks without them"
            }
            TextError::Unknown(_) => {
                "replace such signs with `text.normalize`, before the training and before the \
                 synthesis; `on_unknown = \"report\"` of `xtts.synthesize` speaks without them"
            }
            TextError::Empty => {
                "add a text to the clip, or filter the clip out with `dataset.filter`"
            }
            TextError::UnknownToken | TextError::Stop | TextError::Refused(_) => "rewrite the text",
        }
    }
}

impl From<TextError> for Reject {
    fn from(error: TextError) -> Reject {
        let code = match error {
            TextError::Uncleanable(_) => "unsupported-language",
            TextError::NoTag(_) => "unknown-language",
            TextError::Empty => "empty-text",
            TextError::Unknown(_) => "unknown-characters",
            TextError::UnknownToken | TextError::Stop | TextError::Refused(_) => "bad-text",
        };
        Reject::new(code, format!("{error}; {}", error.help()))
    }
}

impl XttsTokenizer {
    /// # Errors
    ///
    /// For a file that reads texts in another way than the published one, or lacks `[START]`,
    /// `[STOP]`, `[UNK]` or `[SPACE]`.
    pub fn read(json: &[u8]) -> Result<XttsTokenizer, FormatError> {
        let vocabulary = XttsVocabulary::read(json)?;
        let (bpe, ids) = (vocabulary.tokenizer()?, vocabulary.ids()?);
        let unknown = id(&ids, UNKNOWN)?;
        let (separate, tokens) = (vocabulary.separate(), vocabulary.text_tokens()?);
        Ok(XttsTokenizer { bpe, separate, tokens, ids, unknown })
    }

    /// Rows of the embedding, and the ids of start and stop.
    pub fn text_tokens(&self) -> TextTokens {
        self.tokens
    }

    pub fn has_language(&self, language: &LanguageCode) -> bool {
        self.separate.contains(&language.tag())
    }

    /// A text after cleaning.
    pub fn clean(&self, text: &str, language: &LanguageCode) -> Result<String, Uncleanable> {
        cleaners::clean(text, language)
    }

    /// The ids of a text without start and stop.
    ///
    /// # Errors
    ///
    /// If the language has no cleaner or no tag, or if the text would reach the model with an
    /// unknown token or a stop.
    pub fn encode(&self, text: &str, language: &LanguageCode) -> Result<Vec<i64>, TextError> {
        self.encode_clean(&self.cleaned(text, language)?, language)
    }

    /// The same without characters that the vocabulary lacks.
    ///
    /// # Errors
    ///
    /// If nothing is left, or for another reason than such characters.
    pub fn encode_known(&self, text: &str, language: &LanguageCode) -> Result<Vec<i64>, TextError> {
        let text = self.cleaned(text, language)?;
        let lacking = self.lacking(&text);
        let known = text.replace(|character| lacking.contains(&character), "");
        self.encode_clean(&known, language)
    }

    /// The text after cleaning, in a language with a tag.
    fn cleaned(&self, text: &str, language: &LanguageCode) -> Result<String, TextError> {
        match self.has_language(language) {
            true => Ok(cleaners::clean(text, language)?),
            false => Err(TextError::NoTag(language.tag())),
        }
    }

    fn encode_clean(&self, text: &str, language: &LanguageCode) -> Result<Vec<i64>, TextError> {
        if text.trim().is_empty() {
            return Err(TextError::Empty);
        }
        let ids = self.ids_of(text, language)?;
        if ids.contains(&self.unknown) {
            let lacking = self.lacking(text);
            return Err(match lacking.is_empty() {
                true => TextError::UnknownToken,
                false => TextError::Unknown(lacking),
            });
        }
        if ids.contains(&self.tokens.stop) {
            return Err(TextError::Stop);
        }
        Ok(ids)
    }

    /// The ids of a clean text, unknown ones included.
    fn ids_of(&self, text: &str, language: &LanguageCode) -> Result<Vec<i64>, TextError> {
        let tagged = format!("{}{text}", language.tag()).replace(' ', SPACE);
        let encoding = self.bpe.encode(tagged, false);
        let encoding = encoding.map_err(|error| TextError::Refused(error.to_string()))?;
        Ok(encoding.get_ids().iter().map(|id| i64::from(*id)).collect())
    }

    /// The characters of a text that would reach the model as unknown tokens, and how often.
    ///
    /// # Errors
    ///
    /// If the language has no cleaner or no tag.
    pub fn unknown(
        &self,
        text: &str,
        language: &LanguageCode,
    ) -> Result<BTreeMap<char, u64>, TextError> {
        let text = self.cleaned(text, language)?;
        let count = |character: char| (character, text.matches(character).count() as u64);
        Ok(self.lacking(&text).into_iter().map(count).collect())
    }

    /// The characters of a text that the vocabulary lacks, each once, in the order of the text.
    fn lacking(&self, text: &str) -> Vec<char> {
        let mut lacking = Vec::new();
        let mut buffer = [0; 4];
        for character in text.chars().filter(|character| !character.is_whitespace()) {
            let is_known = self.ids.contains_key(&*character.encode_utf8(&mut buffer));
            if !is_known && !lacking.contains(&character) {
                lacking.push(character);
            }
        }
        lacking
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn fresh() -> Value {
        let fresh = XttsVocabulary::fresh("abUNK[]", &["fi".to_owned()], None).unwrap();
        serde_json::from_slice(&fresh.to_json().unwrap()).unwrap()
    }

    fn refusal(file: &Value, text: &str) -> TextError {
        let tokenizer = XttsTokenizer::read(file.to_string().as_bytes()).unwrap();
        tokenizer.encode(text, &LanguageCode::of("fi")).unwrap_err()
    }

    #[test]
    fn without_lacking_characters_a_text_is_that_of_the_others() {
        let tokenizer = XttsTokenizer::read(fresh().to_string().as_bytes()).unwrap();
        let fi = LanguageCode::of("fi");
        let known = tokenizer.encode_known("«ab»3 a", &fi);
        assert_eq!(known, tokenizer.encode("ab a", &fi));
        assert!(known.is_ok());
        assert_eq!(tokenizer.encode_known("«»", &fi), Err(TextError::Empty));
    }

    #[test]
    fn the_advice_names_the_stage_that_mends_signs_and_letters() {
        for (text, advice) in
            [("«ab»", "such signs"), ("a3", "spell out numbers"), ("az", "`xtts.extend`")]
        {
            let help = refusal(&fresh(), text).help();
            assert!(help.contains(advice) && help.contains("`text.normalize`"), "{text}: {help}");
            assert!(!help.contains("`command`"), "{help}");
        }
    }

    #[test]
    fn no_text_is_set_aside_for_a_list_of_no_characters() {
        let lacking = refusal(&fresh(), "az");
        assert_eq!(lacking, TextError::Unknown(vec!['z']));
        let mut file = fresh();
        file["added_tokens"].as_array_mut().unwrap().retain(|own| own["content"] != json!("[fi]"));
        assert_eq!(refusal(&file, "ab"), TextError::NoTag("[fi]".to_owned()));
    }
}
