//! Shards for lhotse (`CutSet.from_shar`): a list of cuts, and a tar file with their recordings.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value as Json, json};
use stage_core::Item;
use view::escape::clean;

use super::output::DeliveryFile;
use super::{DeliveryFolder, DeliveryItems, FileNames, plain, tar};
use crate::error::CliError;

/// The cuts of a shard.
const SHARD: usize = 1000;

/// Returns the number of files.
pub fn shar(set: &DeliveryItems, to: &DeliveryFolder) -> Result<usize, CliError> {
    let Some(audio) = set.audio() else {
        return Err(CliError::usage(
            "no field has audio",
            "lhotse needs WAV files: add an `audio.resample` stage",
        ));
    };
    let mut names = FileNames::default();
    for (number, items) in set.rows.chunks(SHARD).enumerate() {
        let cuts = DeliveryFile::new(to, &format!("cuts.{number:06}.jsonl.gz"))?;
        let mut cuts = GzEncoder::new(cuts, Compression::default());
        let mut recordings = DeliveryFile::new(to, &format!("recording.{number:06}.tar"))?;
        for item in items {
            let name = names.of(&item.id);
            let (cut, bytes) = cut(set, item, &name, audio)?;
            cuts.write_all(format!("{cut}\n").as_bytes())?;
            tar::entry(&mut recordings, &format!("{name}.wav"), &bytes)?;
            let recording = cut["recording"].to_string();
            tar::entry(&mut recordings, &format!("{name}.json"), recording.as_bytes())?;
        }
        cuts.finish()?.finish()?;
        tar::end(&mut recordings)?;
        recordings.finish()?;
    }
    Ok(2 * set.rows.len().div_ceil(SHARD))
}

fn cut(
    set: &DeliveryItems,
    item: &Item,
    name: &str,
    audio: &str,
) -> Result<(Json, bytes::Bytes), CliError> {
    let unfit = |why: &str| {
        let message = format!("item `{}` {why}", clean(&item.id));
        CliError::usage(message, "lhotse needs WAV files: add an `audio.resample` stage")
    };
    let blob = item.fields.blob(audio).ok_or_else(|| unfit("has no audio"))?;
    let bytes = set.read(blob)?;
    let shape = Shape::of(&bytes).ok_or_else(|| unfit("is not a WAV file"))?;
    let duration = shape.frames as f64 / f64::from(shape.rate);
    let every: Vec<u16> = (0..shape.channels).collect();
    let channel = if shape.channels == 1 { json!(0) } else { json!(every) };
    let custom: Map<String, Json> = set
        .values(item)
        .filter_map(|(field, value)| Some((field.to_owned(), plain(value)?)))
        .chain([("id".to_owned(), json!(&*item.id))])
        .collect();
    let mut supervision = json!({
        "id": name, "recording_id": name, "start": 0.0, "duration": duration, "channel": channel,
    });
    for field in ["text", "speaker"] {
        if let Some(text) = custom.get(field).filter(|value| value.is_string()) {
            supervision[field] = text.clone();
        }
    }
    let cut = json!({
        "id": name, "start": 0.0, "duration": duration, "channel": channel,
        "supervisions": [supervision],
        "recording": {
            "id": name,
            "sources": [{ "type": "shar", "channels": every, "source": "" }],
            "sampling_rate": shape.rate, "num_samples": shape.frames, "duration": duration,
            "channel_ids": every,
        },
        "custom": custom,
        "type": if shape.channels == 1 { "MonoCut" } else { "MultiCut" },
    });
    Ok((cut, bytes))
}

/// The format of a WAV file, as its header has it.
#[derive(Debug, PartialEq)]
struct Shape {
    rate: u32,
    channels: u16,
    frames: u64,
}

impl Shape {
    fn of(bytes: &[u8]) -> Option<Shape> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        if bytes.get(..4)? != b"RIFF" || bytes.get(8..12)? != b"WAVE" {
            return None;
        }
        let (mut at, mut format) = (12, None);
        loop {
            let (name, size) = (bytes.get(at..at + 4)?, word(at + 4)? as usize);
            match (name, format) {
                (b"fmt ", _) => {
                    let (low, high) = (word(at + 8)?, word(at + 20)?);
                    format = Some((word(at + 12)?, (low >> 16) as u16, high as u16));
                }
                (b"data", Some((rate, channels, width)))
                    if rate > 0 && channels > 0 && width > 0 =>
                {
                    let there = size.min(bytes.len() - (at + 8));
                    return Some(Shape { rate, channels, frames: there as u64 / u64::from(width) });
                }
                (b"data", _) => return None,
                _ => {}
            }
            at += 8 + size + size % 2;
        }
    }
}
