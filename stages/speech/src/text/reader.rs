//! Who is to read the texts: a list of characters, or the tokenizer of a model.

use std::collections::BTreeMap;

use stage_families::vits::Tokenizer;

use super::vocabulary::Vocabulary;

#[derive(Debug, Clone)]
pub enum Reader {
    /// With `lower_case`, what it does not know is lower-cased before it is given up.
    Listed { vocabulary: Vocabulary, lower_case: bool },
    /// A model of single characters, which reads as it does in training and in synthesis.
    Model(Box<Tokenizer>),
}

impl Reader {
    /// The characters of a text that it drops, and how often.
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

    /// Whether it was made for romanised texts, and this one is none.
    pub fn needs_uroman(&self, text: &str) -> bool {
        match self {
            Reader::Listed { .. } => false,
            Reader::Model(tokenizer) => tokenizer.encode(&Tokenizer::prepare(text)).needs_uroman,
        }
    }
}
