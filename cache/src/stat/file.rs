//! The file of the stat index: all sections, and behind them the rows that changed since.
//!
//! Layout: a mark; the checksum of the sections; their end (u64) and number (u32); for each its key,
//! offset and length (u64 each); the sections. Then the changes in the order in which they were
//! made, each with a checksum that also covers the one before it: the section, its new content, and
//! the rows. Bytes behind the last valid change do not count.
//!
//! A change of a few files is appended, since a large index costs more to write than to read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use camino::Utf8PathBuf;

use super::section::{NewRows, Section};
use crate::fs::{Fs, FsError, FsFile, FsResult, Metadata, Open, beside};
use crate::{CacheError, Digest, Hasher};

pub(super) type Sections = BTreeMap<Digest, Section>;

const MARK: &[u8; 16] = b"throstle stat 3\n";
/// The mark and the checksum of the sections.
const SUMMED: usize = 16 + 32;
const HEAD: usize = SUMMED + 8 + 4;
const SECTION_HEAD: usize = 32 + 8 + 8;
/// A change: its checksum, the key of the section, the new content, the number of rows.
const CHANGE: usize = 32 + 32 + 32 + 4;
/// Changes may take this part of the sections, and this number of bytes more.
const PART: u64 = 8;
const MORE: u64 = 4 << 10;

/// The file as this process has read or written it last.
#[derive(Debug)]
struct OpenStatFile {
    /// Held open, so that no other file gets its inode.
    file: Box<dyn FsFile>,
    metadata: Metadata,
    /// The end of the sections, and of the last valid change.
    base: u64,
    end: u64,
    /// The checksum of the last change, or of the sections.
    sum: Digest,
    sections: Sections,
}

/// The file, and the state in which this process last saw it.
#[derive(Debug)]
pub(crate) struct StatFile {
    fs: Arc<dyn Fs>,
    path: Utf8PathBuf,
    stored: Mutex<Option<OpenStatFile>>,
    /// This process has written the file since it was synced.
    is_unsynced: AtomicBool,
    /// The reason why the file counts as missing, until it is told.
    trouble: Mutex<Option<String>>,
}

impl StatFile {
    pub fn new(fs: Arc<dyn Fs>, path: Utf8PathBuf) -> StatFile {
        let is_unsynced = AtomicBool::new(false);
        StatFile { fs, path, stored: Mutex::default(), is_unsynced, trouble: Mutex::default() }
    }

