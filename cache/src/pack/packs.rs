//! The packs as files: open handles for reading, and the locked pack that this process appends to.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::CacheError;
use crate::fs::{Fs, FsError, FsFile, FsResult, LockKind, Open};
use crate::layout::Layout;
use crate::pack::entry::{Entry, HEADER, Header, MOST_RECORD, PACK_MARK};

/// A pack of this size gets no more entries.
pub(crate) const ROLL: u64 = 256 << 20;
/// The number of bytes written at a time: they fit the caches of a core when the system copies
/// them.
const CHUNK: usize = 256 << 10;
/// Whenever this many bytes have been appended, the system is asked to start writing them to the
/// disk.
const WRITE_BACK: u64 = 2 << 20;
/// Some machines allow a process only 64 open files.
const MOST_OPEN: usize = 16;

/// Open handles of packs, for reading.
#[derive(Debug, Default)]
pub(crate) struct PackFiles(Mutex<HashMap<u32, Arc<dyn FsFile>>>);

impl PackFiles {
    pub fn get(&self, fs: &dyn Fs, layout: &Layout, number: u32) -> FsResult<Arc<dyn FsFile>> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&number) {
            return Ok(Arc::clone(file));
        }
        if open.len() >= MOST_OPEN {
            open.clear();
        }
        let file: Arc<dyn FsFile> = Arc::from(fs.open(&layout.pack(number), Open::Read)?);
        open.insert(number, Arc::clone(&file));
        Ok(file)
    }

    /// For a new attempt: the name may mean another file now.
    pub fn forget(&self, number: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}

/// The payload of an entry, as far as the pack has it.
pub(crate) fn payload_at(file: &dyn FsFile, offset: u32, length: u32) -> FsResult<Bytes> {
    let mut bytes = vec![0u8; length as usize];
    let filled = file.read_full_at(&mut bytes, u64::from(offset) + HEADER as u64)?;
    bytes.truncate(filled);
    Ok(Bytes::from(bytes))
}

/// The entry at this position, if it is complete.
pub(crate) fn entry_at(
    file: &dyn FsFile,
    pack: u32,
    offset: u32,
    payload_length: u32,
) -> FsResult<Option<Entry>> {
    let mut bytes = vec![0u8; HEADER + payload_length as usize];
    let filled = file.read_full_at(&mut bytes, u64::from(offset))?;
    if filled < bytes.len() {
        return Ok(None);
    }
    let bytes = Bytes::from(bytes);
    let header = Header::decode(&bytes, pack, u64::from(offset));
    let header = header.filter(|header| header.length == payload_length);
    Ok(header.and_then(|header| header.entry(&bytes.slice(HEADER..))))
}

/// An entry and its position.
pub(crate) type Placed = (u32, u64, Entry);

/// The pack that this process appends to. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct OpenPack {
    pub number: u32,
    file: Box<dyn FsFile>,
    /// The position of the next entry.
    end: u64,
    /// Its name is not durable yet.
    fresh: bool,
}

impl OpenPack {
    /// Takes over a pack that the caller's handle has locked.
    pub fn resume(number: u32, file: Box<dyn FsFile>, end: u64) -> OpenPack {
        OpenPack { number, file, end, fresh: false }
    }

    /// Creates a pack with an unused number.
    pub fn create(fs: &dyn Fs, layout: &Layout, mut number: u32) -> Result<OpenPack, FsError> {
        loop {
            match fs.open(&layout.pack(number), Open::CreateNew) {
                Ok(file) => {
                    // Another process that opens the cache may inspect it for a moment.
                    match file.try_lock(LockKind::Exclusive) {
                        Ok(true) => {
                            return Ok(OpenPack { number, file, end: 0, fresh: true });
                        }
                        Err(error) if error.is_unsupported() => {
                            return Ok(OpenPack { number, file, end: 0, fresh: true });
                        }
                        Ok(false) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            number += 1;
        }
    }

    /// True if its path still leads to it: the file may have been removed.
    pub fn is_in_place(&self, fs: &dyn Fs, layout: &Layout) -> FsResult<bool> {
        match fs.metadata(&layout.pack(self.number)) {
            Ok(there) => Ok(self.file.metadata().is_ok_and(|own| own.inode == there.inode)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn is_full(&self) -> bool {
        self.end >= ROLL
    }

    /// Appends entries until all are written or the pack is full; returns their number. After an
    /// error the pack is unchanged, or must not be used again.
    pub fn append(&mut self, entries: &[Entry], placed: &mut Vec<Placed>) -> FsResult<usize> {
        let before = placed.len();
        let appended = self.append_all(entries, placed);
        appended.inspect_err(|_| placed.truncate(before))
    }

    fn append_all(&mut self, entries: &[Entry], placed: &mut Vec<Placed>) -> FsResult<usize> {
        let mut buffer = Vec::with_capacity(2 * CHUNK);
        let (mut written, mut position, mut write_back_start) = (self.end, self.end, self.end);
        if position == 0 {
            buffer.extend_from_slice(PACK_MARK);
            position = PACK_MARK.len() as u64;
        }
        let mut taken = 0;
        for entry in entries {
            if position >= ROLL {
                break;
            }
            entry.encode(self.number, position, &mut buffer);
            placed.push((self.number, position, entry.clone()));
            position += entry.size();
            taken += 1;
            if buffer.len() >= CHUNK {
                self.file.write_all_at(&buffer, written)?;
                written = position;
                buffer.clear();
                if written - write_back_start >= WRITE_BACK {
                    self.file.write_back(write_back_start, written - write_back_start);
                    write_back_start = written;
                }
            }
        }
        self.file.write_all_at(&buffer, written)?;
        self.end = position;
        Ok(taken)
    }

    /// Makes everything appended durable.
    pub fn sync(&mut self, fs: &dyn Fs, layout: &Layout) -> FsResult<()> {
        self.file.sync_data()?;
        if self.fresh {
            fs.sync_dir(&layout.packs)?;
            self.fresh = false;
        }
        Ok(())
    }

    /// Cuts off the remains of a failed commit.
    pub fn cut(self, end: u64) {
        // Remains that cannot be cut off are cut off by the next process that opens the cache.
        let _ = self.file.set_len(end);
    }
}

/// The readable lengths of packs that are shorter than the index says.
#[derive(Debug, Default)]
pub(crate) struct ShortPacks(Mutex<HashMap<u32, u64>>);

impl ShortPacks {
    pub fn set(&self, packs: HashMap<u32, u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = packs;
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn reaches(&self, pack_end: Option<(u32, u64)>) -> bool {
        let short = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pack_end.is_none_or(|(pack, end)| short.get(&pack).is_none_or(|length| end <= *length))
    }
}

/// Packs after a failed sync: nothing more is written there.
pub(crate) type Avoided = HashSet<u32>;

/// Fails for values that are too large for any pack.
pub(crate) fn check_record_size(size: usize) -> Result<(), CacheError> {
    if size > MOST_RECORD {
        return Err(CacheError::RecordTooLarge { size: size as u64, limit: MOST_RECORD as u64 });
    }
    Ok(())
}
