//! The reader of texts: a list of characters, or the tokenizer of a model.

use std::collections::BTreeMap;

use stage_families::vits::Tokenizer;

use super::vocabulary::Vocabulary;

#[derive(Debug, Clone)]
pub enum Reader {
    /// With `lower_case`, an unknown character is lower-cased before it is dropped.
    Listed { vocabulary: Vocabulary, lower_case: bool },
    /// A model of single characters, which reads as in training and in synthesis.
    Model(Box<Tokenizer>),
}

impl Reader {
    /// The characters of a text that it drops, with their counts.
    pub fn unknown(&self, text: &str) -> BTreeMap<char, u64> {
        let (vocabulary, lower_case) = match self {
            Reader::Listed { vocabulary, lower_case } => (vocabulary, *lower_case),
            Reader::Model(tokenizer) => {
                let unknown = tokenizer.encode(&Tokenizer::prepare(text)).unknown;
                return unknown.into_iter().map(|(own, count)| (own, count as u64)).collect();
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
        unknown
    }

    /// Tests if it was made for romanised texts, and this text is not one.
    pub fn needs_uroman(&self, text: &str) -> bool {
        match self {
            Reader::Listed { .. } => false,
            Reader::Model(tokenizer) => tokenizer.encode(&Tokenizer::prepare(text)).needs_uroman,
        }
    }
}