    /// The reason why the file was not used, once.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note_trouble(&self, why: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = Some(format!("the stat index `{}` {why}", self.path));
    }

    /// The sections in the file; none if it is missing or broken.
    pub fn load(&self) -> Result<Sections, CacheError> {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        self.renew(&mut stored)?;
        Ok(stored.as_ref().map(|stored| stored.sections.clone()).unwrap_or_default())
    }

    /// Writes the sections that differ from those in the file.
    pub fn save(&self, sections: &Sections) -> Result<(), CacheError> {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        self.renew(&mut stored)?;
        let changes = stored.as_ref().and_then(|stored| stored.changes(sections));
        let written = match changes {
            Some(changes) if changes.is_empty() => return Ok(()),
            Some(changes) => self.append(stored.take(), sections, &changes),
            None => self.write(sections),
        };
        *stored = Some(written?);
        self.is_unsynced.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the file durable if this process has written it. Runs do so at their end: before, the
    /// bytes that a power cut damages fail their checksums, and what they do not cover is hashed
    /// again.
    pub fn sync(&self) -> FsResult<()> {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(stored)) = (self.is_unsynced.swap(false, Ordering::Relaxed), &*stored) {
            stored.file.sync_data()?;
            self.fs.sync_dir(self.path.parent().unwrap_or(&self.path))?;
        }
        Ok(())
    }

    /// Reads the file, unless it is as this process knows it. One that cannot be read counts as
    /// missing: all that it says can be found out again.
    fn renew(&self, stored: &mut Option<OpenStatFile>) -> Result<(), CacheError> {
        match self.try_renew(stored) {
            Err(error) if error.is_of_the_moment() => Err(error.into()),
            Err(error) => {
                *stored = None;
                self.note_trouble(&format!("cannot be read ({})", error.whole()));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn try_renew(&self, stored: &mut Option<OpenStatFile>) -> FsResult<()> {
        let is_missing = |error: &FsError| error.is_not_found() || error.is_a_folder();
        let now = match self.fs.metadata(&self.path) {
            Err(error) if is_missing(&error) => {
                *stored = None;
                return Ok(());
            }
            other => other?,
        };
        if stored.as_ref().is_some_and(|stored| stored.metadata == now) {
            return Ok(());
        }
        *stored = None;
        let file = match self.fs.open(&self.path, Open::Read) {
            Err(error) if is_missing(&error) => return Ok(()),
            other => other?,
        };
        let size = file.metadata()?.size;
        *stored = read(file)?;
        // An empty file is what a power cut may leave of a new one.
        if stored.is_none() && size > 0 {
            self.note_trouble("is damaged");
        }
        Ok(())
    }

    fn append(
        &self,
        stored: Option<OpenStatFile>,
        sections: &Sections,
        changes: &StatChanges,
    ) -> Result<OpenStatFile, CacheError> {
        let path = &self.path;
        let (file, length) = (self.fs.open(path, Open::ReadWrite)?, changes.bytes.len() as u64);
        let there = file.metadata()?;
        let Some(stored) = stored.filter(|stored| stored.metadata == there) else {
            return self.write(sections);
        };
        if there.size > stored.end {
            file.set_len(stored.end)?;
        }
        let written = file.write_all_at(&changes.bytes, stored.end);
        written.map_err(|error| CacheError::while_writing(error, path, length))?;
        Ok(OpenStatFile {
            metadata: file.metadata()?,
            file,
            end: stored.end + length,
            sum: changes.sum,
            sections: sections.clone(),
            base: stored.base,
        })
    }

    /// Replaces the file as a whole.
    fn write(&self, sections: &Sections) -> Result<OpenStatFile, CacheError> {
        let bytes = encode(sections);
        let (fs, path) = (&*self.fs, &self.path);
        let fresh = beside(path);
        let written = fs.open(&fresh, Open::CreateNew).and_then(|file| {
            file.write_all_at(&bytes, 0)?;
            fs.rename(&fresh, path)?;
            Ok((file.metadata()?, file))
        });
        let end = bytes.len() as u64;
        let (metadata, file) = written.map_err(|error| {
            let _ = fs.remove_file(&fresh);
            CacheError::while_writing(error, path, end)
        })?;
        let sum = digest(&bytes, MARK.len()).unwrap_or(Digest::from_bytes([0; 32]));
        let sections = sections.clone();
        Ok(OpenStatFile { file, metadata, base: end, end, sum, sections })
    }
}

fn read(file: Box<dyn FsFile>) -> FsResult<Option<OpenStatFile>> {
    let metadata = file.metadata()?;
    let mut bytes = vec![0; usize::try_from(metadata.size).unwrap_or(0)];
    let filled = file.read_full_at(&mut bytes, 0)?;
    bytes.truncate(filled);
    let parsed = parse(bytes);
    Ok(parsed.map(|(base, end, sum, sections)| OpenStatFile {
        file,
        metadata,
        base,
        end,
        sum,
        sections,
    }))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
    usize::try_from(u64::from_le_bytes(bytes)).ok()
}

fn small_number(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

fn digest(bytes: &[u8], at: usize) -> Option<Digest> {
    Some(Digest::from_bytes(bytes.get(at..at + 32)?.try_into().ok()?))
}

fn parse(mut bytes: Vec<u8>) -> Option<(u64, u64, Digest, Sections)> {
    let (base, count) = (number(&bytes, SUMMED)?, small_number(&bytes, SUMMED + 8)?);
    let mut sum = digest(&bytes, MARK.len())?;
    if bytes[..MARK.len()] != *MARK || Digest::of(bytes.get(SUMMED..base)?) != sum {
        return None;
    }
    let mut places = BTreeMap::new();
    for index in 0..count {
        let start = HEAD + index * SECTION_HEAD;
        let (offset, length) = (number(&bytes, start + 32)?, number(&bytes, start + 40)?);
        let end = offset.checked_add(length).filter(|end| *end <= base)?;
        places.insert(digest(&bytes, start)?, offset..end);
    }
    let mut end = base;
    let (own, changes) = bytes.split_at_mut(base);
    while let Some(change) = StatChange::next(&changes[end - base..], &sum) {
        let Some(place) = places.get(&change.key) else { break };
        if Section::renew(&mut own[place.clone()], &change.content, change.rows).is_none() {
            break;
        }
        sum = change.sum;
        end += change.length;
    }
    let bytes = Bytes::from(bytes);
    let section = |(key, place)| Some((key, Section::parse(bytes.slice(place))?));
    let sections = places.into_iter().map(section).collect::<Option<Sections>>()?;
    Some((base as u64, end as u64, sum, sections))
}

/// A change with a valid checksum.
struct StatChange<'a> {
    sum: Digest,
    key: Digest,
    content: Digest,
    rows: &'a [u8],
    length: usize,
}

impl StatChange<'_> {
    fn next<'a>(bytes: &'a [u8], before: &Digest) -> Option<StatChange<'a>> {
        let count = small_number(bytes, CHANGE - 4)?;
        let length = CHANGE.checked_add(count.checked_mul(NewRows::ROW)?)?;
        let (sum, body) = (digest(bytes, 0)?, bytes.get(32..length)?);
        let (key, content) = (digest(bytes, 32)?, digest(bytes, 64)?);
        let rows = &bytes[CHANGE..length];
        (sum_of(before, body) == sum).then_some(StatChange { sum, key, content, rows, length })
    }
}

