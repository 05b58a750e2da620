//! The part of the zip format that weight files use: a directory of entries, of which stored
//! ones are views of the file and deflated ones are inflated within a limit.
//!
//! Checksums are not compared: libraries may be told to leave them out, and what reads a file
//! here knows it by the digest of all its bytes.

use std::collections::BTreeMap;
use std::io::Read;

use bytes::Bytes;
use flate2::read::DeflateDecoder;

use crate::error::FormatError;

const FORMAT: &str = "zip";

const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const CENTRAL: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";

const END_SIZE: usize = 22;
const LOCATOR_SIZE: usize = 20;
/// The longest comment behind the end record.
const MAX_COMMENT: usize = 0xffff;
/// The extra field that holds what does not fit into 32 bits.
const EXTRA_64: u16 = 1;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    method: u16,
    compressed: usize,
    size: usize,
    local: usize,
}

/// The directory of an archive.
#[derive(Clone, Debug)]
pub struct Archive {
    bytes: Bytes,
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    pub fn read(bytes: Bytes) -> Result<Archive, FormatError> {
        let directory = directory(&bytes)?;
        let mut entries = BTreeMap::new();
        let mut at = directory.start;
        // Each entry takes bytes of the file, so that the count cannot lie for long.
        for _ in 0..directory.count {
            let (name, entry, next) = central(&bytes, at)?;
            if entries.insert(name.clone(), entry).is_some() {
                return Err(damaged(format!("there are two entries `{}`", name.escape_debug())));
            }
            at = next;
        }
        Ok(Archive { bytes, entries })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Bytes of an entry once it is unpacked, as the directory has it.
    pub fn size(&self, name: &str) -> Option<usize> {
        self.entries.get(name).map(|entry| entry.size)
    }

    /// Whether the entry has to be unpacked to be read.
    pub fn is_packed(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.method != STORED)
    }

    pub fn file_size(&self) -> usize {
        self.bytes.len()
    }

    /// The content of an entry; of a stored one a view of the archive.
    pub fn content(&self, name: &str, limit: usize) -> Result<Bytes, FormatError> {
        let shown = name.escape_debug();
        let entry = self.entries.get(name);
        let entry = entry.ok_or_else(|| damaged(format!("there is no entry `{shown}`")))?;
        if entry.size > limit {
            let message = format!("`{shown}` has {} bytes, which is beyond all reason", entry.size);
            return Err(FormatError::too_much(FORMAT, message));
        }
        let start = data_start(&self.bytes, entry.local)?;
        let end = start.checked_add(entry.compressed).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| damaged(format!("`{shown}` is cut short")))?;
        match entry.method {
            STORED if entry.size == entry.compressed => Ok(self.bytes.slice(start..end)),
            DEFLATED => inflate(&self.bytes[start..end], entry.size)
                .ok_or_else(|| damaged(format!("`{shown}` does not unpack to its size"))),
            STORED => Err(damaged(format!("`{shown}` has two sizes"))),
            other => Err(damaged(format!("`{shown}` is packed by the unknown method {other}"))),
        }
    }
}

fn damaged(message: impl Into<String>) -> FormatError {
    FormatError::damaged(FORMAT, message)
}

/// Exactly so many bytes, or nothing. The buffer grows with what really comes out.
fn inflate(packed: &[u8], size: usize) -> Option<Bytes> {
    let mut content = Vec::new();
    let one_more = (size as u64).saturating_add(1);
    DeflateDecoder::new(packed).take(one_more).read_to_end(&mut content).ok()?;
    (content.len() == size).then(|| content.into())
}

struct Directory {
    start: usize,
    count: u64,
}

fn directory(bytes: &[u8]) -> Result<Directory, FormatError> {
    let none = || damaged("it has no directory; it is cut short, or no zip file");
    let first = bytes.len().saturating_sub(END_SIZE + MAX_COMMENT);
    let last = bytes.len().checked_sub(END_SIZE).ok_or_else(none)?;
    let at = (first..=last).rev().find(|at| bytes[*at..].starts_with(END)).ok_or_else(none)?;
    let record = Record(&bytes[at..]);
    let (count, start) = (record.u16(10)?, record.u32(16)?);
    if count != u16::MAX && start != u32::MAX {
        return Ok(Directory { start: start as usize, count: u64::from(count) });
    }
    match at.checked_sub(LOCATOR_SIZE).and_then(|at| bytes.get(at..)) {
        Some(locator) if locator.starts_with(LOCATOR_64) => {
            let at = position(Record(locator).u64(8)?)?;
            let record = Record(bytes.get(at..).ok_or_else(none)?);
            record.expect(END_64)?;
            Ok(Directory { start: position(record.u64(48)?)?, count: record.u64(32)? })
        }
        _ => Ok(Directory { start: start as usize, count: u64::from(count) }),
    }
}

