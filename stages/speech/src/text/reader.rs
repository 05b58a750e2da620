//! The reader of texts: a list of characters, or the tokenizer of a model.

use std::collections::BTreeMap;

use bytes::Bytes;
use stage_core::{Blob, Fields, StageError};
use stage_families::artifact::{FAMILY, TOKENIZER_CONFIG, VOCABULARY, XTTS};
use stage_families::numbers::compounds;
use stage_families::vits::{PHONEMES, VitsTokenizer};
use stage_families::xtts::{self, LanguageCode};

use super::audit::ClipText;
use super::vocabulary::Vocabulary;

pub enum Reader {
    /// With `lower_case`, an unknown character is lower-cased before it is dropped.
    Listed { vocabulary: Vocabulary, lower_case: bool },
    /// A model of single characters, which reads as in training and in synthesis.
    Model(Box<VitsTokenizer>),
    /// A model of word pieces, which cleans texts by their language first; `language` is that of
    /// clips that do not name theirs.
    Pieces { tokenizer: Box<xtts::XttsTokenizer>, language: Option<String> },
}

impl Reader {
    /// The tokenizer of a VITS or XTTS model; `language` is that of texts that do not name theirs.
    ///
    /// # Errors
    ///
    /// If it is another model, or its files cannot be read.
    pub fn of_model(
        model: &Fields,
        language: Option<String>,
        read: &mut dyn FnMut(&Blob) -> Result<Bytes, StageError>,
    ) -> Result<Reader, StageError> {
        let mut file = |name: &str| match model.blob(name) {
            Some(blob) => read(blob),
            None => Err(StageError::with_help(
                format!("the model on `model` has no `{name}`"),
                "read a VITS or XTTS model, for example from `model.import`",
            )),
        };
        let symbols = file(VOCABULARY)?;
        if model.text(FAMILY) == Some(XTTS) {
            let tokenizer = Box::new(xtts::XttsTokenizer::read(&symbols)?);
            return Ok(Reader::Pieces { tokenizer, language });
        }
        let reading = file(TOKENIZER_CONFIG)?;
        Ok(Reader::Model(Box::new(VitsTokenizer::read(&symbols, &reading)?)))
    }

    /// The field that it reads.
    pub fn field(&self) -> &'static str {
        match self {
            Reader::Model(tokenizer) if tokenizer.reads_phonemes() => PHONEMES,
            _ => "text",
        }
    }

    /// Tests if it leaves signs out without harm. Other readers refuse texts with any unknown
    /// character.
    pub fn drops_signs(&self) -> bool {
        matches!(self, Reader::Listed { .. } | Reader::Model(_))
    }

    /// The characters of a text that it drops, with their counts.
    ///
    /// # Errors
    ///
    /// If it cannot read texts of the clip's language.
    pub fn unknown(&self, clip: &ClipText<'_>) -> Result<BTreeMap<char, u64>, StageError> {
        let text = clip.text;
        let (vocabulary, lower_case) = match self {
            Reader::Listed { vocabulary, lower_case } => (vocabulary, *lower_case),
            Reader::Model(tokenizer) => {
                let unknown = tokenizer.encode(&tokenizer.prepare(text)).unknown;
                return Ok(unknown.into_iter().map(|(own, count)| (own, count as u64)).collect());
            }
            Reader::Pieces { tokenizer, language } => {
                let code = clip.language.or(language.as_deref());
                let language = LanguageCode::of(code.ok_or_else(|| no_language(clip))?);
                let unknown = tokenizer.unknown(text, &language);
                return unknown.map_err(|error| {
                    StageError::with_help(format!("`{}`: {error}", clip.id), error.help())
                });
            }
        };
        let is_known = |character: char| {
            if lower_case {
                vocabulary.knows_lowered(character)
            } else {
                vocabulary.contains(character)
            }
        };
        let mut unknown = BTreeMap::new();
        for character in text.chars().filter(|character| !is_known(*character)) {
            *unknown.entry(character).or_default() += 1;
        }
        Ok(unknown)
    }

    /// Dates, times and the like in a text whose digits it spells out itself: it reads their parts as
    /// numbers of their own.
    pub fn misread<'t>(&self, text: &'t str) -> Vec<&'t str> {
        match self {
            Reader::Pieces { .. } => compounds(text),
            Reader::Listed { .. } | Reader::Model(_) => Vec::new(),
        }
    }

    /// Tests if it was made for romanised texts, and this text is not one.
    pub fn needs_uroman(&self, text: &str) -> bool {
        match self {
            Reader::Listed { .. } | Reader::Pieces { .. } => false,
            Reader::Model(tokenizer) => tokenizer.encode(&tokenizer.prepare(text)).needs_uroman,
        }
    }
}

fn no_language(clip: &ClipText<'_>) -> StageError {
    StageError::with_help(
        format!("`{}` does not name its language", clip.id),
        "set `language` of this stage if all clips have the same one, or add a field `language` \
         to the clips",
    )
}
