//! The name of content: a blake3 hash; its computation, formatting and parsing.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fs::{FsFile, FsResult};

/// The blake3 hash of some bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

/// Nearly all digests differ in their first bytes: tables look at no more of them.
impl Hash for Digest {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.start());
    }
}

/// The order of the bytes.
impl Ord for Digest {
    #[inline]
    fn cmp(&self, other: &Digest) -> Ordering {
        let start = |digest: &Digest| digest.start().swap_bytes();
        start(self).cmp(&start(other)).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Digest {
    #[inline]
    fn partial_cmp(&self, other: &Digest) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The reason why a text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: expected 64 hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// Hashes bytes that are in memory.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// A digest that was computed before: the bytes are not checked.
    pub const fn from_bytes(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }

    /// The 32 bytes of the hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes as a number, which never changes.
    #[inline]
    pub fn start(&self) -> u64 {
        let mut start = [0; 8];
        start.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(start)
    }

    /// The first twelve digits: enough for people to tell digests apart.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0u8; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        formatter.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({})", self.short())
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let wrong = || DigestError(text.chars().take(80).collect());
        if text.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0]).ok_or_else(wrong)? << 4 | digit(pair[1]).ok_or_else(wrong)?;
        }
        Ok(Digest(bytes))
    }
}

/// Lower case only, so that one digest has one spelling.
fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(HexVisitor)
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Digest)
        }
    }
}

struct HexVisitor;

impl Visitor<'_> for HexVisitor {
    type Value = Digest;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a digest of 64 hexadecimal digits")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
        text.parse().map_err(E::custom)
    }
}

/// Computes a digest of bytes that arrive in pieces.
#[derive(Debug, Clone, Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// A hasher that has no bytes yet.
    pub fn new() -> Hasher {
        Hasher::default()
    }

    /// Adds bytes; the division into pieces does not change the digest.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Hasher {
        self.0.update(bytes);
        self
    }

    /// The digest of all bytes so far. More may be added afterwards.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// The number of bytes read at a time: it fits the caches of a core.
const PIECE: usize = 256 << 10;

thread_local! {
    /// Reused, since clearing a new buffer would cost a tenth of the hashing.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Digest and size of a file, read in pieces.
pub(crate) fn hash_open(file: &dyn FsFile) -> FsResult<(Digest, u64)> {
    hash_up_to(file, u64::MAX)
}

/// The same for a file of known length, which saves a read at its end: if it has grown, no more is
/// read.
pub(crate) fn hash_up_to(file: &dyn FsFile, size: u64) -> FsResult<(Digest, u64)> {
    hash_parts(size, |buffer, offset| file.read_at(buffer, offset))
}

/// The same for bytes that a function reads into a buffer, at an offset.
pub(crate) fn hash_parts<E>(
    size: u64,
    read: impl FnMut(&mut [u8], u64) -> Result<usize, E>,
) -> Result<(Digest, u64), E> {
    let mut buffer = BUFFER.take();
    buffer.resize(PIECE, 0);
    let result = hash_pieces(size, read, &mut buffer);
    BUFFER.set(buffer);
    result
}

fn hash_pieces<E>(
    size: u64,
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, E>,
    buffer: &mut [u8],
) -> Result<(Digest, u64), E> {
    let mut hasher = Hasher::new();
    let mut offset = 0;
    while offset < size {
        let count = read(buffer, offset)?;
        if count == 0 {
            break;
        }
        if offset == 0 && count as u64 == size {
            // A small file needs no state between its pieces.
            return Ok((Digest::of(&buffer[..count]), size));
        }
        hasher.update(&buffer[..count]);
        offset += count as u64;
    }
    Ok((hasher.finish(), offset))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn text_and_digest_convert_both_ways() {
        let digest = Digest::of(b"bird");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert_eq!(digest.short(), digest.to_string()[..12]);
    }

    #[test]
    fn upper_case_short_and_foreign_letters_are_refused() {
        let text = Digest::of(b"bird").to_string();
        for wrong in [text.to_uppercase(), text[1..].to_owned(), format!("g{}", &text[1..])] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_order_of_digests_is_that_of_their_bytes() {
        let mut bytes: Vec<[u8; 32]> = (0..200u8).map(|at| *Digest::of(&[at]).as_bytes()).collect();
        for at in 0..32 {
            bytes.extend([0, 1, 127, 128, 255].map(|value| {
                let mut one = [7; 32];
                one[at] = value;
                one
            }));
        }
        for one in &bytes {
            for other in &bytes {
                let digests = (Digest::from_bytes(*one), Digest::from_bytes(*other));
                assert_eq!(digests.0.cmp(&digests.1), one.cmp(other));
            }
        }
    }

    #[test]
    fn pieces_hash_like_the_whole() {
        let digest = Hasher::new().update(b"song ").update(b"thrush").finish();
        assert_eq!(digest, Digest::of(b"song thrush"));
    }

    #[test]
    fn binary_formats_hold_32_bytes() {
        let digest = Digest::of(b"bird");
        let bytes = postcard::to_stdvec(&digest).unwrap();
        assert_eq!(bytes, digest.as_bytes());
        assert_eq!(postcard::from_bytes::<Digest>(&bytes).unwrap(), digest);
    }
}
