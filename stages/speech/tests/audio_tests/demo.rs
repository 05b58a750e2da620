//! The corpus of the demo matches its description.

use stage_speech::audio::check::{ClipLimits, check};
use stage_speech::audio::decode;
use stage_speech::audio::decode::{DecodeOptions, DecodedClip};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const BROKEN: &str = "eero_10.wav";

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/demo/data")
}

/// File, text and speaker of every row.
fn rows() -> Vec<[String; 3]> {
    let table = std::fs::read_to_string(data().join("metadata.csv")).unwrap();
    let row = |line: &str| {
        let columns: Vec<String> = line.split('|').map(str::to_owned).collect();
        columns.try_into().unwrap()
    };
    table.lines().map(row).collect()
}

fn bytes(file: &str) -> Vec<u8> {
    std::fs::read(data().join("wavs").join(file)).unwrap()
}

#[test]
fn one_clip_is_broken_and_the_others_pass_the_check() {
    let mut rejected = Vec::new();
    for [file, _, _] in rows() {
        match decode(&bytes(&file), &DecodeOptions::default()) {
            Err(fault) => rejected.push((file, fault.code())),
            Ok(DecodedClip { clip, notes, .. }) => {
                assert_eq!((clip.rate, notes.len()), (22_050, 0), "{file}");
                assert!((1.0..2.6).contains(&clip.seconds()), "{file}: {} s", clip.seconds());
                let failures = check(&clip, None, &ClipLimits::default()).failures;
                assert!(failures.is_empty(), "{file}: {}", failures[0]);
            }
        }
    }
    assert_eq!(rejected, [(BROKEN.to_owned(), "truncated")]);
}

#[test]
fn the_broken_clip_stays_under_the_threshold_of_five_percent() {
    assert!(1.0 / (rows().len() as f64) < 0.05);
}

#[test]
fn the_best_speaker_is_clear_by_clips_and_by_minutes() {
    let mut speakers: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for [file, _, speaker] in rows() {
        let counts = speakers.entry(speaker).or_default();
        counts.0 += 1;
        counts.1 += bytes(&file).len();
    }
    assert_eq!(speakers.len(), 3);
    let best = speakers.remove("aino").unwrap();
    assert!(speakers.values().all(|other| best.0 > other.0 + 5 && best.1 > other.1 * 3 / 2));
}

#[test]
fn the_audio_takes_less_than_three_megabytes() {
    let total: usize = rows().iter().map(|[file, _, _]| bytes(file).len()).sum();
    assert!(total < 3_000_000, "{total} bytes");
}

#[test]
fn the_texts_give_the_normaliser_something_to_do() {
    let texts: Vec<String> = rows().into_iter().map(|[_, text, _]| text).collect();
    let with = |wanted: fn(char) -> bool| texts.iter().filter(|text| text.contains(wanted)).count();
    assert!(with(|letter| letter.is_ascii_digit()) >= 5);
    assert!(with(|letter| matches!(letter, '”' | '»' | '"')) >= 4);
    // A letter and its dots apart.
    assert!(with(|letter| letter == '\u{308}') >= 1);
}
