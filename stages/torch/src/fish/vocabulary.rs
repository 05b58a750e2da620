//! The tokens of a text model: pieces of text, special tokens, and one for each entry of the
//! semantic codebook.

use base64ct::{Base64, Encoding};
use serde_json::Value;
use stage_core::{Context, Fields, StageError};
use stage_families::artifact;
use stage_formats::bpe::{Bpe, Specials};

use crate::dual_ar::{DualArConfig, SpecialTokens, prompt};
use crate::error::TorchError;
use crate::sound::codec::{CodecFormat, Codes};

/// The special tokens before the semantic tokens, in the order of their ids.
pub const MARKS: [&str; 15] = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|pad|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|phoneme_start|>",
    "<|phoneme_end|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<|text|>",
    "<|voice|>",
    "<|interleave|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio|>",
];

/// The token of an entry of the semantic codebook.
pub fn semantic_name(entry: i64) -> String {
    format!("<|semantic:{entry}|>")
}

/// The tolerated number of unused rows in the embeddings: tables are padded to a round number,
/// while the tokenizer of another model differs by more.
const MOST_UNUSED: i64 = 128;

#[derive(Debug)]
pub struct Vocabulary {
    bpe: Bpe,
    codebooks: usize,
    entries: i64,
    semantic_begin: i64,
    end: i64,
    pad: i64,
}

impl Vocabulary {
    /// The tokenizer of a model artifact, which must fit its configuration.
    pub fn of(
        model: &Fields,
        config: &DualArConfig,
        context: &mut dyn Context,
    ) -> Result<Vocabulary, StageError> {
        let mut file = |name: &str| match model.blob(name) {
            Some(blob) => context.read(blob),
            None => Err(StageError::with_help(
                format!("the model has no `{name}`"),
                "import the whole folder of the model, with the files of its tokenizer",
            )),
        };
        let (ranks, marks) = (file(artifact::TOKENIZER)?, file(artifact::SPECIAL_TOKENS)?);
        let bpe = Bpe::read(&ranks, &marks).map_err(TorchError::from)?;
        Vocabulary::new(bpe, config).map_err(|error| {
            StageError::with_help(
                format!("the tokenizer does not belong to the model: {error}"),
                "use `tokenizer.tiktoken` and `special_tokens.json` from the folder of the weights",
            )
        })
    }

    pub fn new(bpe: Bpe, config: &DualArConfig) -> Result<Vocabulary, TorchError> {
        let (rows, tokens) = (config.vocab_size, bpe.size() as i64);
        if tokens > rows || rows - tokens >= MOST_UNUSED {
            return Err(TorchError::Input(format!(
                "it has {tokens} tokens, but the embeddings have {rows} rows"
            )));
        }
        let mark = |name: &str| {
            let token = bpe.special(name).map(i64::from);
            token.ok_or_else(|| TorchError::Input(format!("it has no token `{name}`")))
        };
        let semantic_begin = mark(&semantic_name(0))?;
        for entry in 0..config.codebook_size {
            let (token, wanted) = (mark(&semantic_name(entry))?, semantic_begin + entry);
            if token != wanted {
                return Err(TorchError::Input(format!(
                    "`{}` is token {token}, expected {wanted}: semantic tokens must be consecutive",
                    semantic_name(entry)
                )));
            }
        }
        // The special tokens of prompts.
        for name in ["<|voice|>", "<|interleave|>"] {
            mark(name)?;
        }
        Ok(Vocabulary {
            codebooks: config.num_codebooks as usize,
            entries: config.codebook_size,
            end: mark("<|im_end|>")?,
            pad: mark("<|end_of_text|>")?,
            semantic_begin,
            bpe,
        })
    }

    pub fn codebooks(&self) -> usize {
        self.codebooks
    }

    /// The padding token.
    pub fn pad(&self) -> i64 {
        self.pad
    }

    /// The special tokens for the model.
    pub fn tokens(&self) -> SpecialTokens {
        SpecialTokens { semantic_begin: self.semantic_begin, im_end: self.end }
    }

    /// Refuses codes without tokens or embeddings in the model.
    pub fn check_codes(&self, codes: &Codes) -> Result<(), TorchError> {
        if codes.codebooks != self.codebooks {
            return Err(TorchError::Input(format!(
                "its tokens have {} codebooks, but the model has {}",
                codes.codebooks, self.codebooks
            )));
        }
        if codes.frames == 0 {
            return Err(TorchError::Input("it has no tokens".into()));
        }
        match codes.values.iter().find(|code| i64::from(**code) >= self.entries) {
            Some(code) => Err(TorchError::Input(format!(
                "its tokens have the code {code}, but the model has {} entries per codebook",
                self.entries
            ))),
            None => Ok(()),
        }
    }

