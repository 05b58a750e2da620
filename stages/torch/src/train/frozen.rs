//! Checks that frozen tensors do not change.

use cache::Digest;
use stage_core::StageError;
use tch::Tensor;

use crate::stored;

/// The frozen tensors with their digests.
pub type FrozenDigests = Vec<(String, Digest)>;

pub fn digests(frozen: Vec<(String, Tensor)>) -> Result<FrozenDigests, StageError> {
    let digest =
        |(name, tensor): (String, Tensor)| Ok((name, Digest::of(&stored::encode(&tensor)?)));
    frozen.into_iter().map(digest).collect()
}

/// Refuses a base that has changed although it is frozen.
pub fn check_frozen(before: &FrozenDigests, after: &FrozenDigests) -> Result<(), StageError> {
    let moved: Vec<&str> = before
        .iter()
        .zip(after)
        .filter(|(one, other)| one != other)
        .map(|((name, _), _)| name.as_str())
        .collect();
    match moved.first() {
        None => Ok(()),
        Some(first) => Err(StageError::with_help(
            format!("{} frozen tensors moved in training, the first is `{first}`", moved.len()),
            "the result cannot be used; this is a bug: please report it",
        )),
    }
}
