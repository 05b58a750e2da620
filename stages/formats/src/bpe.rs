//! The byte-level tokenizer of Fish Speech: text is split by a pattern, byte pairs are merged by
//! rank as in tiktoken, and special tokens have ids after the ranks.
//!
//! Text of users must not become special tokens: it is encoded with [`Specials::Escaped`], and only
//! our own prompts with [`Specials::Allowed`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use aho_corasick::{AhoCorasick, MatchKind};
use base64ct::{Base64, Encoding};
use regex::Regex;

use crate::error::FormatError;

const RANKS: &str = "tokenizer.tiktoken";
const SPECIALS: &str = "special_tokens.json";

/// The alternatives that split text, in order. The one before the last is not the look-ahead that
/// it resembles: it matches the characters `?!`, as in the original.
const PATTERN: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"|\p{P}",
    r"|[^\r\n\p{L}\p{N}]?\p{L}+",
    r"|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+(\?!\S)",
    r"|\s+",
);

/// The original encodes longer texts in parts of this number of characters, and so do we.
const PART: usize = 400_000;
/// Tokens of real vocabularies have at most some hundred bytes.
const LONGEST_TOKEN: usize = 4096;
const MOST_TOKENS: usize = 1 << 20;
/// Limit on the bytes of all special tokens: searching for them needs fifty times the memory.
const MOST_SPECIALS: usize = 1 << 20;

/// The treatment of names of special tokens within a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// They become the tokens that they name.
    Allowed,
    /// They are encoded like any other text.
    Escaped,
}

#[derive(Clone, Debug)]
pub struct Bpe {
    ranks: HashMap<Box<[u8]>, u32>,
    /// The bytes of every id: ranks first, then specials.
    tokens: Vec<Box<[u8]>>,
    specials: HashMap<String, u32>,
    finder: Option<AhoCorasick>,
    pattern: Regex,
    longest: usize,
}

impl Bpe {
    /// Reads the two files of a model. Only the order of the keys in `special_tokens.json` counts,
    /// as in the original: ids are assigned from the end of the ranks.
    pub fn read(ranks: &[u8], specials: &[u8]) -> Result<Bpe, FormatError> {
        if specials.len() > MOST_SPECIALS {
            let message = format!("{} bytes, more than {MOST_SPECIALS}", specials.len());
            return Err(FormatError::too_much(SPECIALS, message));
        }
        let map: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(specials)
            .map_err(|error| FormatError::damaged(SPECIALS, error.to_string()))?;
        Bpe::new(ranks, map.into_iter().map(|(name, _)| name).collect())
    }

