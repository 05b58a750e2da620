//! Lets the index database read and write through `cache::fs`: directly for a
//! writer, or with all changes kept in memory for a reader.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::fs::{FsError, FsFile};
use crate::index::checked::{CheckedFile, PAGE};

/// The file error behind a failure, which the database cannot pass on.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    first: Mutex<Option<FsError>>,
    sync_failed: AtomicBool,
}

impl Failure {
    pub fn take(&self) -> Option<FsError> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// After a failed sync, the contents of the file are unknown.
    pub fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::SeqCst)
    }

    /// Keeps the error with its path and passes a plain one on.
    fn keep<T>(&self, result: Result<T, FsError>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
            io::Error::from(kind)
        })
    }
}

/// Once set, nothing is read or written any more. Otherwise the database would do work while it is
/// dropped, for a reader on pages that others have changed meanwhile.
#[derive(Debug, Clone, Default)]
pub(crate) struct DoneFlag(Arc<AtomicBool>);

impl DoneFlag {
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        let is_done = self.0.load(Ordering::SeqCst);
        if is_done { Err(io::Error::from(io::ErrorKind::BrokenPipe)) } else { Ok(()) }
    }
}

/// The durability of a change of the index when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    Now,
    /// Written when the system likes. After a power cut, it must not be trusted.
    Later,
}

#[derive(Debug)]
pub(crate) struct Direct {
    file: CheckedFile,
    sync: Sync,
    pub failure: Arc<Failure>,
    pub done: DoneFlag,
}

impl Direct {
    pub fn new(file: Box<dyn FsFile>, sync: Sync) -> Direct {
        let file = CheckedFile::new(file);
        Direct { file, sync, failure: Arc::default(), done: DoneFlag::default() }
    }

    fn unless_done(&self, work: impl FnOnce() -> Result<(), FsError>) -> io::Result<()> {
        self.done.check()?;
        self.failure.keep(work())
    }
}

impl redb::StorageBackend for Direct {
    fn len(&self) -> io::Result<u64> {
        self.failure.keep(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.unless_done(|| self.file.read(offset, out))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.unless_done(|| self.file.set_len(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.unless_done(|| {
            if self.sync == Sync::Later {
                return Ok(());
            }
            let failed = |_: &FsError| self.failure.sync_failed.store(true, Ordering::SeqCst);
            self.file.sync_data().inspect_err(failed)
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.unless_done(|| self.file.write(offset, data))
    }
}

/// Reads the file; writes stay in memory and are never seen by others.
#[derive(Debug)]
pub(crate) struct Overlay {
    file: CheckedFile,
    failure: Arc<Failure>,
    pub done: DoneFlag,
    changes: Mutex<PageChanges>,
}

#[derive(Debug)]
struct PageChanges {
    length: u64,
    /// Bytes of the file from here on are hidden: it was truncated there once.
    file_end: u64,
    pages: HashMap<u64, Box<[u8; PAGE]>>,
}

impl Overlay {
    pub fn new(file: Box<dyn FsFile>, failure: Arc<Failure>) -> Result<Overlay, FsError> {
        let file = CheckedFile::new(file);
        let length = file.len()?;
        let changes = PageChanges { length, file_end: length, pages: HashMap::new() };
        Ok(Overlay { file, failure, done: DoneFlag::default(), changes: Mutex::new(changes) })
    }

    fn read_file(&self, file_end: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let within = usize::try_from(file_end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (inside, beyond) = out.split_at_mut(within.min(out.len()));
        beyond.fill(0);
        if inside.is_empty() { Ok(()) } else { self.failure.keep(self.file.read(offset, inside)) }
    }
}

impl redb::StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes.lock().unwrap_or_else(PoisonError::into_inner).length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.done.check()?;
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let end = offset + out.len() as u64;
        full(changes.length.saturating_sub(offset).min(out.len() as u64) as usize, out.len())?;
        if changes.pages.is_empty() {
            return self.read_file(changes.file_end, offset, out);
        }
        for page in offset / PAGE as u64..end.div_ceil(PAGE as u64) {
            let (from, to, count) = overlap(page, offset, out.len());
            let out = &mut out[to..to + count];
            match changes.pages.get(&page) {
                Some(bytes) => out.copy_from_slice(&bytes[from..from + count]),
                None => self.read_file(changes.file_end, offset + to as u64, out)?,
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if length < changes.length {
            changes.file_end = changes.file_end.min(length);
            changes.pages.retain(|page, _| page * (PAGE as u64) < length);
            let tail = (length % PAGE as u64) as usize;
            if let Some(bytes) = changes.pages.get_mut(&(length / PAGE as u64)) {
                bytes[tail..].fill(0);
            }
        }
        changes.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let end = offset + data.len() as u64;
        for page in offset / PAGE as u64..end.div_ceil(PAGE as u64) {
            let (to, from, count) = overlap(page, offset, data.len());
            if !changes.pages.contains_key(&page) {
                let mut fresh = Box::new([0u8; PAGE]);
                if count < PAGE {
                    self.read_file(changes.file_end, page * PAGE as u64, &mut fresh[..])?;
                }
                changes.pages.insert(page, fresh);
            }
            if let Some(bytes) = changes.pages.get_mut(&page) {
                bytes[to..to + count].copy_from_slice(&data[from..from + count]);
            }
        }
        changes.length = changes.length.max(end);
        Ok(())
    }
}

/// The intersection of a range and a page: start in the page, start in the range, length.
fn overlap(page: u64, offset: u64, length: usize) -> (usize, usize, usize) {
    let page_start = page * PAGE as u64;
    let start = page_start.max(offset);
    let stop = (page_start + PAGE as u64).min(offset + length as u64);
    ((start - page_start) as usize, (start - offset) as usize, (stop - start) as usize)
}

fn full(filled: usize, wanted: usize) -> io::Result<()> {
    if filled == wanted { Ok(()) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) }
}
