//! Claims: one process at a time works on an item. They are locks of the
//! operating system, so they die with the process; the work is only wasted, never
//! wrong, where a file system has no locks.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Digest;
use crate::fs::{FsError, FsFile};

#[derive(Debug)]
pub(crate) struct Claims {
    /// None where there is no file to lock: claims then hold within the process only.
    file: Option<Box<dyn FsFile>>,
    held: Mutex<HashSet<u64>>,
}

/// The exclusive right to work on one key; dropping it gives it up.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    offset: u64,
}

impl Claims {
    pub fn new(file: Option<Box<dyn FsFile>>) -> Claims {
        Claims { file, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn claim(self: &Arc<Claims>, key: &Digest) -> Result<Option<Claim>, FsError> {
        let offset = offset_of(key);
        let mut held = self.held();
        if held.contains(&offset) {
            return Ok(None);
        }
        let free = match self.file.as_ref().map(|file| file.try_lock_byte(offset)) {
            None => true,
            Some(Err(error)) if error.is_unsupported() => true,
            Some(result) => result?,
        };
        if !free {
            return Ok(None);
        }
        held.insert(offset);
        Ok(Some(Claim { claims: Arc::clone(self), offset }))
    }

    fn is_held(&self, offset: u64) -> Result<bool, FsError> {
        if self.held().contains(&offset) {
            return Ok(true);
        }
        match self.file.as_ref().map(|file| file.byte_is_locked(offset)) {
            None => Ok(false),
            Some(Err(error)) if error.is_unsupported() => Ok(false),
            Some(result) => result,
        }
    }

    pub fn wait_for(&self, key: &Digest, timeout: Duration) -> Result<bool, FsError> {
        let (offset, start) = (offset_of(key), Instant::now());
        let mut pause = Duration::from_millis(1);
        while self.is_held(offset)? {
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
        if let Some(file) = &self.claims.file {
            // A byte that cannot be unlocked is free when the process ends.
            let _ = file.unlock_byte(self.offset);
        }
        held.remove(&self.offset);
    }
}

/// The byte that stands for a key: 62 bits of it, within what a file offset can be.
fn offset_of(key: &Digest) -> u64 {
    let mut bytes = [0u8; 8];
    bytes.copy_from_slice(&key.as_bytes()[..8]);
    u64::from_le_bytes(bytes) >> 2
}
