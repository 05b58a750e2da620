//! The header of a safetensors file, parsed while it is read: only the beginning of an invalid one
//! is read, and its content is bounded.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{FORMAT, METADATA};
use crate::error::FormatError;
use crate::parts::{Parts, WINDOW};
use crate::tensor::{Dtype, TensorInfo};

/// The largest size of a header; that of a model with thousands of tensors has less than a
/// megabyte.
const MAX_HEADER: u64 = 32 << 20;
const MAX_TENSORS: usize = 1 << 18;
const MAX_DIMENSIONS: usize = 16;
const LENGTH: usize = size_of::<u64>();

/// The tensors of a file, and the offset of its data.
pub struct Header {
    pub tensors: BTreeMap<String, (TensorInfo, usize)>,
    pub metadata: BTreeMap<String, String>,
}

/// Reads the header and checks that its tensors cover the rest of the file, each byte once.
pub fn read(parts: &Parts) -> Result<Header, FormatError> {
    let damaged = |message: &str| FormatError::damaged(FORMAT, message);
    let length = parts.up_to(FORMAT, 0, LENGTH)?;
    let length = length.first_chunk().copied().map(u64::from_le_bytes);
    let length = length.ok_or_else(|| damaged("it is truncated"))?;
    if length > MAX_HEADER {
        let message = format!("a header of {length} bytes, more than {MAX_HEADER}");
        return Err(FormatError::too_much(FORMAT, message));
    }
    let start = LENGTH + length as usize;
    if start > parts.len() {
        return Err(damaged("it is truncated"));
    }
    let written = match parts {
        Parts::Memory(bytes) => parse(serde_json::Deserializer::from_slice(&bytes[LENGTH..start]))?,
        Parts::File(_) => {
            let reader = parts.reader(LENGTH, length as usize);
            let reader = BufReader::with_capacity(WINDOW, reader);
            parse(serde_json::Deserializer::from_reader(reader))?
        }
    };
    let tensors = placed(written.tensors, start, parts.len())?;
    Ok(Header { tensors, metadata: written.metadata })
}

fn parse<'de, R: serde_json::de::Read<'de>>(
    mut json: serde_json::Deserializer<R>,
) -> Result<HeaderJson, FormatError> {
    let written = All.deserialize(&mut json).and_then(|written| json.end().map(|()| written));
    written.map_err(|error| {
        if error.is_io() {
            FormatError::Read { format: FORMAT, source: error.into() }
        } else {
            FormatError::damaged(FORMAT, error.to_string())
        }
    })
}

/// Each tensor begins where the one before it ends, and the last one ends the file.
fn placed(
    written: BTreeMap<String, TensorEntry>,
    start: usize,
    end: usize,
) -> Result<BTreeMap<String, (TensorInfo, usize)>, FormatError> {
    let mut order: Vec<(&String, &TensorEntry)> = written.iter().collect();
    order.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut at = start;
    for (name, entry) in order {
        let wrong = |message: &str| FormatError::tensor(name, message);
        let (from, to) = entry.data_offsets;
        if start.checked_add(from) != Some(at) {
            return Err(wrong("it does not begin at the end of the previous tensor"));
        }
        if entry.info(name)?.bytes() != to.checked_sub(from) {
            return Err(wrong("its bytes do not fill its shape"));
        }
        let next = start.checked_add(to).filter(|next| *next <= end);
        at = next.ok_or_else(|| wrong("it exceeds the file"))?;
    }
    if at != end {
        let message = format!("its tensors end at byte {at} and the file at byte {end}");
        return Err(FormatError::damaged(FORMAT, message));
    }
    let place = |(name, entry): (String, TensorEntry)| {
        let info = entry.info(&name)?;
        Ok((name, (info, start + entry.data_offsets.0)))
    };
    written.into_iter().map(place).collect()
}

struct HeaderJson {
    tensors: BTreeMap<String, TensorEntry>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct TensorEntry {
    dtype: String,
    shape: RawShape,
    data_offsets: (usize, usize),
}

impl TensorEntry {
    fn info(&self, name: &str) -> Result<TensorInfo, FormatError> {
        let dtype = dtype_of(&self.dtype).ok_or_else(|| {
            let message = format!("elements of the type `{}` are not supported", self.dtype);
            FormatError::tensor(name, message)
        })?;
        Ok(TensorInfo::new(dtype, self.shape.0.clone()))
    }
}

fn dtype_of(stored: &str) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|dtype| super::stored_name(*dtype) == stored)
}

struct RawShape(Vec<usize>);

impl<'de> Deserialize<'de> for RawShape {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<RawShape, D::Error> {
        json.deserialize_seq(Sizes)
    }
}

struct Sizes;

impl<'de> Visitor<'de> for Sizes {
    type Value = RawShape;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the sizes of a tensor")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sizes: A) -> Result<RawShape, A::Error> {
        let mut shape = Vec::new();
        while let Some(size) = sizes.next_element()? {
            if shape.len() == MAX_DIMENSIONS {
                return Err(A::Error::custom("a tensor has too many dimensions"));
            }
            shape.push(size);
        }
        Ok(RawShape(shape))
    }
}

struct All;

impl<'de> DeserializeSeed<'de> for All {
    type Value = HeaderJson;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<HeaderJson, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for All {
    type Value = HeaderJson;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the tensors of a file by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<HeaderJson, A::Error> {
        let mut written = HeaderJson { tensors: BTreeMap::new(), metadata: BTreeMap::new() };
        while let Some(name) = entries.next_key::<String>()? {
            if name == METADATA {
                let metadata: Option<BTreeMap<String, String>> = entries.next_value()?;
                written.metadata.extend(metadata.unwrap_or_default());
                continue;
            }
            if written.tensors.len() == MAX_TENSORS {
                return Err(A::Error::custom("there are too many tensors"));
            }
            if written.tensors.contains_key(&name) {
                return Err(A::Error::custom(format!("there are two tensors `{name}`")));
            }
            written.tensors.insert(name, entries.next_value()?);
        }
        Ok(written)
    }
}
