//! The reader of texts: a list of characters, or the tokenizer of a model.

use std::collections::BTreeMap;

use stage_core::StageError;
use stage_families::vits::Tokenizer;
use stage_families::xtts::{self, Language};

use super::audit::Clip;
use super::vocabulary::Vocabulary;

pub enum Reader {
    /// With `lower_case`, an unknown character is lower-cased before it is dropped.
    Listed { vocabulary: Vocabulary, lower_case: bool },
    /// A model of single characters, which reads as in training and in synthesis.
    Model(Box<Tokenizer>),
    /// A model of word pieces, which cleans texts by their language first; `language` is that of
    /// clips that do not name theirs.
    Pieces { tokenizer: Box<xtts::Tokenizer>, language: Option<String> },
}

impl Reader {
    /// The characters of a text that it drops, with their counts.
    ///
    /// # Errors
    ///
    /// If it cannot read texts of the clip's language.
    pub fn unknown(&self, clip: &Clip<'_>) -> Result<BTreeMap<char, u64>, StageError> {
        let text = clip.text;
        let (vocabulary, lower_case) = match self {
            Reader::Listed { vocabulary, lower_case } => (vocabulary, *lower_case),
            Reader::Model(tokenizer) => {
                let unknown = tokenizer.encode(&Tokenizer::prepare(text)).unknown;
                return Ok(unknown.into_iter().map(|(own, count)| (own, count as u64)).collect());
            }
            Reader::Pieces { tokenizer, language } => {
                let code = clip.language.or(language.as_deref());
                let language = Language::of(code.ok_or_else(|| no_language(clip))?);
                let unknown = tokenizer.unknown(text, &language);
                return unknown.map_err(|error| {
                    StageError::with_help(format!("`{}`: {error}", clip.id), error.help())
                });
            }
        };
        let is_known = |character: char| match lower_case {
            true => vocabulary.knows_lowered(character),
            false => vocabulary.contains(character),
        };
        let mut unknown = BTreeMap::new();
        for character in text.chars().filter(|character| !is_known(*character)) {
            *unknown.entry(character).or_default() += 1;
        }
        Ok(unknown)
    }

    /// Tests if it was made for romanised texts, and this text is not one.
    pub fn needs_uroman(&self, text: &str) -> bool {
        match self {
            Reader::Listed { .. } | Reader::Pieces { .. } => false,
            Reader::Model(tokenizer) => tokenizer.encode(&Tokenizer::prepare(text)).needs_uroman,
        }
    }
}

fn no_language(clip: &Clip<'_>) -> StageError {
    StageError::with_help(
        format!("`{}` does not name its language", clip.id),
        "set `language` of this stage if all clips have the same one, or add a field `language` \
         to the clips",
    )
}
