//! Shards of NumPy arrays: the tokens of all clips side by side, and an index in JSON.

use stage_formats::npy::{self, IntArray, Width};

use super::{PackClip, PackError, checked};

/// A shard as two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayShard {
    /// Codebooks by frames of all clips, `.npy`.
    pub tokens: Vec<u8>,
    /// The position of each clip in it, JSON.
    pub index: Vec<u8>,
}

/// One clip of the index. The fields are written in this order.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexEntry {
    frames: u64,
    id: String,
    speaker: String,
    start: u64,
    text: String,
}

pub fn write(entries: &[PackClip], width: Width) -> Result<ArrayShard, PackError> {
    let sorted = checked(entries)?;
    let codebooks = sorted.first().map_or(0, |(_, codebooks, _)| *codebooks);
    let total: usize = sorted.iter().map(|(_, _, frames)| frames).sum();
    let mut values = Vec::with_capacity(codebooks * total);
    for row in 0..codebooks {
        for (entry, _, frames) in &sorted {
            values.extend_from_slice(&entry.codes.values[row * frames..(row + 1) * frames]);
        }
    }
    let mut start = 0;
    let places: Vec<IndexEntry> = sorted
        .iter()
        .map(|(entry, _, frames)| {
            let place = IndexEntry {
                frames: *frames as u64,
                id: entry.id.clone(),
                speaker: entry.speaker.clone(),
                start,
                text: entry.text.clone(),
            };
            start += place.frames;
            place
        })
        .collect();
    let shape = vec![codebooks as u64, total as u64];
    let tokens = npy::write(&IntArray { shape, values }, width)?;
    // Texts and numbers always become JSON.
    let mut index = serde_json::to_vec_pretty(&places).unwrap_or_default();
    index.push(b'\n');
    Ok(ArrayShard { tokens, index })
}

/// Reads a shard back, and checks every position against the array.
pub fn read(tokens: &[u8], index: &[u8]) -> Result<Vec<PackClip>, PackError> {
    let array = npy::read(tokens)?;
    let places: Vec<IndexEntry> = serde_json::from_slice(index)
        .map_err(|error| PackError::Index { message: error.to_string() })?;
    let [codebooks, total] = array.shape[..] else {
        return Err(PackError::Shape { id: String::new(), shape: array.shape });
    };
    places
        .into_iter()
        .map(|place| {
            let end = place.start.checked_add(place.frames).filter(|end| *end <= total);
            let Some(end) = end else {
                return Err(PackError::Place { id: place.id });
            };
            let row = |row: u64| {
                let at = |frame: u64| (row * total + frame) as usize;
                array.values[at(place.start)..at(end)].iter().copied()
            };
            let values = (0..codebooks).flat_map(row).collect();
            let codes = IntArray { shape: vec![codebooks, place.frames], values };
            Ok(PackClip { id: place.id, speaker: place.speaker, text: place.text, codes })
        })
        .collect()
}
