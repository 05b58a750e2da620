//! `dataset.pack`: clips with their tokens in a fixed number of shards.
//!
//! A clip's shard is a hash of its id alone, and a shard has its clips in the order of their ids,
//! so that a new clip rewrites one shard and nothing else.

pub mod arrays;
pub mod protos;
pub(super) mod stage;

use super::hash;
use stage_formats::npy::IntArray;

/// A clip to pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackClip {
    pub id: String,
    pub speaker: String,
    pub text: String,
    /// Tokens, a row for each codebook.
    pub codes: IntArray,
}

/// The reason why a clip cannot be packed, or a shard cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    #[error("the tokens of `{id}` have the shape {shape:?}, not codebooks by frames")]
    Shape { id: String, shape: Vec<u64> },
    #[error("`{id}` has {found} codebooks, but `{other}` has {expected}")]
    Codebooks { id: String, found: u64, other: String, expected: u64 },
    #[error("`{id}` has the token {value}, which is negative or too large for the format")]
    Token { id: String, value: i64 },
    #[error("`{id}` exceeds the array")]
    Place { id: String },
    #[error("the index cannot be read: {message}")]
    Index { message: String },
    #[error(transparent)]
    Protos(#[from] stage_formats::protos::ProtosError),
    #[error(transparent)]
    Array(#[from] stage_formats::npy::NpyError),
}

/// The shard of a clip among `shards`, from 0.
pub fn shard_of(id: &str, shards: u32) -> u32 {
    (hash::stable("shard", &[id]) % u64::from(shards.max(1))) as u32
}

/// Codebooks and frames of one clip.
fn dimensions(entry: &PackClip) -> Result<(usize, usize), PackError> {
    match entry.codes.shape.as_slice() {
        [codebooks, frames]
            if codebooks.checked_mul(*frames) == Some(entry.codes.values.len() as u64) =>
        {
            Ok((*codebooks as usize, *frames as usize))
        }
        shape => Err(PackError::Shape { id: entry.id.clone(), shape: shape.to_vec() }),
    }
}

/// Sorted by id, and all with the same number of codebooks as the first.
fn checked(entries: &[PackClip]) -> Result<Vec<(&PackClip, usize, usize)>, PackError> {
    let mut sorted = Vec::with_capacity(entries.len());
    for entry in entries {
        let (codebooks, frames) = dimensions(entry)?;
        sorted.push((entry, codebooks, frames));
    }
    sorted.sort_by(|one, other| one.0.id.cmp(&other.0.id));
    let Some((first, expected, _)) = sorted.first().copied() else { return Ok(sorted) };
    match sorted.iter().find(|(_, codebooks, _)| *codebooks != expected) {
        None => Ok(sorted),
        Some((entry, found, _)) => Err(PackError::Codebooks {
            id: entry.id.clone(),
            found: *found as u64,
            other: first.id.clone(),
            expected: expected as u64,
        }),
    }
}

#[cfg(test)]
mod tests;
