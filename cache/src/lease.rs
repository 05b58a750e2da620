//! Leases: the objects that other programs, such as the Python module, read directly from the files.
//!
//! A lease is a file `locks/lease-…` with one digest per line, locked by its reader as long as it reads.
//! The reader looks up the positions and writes the file while it has a shared lock on `locks/readers`.
//! A sweep has that lock exclusively, so it knows every lease, or the reader sees its removals.

use std::collections::HashSet;

use crate::CacheError;
use crate::Digest;
use crate::fs::{Fs, FsFile, LockKind, Open};
use crate::layout::Layout;

const GATE: &str = "readers";
const PREFIX: &str = "lease-";

/// The leases of living readers. New readers wait until this is dropped.
pub(crate) struct Leases {
    _gate: Option<Box<dyn FsFile>>,
    objects: HashSet<Digest>,
}

impl Leases {
    /// Reads all leases, and removes those of dead readers.
    pub fn read(fs: &dyn Fs, layout: &Layout) -> Result<Leases, CacheError> {
        let gate = fs.open(&layout.locks.join(GATE), Open::Create)?;
        let gate = match gate.lock(LockKind::Exclusive) {
            Ok(()) => Some(gate),
            Err(error) if error.is_unsupported() => None,
            Err(error) => return Err(error.into()),
        };
        let mut leases = Leases { _gate: gate, objects: HashSet::new() };
        for entry in fs.read_dir(&layout.locks)? {
            if !entry.name.starts_with(PREFIX) {
                continue;
            }
            let path = layout.locks.join(&entry.name);
            let file = match fs.open(&path, Open::Read) {
                Ok(file) => file,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            match file.try_lock(LockKind::Exclusive) {
                Ok(true) => fs.remove_file(&path)?,
                Ok(false) => leases.add(&fs.read(&path)?),
                // Without locks every reader may be alive.
                Err(error) if error.is_unsupported() => leases.add(&fs.read(&path)?),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(leases)
    }

    fn add(&mut self, text: &[u8]) {
        let lines = text.split(|byte| *byte == b'\n');
        let digests =
            lines.filter_map(|line| std::str::from_utf8(line).ok()?.parse::<Digest>().ok());
        self.objects.extend(digests);
    }

    pub fn hold(&self, digest: &Digest) -> bool {
        self.objects.contains(digest)
    }
}
