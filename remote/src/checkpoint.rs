//! Checkpoints of trainings in a remote, numbered from 1.
//!
//! A number is written once. An attempt at a training continues from the highest number and writes the
//! next one; if that number is taken, another attempt is ahead, and this one has to stop. So an attempt on
//! a machine that was given up cannot disturb its successor, without clocks or locks.

use std::collections::BTreeSet;

use bytes::Bytes;
use cache::Digest;
use serde::{Deserialize, Serialize};

use crate::error::RemoteError;
use crate::layout;
use crate::outcome::MOST_BYTES;
use crate::push::Push;
use crate::remote::Remote;

const MARK: &[u8; 16] = b"throstle ckpt 1\n";
const DIGEST: usize = 32;
/// If the newest checkpoints are damaged, this many are tried.
const TRIED: usize = 3;

/// A checkpoint under its number. The value is the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteCheckpoint {
    /// Later checkpoints of a training have higher numbers.
    pub number: u64,
    /// The bytes of the caller.
    pub value: Bytes,
}

/// The outcome of writing a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointWrite {
    /// The remote has it now.
    Written,
    /// Another attempt has written this number: it is ahead.
    Taken,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct CheckpointLabel {
    key: Digest,
    number: u64,
    attempt: Digest,
    packs: Vec<Digest>,
    value: Vec<u8>,
}

impl CheckpointLabel {
    fn encode(&self) -> Bytes {
        // Serialising plain structs to memory cannot fail in postcard.
        let body = postcard::to_stdvec(self).unwrap_or_default();
        let check = Digest::of(&body);
        [&MARK[..], check.as_bytes(), &body].concat().into()
    }

    /// None if it is damaged or belongs to another training or number.
    fn decode(bytes: &[u8], key: &Digest, number: u64) -> Option<CheckpointLabel> {
        let (check, body) = bytes.strip_prefix(MARK)?.split_at_checked(DIGEST)?;
        if Digest::of(body).as_bytes() != check {
            return None;
        }
        let written = postcard::from_bytes::<CheckpointLabel>(body).ok()?;
        (written.key == *key && written.number == number).then_some(written)
    }
}

impl Remote {
    /// The highest number of a training's checkpoints, 0 without any, and the newest checkpoint that
    /// passes the test. Its objects are known afterwards, and come when they are read. None if the
    /// remote cannot tell.
    ///
    /// # Errors
    ///
    /// If the remote does not answer and [`Settings::require`](crate::Settings) is set, or if the index of the cache cannot be read or
    /// written.
    pub fn newest_checkpoint(
        &self,
        key: &Digest,
        mut passes: impl FnMut(&RemoteCheckpoint) -> bool,
    ) -> Result<Option<(u64, Option<RemoteCheckpoint>)>, RemoteError> {
        if !self.place.place().can_list() {
            return Ok(None);
        }
        if !self.is_begun()? {
            return Ok(self.is_usable().then_some((0, None)));
        }
        let listed = self.place.list(&layout::checkpoints(key));
        let Some(listed) = self.answer(listed)? else { return Ok(None) };
        if self.tell_unreadable(&layout::checkpoints(key)) {
            return Ok(None);
        }
        let numbers: BTreeSet<u64> = listed
            .iter()
            .filter_map(|listed| layout::checkpoint_of(&listed.name))
            .filter_map(|(of, number)| (of == *key).then_some(number))
            .collect();
        let highest = numbers.last().copied().unwrap_or(0);
        for number in numbers.into_iter().rev().take(TRIED) {
            let name = layout::checkpoint(key, number);
            // Without an answer, an older one would count as the newest.
            let Some(found) = self.answer(self.place.get(&name, MOST_BYTES))? else {
                return Ok(None);
            };
            let written = found.and_then(|bytes| CheckpointLabel::decode(&bytes, key, number));
            let Some(written) = written else {
                self.tell_wrong(&name, "it is missing, damaged, or belongs to another training");
                continue;
            };
            self.learn(&written.packs)?;
            if !self.is_usable() {
                return Ok(None);
            }
            let checkpoint = RemoteCheckpoint { number, value: written.value.into() };
            if passes(&checkpoint) {
                return Ok(Some((highest, Some(checkpoint))));
            }
        }
        Ok(self.is_usable().then_some((highest, None)))
    }

