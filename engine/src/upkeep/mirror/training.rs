//! Checkpoints of trainings in a remote.
//!
//! An attempt continues from the highest number in the remote, unless this machine is further, and writes
//! the next one. If that is taken, another attempt is ahead: this one stops, and the next run continues
//! from the highest number.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use cache::{Cache, CacheError, Digest};
use remote::{CheckpointWrite, Pushing, Remote, RemoteCheckpoint, RemoteError};
use serde::{Deserialize, Serialize};
use stage_core::Fields;

use crate::history;
use crate::record::{CHECKPOINT, CheckpointRecord, MIRRORED, decode, encode};

/// The relation of the checkpoints of a training here to those in the remote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct MirroredTraining {
    /// The remote, so that another one begins anew.
    remote: String,
    /// The highest number that was there, or was written.
    number: u64,
    /// The state that came from here or was taken over last, if it is in the remote.
    state: Option<Digest>,
    /// Another attempt is ahead.
    is_behind: bool,
    /// The checkpoint under this number could not be read, so an older one counted.
    is_passed_over: bool,
}

impl MirroredTraining {
    fn read(
        cache: &Cache,
        remote: &Remote,
        key: &Digest,
    ) -> Result<Option<MirroredTraining>, CacheError> {
        let mirrored =
            cache.get(MIRRORED, key)?.and_then(|bytes| decode::<MirroredTraining>(&bytes));
        Ok(mirrored.filter(|mirrored| mirrored.remote == remote.address().as_str()))
    }

    fn write(&self, cache: &Cache, key: &Digest) -> Result<(), CacheError> {
        cache.record(MIRRORED, key, encode(self))
    }
}

fn own(cache: &Cache, key: &Digest) -> Result<Option<CheckpointRecord>, CacheError> {
    Ok(cache.get(CHECKPOINT, key)?.and_then(|bytes| decode(&bytes)))
}

fn name_of(state: &Fields) -> Digest {
    Digest::of(&encode(state))
}

fn step_of(record: &CheckpointRecord) -> f64 {
    record.states.first().and_then(|state| state.number("step")).unwrap_or(0.0)
}

/// Takes over the newest checkpoint in the remote, unless this machine is further with the training.
/// Returns its number if it did.
pub fn adopt(cache: &Cache, remote: &Remote, key: &Digest) -> Result<Option<u64>, RemoteError> {
    if cache.is_read_only() {
        return Ok(None);
    }
    let mirrored = MirroredTraining::read(cache, remote, key)?;
    let is_whole =
        |checkpoint: &RemoteCheckpoint| is_whole(cache, remote, checkpoint).unwrap_or(false);
    let Some((highest, found)) = remote.newest_checkpoint(key, is_whole)? else { return Ok(None) };
    let own = own(cache, key)?;
    let is_known = |mirrored: &MirroredTraining| {
        let is_open = mirrored.is_behind || mirrored.is_passed_over;
        mirrored.number == highest && !is_open && own.is_some()
    };
    if mirrored.as_ref().is_some_and(is_known) {
        return Ok(None);
    }
    let is_behind = mirrored.is_some_and(|mirrored| mirrored.is_behind);
    let newest = found.as_ref().map_or(0, |found| found.number);
    let theirs = found.and_then(|found| Some((found.number, decode_checkpoint(&found)?)));
    let mut now = MirroredTraining {
        remote: remote.address().as_str().to_owned(),
        number: highest,
        state: None,
        is_behind: false,
        is_passed_over: newest != highest,
    };
    let mut adopted = None;
    if let Some((number, mut theirs)) = theirs
        && own.as_ref().is_none_or(|own| is_behind || step_of(&theirs) >= step_of(own))
    {
        now.state = theirs.states.first().map(name_of);
        // Numbers of runs differ between machines: it belongs to the next run of this one.
        theirs.run = history::runs(cache)?.last().map_or(0, |run| run.run) + 1;
        cache.record(CHECKPOINT, key, encode(&theirs))?;
        adopted = Some(number);
    }
    now.write(cache, key)?;
    cache.commit()?;
    Ok(adopted)
}

/// The same for a training that may continue shorter ones; their keys come longest first.
pub fn adopt_any(
    cache: &Cache,
    remote: &Remote,
    key: &Digest,
    prefixes: &[Digest],
) -> Result<Option<u64>, RemoteError> {
    for key in std::iter::once(key).chain(prefixes) {
        let adopted = adopt(cache, remote, key)?;
        if adopted.is_some() || own(cache, key)?.is_some() {
            return Ok(adopted);
        }
    }
    Ok(None)
}

fn decode_checkpoint(checkpoint: &RemoteCheckpoint) -> Option<CheckpointRecord> {
    decode::<CheckpointRecord>(&checkpoint.value).filter(|record| !record.states.is_empty())
}

