//! The tokenizer of VITS models: one token per character, or code point of a phoneme, with blanks
//! between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

use crate::rewritten::rewritten;
use crate::symbols::{damaged, rows};
use stage_formats::FormatError;

/// The blank token, put before, between and after the others; in many vocabularies it is also a
/// letter.
const BLANK: i64 = 0;

/// The published `vocab.json` and `tokenizer_config.json`.
#[derive(Clone, Debug)]
pub struct VitsTokenizer {
    settings: Settings,
    /// In the order of the file; the first match wins.
    symbols: Vec<String>,
    /// The symbols of a single character.
    ids: BTreeMap<char, i64>,
    /// Symbols that a composed text has in parts, with these parts; the vocabulary lacks one of them.
    never_composed: Vec<(String, String)>,
    size: i64,
}

/// The relevant fields; absent ones have the defaults of the original.
#[derive(Clone, Debug, Deserialize)]
struct Settings {
    language: Option<String>,
    #[serde(default = "yes")]
    add_blank: bool,
    #[serde(default = "yes")]
    normalize: bool,
    #[serde(default = "yes")]
    phonemize: bool,
    #[serde(default)]
    is_uroman: bool,
    /// Of models that read phonemes, as Piper writes them.
    phonemes: Option<Phonemes>,
}

/// The reading of phonemes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phonemes {
    /// The voice of espeak-ng that writes them, such as `en-us`. None if the model reads characters.
    pub voice: Option<String>,
    /// The tokens before the first phoneme, after each, and after the last one.
    pub begin: i64,
    pub pad: i64,
    pub end: i64,
}

fn yes() -> bool {
    true
}

/// A tokenized text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tokens {
    pub ids: Vec<i64>,
    /// The remaining text.
    pub text: String,
    /// Characters that the vocabulary lacks, with the number of times that they were dropped. A
    /// dropped letter or digit is not spoken.
    pub unknown: BTreeMap<char, usize>,
    /// The model was trained on romanised text, and this text has letters or digits beyond ASCII.
    /// Other signs, such as dashes, are dropped like any unknown ones.
    pub needs_uroman: bool,
}

/// The field with the phonemes of an item's text.
pub const PHONEMES: &str = "phonemes";

/// Advice for an item without [`PHONEMES`].
pub const PHONEMISE: &str = "put a `text.phonemise` stage before this stage";

/// Advice for [`Tokens::needs_uroman`].
pub const ROMANISE: &str =
    "put a `command` stage that runs uroman over the texts before this stage";

fn is_not_romanised(character: char) -> bool {
    !character.is_ascii() && character.is_alphanumeric()
}

fn never_composed(ids: &BTreeMap<char, i64>) -> Vec<(String, String)> {
    let parts = |symbol: &char| (symbol.to_string(), symbol.nfc().collect::<String>());
    let is_apart = |(symbol, parts): &(String, String)| {
        symbol != parts && !parts.chars().all(|part| ids.contains_key(&part))
    };
    ids.keys().map(parts).filter(is_apart).collect()
}

impl VitsTokenizer {
    /// From the bytes of `vocab.json` and `tokenizer_config.json`. Refuses vocabularies with
    /// numbers that are not rows of an embedding, and models of phonemes.
    pub fn read(vocabulary: &[u8], config: &[u8]) -> Result<VitsTokenizer, FormatError> {
        let settings: Settings = serde_json::from_slice(config)
            .map_err(|error| FormatError::damaged("tokenizer_config.json", error.to_string()))?;
        if settings.phonemize {
            let message = "the tokenizer needs phonemes of espeak (`phonemize`), which are not \
                           supported; use a model of letters, such as those of MMS";
            return Err(FormatError::Unsupported { message: message.into() });
        }
        let (mut symbols, mut ids, mut size) = (Vec::new(), BTreeMap::new(), 0);
        for (symbol, id) in rows(vocabulary)? {
            size = size.max(id + 1);
            let mut characters = symbol.chars();
            match (characters.next(), characters.next()) {
                (Some(character), None) => drop(ids.insert(character, id)),
                (None, _) => continue,
                _ => (),
            }
            symbols.push(symbol);
        }
        match ids.is_empty() {
            true => Err(damaged("it has no symbol of a single character")),
            false => {
                let never_composed = never_composed(&ids);
                Ok(VitsTokenizer { settings, symbols, ids, never_composed, size })
            }
        }
    }

    /// The symbols of a single character with their tokens.
    pub fn symbols(&self) -> impl Iterator<Item = (char, i64)> {
        self.ids.iter().map(|(symbol, token)| (*symbol, *token))
    }

    /// The tokens that stand for no part of a text: begin, blank and end.
    pub fn special_tokens(&self) -> Vec<i64> {
        match &self.settings.phonemes {
            Some(Phonemes { begin, pad, end, .. }) => vec![*begin, *pad, *end],
            None => vec![BLANK],
        }
    }