    /// From the lines of `tokenizer.tiktoken`, and the special tokens in the order of their ids.
    pub fn new(ranks: &[u8], specials: Vec<String>) -> Result<Bpe, FormatError> {
        let mut tokens = read_ranks(ranks)?;
        let longest = tokens.iter().map(|token| token.len()).max().unwrap_or(0);
        let ranks: HashMap<Box<[u8]>, u32> = tokens.iter().cloned().zip(0..).collect();
        if let Some(byte) = (0..=u8::MAX).find(|byte| !ranks.contains_key(&[*byte][..])) {
            let message = format!("byte {byte} has no token, so some texts cannot be encoded");
            return Err(FormatError::damaged(RANKS, message));
        }
        let mut by_name = HashMap::new();
        for name in &specials {
            if name.is_empty() || by_name.insert(name.clone(), tokens.len() as u32).is_some() {
                return Err(FormatError::damaged(SPECIALS, "a name is empty or repeated"));
            }
            tokens.push(name.as_bytes().into());
        }
        let unusable = |what: String| FormatError::Unsupported { message: what };
        // Without names it would match the empty text everywhere.
        let finder = (!specials.is_empty()).then(|| {
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&specials)
        });
        Ok(Bpe {
            ranks,
            tokens,
            specials: by_name,
            finder: finder.transpose().map_err(|error| unusable(error.to_string()))?,
            pattern: Regex::new(PATTERN).map_err(|error| unusable(error.to_string()))?,
            longest,
        })
    }

    /// The number of ids, special tokens included.
    pub fn size(&self) -> usize {
        self.tokens.len()
    }

    /// The number of ids that are not special tokens.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// The id of a special token.
    pub fn special(&self, name: &str) -> Option<u32> {
        self.specials.get(name).copied()
    }

    pub fn encode(&self, text: &str, specials: Specials) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(PART).map_or(rest.len(), |(at, _)| at);
            let (part, behind) = rest.split_at(end);
            self.encode_part(part, specials, &mut ids);
            rest = behind;
        }
        ids
    }

    fn encode_part(&self, text: &str, specials: Specials, ids: &mut Vec<u32>) {
        let mut at = 0;
        if let (Specials::Allowed, Some(finder)) = (specials, &self.finder) {
            for found in finder.find_iter(text) {
                self.encode_plain(&text[at..found.start()], ids);
                ids.push((self.ranks.len() + found.pattern().as_usize()) as u32);
                at = found.end();
            }
        }
        self.encode_plain(&text[at..], ids);
    }

    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) {
        for piece in self.pattern.find_iter(text) {
            let piece = piece.as_str().as_bytes();
            match self.ranks.get(piece) {
                Some(rank) => ids.push(*rank),
                None => self.merge(piece, ids),
            }
        }
    }

    /// Merges the pair with the lowest rank, leftmost first, until none is left.
    ///
    /// A heap keeps this from being quadratic in the length of the piece, which a text without
    /// spaces determines.
    fn merge(&self, piece: &[u8], ids: &mut Vec<u32>) {
        let mut parts = PieceParts::new(piece.len());
        let mut pairs = BinaryHeap::with_capacity(piece.len());
        for start in 0..piece.len().saturating_sub(1) {
            pairs.extend(self.pair(piece, start, start + 2));
        }
        while let Some(Reverse((_, start, end))) = pairs.pop() {
            // A pair that has meanwhile been merged with a neighbour is no longer valid.
            if !parts.is_pair(start, end) {
                continue;
            }
            parts.join(start);
            if let Some(next_end) = parts.end_behind(end) {
                pairs.extend(self.pair(piece, start, next_end));
            }
            if let Some(before) = parts.before(start) {
                pairs.extend(self.pair(piece, before, end));
            }
        }
        // Every single byte has a rank, and only pairs with one were merged.
        ids.extend(parts.ranges().filter_map(|(start, end)| self.ranks.get(&piece[start..end])));
    }

    fn pair(&self, piece: &[u8], start: usize, end: usize) -> Option<Reverse<(u32, usize, usize)>> {
        let bytes = (end - start <= self.longest).then(|| &piece[start..end])?;
        self.ranks.get(bytes).map(|rank| Reverse((*rank, start, end)))
    }

    /// The bytes of ids; they may end within a character.
    pub fn decode_bytes(&self, ids: &[u32]) -> Result<Vec<u8>, FormatError> {
        let mut bytes = Vec::new();
        for id in ids {
            let token = self.tokens.get(*id as usize).ok_or_else(|| FormatError::Unsupported {
                message: format!("the tokenizer has no token {id}: its ids end at {}", self.size()),
            })?;
            bytes.extend_from_slice(token);
        }
        Ok(bytes)
    }

    /// As text; invalid UTF-8 becomes the replacement character.
    pub fn decode(&self, ids: &[u32]) -> Result<String, FormatError> {
        Ok(String::from_utf8_lossy(&self.decode_bytes(ids)?).into_owned())
    }
}

/// The parts of a piece, as a list linked by their start positions.
struct PieceParts {
    /// For each start of a part: its end, and the start of the previous part. An end of zero means
    /// that no part starts there any more.
    ends: Vec<usize>,
    before: Vec<usize>,
}

const NOTHING: usize = usize::MAX;

impl PieceParts {
    fn new(length: usize) -> PieceParts {
        let before = (0..length).map(|at| at.checked_sub(1).unwrap_or(NOTHING)).collect();
        PieceParts { ends: (1..=length).collect(), before }
    }

    /// The end of the part that starts after this number of bytes.
    fn end_behind(&self, start: usize) -> Option<usize> {
        self.ends.get(start).copied()
    }

    fn is_pair(&self, start: usize, end: usize) -> bool {
        let middle = self.ends[start];
        middle != 0 && self.end_behind(middle) == Some(end)
    }

    fn before(&self, start: usize) -> Option<usize> {
        Some(self.before[start]).filter(|before| *before != NOTHING)
    }

    /// Merges a part with the next one.
    fn join(&mut self, start: usize) {
        let middle = self.ends[start];
        let end = self.ends[middle];
        self.ends[start] = end;
        self.ends[middle] = 0;
        if let Some(before) = self.before.get_mut(end) {
            *before = start;
        }
    }

    fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let end = *self.ends.get(start)?;
            let range = (start, end);
            start = end;
            Some(range)
        })
    }
}

