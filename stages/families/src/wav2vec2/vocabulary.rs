//! The symbols of a recogniser, and greedy decoding to text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::config::Wav2Vec2Config;
use crate::symbols::{damaged, rows};
use stage_formats::FormatError;

/// The space between words.
const DELIMITER: &str = "|";
/// The blank of CTC in vocabularies of fairseq, which have a padding symbol beside it.
const BLANK: &str = "<blank>";

/// The published `vocab.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtcVocabulary {
    /// By row, without special symbols.
    symbols: BTreeMap<i64, String>,
    blank: i64,
}

impl CtcVocabulary {
    /// # Errors
    ///
    /// If the file is of another model, or of several languages at once.
    pub fn read(vocabulary: &[u8], config: &Wav2Vec2Config) -> Result<CtcVocabulary, FormatError> {
        let (mut symbols, mut blank) = (BTreeMap::new(), config.pad_token_id);
        for (symbol, row) in rows(vocabulary)? {
            if row >= config.vocab_size {
                let rows = config.vocab_size;
                return Err(damaged(format!(
                    "`{symbol}` is number {row}, but the model has {rows} symbols: it belongs to \
                     another model"
                )));
            }
            if symbol == BLANK {
                blank = row;
            }
            let symbol = if symbol == DELIMITER { " ".to_owned() } else { symbol };
            if row != config.pad_token_id && !is_special(&symbol) {
                symbols.insert(row, symbol);
            }
        }
        match symbols.is_empty() {
            true => Err(damaged("it has no letters")),
            false => Ok(CtcVocabulary { symbols, blank }),
        }
    }

    /// The text of the most likely row of each frame: a repeated row counts once, unless a blank is
    /// in between; words are one space apart (greedy decoding, Graves et al. 2006, section 3.2).
    pub fn spell(&self, best: &[i64]) -> String {
        let mut text = String::new();
        for run in best.chunk_by(|one, other| one == other) {
            let row = run.first().filter(|row| **row != self.blank);
            text.extend(row.and_then(|row| self.symbols.get(row)).map(String::as_str));
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// The symbols of a recogniser by row, for stages that work on its emissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alphabet {
    pub blank: usize,
    /// Empty for special symbols; a space between words.
    pub symbols: Vec<String>,
}

impl CtcVocabulary {
    pub fn alphabet(&self, rows: usize) -> Alphabet {
        let symbol = |row: usize| self.symbols.get(&(row as i64)).cloned().unwrap_or_default();
        Alphabet { blank: self.blank as usize, symbols: (0..rows).map(symbol).collect() }
    }
}

/// Special tokens, such as `<unk>` and `[PAD]`.
fn is_special(symbol: &str) -> bool {
    let within = |open, close| symbol.starts_with(open) && symbol.ends_with(close);
    symbol.chars().count() > 1 && (within('<', '>') || within('[', ']'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<CtcVocabulary, FormatError> {
        let config = Wav2Vec2Config { vocab_size: 8, pad_token_id: 1, ..Wav2Vec2Config::default() };
        CtcVocabulary::read(text.as_bytes(), &config)
    }

    const SYMBOLS: &str = r#"{"<s>": 0, "[PAD]": 1, "[UNK]": 2, "|": 3, "a": 4, "k": 5, "[": 6}"#;

    #[test]
    fn repeats_count_once_unless_a_blank_is_between() {
        let vocabulary = read(SYMBOLS).unwrap();
        assert_eq!(vocabulary.spell(&[1, 4, 4, 1, 4, 5, 5, 4, 1]), "aaka");
        assert_eq!(vocabulary.spell(&[]), "");
        assert_eq!(vocabulary.spell(&[1, 1]), "");
    }

    #[test]
    fn words_are_one_space_apart_and_marks_spell_nothing() {
        let vocabulary = read(SYMBOLS).unwrap();
        assert_eq!(vocabulary.spell(&[3, 4, 3, 1, 3, 5, 3]), "a k");
        // Only the output layer has row 7.
        assert_eq!(vocabulary.spell(&[0, 4, 2, 5, 7, 6]), "ak[");
    }

    #[test]
    fn the_alphabet_has_a_row_for_each_symbol() {
        let alphabet = read(SYMBOLS).unwrap().alphabet(8);
        assert_eq!(alphabet.symbols, ["", "", "", " ", "a", "k", "[", ""]);
        assert_eq!(alphabet.blank, 1);
    }

    #[test]
    fn a_blank_beside_the_padding_is_the_blank_of_the_alphabet() {
        let vocabulary = read(r#"{"<blank>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4}"#);
        let alphabet = vocabulary.unwrap().alphabet(5);
        assert_eq!(
            (alphabet.blank, alphabet.symbols),
            (0, ["", "", "", "", "a"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn symbols_of_another_model_or_of_several_languages_are_refused() {
        let told = |text: &str| read(text).unwrap_err().to_string();
        assert!(told(r#"{"a": 8}"#).contains("`a` is number 8, but the model has 8"));
        assert!(told(r#"{"fin": {"a": 0}}"#).contains("`fin` has no number of a row"));
        assert!(told(r#"{"<pad>": 1}"#).contains("it has no letters"));
    }
}
