//! Long values of records: they are cut into parts, which are objects, and the record lists them.
//! The bytes before a cut determine its position, so a value that changes in one place shares its
//! other parts with the old value.

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;

use crate::cache::Cache;
use crate::objects::LOOSE_SIZE;
use crate::{CacheError, Digest};

/// Longer values are cut into parts.
const LONGEST_WHOLE: usize = 1 << 20;
/// The mark of a list of parts. A value that happens to begin like this is cut too.
const MARK: &[u8; 16] = b"\xe5\x1f\x9c\x07parts\xb2\x6a\xd1\x43\x8e\x70\x01";
const DIGEST: usize = 32;

/// The smallest and the largest size of parts; the average is about three times the first.
const SHORTEST: usize = 96 << 10;
const LONGEST: usize = LOOSE_SIZE as usize - 1;
/// One in 2^18 positions ends a part.
const ENDS: u64 = !(u64::MAX >> 18);

impl Cache {
    /// The value as written in the log; its parts are stored.
    pub(crate) fn shortened(&self, value: Vec<u8>) -> Result<Bytes, CacheError> {
        if value.len() <= LONGEST_WHOLE && !value.starts_with(MARK) {
            return Ok(value.into());
        }
        let value = Bytes::from(value);
        let mut list = MARK.to_vec();
        for part in parts(&value) {
            let part = value.slice(part);
            let digest = Digest::of(&part);
            list.extend_from_slice(digest.as_bytes());
            self.put_with_digest(digest, part)?;
        }
        Ok(list.into())
    }

    /// The recorded value; None if a part of it is lost.
    pub(crate) fn whole(&self, written: Bytes) -> Result<Option<Bytes>, CacheError> {
        let Some(parts) = parts_of(&written) else {
            return Ok(Some(written));
        };
        let mut whole = Vec::new();
        for part in parts {
            match self.read(&part) {
                Ok(bytes) => whole.extend_from_slice(&bytes),
                Err(error) if error.is_lost_object() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(whole.into()))
    }
}

/// The objects of a written value; None if it is not cut.
pub(crate) fn parts_of(written: &[u8]) -> Option<Vec<Digest>> {
    let list = written.strip_prefix(MARK)?;
    let digest = |bytes: &[u8]| Some(Digest::from_bytes(bytes.try_into().ok()?));
    list.chunks(DIGEST).map(digest).collect()
}

/// Keeps the parts of a kept value.
pub(crate) fn keep_parts(written: Option<&[u8]>, kept: &mut HashSet<Digest>) {
    kept.extend(written.and_then(parts_of).into_iter().flatten());
}

fn parts(value: &[u8]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < value.len() {
        let end = start + length_of_first(&value[start..]);
        parts.push(start..end);
        start = end;
    }
    parts
}

/// The sum over the last 64 bytes decides: each value is doubled with every following byte.
fn length_of_first(value: &[u8]) -> usize {
    let mut sum = 0u64;
    for (at, byte) in value.iter().enumerate().take(LONGEST).skip(SHORTEST) {
        sum = (sum << 1).wrapping_add(WEIGHTS[*byte as usize]);
        if sum & ENDS == 0 {
            return at + 1;
        }
    }
    value.len().min(LONGEST)
}

/// A 64-bit number for each byte, as from a splitmix generator. Another table would cut at other
/// positions, which only costs sharing.
const WEIGHTS: [u64; 256] = {
    let mut weights = [0; 256];
    let mut state = 0u64;
    let mut at = 0;
    while at < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        weights[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    weights
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Bytes without a pattern; the same seed gives the same bytes.
    fn noise(length: usize, seed: u8) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn parts_are_neither_short_nor_long_and_cover_everything() {
        for value in [noise(20 << 20, 1), vec![7; 5 << 20]] {
            let parts = parts(&value);
            let mut end = 0;
            for part in &parts {
                assert_eq!(part.start, end);
                end = part.end;
                assert!(part.len() <= LONGEST);
                assert!(part.len() > SHORTEST || end == value.len());
            }
            assert_eq!(end, value.len());
            assert!(parts.len() > 4);
        }
    }

    #[test]
    fn an_insertion_changes_few_parts() {
        let before = noise(20 << 20, 2);
        let mut after = before.clone();
        after.splice(9_000_000..9_000_000, *b"inserted");
        let digests = |value: &[u8]| -> HashSet<Digest> {
            parts(value).into_iter().map(|part| Digest::of(&value[part])).collect()
        };
        let (before, after) = (digests(&before), digests(&after));
        assert!(after.difference(&before).count() <= 2);
    }
}
