//! The layout of an entry in a section: the number of its folder and the location of its name (10
//! bytes), its kind, whether only its digest was requested, the state of the file (40), the digest
//! (32).

use std::ops::Range;

use super::entry::{StatEntry, What, trusted};
use crate::Digest;

pub const ENTRY: usize = 84;
pub const NAME: Range<usize> = 0..10;
/// The offsets of the file state and of the digest.
pub const STATS: usize = 12;
pub const DIGEST: usize = 52;

#[derive(Clone, Copy)]
pub struct Row<'a>(pub &'a [u8; ENTRY]);

impl Row<'_> {
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn long(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32
    }

    pub fn dir(&self) -> usize {
        self.word(0) as usize
    }

    pub fn name(&self) -> (usize, usize) {
        (self.word(4) as usize, usize::from(u16::from_le_bytes([self.0[8], self.0[9]])))
    }

    pub fn what(&self) -> What {
        match self.0[10] {
            0 => What::File,
            1 => What::Dir,
            3 => What::Unusable,
            _ => What::Absent,
        }
    }

    pub fn by_digest(&self) -> bool {
        self.0[11] == 1
    }

    pub fn size(&self) -> u64 {
        self.long(12)
    }

    pub fn mtime_ns(&self) -> i64 {
        self.long(20).cast_signed()
    }

    pub fn ctime_ns(&self) -> i64 {
        self.long(28).cast_signed()
    }

    pub fn inode(&self) -> u64 {
        self.long(36)
    }

    pub fn hashed_ns(&self) -> i64 {
        self.long(44).cast_signed()
    }

    pub fn trusted(&self) -> bool {
        trusted(self.what(), self.mtime_ns(), self.ctime_ns(), self.hashed_ns())
    }

    pub fn digest(&self) -> Digest {
        let mut bytes = [0u8; 32];
        bytes.copy_from_slice(&self.0[DIGEST..]);
        Digest::from_bytes(bytes)
    }

    pub fn stands_for(&self) -> (What, &[u8]) {
        (self.what(), &self.0[DIGEST..])
    }
}

pub fn push_row(rows: &mut Vec<u8>, entry: &StatEntry, dir: usize, offset: usize, length: usize) {
    rows.extend_from_slice(&(dir as u32).to_le_bytes());
    rows.extend_from_slice(&(offset as u32).to_le_bytes());
    rows.extend_from_slice(&(length as u16).to_le_bytes());
    rows.extend_from_slice(&[entry.what as u8, u8::from(entry.by_digest)]);
    rows.extend_from_slice(&stats_of(entry));
    rows.extend_from_slice(entry.digest.as_bytes());
}

/// The file state in a row.
pub fn stats_of(entry: &StatEntry) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&entry.size.to_le_bytes());
    bytes[8..16].copy_from_slice(&entry.mtime_ns.to_le_bytes());
    bytes[16..24].copy_from_slice(&entry.ctime_ns.to_le_bytes());
    bytes[24..32].copy_from_slice(&entry.inode.to_le_bytes());
    bytes[32..].copy_from_slice(&entry.hashed_ns.to_le_bytes());
    bytes
}