/// The tokens by rank. Each line is a token in base64 and its rank.
fn read_ranks(bytes: &[u8]) -> Result<Vec<Box<[u8]>>, FormatError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| FormatError::damaged(RANKS, "it is not UTF-8 text"))?;
    let mut tokens: HashMap<u32, Box<[u8]>> = HashMap::new();
    let mut seen = std::collections::HashSet::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let damaged =
            |what: &str| FormatError::damaged(RANKS, format!("line {} {what}", number + 1));
        let (token, rank) = line.split_once(' ').ok_or_else(|| damaged("has no rank"))?;
        if token == "=" {
            continue;
        }
        let token = Base64::decode_vec(token).map_err(|_| damaged("is not base64"))?;
        let rank: u32 =
            rank.trim().parse().map_err(|_| damaged("has a rank that is not a number"))?;
        if token.is_empty() || token.len() > LONGEST_TOKEN || tokens.len() >= MOST_TOKENS {
            return Err(damaged("has a token of an unsupported length"));
        }
        let token: Box<[u8]> = token.into();
        if !seen.insert(token.clone()) || tokens.insert(rank, token).is_some() {
            return Err(damaged("repeats a token or a rank"));
        }
    }
    let count = tokens.len() as u32;
    let dense: Option<Vec<Box<[u8]>>> = (0..count).map(|rank| tokens.remove(&rank)).collect();
    dense.ok_or_else(|| FormatError::damaged(RANKS, "its ranks have gaps"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The single bytes, followed by these tokens.
    fn lines(tokens: &[&str]) -> String {
        let single = (0..=255u8).map(|byte| vec![byte]);
        let all = single.chain(tokens.iter().map(|token| token.as_bytes().to_vec()));
        all.enumerate()
            .map(|(rank, token)| format!("{} {rank}\n", Base64::encode_string(&token)))
            .collect()
    }

    fn bpe(tokens: &[&str], specials: &[&str]) -> Bpe {
        let specials = specials.iter().map(|name| (*name).to_owned()).collect();
        Bpe::new(lines(tokens).as_bytes(), specials).unwrap()
    }

    #[test]
    fn the_pair_with_the_lowest_rank_is_merged_first() {
        let bpe = bpe(&["bc", "ab", "abc", "bcd"], &[]);
        assert_eq!(bpe.encode("abc", Specials::Escaped), [258]);
        assert_eq!(bpe.encode("xabcd", Specials::Escaped), [120, 258, 100]);
        assert_eq!(bpe.encode("ababab", Specials::Escaped), [257, 257, 257]);
    }

    #[test]
    fn names_of_special_tokens_are_text_unless_they_are_allowed() {
        let bpe = bpe(&[], &["<|a|>", "<|b|>"]);
        assert_eq!(bpe.special("<|b|>"), Some(257));
        assert_eq!(bpe.encode("x<|b|><|a|>", Specials::Allowed), [120, 257, 256]);
        let escaped = bpe.encode("<|b|>", Specials::Escaped);
        assert_eq!(escaped, [60, 124, 98, 124, 62]);
        assert_eq!(bpe.decode(&escaped).unwrap(), "<|b|>");
    }

    #[test]
    fn only_the_order_of_the_special_tokens_counts() {
        let bpe = Bpe::read(lines(&[]).as_bytes(), br#"{"<|z|>": 7, "<|a|>": 3}"#).unwrap();
        assert_eq!((bpe.special("<|z|>"), bpe.special("<|a|>")), (Some(256), Some(257)));
    }

    #[test]
    fn part_of_a_character_decodes_to_its_bytes() {
        let bpe = bpe(&[], &[]);
        assert_eq!(bpe.decode_bytes(&[0xe4, 0x20]).unwrap(), [0xe4, 0x20]);
        assert_eq!(bpe.decode(&[0xc3, 0xa4]).unwrap(), "ä");
        let error = bpe.decode(&[256]).unwrap_err().to_string();
        assert_eq!(error, "the tokenizer has no token 256: its ids end at 256");
    }

    /// A quadratic algorithm would take hours here.
    #[test]
    fn a_text_without_spaces_is_merged_in_reasonable_time() {
        let bpe = bpe(&["aa", "aaaa", "aaaaaaaa"], &[]);
        let ids = bpe.encode(&"a".repeat(1_000_001), Specials::Escaped);
        assert_eq!(ids.len(), 125_001);
    }

    #[test]
    fn broken_vocabularies_are_refused() {
        for lines in [
            "YQ== 0\n".to_owned(),
            lines(&["ab", "ab"]),
            lines(&[]).replace(" 255", " 256"),
            lines(&[]).replace(" 255", " 254"),
            lines(&[]).replace(" 255", ""),
            lines(&[]).replace(" 255", " x"),
            lines(&[]).replace("YQ==", "!!!!"),
        ] {
            assert!(Bpe::new(lines.as_bytes(), Vec::new()).is_err());
        }
        assert!(Bpe::new(b"\xff", Vec::new()).is_err());
        assert!(Bpe::new(lines(&[]).as_bytes(), vec![String::new()]).is_err());
        assert!(Bpe::read(lines(&[]).as_bytes(), b"[]").is_err());
    }
}
