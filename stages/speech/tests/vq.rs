//! Tokens that another tool has made, from the folder to the stages that read tokens.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use std::io::Cursor;

use stage_core::{Item, NewValue, Output, Reject, Value};
use stage_formats::npy::{self, IntArray, Width};
use support::*;

/// Silence at 24 kHz.
fn wav(samples: u32) -> Vec<u8> {
    let (bits_per_sample, sample_format) = (16, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate: 24_000, bits_per_sample, sample_format };
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
    (0..samples).for_each(|_| writer.write_sample(0_i16).unwrap());
    writer.finalize().unwrap();
    bytes.into_inner()
}

/// As the extraction of Fish Speech saves them.
fn tokens(frames: u64) -> Vec<u8> {
    let array = IntArray { shape: vec![10, frames], values: vec![7; 10 * frames as usize] };
    npy::write(&array, Width::I64).unwrap()
}

/// One second is 22 frames.
fn clips(tokens_of: &[(&str, Vec<u8>)]) -> (Bench, Vec<Item>) {
    let mut bench = Bench::default();
    for id in ["fresh", "stale", "new"] {
        bench.file(&format!("data/aino/{id}.wav"), wav(24_000));
        bench.file(&format!("data/aino/{id}.lab"), "Hei.");
    }
    for (id, bytes) in tokens_of {
        bench.file(&format!("data/aino/{id}.npy"), bytes.clone());
    }
    let folders = [("folder", text("data")), ("tokens", text("data"))];
    let output = bench.scan("corpus.folder", &folders).unwrap();
    let files: Vec<_> = bench.files.values().cloned().collect();
    for bytes in files {
        bench.blob("file", bytes);
    }
    (bench, output.items)
}

fn adopt(tokens_of: &[(&str, Vec<u8>)], others: &str) -> Vec<(String, Result<Output, Reject>)> {
    let (mut bench, items) = clips(tokens_of);
    let outputs = bench.process("vq.adopt", &[("others", text(others))], &items).unwrap();
    items.iter().map(|item| item.id.to_string()).zip(outputs).collect()
}

fn codes(adopted: Vec<(String, Result<Output, Reject>)>) -> Vec<(String, String)> {
    let code = |output: Result<Output, Reject>| match output {
        Ok(output) => shown(&output.values.last().unwrap().1),
        Err(reject) => reject.code,
    };
    adopted.into_iter().map(|(id, output)| (id, code(output))).collect()
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(id, code)| ((*id).to_owned(), (*code).to_owned())).collect()
}

#[test]
fn fresh_tokens_are_adopted_as_they_are_and_stale_or_missing_ones_set_aside() {
    let given = [("fresh", tokens(22)), ("stale", tokens(20))];
    let adopted = adopt(&given, "quarantine");
    let fresh = adopted.iter().find(|(id, _)| id == "aino/fresh").unwrap().1.clone().unwrap();
    let [(_, NewValue::Kept(Value::Blob(kept))), (_, frames), _] = &fresh.values[..] else {
        panic!("{fresh:?}");
    };
    assert_eq!((kept.digest, &*kept.kind), (cache::Digest::of(&tokens(22)), "tokens/npy"));
    assert_eq!(frames, &NewValue::Number(22.0));
    let wanted = [("aino/fresh", "yes"), ("aino/new", "no-tokens"), ("aino/stale", "stale-tokens")];
    assert_eq!(codes(adopted), named(&wanted));
}

#[test]
fn clips_without_tokens_of_their_own_can_go_on_to_be_encoded() {
    let given = [("fresh", tokens(22)), ("stale", tokens(20))];
    let adopted = adopt(&given, "keep");
    let wanted = [("aino/fresh", "yes"), ("aino/new", "no"), ("aino/stale", "no")];
    let stale = adopted.iter().find(|(id, _)| id == "aino/stale").unwrap().1.clone().unwrap();
    assert_eq!(stale.notes, [("stale-tokens".to_owned(), 1)]);
    assert_eq!(codes(adopted), named(&wanted));
}

#[test]
fn what_is_no_array_of_tokens_is_named_and_never_run() {
    let objects = b"\x93NUMPY\x01\x00\x3a\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }  \ncos\nsystem\n";
    for (bytes, code) in [
        (objects.to_vec(), "unreadable-tokens"),
        (tokens(22)[..500].to_vec(), "unreadable-tokens"),
        (Vec::new(), "unreadable-tokens"),
        (
            npy::write(&IntArray { shape: vec![220], values: vec![7; 220] }, Width::U16).unwrap(),
            "token-shape",
        ),
    ] {
        let adopted = codes(adopt(&[("fresh", bytes)], "quarantine"));
        assert_eq!(adopted[0], ("aino/fresh".to_owned(), code.to_owned()));
    }
}

#[test]
fn arrays_of_a_folder_of_their_own_find_their_clips_and_strays_are_counted() {
    let mut bench = Bench::default();
    bench.file("metadata.csv", "aino/a.wav|Hei.\nb.wav|Moi.\n");
    for name in ["wavs/aino/a.wav", "wavs/b.wav", "codes/aino/a.npy", "codes/aino/b.npy"] {
        bench.file(name, name.to_owned());
    }
    let output = bench
        .scan(
            "corpus.table",
            &[("table", text("metadata.csv")), ("audio", text("wavs")), ("tokens", text("codes"))],
        )
        .unwrap();
    let found: Vec<(&str, bool)> = output
        .items
        .iter()
        .map(|item| (&*item.id, item.fields.blob("found_tokens").is_some()))
        .collect();
    assert_eq!(found, [("aino/a", true), ("b", false)]);
    assert_eq!(output.notes, [("tokens without a clip".to_owned(), 1)]);
}
