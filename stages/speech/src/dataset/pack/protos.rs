//! Clips as shards in the `.protos` format of Fish Speech: a record for each speaker.

use std::collections::BTreeMap;

use stage_formats::protos::{self, FOLDER, Semantics, Sentence, TextData};

use super::{PackClip, PackError, checked};

/// Packs clips: a record for each speaker by name, clips by id.
pub fn write(entries: &[PackClip]) -> Result<Vec<u8>, PackError> {
    let mut speakers: BTreeMap<&str, Vec<Sentence>> = BTreeMap::new();
    for (entry, codebooks, frames) in checked(entries)? {
        let sentence = sentence(entry, codebooks, frames)?;
        speakers.entry(&entry.speaker).or_default().push(sentence);
    }
    let record = |(name, sentences): (&str, _)| TextData {
        source: FOLDER.to_owned(),
        name: name.to_owned(),
        sentences,
    };
    let records: Vec<TextData> = speakers.into_iter().map(record).collect();
    Ok(protos::write(&records)?)
}

fn sentence(entry: &PackClip, codebooks: usize, frames: usize) -> Result<Sentence, PackError> {
    let token = |value: &i64| {
        u32::try_from(*value).map_err(|_| PackError::Token { id: entry.id.clone(), value: *value })
    };
    let row = |row: usize| &entry.codes.values[row * frames..(row + 1) * frames];
    let semantics: Result<Vec<Semantics>, PackError> = (0..codebooks)
        .map(|at| Ok(Semantics { values: row(at).iter().map(token).collect::<Result<_, _>>()? }))
        .collect();
    Ok(Sentence { texts: vec![entry.text.clone()], semantics: semantics? })
}
