//! Claims: only one process at a time works on an item. They are locks of the operating system, so
//! they end with the process. On a file system without locks, work is repeated, but never wrong.
//!
//! Keys share a fixed number of locked bytes: the system keeps the locks of a file in a list and
//! walks it for each new one, so one byte per key would cost more with every claimed item. If
//! another process holds the byte for another key, the key is put off as if it were claimed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Digest;
use crate::fs::{FsError, FsFile};

#[derive(Debug)]
pub(crate) struct Claims {
    /// None without a lockable file: claims then hold within the process only.
    file: Option<Box<dyn FsFile>>,
    /// The same file in a read-only cache, to see the claims of others.
    seen: Option<Box<dyn FsFile>>,
    held: Mutex<OwnClaims>,
}

/// The claims of this process.
#[derive(Debug, Default)]
struct OwnClaims {
    keys: HashSet<Digest>,
    /// The number of keys that use each locked byte.
    bytes: HashMap<u64, usize>,
}

/// The exclusive right to work on one key; dropping it releases it.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    key: Digest,
    offset: u64,
}

impl Claims {
    pub fn new(file: Option<Box<dyn FsFile>>) -> Claims {
        Claims { file, seen: None, held: Mutex::default() }
    }

    /// For a read-only cache.
    pub fn seen(seen: Option<Box<dyn FsFile>>) -> Claims {
        Claims { file: None, seen, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, OwnClaims> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn claim(self: &Arc<Claims>, key: &Digest) -> Result<Option<Claim>, FsError> {
        self.claim_at(key, offset_of(key))
    }

    /// A claim on a number with its own byte: it may be held for a long time without blocking any
    /// key.
    pub fn claim_number(self: &Arc<Claims>, number: u64) -> Result<Option<Claim>, FsError> {
        let (key, offset) = numbered(number);
        self.claim_at(&key, offset)
    }

    /// True when any process has claimed this number.
    pub fn number_is_held(&self, number: u64) -> Result<bool, FsError> {
        let (key, offset) = numbered(number);
        Ok(self.held().keys.contains(&key) || self.is_locked(offset)?)
    }

    fn claim_at(self: &Arc<Claims>, key: &Digest, offset: u64) -> Result<Option<Claim>, FsError> {
        let mut held = self.held();
        if held.keys.contains(key) {
            return Ok(None);
        }
        if !held.bytes.contains_key(&offset) && !self.lock(offset)? {
            return Ok(None);
        }
        held.keys.insert(*key);
        *held.bytes.entry(offset).or_default() += 1;
        Ok(Some(Claim { claims: Arc::clone(self), key: *key, offset }))
    }

    fn lock(&self, offset: u64) -> Result<bool, FsError> {
        match self.file.as_ref().map(|file| file.try_lock_byte(offset)) {
            None => Ok(true),
            Some(Err(error)) if error.is_unsupported() => Ok(true),
            Some(result) => result,
        }
    }

    /// Tests if another process has the key, or the byte that it shares.
    fn is_held(&self, key: &Digest) -> Result<bool, FsError> {
        let offset = offset_of(key);
        {
            let held = self.held();
            if held.keys.contains(key) {
                return Ok(true);
            }
            if held.bytes.contains_key(&offset) {
                return Ok(false);
            }
        }
        self.is_locked(offset)
    }

    /// True if another process has locked a byte.
    fn is_locked(&self, offset: u64) -> Result<bool, FsError> {
        let file = self.file.as_ref().or(self.seen.as_ref());
        match file.map(|file| file.byte_is_locked(offset)) {
            None => Ok(false),
            Some(Err(error)) if error.is_unsupported() => Ok(false),
            Some(result) => result,
        }
    }

    pub fn wait_for(&self, key: &Digest, timeout: Duration) -> Result<bool, FsError> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        while self.is_held(key)? {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(true)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = self.claims.held();
        held.keys.remove(&self.key);
        let offset = self.offset;
        let left = held.bytes.get(&offset).map_or(0, |count| count - 1);
        if left > 0 {
            held.bytes.insert(offset, left);
            return;
        }
        held.bytes.remove(&offset);
        if let Some(file) = &self.claims.file {
            // A byte that cannot be unlocked is free when the process ends.
            let _ = file.unlock_byte(offset);
        }
    }
}

/// The number of bytes for all keys.
const BYTES: u64 = 1024;

/// A number as a key, and its byte.
fn numbered(number: u64) -> (Digest, u64) {
    (Digest::of(&number.to_le_bytes()), BYTES + number % u64::from(u32::MAX))
}

/// The byte of a key.
fn offset_of(key: &Digest) -> u64 {
    key.start() % BYTES
}
