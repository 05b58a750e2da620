//! The characters that a tokenizer knows, read from common vocabulary formats.

use std::collections::BTreeSet;

/// Characters with a symbol in a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vocabulary {
    characters: BTreeSet<char>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VocabularyError {
    #[error("the vocabulary is not UTF-8 (byte {at})")]
    NotUtf8 { at: usize },
    #[error("the vocabulary is not JSON: {message}")]
    NotJson { message: String },
    #[error("the JSON is neither an object of symbols nor a list of symbols")]
    NotSymbols,
    #[error(
        "the vocabulary has no symbol of a single character: it belongs to another kind of \
         tokenizer"
    )]
    NoCharacters,
}

impl Vocabulary {
    /// Each character of a text is a symbol; line breaks only separate.
    pub fn from_text(text: &str) -> Result<Vocabulary, VocabularyError> {
        Self::of(text.chars().filter(|character| !matches!(character, '\n' | '\r' | '\u{FEFF}')))
    }

    /// The bytes of a `vocab.json` (symbols to numbers, or a list of symbols) or of a text file.
    ///
    /// Symbols of several characters, such as `<unk>`, say nothing about single characters.
    pub fn from_bytes(bytes: &[u8]) -> Result<Vocabulary, VocabularyError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| VocabularyError::NotUtf8 { at: error.valid_up_to() })?;
        let looks_like_json =
            text.trim_start_matches('\u{FEFF}').trim_start().starts_with(['{', '[']);
        if !looks_like_json {
            return Self::from_text(text);
        }
        let json: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{FEFF}'))
            .map_err(|error| VocabularyError::NotJson { message: error.to_string() })?;
        // A whole `tokenizer.json` has its vocabulary inside its model.
        let symbols = json.pointer("/model/vocab").unwrap_or(&json);
        match symbols {
            serde_json::Value::Object(map) => Self::of(map.keys().filter_map(|key| single(key))),
            serde_json::Value::Array(list) => {
                Self::of(list.iter().filter_map(|symbol| single(symbol.as_str()?)))
            }
            _ => Err(VocabularyError::NotSymbols),
        }
    }

    fn of(characters: impl Iterator<Item = char>) -> Result<Vocabulary, VocabularyError> {
        let characters: BTreeSet<char> = characters.collect();
        if characters.is_empty() {
            Err(VocabularyError::NoCharacters)
        } else {
            Ok(Vocabulary { characters })
        }
    }

    pub fn contains(&self, character: char) -> bool {
        self.characters.contains(&character)
    }

    /// Adds characters, such as the space that tokenizers write as another symbol.
    #[must_use]
    pub fn with(mut self, characters: &str) -> Vocabulary {
        self.characters.extend(characters.chars());
        self
    }

    /// The lookup of a lower-casing tokenizer: the character itself, or its lower-case form if
    /// known.
    pub fn knows_lowered(&self, character: char) -> bool {
        self.contains(character) || character.to_lowercase().all(|lower| self.contains(lower))
    }
}

fn single(symbol: &str) -> Option<char> {
    let mut characters = symbol.chars();
    let first = characters.next()?;
    characters.next().is_none().then_some(first)
}