/// An entry of the directory: its name, where it is, and where the next one begins.
fn central(bytes: &[u8], at: usize) -> Result<(String, Entry, usize), FormatError> {
    let cut = || damaged("its directory is cut short");
    let record = Record(bytes.get(at..).ok_or_else(cut)?);
    record.expect(CENTRAL)?;
    let (flags, method) = (record.u16(8)?, record.u16(10)?);
    let (name_length, extra_length) = (record.u16(28)? as usize, record.u16(30)? as usize);
    let comment_length = record.u16(32)? as usize;
    let name = record.0.get(46..46 + name_length).ok_or_else(cut)?;
    let name = String::from_utf8(name.to_vec()).map_err(|_| damaged("a name is no UTF-8"))?;
    if flags & ENCRYPTED != 0 {
        return Err(damaged(format!("`{}` is encrypted", name.escape_debug())));
    }
    let extra = record.0.get(46 + name_length..46 + name_length + extra_length).ok_or_else(cut)?;
    let mut wide = Wide(wide_fields(extra));
    // The order in which the extra field has what did not fit.
    let size = wide.or(record.u32(24)?)?;
    let compressed = wide.or(record.u32(20)?)?;
    let local = wide.or(record.u32(42)?)?;
    let next = at + 46 + name_length + extra_length + comment_length;
    Ok((name, Entry { method, compressed, size, local }, next))
}

/// Where the content begins behind a local header, whose extra field may differ in length from
/// that of the directory.
fn data_start(bytes: &[u8], local: usize) -> Result<usize, FormatError> {
    let record = bytes.get(local..).ok_or_else(|| damaged("an entry lies outside of the file"))?;
    let record = Record(record);
    record.expect(LOCAL)?;
    Ok(local + 30 + record.u16(26)? as usize + record.u16(28)? as usize)
}

/// The content of the extra field for what needs 64 bits.
fn wide_fields(mut extra: &[u8]) -> &[u8] {
    while let Some((head, rest)) = extra.split_first_chunk::<4>() {
        let [id_low, id_high, low, high] = *head;
        let length = u16::from_le_bytes([low, high]) as usize;
        let Some(content) = rest.get(..length) else { break };
        if u16::from_le_bytes([id_low, id_high]) == EXTRA_64 {
            return content;
        }
        extra = &rest[length..];
    }
    &[]
}

struct Wide<'a>(&'a [u8]);

impl Wide<'_> {
    /// The narrow number, or the next wide one where that says so.
    fn or(&mut self, narrow: u32) -> Result<usize, FormatError> {
        if narrow != u32::MAX {
            return Ok(narrow as usize);
        }
        let (number, rest) = self
            .0
            .split_first_chunk::<8>()
            .ok_or_else(|| damaged("a number of 64 bits is missing"))?;
        self.0 = rest;
        position(u64::from_le_bytes(*number))
    }
}

fn position(number: u64) -> Result<usize, FormatError> {
    usize::try_from(number).map_err(|_| damaged("a number is larger than any file"))
}

/// Fixed-width numbers of a record, each looked up with its bounds.
struct Record<'a>(&'a [u8]);

impl Record<'_> {
    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], FormatError> {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk::<N>());
        bytes.copied().ok_or_else(|| damaged("a record is cut short"))
    }

    fn u16(&self, at: usize) -> Result<u16, FormatError> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Result<u32, FormatError> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: usize) -> Result<u64, FormatError> {
        self.array(at).map(u64::from_le_bytes)
    }

    fn expect(&self, signature: &[u8]) -> Result<(), FormatError> {
        match self.0.starts_with(signature) {
            true => Ok(()),
            false => Err(damaged("a record is not where the directory says")),
        }
    }
}
