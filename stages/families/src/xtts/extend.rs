//! A vocabulary for another language: new tokens and merges after the old ones, unchanged ids, and
//! new rows for the tables with a row per token.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use stage_formats::{FormatError, Tensor};

use super::cleaners::{self, Uncleanable};
use super::language::LanguageCode;
use super::vocabulary::{XttsVocabulary, refused};
use super::vocabulary_check::caught;

/// The tables with a row for each text token.
pub const TEXT_TABLES: [&str; 3] =
    ["gpt.text_embedding.weight", "gpt.text_head.weight", "gpt.text_head.bias"];

/// The limits of an extension.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    /// The largest number of added pieces of several characters.
    pub most: usize,
    /// A pair of tokens becomes a piece if it occurs this often.
    pub least_count: u64,
}

/// A longer vocabulary, and its new tokens.
#[derive(Clone, Debug)]
pub struct ExtendedVocabulary {
    pub vocabulary: XttsVocabulary,
    pub tokens: Vec<String>,
    pub merges: usize,
    next: i64,
}

impl XttsVocabulary {
    /// Appends the language's tag, the characters of its texts, and pieces of several characters:
    /// byte-pair encoding continues after the old merges, so that each new merge is reachable.
    /// Existing tokens are not added again.
    ///
    /// # Errors
    ///
    /// If the file is not a tokenizer, or the language has no cleaner.
    pub fn extended<'a>(
        &self,
        texts: impl Iterator<Item = &'a str>,
        language: &LanguageCode,
        pieces: Pieces,
    ) -> Result<ExtendedVocabulary, FormatError> {
        let mut words: BTreeMap<String, u64> = BTreeMap::new();
        for text in texts {
            let text = cleaners::clean(text, language);
            let text = text.map_err(|error| refused(format!("{error}; {}", Uncleanable::HELP)))?;
            for word in text.split_whitespace() {
                *words.entry(word.to_owned()).or_default() += 1;
            }
        }
        let next = self.text_tokens()?.rows;
        let mut longer =
            ExtendedVocabulary { vocabulary: self.clone(), tokens: Vec::new(), merges: 0, next };
        let mut known: BTreeSet<String> = self.ids()?.into_keys().collect();
        let characters: BTreeSet<char> = words.keys().flat_map(|word| word.chars()).collect();
        for character in characters.into_iter().map(String::from) {
            if known.insert(character.clone()) {
                longer.push(character)?;
            }
        }
        let mut segments = longer.vocabulary.segments(&words)?;
        let mut left = pieces.most;
        while left > 0
            && let Some((pair, count)) = segments.best()
            && count >= pieces.least_count
        {
            segments.merge(&pair);
            longer.merge(&pair)?;
            let piece = format!("{}{}", pair.0, pair.1);
            if known.insert(piece.clone()) {
                longer.push(piece)?;
                left -= 1;
            }
        }
        let tag = language.tag();
        if known.insert(tag.clone()) {
            let id = longer.push(tag.clone())?;
            longer.vocabulary.add_special(&tag, id)?;
        } else if !self.separate().contains(&tag) {
            // Without this the merges would take the tag apart.
            let id = self.ids()?.get(&tag).copied().unwrap_or_default();
            longer.vocabulary.add_special(&tag, id)?;
        }
        longer.vocabulary.ids()?;
        Ok(longer)
    }

    /// The words as tokens after the old merges.
    fn segments(&self, words: &BTreeMap<String, u64>) -> Result<Segments, FormatError> {
        let bpe = self.tokenizer()?;
        let mut segments = Segments::default();
        for (word, count) in words {
            let encoding = caught(|| bpe.encode(word.as_str(), false))?;
            let tokens: Vec<(&String, &Option<u32>)> =
                encoding.get_tokens().iter().zip(encoding.get_word_ids()).collect();
            for part in tokens.chunk_by(|(_, one), (_, other)| one == other) {
                segments.add(part.iter().map(|(token, _)| (*token).clone()).collect(), *count);
            }
        }
        Ok(segments)
    }
}

impl ExtendedVocabulary {
    fn push(&mut self, token: String) -> Result<i64, FormatError> {
        let id = self.next;
        self.vocabulary.part("vocab")?[&token] = json!(id);
        self.tokens.push(token);
        self.next += 1;
        Ok(id)
    }

