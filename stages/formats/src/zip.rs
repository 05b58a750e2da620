//! The part of the zip format that weight files use: a directory of entries. Stored entries are
//! views of the file, and deflated ones are inflated within a limit.
//!
//! The directory at the end of the file is read first, within limits of its own; the rest only on
//! request.
//!
//! Checksums are not compared: libraries may omit them, and readers here know the file by the
//! digest of all its bytes.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

use bytes::Bytes;
use flate2::read::DeflateDecoder;

use crate::error::FormatError;
use crate::parts::{Parts, PartsReader, WINDOW};

const FORMAT: &str = "zip";

const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const CENTRAL: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";

const END_SIZE: usize = 22;
const END_64_SIZE: usize = 56;
const LOCATOR_SIZE: usize = 20;
const CENTRAL_SIZE: usize = 46;
const LOCAL_SIZE: usize = 30;
/// The longest comment after the end record.
const MAX_COMMENT: usize = 0xffff;
/// The extra field for values of more than 32 bits.
const EXTRA_64: u16 = 1;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;
/// The largest number of entries and size of a directory; that of a model with thousands of tensors
/// has thousands of entries and less than a megabyte.
const MAX_ENTRIES: u64 = 1 << 18;
const MAX_DIRECTORY: usize = 32 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ZipEntry {
    method: u16,
    compressed: usize,
    size: usize,
    local: usize,
}

/// The directory of an archive.
#[derive(Clone, Debug)]
pub struct Archive {
    parts: Parts,
    entries: BTreeMap<String, ZipEntry>,
}

impl Archive {
    pub fn read(parts: Parts) -> Result<Archive, FormatError> {
        let Directory { start, count } = directory(&parts)?;
        if count > MAX_ENTRIES {
            let message = format!("{count} entries in its directory, more than {MAX_ENTRIES}");
            return Err(FormatError::too_much(FORMAT, message));
        }
        let mut walk = DirectoryWalk::new(&parts, start);
        let mut entries = BTreeMap::new();
        // Each entry takes bytes of the file, so that a false count is detected soon.
        for _ in 0..count {
            let (name, entry) = walk.entry()?;
            if entries.contains_key(&name) {
                return Err(damaged(format!("there are two entries `{name}`")));
            }
            entries.insert(name, entry);
        }
        Ok(Archive { entries, parts })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The uncompressed size of an entry in bytes, according to the directory.
    pub fn size(&self, name: &str) -> Option<usize> {
        self.entries.get(name).map(|entry| entry.size)
    }

    /// Tests if the entry is compressed.
    pub fn is_packed(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.method != STORED)
    }

    pub fn file_size(&self) -> usize {
        self.parts.len()
    }

    /// A part of the content of an entry; for a stored entry a view of the archive if it is in
    /// memory. A compressed entry is decompressed to its end, to verify its size.
    pub fn part(&self, name: &str, start: usize, length: usize) -> Result<Bytes, FormatError> {
        let entry = self.entry(name)?;
        let end = start.checked_add(length).filter(|end| *end <= entry.size);
        end.ok_or_else(|| damaged(format!("`{name}` is shorter than its stored content")))?;
        if entry.method == STORED {
            let data = self.data(name, &entry)?;
            return self.parts.up_to(FORMAT, data + start, length);
        }
        let mut reader = self.reader(name, entry.size)?;
        let failed = |source| FormatError::Read { format: FORMAT, source };
        let mut content = Vec::new();
        io::copy(&mut (&mut reader).take(start as u64), &mut io::sink()).map_err(failed)?;
        (&mut reader).take(length as u64).read_to_end(&mut content).map_err(failed)?;
        io::copy(&mut reader, &mut io::sink()).map_err(failed)?;
        Ok(content.into())
    }

    /// Reads an entry from its start. A compressed one with a wrong size is an error.
    pub fn reader(&self, name: &str, limit: usize) -> Result<EntryReader<'_>, FormatError> {
        let entry = self.entry(name)?;
        if entry.size > limit {
            let message = format!("`{name}` has {} bytes, more than {limit}", entry.size);
            return Err(FormatError::too_much(FORMAT, message));
        }
        let stored = self.parts.reader(self.data(name, &entry)?, entry.compressed);
        let unpacked: Box<dyn Read + '_> = match entry.method {
            STORED => Box::new(stored),
            _ => Box::new(DeflateDecoder::new(BufReader::with_capacity(WINDOW, stored))),
        };
        Ok(EntryReader { unpacked, name: name.to_owned(), left: entry.size as u64 })
    }

    /// An entry of a supported kind.
    fn entry(&self, name: &str) -> Result<ZipEntry, FormatError> {
        let entry = self.entries.get(name).copied();
        let entry = entry.ok_or_else(|| damaged(format!("there is no entry `{name}`")))?;
        match entry.method {
            STORED if entry.size != entry.compressed => {
                Err(damaged(format!("`{name}` has contradictory sizes")))
            }
            STORED | DEFLATED => Ok(entry),
            other => Err(damaged(format!("`{name}` is compressed by the unknown method {other}"))),
        }
    }

    /// The offset of the content after its local header, which may have an extra field of another
    /// length than that in the directory. All of it is inside the file.
    fn data(&self, name: &str, entry: &ZipEntry) -> Result<usize, FormatError> {
        let record = self.parts.exactly(FORMAT, entry.local, LOCAL_SIZE)?;
        let record = record.ok_or_else(|| damaged("an entry lies outside of the file"))?;
        let record = Record(&record);
        record.expect(LOCAL)?;
        let start = entry.local + LOCAL_SIZE + record.u16(26)? as usize + record.u16(28)? as usize;
        let end = start.checked_add(entry.compressed);
        if end.is_some_and(|end| end <= self.parts.len()) {
            Ok(start)
        } else {
            Err(damaged(format!("`{name}` is truncated")))
        }
    }
}

