//! The entries of a pack: their layout and checks.
//!
//! Header (48 bytes): magic, kind, table, payload length, key, and a checksum that also covers the
//! pack's number and the offset, so that a copied entry is not valid elsewhere. An object's payload
//! is checked by its key; every other payload begins with its own checksum.

use bytes::Bytes;

use crate::Digest;

pub(crate) const HEADER: usize = 48;
pub(crate) const MAGIC: [u8; 2] = [0xb1, 0x7d];
/// Every pack begins with it.
pub(crate) const PACK_MARK: &[u8; 16] = b"throstle pack 1\n";

/// A namespace of record keys; the engine assigns their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub u8);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Bytes under their own digest.
    Object {
        digest: Digest,
        bytes: Bytes,
    },
    /// An object in a file of its own.
    Loose {
        digest: Digest,
        size: u64,
    },
    Record {
        table: Table,
        key: Digest,
        sequence: u64,
        value: Bytes,
    },
    /// The record under this key was removed.
    Gone {
        table: Table,
        key: Digest,
        sequence: u64,
    },
    /// In archives only: bytes of a large object, completed by a `Loose` entry.
    Piece {
        of: Digest,
        offset: u64,
        bytes: Bytes,
    },
}

/// A header with a valid checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    kind: u8,
    table: u8,
    pub length: u32,
    key: Digest,
}

const OBJECT: u8 = 1;
const LOOSE: u8 = 2;
const RECORD: u8 = 3;
const GONE: u8 = 4;
const PIECE: u8 = 5;

/// The longest value of a record.
pub(crate) const MOST_RECORD: usize = 64 << 20;
/// No entry has a longer payload, so a damaged header cannot cause a large allocation.
const MOST_PAYLOAD: usize = MOST_RECORD + 16;

/// Eight bytes of blake3: against accidents, not against attackers.
pub(crate) fn checksum(parts: &[&[u8]]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut short = [0u8; 8];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    short
}

impl Entry {
    pub fn key(&self) -> Digest {
        match self {
            Entry::Object { digest, .. } | Entry::Loose { digest, .. } => *digest,
            Entry::Record { key, .. } | Entry::Gone { key, .. } => *key,
            Entry::Piece { of, .. } => *of,
        }
    }

    /// The size of the entry in a pack.
    pub fn size(&self) -> u64 {
        let payload = match self {
            Entry::Object { bytes, .. } => bytes.len(),
            Entry::Loose { .. } | Entry::Gone { .. } => 16,
            Entry::Record { value: bytes, .. } | Entry::Piece { bytes, .. } => 16 + bytes.len(),
        };
        (HEADER + payload) as u64
    }

    /// Appends the entry, encoded for this position.
    pub fn encode(&self, pack: u32, offset: u64, out: &mut Vec<u8>) {
        match self {
            Entry::Object { digest, bytes } => {
                encode_header(out, (OBJECT, 0, digest), bytes.len(), pack, offset);
                out.extend_from_slice(bytes);
            }
            Entry::Loose { digest, size } => {
                let body = size.to_le_bytes();
                encode_checked(out, (LOOSE, 0, digest), &[&body], pack, offset);
            }
            Entry::Record { table, key, sequence, value } => {
                let body = sequence.to_le_bytes();
                encode_checked(out, (RECORD, table.0, key), &[&body, value], pack, offset);
            }
            Entry::Gone { table, key, sequence } => {
                let body = sequence.to_le_bytes();
                encode_checked(out, (GONE, table.0, key), &[&body], pack, offset);
            }
            Entry::Piece { of, offset: at, bytes } => {
                let body = at.to_le_bytes();
                encode_checked(out, (PIECE, 0, of), &[&body, bytes], pack, offset);
            }
        }
    }
}

fn encode_header(
    out: &mut Vec<u8>,
    (kind, table, key): (u8, u8, &Digest),
    length: usize,
    pack: u32,
    offset: u64,
) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[kind, table]);
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(key.as_bytes());
    let check = header_check(&out[start..], pack, offset);
    out.extend_from_slice(&check);
}

fn encode_checked(
    out: &mut Vec<u8>,
    name: (u8, u8, &Digest),
    body: &[&[u8]],
    pack: u32,
    offset: u64,
) {
    let length = body.iter().map(|part| part.len()).sum::<usize>() + 8;
    encode_header(out, name, length, pack, offset);
    out.extend_from_slice(&checksum(body));
    for part in body {
        out.extend_from_slice(part);
    }
}

fn header_check(header: &[u8], pack: u32, offset: u64) -> [u8; 8] {
    checksum(&[&pack.to_le_bytes(), &offset.to_le_bytes(), header])
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
}

impl Header {
    /// None if these bytes are not a header for this position.
    pub fn decode(bytes: &[u8], pack: u32, offset: u64) -> Option<Header> {
        let bytes: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        if bytes[..2] != MAGIC || header_check(&bytes[..40], pack, offset) != bytes[40..] {
            return None;
        }
        let mut key = [0u8; 32];
        key.copy_from_slice(&bytes[8..40]);
        let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if length as usize > MOST_PAYLOAD {
            return None;
        }
        Some(Header { kind: bytes[2], table: bytes[3], length, key: Digest::from_bytes(key) })
    }

    /// The object that this entry completes: with its bytes, or by closing its pieces.
    pub fn object(&self) -> Option<Digest> {
        matches!(self.kind, OBJECT | LOOSE).then_some(self.key)
    }

    /// The object with its bytes in this entry.
    pub fn small_object(&self) -> Option<Digest> {
        (self.kind == OBJECT).then_some(self.key)
    }

    /// The table and key of the record in this entry.
    pub fn record(&self) -> Option<(Table, Digest)> {
        (self.kind == RECORD).then_some((Table(self.table), self.key))
    }

    /// None if the payload is damaged.
    pub fn entry(&self, payload: &Bytes) -> Option<Entry> {
        if self.kind == OBJECT {
            let digest = Digest::of(payload);
            return (digest == self.key).then(|| Entry::Object { digest, bytes: payload.clone() });
        }
        let body = payload.get(8..)?;
        if checksum(&[body]) != payload[..8] {
            return None;
        }
        let (first, table, key) = (number(body)?, Table(self.table), self.key);
        match self.kind {
            LOOSE => Some(Entry::Loose { digest: key, size: first }),
            RECORD => {
                let value = payload.slice(16..);
                Some(Entry::Record { table, key, sequence: first, value })
            }
            GONE => Some(Entry::Gone { table, key, sequence: first }),
            PIECE => Some(Entry::Piece { of: key, offset: first, bytes: payload.slice(16..) }),
            _ => None,
        }
    }
}