    /// In the format of the other merges: a text, or a pair of texts in newer files.
    fn merge(&mut self, pair: &(String, String)) -> Result<(), FormatError> {
        self.merges += 1;
        let Value::Array(merges) = self.vocabulary.part("merges")? else {
            return Err(refused("`model.merges` is not a list"));
        };
        merges.push(match merges.first() {
            Some(Value::Array(_)) => json!([pair.0, pair.1]),
            _ => json!(format!("{} {}", pair.0, pair.1)),
        });
        Ok(())
    }
}

/// Parts of words as tokens, with the counts of neighbouring pairs.
#[derive(Default)]
struct Segments {
    parts: Vec<(Vec<String>, u64)>,
    counts: BTreeMap<(String, String), u64>,
    /// Parts that contain, or contained, a pair.
    places: BTreeMap<(String, String), BTreeSet<usize>>,
}

impl Segments {
    fn add(&mut self, tokens: Vec<String>, count: u64) {
        if tokens.len() > 1 {
            self.parts.push((tokens, count));
            self.count(self.parts.len() - 1, true);
        }
    }

    /// Adds or removes the pairs of a part.
    fn count(&mut self, at: usize, is_in: bool) {
        let (tokens, count) = &self.parts[at];
        for pair in tokens.windows(2) {
            let pair = (pair[0].clone(), pair[1].clone());
            let all = self.counts.entry(pair.clone()).or_default();
            *all = if is_in { all.saturating_add(*count) } else { all.saturating_sub(*count) };
            self.places.entry(pair).or_default().insert(at);
        }
    }

    /// The most frequent pair; the first one alphabetically among equals.
    fn best(&self) -> Option<((String, String), u64)> {
        let best = self.counts.iter().min_by_key(|(pair, count)| (u64::MAX - **count, *pair));
        best.map(|(pair, count)| (pair.clone(), *count))
    }

    fn merge(&mut self, pair: &(String, String)) {
        let whole = format!("{}{}", pair.0, pair.1);
        for at in self.places.remove(pair).unwrap_or_default() {
            self.count(at, false);
            let mut merged: Vec<String> = Vec::new();
            let mut tokens = std::mem::take(&mut self.parts[at].0).into_iter().peekable();
            while let Some(token) = tokens.next() {
                match token == pair.0 && tokens.peek() == Some(&pair.1) {
                    true => {
                        tokens.next();
                        merged.push(whole.clone());
                    }
                    false => merged.push(token),
                }
            }
            self.parts[at].0 = merged;
            self.count(at, true);
        }
        self.counts.remove(pair);
    }
}