/// Exactly the bytes that the directory names, or an error.
pub struct EntryReader<'a> {
    unpacked: Box<dyn Read + 'a>,
    name: String,
    left: u64,
}

impl EntryReader<'_> {
    fn wrong_size(&self) -> io::Error {
        let message = format!("`{}` decompresses to the wrong size", self.name);
        io::Error::new(io::ErrorKind::InvalidData, message)
    }

    fn inner(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.unpacked.read(buffer).map_err(|error| match error.kind() {
            // The error of the decompression for damaged data.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => self.wrong_size(),
            _ => error,
        })
    }
}

impl Read for EntryReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        let count = self.inner(&mut buffer[..length])?;
        self.left -= count as u64;
        let is_longer = self.left == 0 && self.inner(&mut [0])? > 0;
        if count == 0 || is_longer { Err(self.wrong_size()) } else { Ok(count) }
    }
}

fn damaged(message: impl Into<String>) -> FormatError {
    FormatError::damaged(FORMAT, message)
}

struct Directory {
    start: usize,
    count: u64,
}

fn directory(parts: &Parts) -> Result<Directory, FormatError> {
    let none = || damaged("it has no directory: it is truncated, or not a zip file");
    let longest = LOCATOR_SIZE + END_SIZE + MAX_COMMENT;
    let tail = parts.up_to(FORMAT, parts.len().saturating_sub(longest), longest)?;
    let last = tail.len().checked_sub(END_SIZE).ok_or_else(none)?;
    let first = last.saturating_sub(MAX_COMMENT);
    let at = (first..=last).rev().find(|at| tail[*at..].starts_with(END)).ok_or_else(none)?;
    let record = Record(&tail[at..]);
    let (count, start) = (record.u16(10)?, record.u32(16)?);
    if count != u16::MAX && start != u32::MAX {
        return Ok(Directory { start: start as usize, count: u64::from(count) });
    }
    match at.checked_sub(LOCATOR_SIZE).and_then(|at| tail.get(at..)) {
        Some(locator) if locator.starts_with(LOCATOR_64) => {
            let at = position(Record(locator).u64(8)?)?;
            let record = parts.exactly(FORMAT, at, END_64_SIZE)?.ok_or_else(none)?;
            let record = Record(&record);
            record.expect(END_64)?;
            Ok(Directory { start: position(record.u64(48)?)?, count: record.u64(32)? })
        }
        _ => Ok(Directory { start: start as usize, count: u64::from(count) }),
    }
}

/// Walks the entries of the directory.
struct DirectoryWalk<'a> {
    reader: io::Take<BufReader<PartsReader<'a>>>,
}

impl<'a> DirectoryWalk<'a> {
    fn new(parts: &'a Parts, start: usize) -> DirectoryWalk<'a> {
        let rest = parts.reader(start, usize::MAX);
        let reader = BufReader::with_capacity(WINDOW, rest).take(MAX_DIRECTORY as u64);
        DirectoryWalk { reader }
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, FormatError> {
        let mut bytes = vec![0; length];
        match self.reader.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                Err(FormatError::Read { format: FORMAT, source: error })
            }
            Err(_) if self.reader.limit() == 0 => {
                Err(FormatError::too_much(FORMAT, "its directory is too long"))
            }
            Err(_) => Err(damaged("its directory is truncated")),
        }
    }

    /// The name of the next entry, and its location.
    fn entry(&mut self) -> Result<(String, ZipEntry), FormatError> {
        let head = self.bytes(CENTRAL_SIZE)?;
        let record = Record(&head);
        record.expect(CENTRAL)?;
        let (flags, method) = (record.u16(8)?, record.u16(10)?);
        let name = self.bytes(record.u16(28)?.into())?;
        let name = String::from_utf8(name).map_err(|_| damaged("a name is not UTF-8"))?;
        if flags & ENCRYPTED != 0 {
            return Err(damaged(format!("`{name}` is encrypted")));
        }
        let extra = self.bytes(record.u16(30)?.into())?;
        self.bytes(record.u16(32)?.into())?;
        let mut wide = Wide(wide_fields(&extra));
        // The order of the overflowing values in the extra field.
        let size = wide.or(record.u32(24)?)?;
        let compressed = wide.or(record.u32(20)?)?;
        let local = wide.or(record.u32(42)?)?;
        Ok((name, ZipEntry { method, compressed, size, local }))
    }
}

/// The content of the extra field for 64-bit values.
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
    /// The narrow number, or the next wide one if it is marked as such.
    fn or(&mut self, narrow: u32) -> Result<usize, FormatError> {
        if narrow != u32::MAX {
            return Ok(narrow as usize);
        }
        let (number, rest) =
            self.0.split_first_chunk::<8>().ok_or_else(|| damaged("a 64-bit number is missing"))?;
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
        bytes.copied().ok_or_else(|| damaged("a record is truncated"))
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
        if self.0.starts_with(signature) {
            Ok(())
        } else {
            Err(damaged("a record is not where the directory says"))
        }
    }
}