/// Tests if all objects of a checkpoint are here, or in the remote.
fn is_whole(
    cache: &Cache,
    remote: &Remote,
    checkpoint: &RemoteCheckpoint,
) -> Result<bool, CacheError> {
    let Some(record) = decode_checkpoint(checkpoint) else { return Ok(false) };
    let objects: Vec<Digest> =
        record.states.iter().flat_map(Fields::blobs).map(|blob| blob.digest).collect();
    let (here, there) = (cache.contains_all(&objects)?, remote.knows(&objects)?);
    Ok(here.into_iter().zip(there).all(|(here, there)| here || there))
}

/// Writes the newest checkpoint of a training under its next number. None if it is there, or if there is
/// no checkpoint.
pub fn put(
    cache: &Cache,
    remote: &Remote,
    key: &Digest,
) -> Result<Option<CheckpointWrite>, RemoteError> {
    let _numbering = remote.numbering();
    let Some(mut record) = own(cache, key)? else { return Ok(None) };
    let Some(state) = record.states.first().cloned() else { return Ok(None) };
    let mut mirrored = MirroredTraining::read(cache, remote, key)?.unwrap_or_default();
    let name = name_of(&state);
    if mirrored.state == Some(name) || mirrored.is_behind {
        return Ok(None);
    }
    let objects = state.blobs().map(|blob| (blob.digest, blob.size)).collect();
    record.states = vec![state];
    let number = mirrored.number.saturating_add(1);
    let checkpoint = RemoteCheckpoint { number, value: encode(&record).into() };
    let placed = remote.put_checkpoint(key, &checkpoint, objects)?;
    mirrored.remote = remote.address().as_str().to_owned();
    match placed {
        CheckpointWrite::Written => {
            (mirrored.number, mirrored.state) = (number, Some(name));
            mirrored.is_passed_over = false;
        }
        CheckpointWrite::Taken => mirrored.is_behind = true,
    }
    mirrored.write(cache, key)?;
    cache.commit()?;
    Ok(Some(placed))
}

/// The objects of the newest checkpoint of a training.
pub fn objects(cache: &Cache, key: &Digest) -> Result<Vec<Digest>, CacheError> {
    let state = own(cache, key)?.and_then(|record| record.states.into_iter().next());
    Ok(state.iter().flat_map(Fields::blobs).map(|blob| blob.digest).collect())
}

/// Writes the checkpoint of a training that is not running here.
pub fn push(
    cache: &Cache,
    remote: &Remote,
    key: &Digest,
) -> Result<Option<CheckpointWrite>, RemoteError> {
    if MirroredTraining::read(cache, remote, key)?.is_none() {
        adopt(cache, remote, key)?;
    }
    put(cache, remote, key)
}

/// Writes the checkpoints of a running training to the remote, in a thread of its own: the training
/// does not wait for the transfer. Of several that wait, only the newest is written.
#[derive(Debug)]
pub struct Mirror {
    state: Arc<(Mutex<UploadState>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct UploadState {
    is_waiting: bool,
    has_ended: bool,
    is_behind: bool,
}

fn lock(state: &Mutex<UploadState>) -> MutexGuard<'_, UploadState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mirror {
    /// None if the remote is not written to during a run.
    pub fn start(cache: &Cache, remote: Option<&Arc<Remote>>, key: Digest) -> Option<Mirror> {
        let is_written = |remote: &&Arc<Remote>| {
            remote.settings().push == Pushing::Always && remote.is_writable()
        };
        let remote = remote.filter(is_written)?;
        let state = Arc::new((Mutex::new(UploadState::default()), Condvar::new()));
        let (cache, remote, shared) = (cache.clone(), Arc::clone(remote), Arc::clone(&state));
        let work = move || {
            while next(&shared) && remote.is_usable() {
                // After a failure, the next checkpoint or the push at the end of the run follows.
                if matches!(put(&cache, &remote, &key), Ok(Some(CheckpointWrite::Taken))) {
                    lock(&shared.0).is_behind = true;
                    return;
                }
            }
        };
        // If the thread cannot start, the last checkpoint is pushed at the end.
        let thread = Builder::new().name("checkpoints".into()).spawn(work).ok();
        Some(Mirror { state, thread })
    }

    /// A new checkpoint is durable here.
    pub fn offer(&self) {
        lock(&self.state.0).is_waiting = true;
        self.state.1.notify_all();
    }

    /// Another attempt has written the next number.
    pub fn is_behind(&self) -> bool {
        lock(&self.state.0).is_behind
    }
}

/// Waits for a checkpoint; false at the end of the training.
fn next((state, changed): &(Mutex<UploadState>, Condvar)) -> bool {
    let waits = |state: &mut UploadState| !state.is_waiting && !state.has_ended;
    let state = changed.wait_while(lock(state), waits);
    let mut state = state.unwrap_or_else(PoisonError::into_inner);
    state.is_waiting = false;
    !state.has_ended
}

impl Drop for Mirror {
    /// Waits for a transfer that is going on.
    fn drop(&mut self) {
        lock(&self.state.0).has_ended = true;
        self.state.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there is a bug, and the push at the end still follows.
            let _ = thread.join();
        }
    }
}
