//! The fields of a protobuf message with their bytes as they are.

use bytes::{Buf, Bytes};

use super::graph_parts::damaged;
use crate::error::FormatError;

/// The kinds of fields.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// The longest head of a field with bytes.
pub const MAX_HEAD_BYTES: usize = 20;

/// A field of a message.
#[derive(Debug)]
pub struct WireField {
    pub number: u64,
    /// With its number and its length.
    pub whole: Bytes,
    /// The bytes of a message, a text or bytes; empty for numbers.
    pub content: Bytes,
}

/// The fields of a message in their order.
///
/// # Errors
///
/// If the bytes are no message.
pub fn fields(message: &Bytes) -> Result<Vec<WireField>, FormatError> {
    let (mut fields, mut rest) = (Vec::new(), message.clone());
    while !rest.is_empty() {
        let before = rest.clone();
        let tag = varint(&mut rest)?;
        let mut content = Bytes::new();
        match tag & 7 {
            VARINT => drop(varint(&mut rest)?),
            EIGHT_BYTES => drop(taken(&mut rest, 8)?),
            FOUR_BYTES => drop(taken(&mut rest, 4)?),
            LENGTH_DELIMITED => {
                let length = varint(&mut rest)?;
                content = taken(&mut rest, usize::try_from(length).unwrap_or(usize::MAX))?;
            }
            other => return Err(damaged(&format!("a field has the unknown type {other}"))),
        }
        let whole = before.slice(..before.len() - rest.len());
        fields.push(WireField { number: tag >> 3, whole, content });
    }
    Ok(fields)
}

/// Appends a field with bytes.
pub fn length_delimited(number: u64, content: &[u8], to: &mut Vec<u8>) {
    begin(number, content.len(), to);
    to.extend_from_slice(content);
}

/// Appends the head of a field with bytes.
pub fn begin(number: u64, length: usize, to: &mut Vec<u8>) {
    prost::encoding::encode_varint(number << 3 | LENGTH_DELIMITED, to);
    prost::encoding::encode_varint(length as u64, to);
}

/// The bytes of a field with its head.
pub fn length_delimited_size(number: u64, content: &[u8]) -> usize {
    let head = [number << 3 | LENGTH_DELIMITED, content.len() as u64];
    head.map(prost::encoding::encoded_len_varint).iter().sum::<usize>() + content.len()
}

fn varint(rest: &mut Bytes) -> Result<u64, FormatError> {
    prost::encoding::decode_varint(rest).map_err(|error| damaged(&error.to_string()))
}

fn taken(rest: &mut Bytes, length: usize) -> Result<Bytes, FormatError> {
    if length > rest.remaining() {
        let left = rest.remaining();
        return Err(damaged(&format!("a field has {length} bytes, but only {left} are left")));
    }
    Ok(rest.split_to(length))
}
