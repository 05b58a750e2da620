//! Reads a pack from front to back, and resynchronises after damage.

use bytes::Bytes;

use crate::fs::{FsFile, FsResult};
use crate::pack::entry::{Entry, HEADER, Header, MAGIC, PACK_MARK};

const CHUNK: usize = 1 << 20;

#[derive(Debug)]
pub(crate) enum ScannedEntry {
    Entry {
        offset: u64,
        entry: Entry,
    },
    /// The header is valid, the payload is not.
    Damaged,
    /// Bytes that are not an entry, up to the next entry or the end.
    Garbage,
}

pub(crate) struct Scan<'a> {
    file: &'a dyn FsFile,
    pack: u32,
    buffer: Bytes,
    buffer_start: u64,
    position: u64,
    end: u64,
}

impl<'a> Scan<'a> {
    /// Scans from the offset of an entry; 0 is the start of the pack.
    pub fn new(file: &'a dyn FsFile, pack: u32, from: u64) -> FsResult<Scan<'a>> {
        let end = file.len()?;
        Ok(Scan {
            file,
            pack,
            buffer: Bytes::new(),
            buffer_start: 0,
            position: from.max(PACK_MARK.len() as u64),
            end,
        })
    }

    /// The position of the scan.
    pub fn position(&self) -> u64 {
        self.position.min(self.end)
    }

    /// Continues after a position that cannot be read.
    pub fn step_over(&mut self) {
        self.position = (self.position + CHUNK as u64).min(self.end);
    }

    /// The next entry or damage in the pack; None at its end.
    pub fn next(&mut self) -> FsResult<Option<ScannedEntry>> {
        if self.position >= self.end {
            return Ok(None);
        }
        let offset = self.position;
        let Some((header, payload)) = self.entry_at(offset)? else {
            return self.skip_garbage().map(Some);
        };
        let length = (HEADER + payload.len()) as u64;
        self.position += length;
        Ok(Some(match header.entry(&payload) {
            Some(entry) => ScannedEntry::Entry { offset, entry },
            None => ScannedEntry::Damaged,
        }))
    }

    /// A valid header with its complete payload; None otherwise.
    fn entry_at(&mut self, offset: u64) -> FsResult<Option<(Header, Bytes)>> {
        let bytes = self.bytes(offset, HEADER)?;
        let Some(header) = Header::decode(&bytes, self.pack, offset) else {
            return Ok(None);
        };
        let length = header.length as usize;
        let payload = self.bytes(offset + HEADER as u64, length)?;
        Ok((payload.len() == length).then_some((header, payload)))
    }

    fn skip_garbage(&mut self) -> FsResult<ScannedEntry> {
        let mut candidate = self.position + 1;
        while candidate < self.end {
            let window = self.bytes(candidate, CHUNK)?;
            let step = window.windows(2).position(|pair| pair == MAGIC);
            let Some(step) = step else {
                candidate += (window.len() as u64).max(2) - 1;
                if window.len() < CHUNK {
                    break;
                }
                continue;
            };
            candidate += step as u64;
            if self.entry_at(candidate)?.is_some() {
                self.position = candidate;
                return Ok(ScannedEntry::Garbage);
            }
            candidate += 1;
        }
        self.position = self.end;
        Ok(ScannedEntry::Garbage)
    }

    /// These bytes, as far as they exist before the end.
    fn bytes(&mut self, offset: u64, length: usize) -> FsResult<Bytes> {
        let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = length.min(left);
        let buffered = self.buffer_start..self.buffer_start + self.buffer.len() as u64;
        let inside = buffered.contains(&offset) && offset + length as u64 <= buffered.end;
        if !inside {
            let mut fresh = vec![0u8; length.max(CHUNK).min(left)];
            let filled = self.file.read_full_at(&mut fresh, offset)?;
            fresh.truncate(filled);
            self.buffer = Bytes::from(fresh);
            self.buffer_start = offset;
        }
        let start = (offset - self.buffer_start) as usize;
        let stop = (start + length).min(self.buffer.len());
        Ok(self.buffer.slice(start.min(stop)..stop))
    }
}
