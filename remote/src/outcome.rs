//! The outcome of a stage in a remote: written once under its key, with the packs that have its
//! objects.

use bytes::Bytes;
use cache::{Digest, Table};
use serde::{Deserialize, Serialize};

const MARK: &[u8; 16] = b"throstle result\n";
const DIGEST: usize = 32;
pub const MOST_BYTES: u64 = 64 << 20;

/// An outcome of this machine that the remote is not known to have.
#[derive(Debug, Clone)]
pub struct Fresh {
    /// The key of the stage.
    pub key: Digest,
    /// For messages.
    pub name: String,
    /// The table of its record in the cache.
    pub table: Table,
    /// The value of its record.
    pub value: Bytes,
    /// The same for equal outcomes.
    pub summary: Digest,
    /// The objects that it refers to, directly or not.
    pub objects: Vec<Digest>,
}

/// An outcome in a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The key of the stage.
    pub key: Digest,
    /// The table of its record in the cache.
    pub table: u8,
    /// The same for equal outcomes.
    pub summary: Digest,
    /// The packs with the objects that it refers to.
    pub packs: Vec<Digest>,
    /// The value of its record.
    pub value: Vec<u8>,
}

impl Outcome {
    /// The bytes of its file.
    pub fn encode(&self) -> Bytes {
        // Serialising plain structs to memory cannot fail in postcard.
        let body = postcard::to_stdvec(self).unwrap_or_default();
        let check = Digest::of(&body);
        [&MARK[..], check.as_bytes(), &body].concat().into()
    }

    /// None if it is damaged, or the outcome of another key.
    pub fn decode(bytes: &[u8], key: &Digest) -> Option<Outcome> {
        let (check, body) = bytes.strip_prefix(MARK)?.split_at_checked(DIGEST)?;
        if Digest::of(body).as_bytes() != check {
            return None;
        }
        postcard::from_bytes::<Outcome>(body).ok().filter(|outcome| outcome.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_read_only_whole_and_under_its_own_key() {
        let key = Digest::of(b"key");
        let summary = Digest::of(b"summary");
        let outcome = Outcome { key, table: 3, summary, packs: vec![key], value: vec![1, 2, 3] };
        let bytes = outcome.encode();
        assert_eq!(Outcome::decode(&bytes, &key), Some(outcome));
        assert_eq!(Outcome::decode(&bytes, &summary), None, "swapped");
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert_eq!(Outcome::decode(&changed, &key), None, "byte {at}");
            assert_eq!(Outcome::decode(&bytes[..at], &key), None, "cut at {at}");
        }
    }
}
