//! The stable hash for sides and shards: a function of names alone.

/// Hashes parts of a name; lengths go first, so that different lists of parts are different input.
///
/// The purpose keeps decisions independent: an item's shard says nothing about its side.
pub(super) fn stable(purpose: &str, parts: &[&str]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in std::iter::once(&purpose).chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// A hash as a number from 0 up to 1, of the 53 bits that a double holds exactly.
pub(super) fn position(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}