    /// Writes a checkpoint under its number, after the objects that it refers to.
    ///
    /// # Errors
    ///
    /// Those of [`Remote::push`].
    pub fn put_checkpoint(
        &self,
        key: &Digest,
        checkpoint: &RemoteCheckpoint,
        objects: Vec<(Digest, u64)>,
    ) -> Result<CheckpointWrite, RemoteError> {
        let digests: Vec<Digest> = objects.iter().map(|(digest, _)| *digest).collect();
        self.look_for_packs(&digests)?;
        self.push(Push { objects, progress: &|_, _| {}, ..Push::nothing() })?;
        self.begin()?;
        let packs: Option<BTreeSet<Digest>> = self.with_known(|known| {
            Ok(digests.iter().map(|digest| Some(known.find(digest)?.0)).collect())
        })?;
        let Some(packs) = packs else {
            return Err(self.refused("an object of the checkpoint is damaged or missing"));
        };
        let written = CheckpointLabel {
            key: *key,
            number: checkpoint.number,
            attempt: self.attempt,
            packs: packs.into_iter().collect(),
            value: checkpoint.value.to_vec(),
        };
        let name = layout::checkpoint(key, checkpoint.number);
        if self.write(&name, written.encode())? {
            return Ok(CheckpointWrite::Written);
        }
        // A request may have been repeated because its first answer was lost.
        let there = self.place.get(&name, MOST_BYTES).map_err(|refusal| self.give_up(refusal))?;
        let there = there.and_then(|bytes| CheckpointLabel::decode(&bytes, key, checkpoint.number));
        Ok(if there.is_some_and(|there| there == written) {
            CheckpointWrite::Written
        } else {
            CheckpointWrite::Taken
        })
    }

    /// The packs of these checkpoints of a training.
    pub(crate) fn packs_of_checkpoints(
        &self,
        key: &Digest,
        numbers: &BTreeSet<u64>,
    ) -> Result<Vec<Digest>, RemoteError> {
        let mut packs = Vec::new();
        for number in numbers.iter().rev() {
            let found = self.place.get(&layout::checkpoint(key, *number), MOST_BYTES);
            let found = found.map_err(|refusal| self.give_up(refusal))?;
            let written = found.and_then(|bytes| CheckpointLabel::decode(&bytes, key, *number));
            packs.extend(written.into_iter().flat_map(|written| written.packs));
        }
        Ok(packs)
    }

    /// The reason why a checkpoint's record is wrong.
    pub(crate) fn look_at_checkpoint(&self, name: &str) -> Result<Option<String>, RemoteError> {
        let Some((key, number)) = layout::checkpoint_of(name) else { return Ok(None) };
        let found = self.place.get(name, MOST_BYTES).map_err(|refusal| self.give_up(refusal))?;
        let written = found.and_then(|bytes| CheckpointLabel::decode(&bytes, &key, number));
        Ok(written.is_none().then(|| "it is damaged or belongs to another training".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_checkpoint_is_read_only_whole_and_under_its_own_key_and_number() {
        let (key, attempt) = (Digest::of(b"key"), Digest::of(b"attempt"));
        let written =
            CheckpointLabel { key, number: 3, attempt, packs: vec![key], value: vec![1, 2] };
        let bytes = written.encode();
        assert_eq!(CheckpointLabel::decode(&bytes, &key, 3), Some(written));
        assert_eq!(CheckpointLabel::decode(&bytes, &key, 4), None);
        assert_eq!(CheckpointLabel::decode(&bytes, &attempt, 3), None);
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert_eq!(CheckpointLabel::decode(&changed, &key, 3), None, "byte {at}");
        }
    }
}
