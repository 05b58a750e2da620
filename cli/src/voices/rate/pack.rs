//! A listening test as one file for other raters.

use std::collections::BTreeMap;

use cache::Digest;
use serde_json::{Value, json};
use stage_speech::audio::decode::{DecodeOptions, decode};
use stage_speech::rate::sheet::Trial;

use super::test::{Recordings, Test};
use crate::error::CliError;

/// Raters have one of these orders, by their names.
const SHEETS: usize = 16;

/// The file: one round, in several orders.
pub fn page(test: &Test, recordings: &Recordings) -> Result<String, CliError> {
    let mut sounds = BTreeMap::new();
    let mut sheets = Vec::new();
    for number in 0..SHEETS {
        let mut sheet = Vec::new();
        for trial in test.sheet.round(&format!("sheet {number}"), 0) {
            sheet.push(packed(trial, test, recordings, &mut sounds)?);
        }
        sheets.push(sheet);
    }
    let identity: Vec<&str> = test.pairs.iter().map(|pair| pair.id.as_str()).collect();
    let data = json!({
        "stage": test.stage,
        "id": Digest::of(identity.join(" ").as_bytes()).short(),
        "tie": test.tie,
        "sheets": sheets,
    });
    Ok(view::rate::file(data, &sounds))
}

fn packed(
    trial: Trial,
    test: &Test,
    recordings: &Recordings,
    sounds: &mut BTreeMap<String, Vec<u8>>,
) -> Result<Value, CliError> {
    let lost = |why: String| {
        CliError::failed(format!("cannot pack a recording: {why}"), "run the stage again")
    };
    let blobs = recordings.blobs(trial).ok_or_else(|| lost("it is missing".to_owned()))?;
    let mut names = Vec::new();
    for blob in blobs {
        // Equal recordings have one name, which says nothing about the voice.
        let name = Digest::of(format!("sound {}", blob.digest).as_bytes()).short();
        if !sounds.contains_key(&name) {
            let bytes = recordings.read(&blob).map_err(lost)?;
            sounds.insert(name.clone(), flac(&bytes).map_err(lost)?);
        }
        names.push(name);
    }
    Ok(json!({
        "pair": test.pairs[trial.pair].id,
        "swapped": trial.swapped,
        "repeat": trial.repeat,
        "text": test.texts[trial.pair],
        "left": names[0],
        "right": names[1],
    }))
}

fn flac(wav: &[u8]) -> Result<Vec<u8>, String> {
    let clip = decode(wav, &DecodeOptions::default()).map_err(|fault| fault.to_string())?.clip;
    let (rate, channels) = (clip.rate, usize::from(clip.channels));
    let samples: Vec<i32> = clip.into_pcm().0.into_iter().map(i32::from).collect();
    view::flac::encode(&samples, channels, rate)
}
