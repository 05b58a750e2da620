//! The training shards of Fish Speech, `.protos`.
//!
//! A file is a sequence of records: the length as four bytes, little-endian, and one `TextData`
//! message, which has the sentences of a speaker. The messages are those of the package `text_data`
//! (proto3); the numbers 2 of `Sentence` and 3 of `TextData` are unused there. The format has no
//! field for the id of a clip, so reading a shard returns none.

use prost::Message;

/// One codebook: a token per frame.
#[derive(Clone, PartialEq, Message)]
pub struct Semantics {
    #[prost(uint32, repeated, tag = "1")]
    pub values: Vec<u32>,
}

/// A clip: its transcripts, from which training draws one, and a row per codebook.
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

/// The name that the tools of Fish Speech use for clips in speaker folders.
pub const FOLDER: &str = "folder";

/// Errors of writing records and reading shards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtosError {
    #[error("a record of {bytes} bytes is too long for the format")]
    RecordTooLong { bytes: usize },
    #[error("the shard ends inside the record at byte {offset}")]
    CutShort { offset: u64 },
    #[error("the record at byte {offset} cannot be read: {message}")]
    Record { offset: u64, message: String },
}

/// A shard of these records.
pub fn write<'a>(records: impl IntoIterator<Item = &'a TextData>) -> Result<Vec<u8>, ProtosError> {
    let mut bytes = Vec::new();
    for record in records {
        let length = record.encoded_len();
        let narrow =
            u32::try_from(length).map_err(|_| ProtosError::RecordTooLong { bytes: length })?;
        bytes.extend(narrow.to_le_bytes());
        bytes.extend(record.encode_to_vec());
    }
    Ok(bytes)
}

/// Reads the records of a shard.
pub fn read(bytes: &[u8]) -> Result<Vec<TextData>, ProtosError> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = (bytes.len() - rest.len()) as u64;
        let (length, behind) =
            rest.split_first_chunk::<4>().ok_or(ProtosError::CutShort { offset })?;
        let length = u32::from_le_bytes(*length) as usize;
        let record = behind.get(..length).ok_or(ProtosError::CutShort { offset })?;
        let record = TextData::decode(record)
            .map_err(|error| ProtosError::Record { offset, message: error.to_string() })?;
        records.push(record);
        rest = &behind[length..];
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn record(name: &str) -> TextData {
        let semantics = vec![Semantics { values: vec![1, 300] }, Semantics { values: vec![0, 2] }];
        let sentence = Sentence { texts: vec!["hei".to_owned()], semantics };
        TextData { source: FOLDER.to_owned(), name: name.to_owned(), sentences: vec![sentence] }
    }

    #[test]
    fn the_bytes_of_a_record_are_those_of_the_message_definition() {
        let expected: Vec<u8> = [
            &[31, 0, 0, 0][..],
            &[0x0A, 6],
            b"folder",
            &[0x12, 1],
            b"a",
            &[0x22, 18, 0x0A, 3],
            b"hei",
            &[0x1A, 5, 0x0A, 3, 1, 0xAC, 0x02],
            &[0x1A, 4, 0x0A, 2, 0, 2],
        ]
        .concat();
        let bytes = write(&[record("a")]).unwrap();
        assert_eq!(bytes, expected);
        assert_eq!(read(&bytes).unwrap(), [record("a")]);
    }

    #[test]
    fn a_shard_that_is_cut_says_where() {
        let bytes = write(&[record("a"), record("b")]).unwrap();
        let first = bytes.len() / 2;
        for length in (1..first).chain(first + 1..bytes.len()) {
            let offset = if length < first { 0 } else { first as u64 };
            assert_eq!(read(&bytes[..length]), Err(ProtosError::CutShort { offset }));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_records_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), place in 0usize..35, byte: u8,
        ) {
            let _ = read(&bytes);
            let mut damaged = write(&[record("a")]).unwrap();
            damaged[place] = byte;
            let _ = read(&damaged);
        }
    }
}