fn sum_of(before: &Digest, body: &[u8]) -> Digest {
    Hasher::new().update(before.as_bytes()).update(body).finish()
}

/// Bytes to append, and the last checksum in them.
struct StatChanges {
    bytes: Vec<u8>,
    sum: Digest,
}

impl StatChanges {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn push(&mut self, key: &Digest, section: &Section, rows: &NewRows) {
        let mut body = Vec::with_capacity(CHANGE + rows.bytes.len());
        body.extend_from_slice(key.as_bytes());
        body.extend_from_slice(section.content().as_bytes());
        body.extend_from_slice(&rows.count.to_le_bytes());
        body.extend_from_slice(&rows.bytes);
        self.sum = sum_of(&self.sum, &body);
        self.bytes.extend_from_slice(self.sum.as_bytes());
        self.bytes.extend_from_slice(&body);
    }
}

impl OpenStatFile {
    /// The changes that lead to these sections; None if writing the whole file costs less.
    fn changes(&self, sections: &Sections) -> Option<StatChanges> {
        if !self.sections.keys().eq(sections.keys()) {
            return None;
        }
        let most = (self.base / PART + MORE).saturating_sub(self.end - self.base);
        let mut changes = StatChanges { bytes: Vec::new(), sum: self.sum };
        for (key, new) in sections {
            let rows = new.rows_unlike(self.sections.get(key)?, most)?;
            if rows.count > 0 {
                changes.push(key, new, &rows);
            }
        }
        (changes.bytes.len() as u64 <= most).then_some(changes)
    }
}

fn encode(sections: &Sections) -> Vec<u8> {
    let mut offset = HEAD + sections.len() * SECTION_HEAD;
    let end = offset + sections.values().map(|section| section.as_bytes().len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(end);
    bytes.extend_from_slice(MARK);
    bytes.resize(SUMMED, 0);
    bytes.extend_from_slice(&(end as u64).to_le_bytes());
    bytes.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    for (key, section) in sections {
        let length = section.as_bytes().len();
        bytes.extend_from_slice(key.as_bytes());
        bytes.extend_from_slice(&(offset as u64).to_le_bytes());
        bytes.extend_from_slice(&(length as u64).to_le_bytes());
        offset += length;
    }
    for section in sections.values() {
        bytes.extend_from_slice(section.as_bytes());
    }
    let sum = Digest::of(&bytes[SUMMED..]);
    bytes[MARK.len()..SUMMED].copy_from_slice(sum.as_bytes());
    bytes
}