    /// Refuses a codec with other codes than the model's.
    pub fn check_codec(&self, format: &CodecFormat) -> Result<(), StageError> {
        let entries = format.entries.iter().map(|entries| *entries as i64).max().unwrap_or(0);
        if format.entries.len() == self.codebooks && entries == self.entries {
            return Ok(());
        }
        Err(StageError::with_help(
            format!(
                "the codec has {} codebooks of up to {entries} entries, but the model has {} of {}",
                format.entries.len(),
                self.codebooks,
                self.entries
            ),
            "set `codec` to the codec that the model was trained with",
        ))
    }
}

impl prompt::PromptVocabulary for Vocabulary {
    fn text(&self, text: &str) -> Result<Vec<i32>, TorchError> {
        let tokens = self.bpe.encode(text, Specials::Escaped);
        Ok(tokens.into_iter().map(|token| token as i32).collect())
    }

    fn special(&self, name: &str) -> Result<i32, TorchError> {
        let token = self.bpe.special(name).map(|token| token as i32);
        token.ok_or_else(|| TorchError::Model(format!("the tokenizer has no token `{name}`")))
    }
}

/// A tokenizer of single bytes with the special tokens and a token for each entry: the contents of
/// `tokenizer.tiktoken` and `special_tokens.json`. The embeddings have `unused` more rows, for pieces
/// that no text has.
pub fn byte_level(entries: i64, unused: i64) -> (String, String) {
    // No text in UTF-8 has the byte 255, and no shorter pieces merge into one of four bytes.
    let unused = (0..unused as u32).map(|number| {
        let [_, a, b, c] = number.to_be_bytes();
        vec![u8::MAX, a, b, c]
    });
    let pieces: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).chain(unused).collect();
    let line =
        |(rank, piece): (usize, &Vec<u8>)| format!("{} {rank}\n", Base64::encode_string(piece));
    let ranks = pieces.iter().enumerate().map(line).collect();
    let semantic = (0..entries).map(semantic_name);
    let names = MARKS.iter().map(|name| (*name).to_owned()).chain(semantic);
    let ids = names.zip(pieces.len()..).map(|(name, id)| (name, Value::from(id)));
    let marks = serde_json::Map::from_iter(ids);
    (ranks, Value::Object(marks).to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::dual_ar::prompt::PromptVocabulary as _;
    use crate::fish::testing::{config, vocabulary};

    #[test]
    fn the_marks_follow_the_bytes_and_the_entries_follow_the_marks() {
        let vocabulary = vocabulary();
        assert_eq!(vocabulary.text("ä!").unwrap(), [0xC3, 0xA4, 0x21]);
        assert_eq!(vocabulary.special("<|interleave|>").unwrap(), 267);
        assert_eq!(vocabulary.tokens(), SpecialTokens { semantic_begin: 271, im_end: 260 });
        assert!(!vocabulary.text("<|im_end|>").unwrap().contains(&260));
    }

    fn error(marks: Vec<String>) -> String {
        let (ranks, _) = byte_level(0, 0);
        let bpe = Bpe::new(ranks.as_bytes(), marks).unwrap();
        Vocabulary::new(bpe, &config()).unwrap_err().to_string()
    }

    #[test]
    fn a_tokenizer_of_another_model_is_refused() {
        let marks = |entries: i64| -> Vec<String> {
            let all = MARKS.iter().map(|name| (*name).to_owned());
            all.chain((0..entries).map(semantic_name)).collect()
        };
        assert_eq!(error(marks(60)), "it has 331 tokens, but the embeddings have 296 rows");
        assert_eq!(error(marks(20)), "it has no token `<|semantic:20|>`");
        assert_eq!(error(Vec::new()), "it has no token `<|semantic:0|>`");
        let mut shuffled = marks(24);
        shuffled.swap(16, 17);
        assert!(error(shuffled).starts_with("`<|semantic:1|>` is token 273, expected 272"));
        let mut unended = marks(24);
        unended[4] = "<|other|>".into();
        assert_eq!(error(unended), "it has no token `<|im_end|>`");
    }

    #[test]
    fn codes_of_another_codec_are_refused() {
        let vocabulary = vocabulary();
        let check = |codebooks, value| {
            let codes = Codes { codebooks, frames: 2, values: vec![value; 2 * codebooks] };
            vocabulary.check_codes(&codes).map_err(|error| error.to_string())
        };
        assert_eq!(check(3, 23), Ok(()));
        assert_eq!(check(2, 0).unwrap_err(), "its tokens have 2 codebooks, but the model has 3");
        let over = check(3, 24).unwrap_err();
        assert_eq!(over, "its tokens have the code 24, but the model has 24 entries per codebook");
        let format =
            |entries: &[usize]| CodecFormat { rate: 16_000, entries: entries.into(), hop: 256 };
        vocabulary.check_codec(&format(&[24, 8, 8])).unwrap();
        for other in [&[24, 8][..], &[8, 8, 8], &[24, 48, 8]] {
            assert!(vocabulary.check_codec(&format(other)).is_err(), "{other:?}");
        }
    }
}
