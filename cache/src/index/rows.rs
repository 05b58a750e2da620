//! The rows of the index for objects and records, and their encoding.

use bytes::Bytes;

use crate::pack::entry::HEADER;

/// The location of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    Packed { pack: u32, offset: u32, length: u32 },
    Loose { size: u64 },
}

impl Location {
    pub fn size(&self) -> u64 {
        match self {
            Location::Packed { length, .. } => u64::from(*length),
            Location::Loose { size } => *size,
        }
    }

    /// The end of its entry in its pack.
    pub fn pack_end(&self) -> Option<(u32, u64)> {
        match self {
            Location::Packed { pack, offset, length } => {
                Some((*pack, u64::from(*offset) + HEADER as u64 + u64::from(*length)))
            }
            Location::Loose { .. } => None,
        }
    }

    pub fn encode(&self) -> [u8; 12] {
        let mut bytes = [0u8; 12];
        match self {
            Location::Packed { pack, offset, length } => {
                bytes[..4].copy_from_slice(&pack.to_le_bytes());
                bytes[4..8].copy_from_slice(&offset.to_le_bytes());
                bytes[8..].copy_from_slice(&length.to_le_bytes());
            }
            Location::Loose { size } => bytes[4..].copy_from_slice(&size.to_le_bytes()),
        }
        bytes
    }

    pub fn decode(bytes: &[u8; 12]) -> Location {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        match word(0) {
            0 => Location::Loose { size: u64::from(word(4)) | u64::from(word(8)) << 32 },
            pack => Location::Packed { pack, offset: word(4), length: word(8) },
        }
    }
}

/// The newest known state of one record key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub sequence: u64,
    pub pack: u32,
    pub offset: u32,
    pub value: KnownValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KnownValue {
    Here(Bytes),
    /// Too long for the index: in the pack.
    InPack {
        length: u32,
    },
    Gone,
}

/// The offset of the kind of value in a row, behind sequence, pack and offset.
const KIND: usize = 16;

impl Known {
    /// The size of the record in its pack.
    pub fn entry_size(&self) -> u64 {
        let value = match &self.value {
            KnownValue::Here(value) => value.len() as u64,
            KnownValue::InPack { length } => u64::from(*length),
            KnownValue::Gone => 0,
        };
        HEADER as u64 + 16 + value
    }

    /// The order of two states of a key, the same for all processes.
    pub fn order(&self) -> (u64, u32, u32) {
        (self.sequence, self.pack, self.offset)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::from(self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.pack.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        match &self.value {
            KnownValue::Here(value) => {
                bytes.push(0);
                bytes.extend_from_slice(value);
            }
            KnownValue::InPack { length } => {
                bytes.push(1);
                bytes.extend_from_slice(&length.to_le_bytes());
            }
            KnownValue::Gone => bytes.push(2),
        }
        bytes
    }

    /// None if the bytes are not a row.
    pub fn decode(bytes: &[u8]) -> Option<Known> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let value = match *bytes.get(KIND)? {
            0 => KnownValue::Here(Bytes::copy_from_slice(&bytes[KIND + 1..])),
            1 if bytes.len() == KIND + 5 => KnownValue::InPack { length: word(KIND + 1) },
            2 => KnownValue::Gone,
            _ => return None,
        };
        let sequence = u64::from(word(0)) | u64::from(word(4)) << 32;
        Some(Known { sequence, pack: word(8), offset: word(12), value })
    }
}
