//! Shards in the `.protos` format of Fish Speech.
//!
//! A file is a sequence of records: the length as four bytes, little-endian, and one `TextData`
//! message, which holds the sentences of a speaker. The messages are those of the package
//! `text_data` (proto3); the numbers 2 of `Sentence` and 3 of `TextData` are not used there.
//! The format has no place for the id of a clip: reading a shard gives none.

use std::collections::BTreeMap;

use prost::Message;

use super::{Entry, PackError, checked};

/// One codebook: a token for each frame.
#[derive(Clone, PartialEq, Message)]
pub struct Semantics {
    #[prost(uint32, repeated, tag = "1")]
    pub values: Vec<u32>,
}

/// A clip: its transcripts, of which training draws one, and a row for each codebook.
#[derive(Clone, PartialEq, Message)]
pub struct Sentence {
    #[prost(string, repeated, tag = "1")]
    pub texts: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub semantics: Vec<Semantics>,
}

/// The clips of one speaker in this shard.
#[derive(Clone, PartialEq, Message)]
pub struct TextData {
    #[prost(string, tag = "1")]
    pub source: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "4")]
    pub sentences: Vec<Sentence>,
}

/// What the tools of Fish Speech write for clips that lie in speaker folders.
const SOURCE: &str = "folder";

/// Packs clips: a record for each speaker by name, clips by id.
pub fn write(entries: &[Entry]) -> Result<Vec<u8>, PackError> {
    let mut speakers: BTreeMap<&str, Vec<Sentence>> = BTreeMap::new();
    for (entry, codebooks, frames) in checked(entries)? {
        let sentence = sentence(entry, codebooks, frames)?;
        speakers.entry(&entry.speaker).or_default().push(sentence);
    }
    let mut bytes = Vec::new();
    for (name, sentences) in speakers {
        let record = TextData { source: SOURCE.to_owned(), name: name.to_owned(), sentences };
        append(&mut bytes, &record)?;
    }
    Ok(bytes)
}

fn sentence(entry: &Entry, codebooks: usize, frames: usize) -> Result<Sentence, PackError> {
    let token = |value: &i64| {
        u32::try_from(*value).map_err(|_| PackError::Token { id: entry.id.clone(), value: *value })
    };
    let row = |row: usize| &entry.codes.values[row * frames..(row + 1) * frames];
    let semantics: Result<Vec<Semantics>, PackError> = (0..codebooks)
        .map(|at| Ok(Semantics { values: row(at).iter().map(token).collect::<Result<_, _>>()? }))
        .collect();
    Ok(Sentence { texts: vec![entry.text.clone()], semantics: semantics? })
}

fn append(bytes: &mut Vec<u8>, record: &TextData) -> Result<(), PackError> {
    let encoded = record.encode_to_vec();
    let length = u32::try_from(encoded.len())
        .map_err(|_| PackError::RecordTooLong { bytes: encoded.len() })?;
    bytes.extend(length.to_le_bytes());
    bytes.extend(encoded);
    Ok(())
}

/// Reads the records of a shard.
pub fn read(bytes: &[u8]) -> Result<Vec<TextData>, PackError> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = (bytes.len() - rest.len()) as u64;
        let (length, behind) =
            rest.split_first_chunk::<4>().ok_or(PackError::CutShort { offset })?;
        let length = u32::from_le_bytes(*length) as usize;
        let record = behind.get(..length).ok_or(PackError::CutShort { offset })?;
        let record = TextData::decode(record)
            .map_err(|error| PackError::Record { offset, message: error.to_string() })?;
        records.push(record);
        rest = &behind[length..];
    }
    Ok(records)
}