    /// Tests if the model reads the phonemes of texts, in the field [`PHONEMES`].
    pub fn reads_phonemes(&self) -> bool {
        self.voice().is_some()
    }

    /// The reading of a model whose tokens are those of Piper.
    pub fn phonemes(&self) -> Option<&Phonemes> {
        self.settings.phonemes.as_ref()
    }

    /// The voice of espeak-ng that writes the phonemes.
    pub fn voice(&self) -> Option<&str> {
        self.settings.phonemes.as_ref()?.voice.as_deref()
    }

    pub fn language(&self) -> Option<&str> {
        self.settings.language.as_deref()
    }

    /// Tests if blanks are put around every token.
    pub fn adds_blank(&self) -> bool {
        self.settings.add_blank
    }

    /// The smallest number of rows of the model's embedding.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// Tests if the model was trained on romanised texts only.
    pub fn is_romanised(&self) -> bool {
        self.settings.is_uroman
    }

    /// Preparation that the original leaves to its caller: letters and combining marks are
    /// composed as the vocabulary has them, and any white space becomes single spaces, so that
    /// neither is dropped.
    pub fn prepare(&self, text: &str) -> String {
        if self.settings.phonemes.is_some() {
            // Piper decomposes accents, so that each is a token of its own.
            return text.nfd().collect();
        }
        let mut composed: String = text.nfc().collect();
        // Unicode never composes some letters, such as those with a nukta.
        for (symbol, parts) in &self.never_composed {
            composed = composed.replace(parts, symbol);
        }
        let in_parts: String = composed.chars().flat_map(|letter| self.in_parts(letter)).collect();
        in_parts.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The parts of a letter, if the vocabulary has only those; else the letter.
    fn in_parts(&self, letter: char) -> Vec<char> {
        let is_known = |letter: &char| self.ids.contains_key(letter);
        let parts = || letter.nfd().collect::<Vec<char>>();
        match is_known(&letter) {
            false if parts().iter().all(is_known) => parts(),
            _ => vec![letter],
        }
    }

    /// The tokens of a text as in the original, with a report of dropped characters.
    ///
    /// If the original does not normalise (`normalize` is false), it gives unknown characters a
    /// number beyond the embedding; here they are dropped too.
    pub fn encode(&self, text: &str) -> Tokens {
        let mut text = match self.settings.normalize {
            true => self.lowered(text),
            false => text.to_owned(),
        };
        if self.settings.language.as_deref() == Some("ron") {
            // Romanian is published with the cedilla that older fonts had in place of the comma.
            text = text.replace('\u{021B}', "\u{0163}");
        }
        let mut tokens = Tokens {
            needs_uroman: self.settings.is_uroman && text.chars().any(is_not_romanised),
            ..Tokens::default()
        };
        for character in text.chars() {
            match self.ids.contains_key(&character) {
                true => tokens.text.push(character),
                false => *tokens.unknown.entry(character).or_default() += 1,
            }
        }
        if self.settings.normalize {
            tokens.text = tokens.text.trim().to_owned();
        }
        tokens.ids = self.spaced(tokens.text.chars().filter_map(|own| self.ids.get(&own).copied()));
        tokens
    }

    /// Lower case, unless the vocabulary has the upper-case symbol.
    fn lowered(&self, text: &str) -> String {
        rewritten(text, |rest, _, lowered| {
            let symbol = self.symbols.iter().find(|symbol| rest.starts_with(symbol.as_str()));
            if let Some(symbol) = symbol {
                lowered.push_str(symbol);
                return Some(symbol.len());
            }
            let first = rest.chars().next()?;
            lowered.extend(first.to_lowercase());
            Some(first.len_utf8())
        })
    }

    /// With blanks around each, if the model needs them; an empty text stays empty.
    fn spaced(&self, ids: impl Iterator<Item = i64>) -> Vec<i64> {
        if let Some(Phonemes { begin, pad, end, .. }) = &self.settings.phonemes {
            let mut spaced: Vec<i64> = ids.flat_map(|id| [id, *pad]).collect();
            if !spaced.is_empty() {
                spaced.splice(0..0, [*begin, *pad]);
                spaced.push(*end);
            }
            return spaced;
        }
        if !self.settings.add_blank {
            return ids.collect();
        }
        let mut spaced: Vec<i64> = ids.flat_map(|id| [BLANK, id]).collect();
        if !spaced.is_empty() {
            spaced.push(BLANK);
        }
        spaced
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PLAIN: &str = r#"{"phonemize": false}"#;

    fn tokenizer(config: &str) -> VitsTokenizer {
        let vocabulary = r#"{"k": 0, "a": 1, "ä": 2, " ": 3, "Q": 4, "NG": 5, "ţ": 6}"#;
        VitsTokenizer::read(vocabulary.as_bytes(), config.as_bytes()).unwrap()
    }

    #[test]
    fn blanks_stand_around_every_character() {
        let tokens = tokenizer(PLAIN).encode("Ka");
        assert_eq!((tokens.ids, tokens.text.as_str()), (vec![0, 0, 0, 1, 0], "ka"));
        let bare = tokenizer(r#"{"phonemize": false, "add_blank": false}"#);
        assert_eq!(bare.encode("ka").ids, [0, 1]);
    }

    #[test]
    fn a_symbol_of_the_vocabulary_keeps_its_case() {
        assert_eq!(tokenizer(PLAIN).encode("QA").text, "Qa");
        // A symbol of several characters is never a token, but keeps its case too.
        assert_eq!(tokenizer(PLAIN).encode("NGA").unknown, [('N', 1), ('G', 1)].into());
    }

    #[test]
    fn what_is_left_out_is_told() {
        let tokens = tokenizer(PLAIN).encode("ka, KÄ 12!");
        assert_eq!(tokens.text, "ka kä");
        assert_eq!(tokens.unknown, [(',', 1), ('1', 1), ('2', 1), ('!', 1)].into());
        assert!(tokenizer(PLAIN).encode("—?").ids.is_empty());
    }

    #[test]
    fn prepared_text_loses_no_marks_and_no_spaces() {
        let tokenizer = tokenizer(PLAIN);
        assert_eq!(tokenizer.encode("ka\u{308}\tka").text, "kaka");
        assert_eq!(tokenizer.encode(&tokenizer.prepare(" ka\u{308}\t\nka ")).text, "kä ka");
    }

    #[test]
    fn letters_are_composed_as_the_vocabulary_has_them() {
        let config = br#"{"phonemize": false}"#;
        let of = |vocabulary: &str| VitsTokenizer::read(vocabulary.as_bytes(), config).unwrap();
        // Composed forms of these letters are excluded from Unicode's composition.
        let bengali = of(r#"{"\u0995": 0, "\u09df": 1, "\u09af": 2}"#);
        for text in ["\u{995}\u{9df}", "\u{995}\u{9af}\u{9bc}"] {
            assert_eq!(bengali.encode(&bengali.prepare(text)).text, "\u{995}\u{9df}");
        }
        let with_nukta = of(r#"{"\u09af": 0, "\u09bc": 1, "\u09df": 2}"#);
        assert_eq!(with_nukta.prepare("\u{9df}"), "\u{9af}\u{9bc}");
        let in_parts = of(r#"{"o": 0, "\u0308": 1}"#);
        for text in ["ö", "o\u{308}"] {
            assert_eq!(in_parts.prepare(text), "o\u{308}");
        }
    }

    #[test]
    fn a_text_that_has_to_be_romanised_is_told() {
        let uroman = tokenizer(r#"{"phonemize": false, "is_uroman": true}"#);
        assert!(uroman.encode("kä").needs_uroman);
        assert!(uroman.encode("ka \u{ae6}").needs_uroman, "a digit of Gujarati");
        let dashed = uroman.encode("ka – “ka”");
        assert!(!dashed.needs_uroman && dashed.unknown.contains_key(&'–'));
        assert!(!tokenizer(PLAIN).encode("kä").needs_uroman);
    }

    #[test]
    fn romanian_is_written_with_cedillas() {
        let romanian = tokenizer(r#"{"phonemize": false, "language": "ron"}"#);
        assert_eq!(romanian.encode("ț").text, "ţ");
        assert_eq!(tokenizer(PLAIN).encode("ț").text, "");
    }

    #[test]
    fn phonemes_stand_between_marks_and_pads() {
        let vocabulary = r#"{"_": 0, "^": 1, "$": 2, "c": 40, "\u0327": 140, " ": 3, "C": 9}"#;
        let config = r#"{"phonemize": false, "normalize": false,
            "phonemes": {"voice": "en-us", "begin": 1, "pad": 0, "end": 2}}"#;
        let tokenizer = VitsTokenizer::read(vocabulary.as_bytes(), config.as_bytes()).unwrap();
        assert!(tokenizer.reads_phonemes());
        let tokens = tokenizer.encode(&tokenizer.prepare("ç cX"));
        assert_eq!(tokens.ids, [1, 0, 40, 0, 140, 0, 3, 0, 40, 0, 2]);
        assert_eq!(tokens.unknown, [('X', 1)].into());
        assert!(tokenizer.encode("X").ids.is_empty());
    }

    #[test]
    fn other_tokenizers_are_refused() {
        let read = |vocabulary: &str, config: &str| {
            VitsTokenizer::read(vocabulary.as_bytes(), config.as_bytes()).unwrap_err().to_string()
        };
        assert!(read(r#"{"a": 0}"#, "{}").contains("phonemes of espeak"));
        assert!(read(r#"{"a": -1}"#, PLAIN).contains("`a` has no number of a row"));
        assert!(read(r#"{"ab": 0}"#, PLAIN).contains("no symbol of a single character"));
        assert!(read("[]", PLAIN).contains("vocab.json"));
    }
}