/// A table with new rows: the mean of the old ones plus noise of a tenth of their deviation. The
/// old rows stay the same to the bit. `normal` draws numbers of deviation one.
///
/// # Errors
///
/// If the table has no rows or is not of floating-point numbers.
pub fn grown(
    table: &Tensor,
    rows: usize,
    mut normal: impl FnMut() -> f64,
) -> Result<Tensor, FormatError> {
    let old = table.shape().first().copied().unwrap_or(0);
    let more = rows.checked_sub(old).filter(|_| old > 0 && table.dtype().is_float());
    let Some(more) = more else {
        return Err(FormatError::Tensor {
            name: table.info().to_string(),
            message: format!("it cannot grow to {rows} rows"),
        });
    };
    if more == 0 {
        return Ok(table.clone());
    }
    let values = table.to_f32();
    let width = values.len() / old;
    let mut means = vec![0f64; width];
    for row in values.chunks(width.max(1)) {
        means.iter_mut().zip(row).for_each(|(mean, value)| *mean += f64::from(*value));
    }
    means.iter_mut().for_each(|mean| *mean /= old as f64);
    let squares = values.iter().zip(means.iter().cycle());
    let variance: f64 = squares.map(|(value, mean)| (f64::from(*value) - mean).powi(2)).sum();
    let noise = 0.1 * (variance / values.len().max(1) as f64).sqrt();
    let fresh: Vec<f32> =
        (0..more).flat_map(|_| means.iter()).map(|mean| (mean + noise * normal()) as f32).collect();
    let shape = [&[more], &table.shape()[1..]].concat();
    let fresh = Tensor::from_f32(shape, &fresh)?.to_float(table.dtype())?;
    Tensor::stack_rows(&[table.clone(), fresh])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tokenizer::XttsTokenizer;
    use super::*;

    const TEXTS: [&str; 3] = ["ሰላም ለዓለም", "ሰላም ሰላም", "ሰላም abab"];

    /// With an unused id before its last token.
    fn base() -> XttsVocabulary {
        XttsVocabulary::fresh("ab", &["en".to_owned()], Some(300)).unwrap()
    }

    fn extended(most: usize) -> ExtendedVocabulary {
        let pieces = Pieces { most, least_count: 2 };
        base().extended(TEXTS.into_iter(), &LanguageCode::of("am"), pieces).unwrap()
    }

    #[test]
    fn ids_never_move_and_new_ones_follow_the_largest() {
        let (old, new) = (base().ids().unwrap(), extended(10).vocabulary.ids().unwrap());
        for (token, id) in &old {
            assert_eq!(new.get(token), Some(id), "{token}");
        }
        let mut fresh: Vec<i64> =
            new.iter().filter(|(token, _)| !old.contains_key(*token)).map(|(_, id)| *id).collect();
        fresh.sort_unstable();
        let rows = base().text_tokens().unwrap().rows;
        assert_eq!(fresh, (rows..rows + fresh.len() as i64).collect::<Vec<_>>());
        assert_eq!(extended(10).vocabulary.text_tokens().unwrap().rows, rows + fresh.len() as i64);
    }

    #[test]
    fn texts_of_the_language_are_read_with_the_new_pieces() {
        let longer = extended(10);
        assert!(longer.tokens.contains(&"ሰላም".to_owned()), "{:?}", longer.tokens);
        let language = LanguageCode::of("am");
        let tokenizer = XttsTokenizer::read(&longer.vocabulary.to_json().unwrap()).unwrap();
        let ids = longer.vocabulary.ids().unwrap();
        let encoded = tokenizer.encode("ሰላም ሰላም", &language).unwrap();
        let expected: Vec<i64> =
            ["[am]", "ሰላም", "[SPACE]", "ሰላም"].iter().map(|token| ids[*token]).collect();
        assert_eq!(encoded, expected);
        let before = XttsTokenizer::read(&base().to_json().unwrap()).unwrap();
        assert!(before.encode("ሰላም", &language).is_err());
    }

    #[test]
    fn a_tag_that_merges_would_take_apart_becomes_a_separate_token() {
        let mut file: Value = serde_json::from_slice(&base().to_json().unwrap()).unwrap();
        file["model"]["vocab"]["[am]"] = json!(290);
        let broken = XttsVocabulary::read(file.to_string().as_bytes()).unwrap();
        let pieces = Pieces { most: 0, least_count: 2 };
        let longer = broken.extended(TEXTS.into_iter(), &LanguageCode::of("am"), pieces).unwrap();
        let tokenizer = XttsTokenizer::read(&longer.vocabulary.to_json().unwrap()).unwrap();
        assert_eq!(tokenizer.encode("ሰላም", &LanguageCode::of("am")).unwrap()[0], 290);
    }

    #[test]
    fn merges_are_limited_and_only_pay_where_a_pair_is_frequent() {
        let few = extended(1);
        let pieces = few.tokens.iter().filter(|token| token.chars().count() > 1);
        assert_eq!(pieces.filter(|token| !token.starts_with('[')).count(), 1);
        assert!(!extended(10).tokens.contains(&"ለዓ".to_owned()));
    }

    #[test]
    fn a_second_extension_with_the_same_texts_adds_nothing() {
        let once = extended(10);
        let pieces = Pieces { most: 10, least_count: 2 };
        let twice = once.vocabulary.extended(TEXTS.into_iter(), &LanguageCode::of("am"), pieces);
        let twice = twice.unwrap();
        assert_eq!((twice.tokens.len(), twice.vocabulary), (0, once.vocabulary));
    }

    #[test]
    fn old_rows_keep_their_bits_and_new_ones_lie_near_their_mean() {
        let mut draws = [1.0, -1.0].into_iter().cycle();
        let table = Tensor::from_f32([2, 2], &[1.0, 4.0, 3.0, -2.0]).unwrap();
        for dtype in [stage_formats::Dtype::F32, stage_formats::Dtype::Bf16] {
            let table = table.to_float(dtype).unwrap();
            let long = grown(&table, 4, || draws.next().unwrap()).unwrap();
            assert_eq!(long.data()[..table.data().len()], table.data()[..]);
            assert_eq!((long.shape(), long.dtype()), (&[4, 2][..], dtype));
            let values = long.to_f32();
            assert!((values[4] - 2.0).abs() < 0.5 && (values[5] - 1.0).abs() < 0.5, "{values:?}");
            assert_ne!(values[4], 2.0);
        }
        assert!(grown(&table, 1, || 0.0).is_err());
    }
}
