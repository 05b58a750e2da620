//! Changes to the recordings and their table.

use std::collections::BTreeMap;

use throstle_tests::{Project, RanProgram};

use crate::project::done;
use crate::sound;

const TABLE: &str = "data/metadata.csv";
const SENTENCES: &str = "data/spoken.txt";
/// A clip that the codec was not fitted on, and that is one of the samples.
const CLIP: &str = "data/wavs/aino_17.wav";

/// Checks the counts of these stages; every other stage must have executed nothing.
fn assert_executed(ran: &RanProgram, expected: &[(&str, u64)]) {
    assert_eq!(ran.executed(), expected.iter().copied().collect::<BTreeMap<_, _>>());
}

/// The names of the shards with different bytes.
fn changed_shards(demo: &Project, before: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let now = demo.files("out/packed");
    now.into_iter()
        .filter(|(name, bytes)| before.get(name) != Some(bytes))
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn one_changed_recording_is_one_item_in_every_item_stage_and_its_shard() {
    let demo = done();
    let before = demo.files("out/packed");
    demo.write(CLIP, sound::softer(&demo.read(CLIP)));
    let why = demo.why(&["clips"]);
    assert!(why.contains("file `data/wavs/aino_17.wav` changed from "), "{why}");
    let ran = demo.run();
    let items = [("clips", 1), ("checked", 1), ("voice", 1), ("tokens", 1), ("heard", 1)];
    let gathers = ["sides", "codec_clips", "packed", "speakers", "best", "samples", "summary"];
    // Another training clip gives another model, which synthesises every sentence again. Held-out
    // clips are selected by their content, and this one is not held out: it would change no
    // weights.
    let phases = ["trained", "adapted", "merged", "voice_sample"];
    let gathers: Vec<_> = gathers.iter().chain(&phases).map(|stage| (*stage, 1)).collect();
    let said = [("spoken_sentences", 3)];
    assert_executed(&ran, &[&items[..], &gathers[..], &said[..]].concat());
    assert_eq!(changed_shards(&demo, &before).len(), 1);
    for stage in ["voice", "tokens"] {
        let why = demo.why(&[stage, "aino_17"]);
        let change = "field `audio` of `aino_17` changed since the run before run 2 from audio";
        assert!(why.contains(change) && why.contains(" to audio"), "{stage}: {why}");
    }
    let why = demo.why(&["voice"]);
    assert!(why.contains("field `audio` of item `aino_17` on `input` changed from "), "{why}");
    assert!(demo.why(&["voice", "aino_16"]).contains("nothing that the stage reads"));
}

#[test]
fn one_changed_transcript_executes_no_audio_or_token_stage() {
    let demo = done();
    let before = demo.files("out/packed");
    demo.replace(TABLE, "Aamulla järvi oli", "Illalla järvi oli");
    let why = demo.why(&["clips"]);
    assert!(why.contains("file `data/metadata.csv` changed from "), "{why}");
    let ran = demo.run();
    let executed = ran.executed();
    assert_eq!((executed["clips"], executed["spoken"], executed["packed"]), (1, 1, 1));
    for stage in ["checked", "voice", "codec", "tokens", "heard"] {
        assert_eq!(executed.get(stage), None, "{stage}");
    }
    assert_eq!(changed_shards(&demo, &before).len(), 1);
    let why = demo.why(&["spoken", "aino_01"]);
    let change = "from \"Aamulla järvi oli aivan tyyni.\" to \"Illalla järvi oli aivan tyyni.\"";
    assert!(why.contains("field `text` of `aino_01` changed") && why.contains(change), "{why}");
    let why = demo.why(&["tokens", "aino_01"]);
    assert!(why.contains("which the stage does not read"), "{why}");
}

#[test]
fn added_recordings_are_the_only_items_that_are_worked_on() {
    let demo = done();
    let wav = demo.read(CLIP);
    for number in 1..=5 {
        demo.write(&format!("data/wavs/uusi_{number}.wav"), sound::scaled(&wav, number, 7));
    }
    let rows =
        (1..=5).map(|number| format!("uusi_{number}.wav|Uusi lause numero {number}.|aino\n"));
    let rows: String = rows.collect();
    demo.edit(TABLE, |text| format!("{}\n{rows}", text.trim_end()));
    let ran = demo.run();
    let executed = ran.executed();
    for stage in ["checked", "voice", "spoken", "tokens"] {
        assert_eq!(executed[stage], 5, "{stage}");
    }
    for stage in ["codec", "heard"] {
        assert_eq!(executed.get(stage), None, "{stage}");
    }
    assert!(demo.file("out/tokens/aino/uusi_5.npy").is_file());
    let why = demo.why(&["tokens"]);
    assert!(why.contains("item `uusi_1` is new on `input`"), "{why}");
    assert!(why.contains("items on `input`: 5 added, 0 removed, 0 changed, 32 the same"), "{why}");
    assert!(demo.why(&["tokens", "uusi_3"]).contains("item `uusi_3` is new since "));
}

#[test]
fn removed_and_renamed_and_returned_recordings_are_no_item_work() {
    let demo = done();
    let (table, wav) = (demo.read(TABLE), demo.read(CLIP));
    let is_other = |line: &&str| !line.starts_with("aino_17");
    demo.edit(TABLE, |text| text.lines().filter(is_other).collect::<Vec<_>>().join("\n"));
    demo.remove(CLIP);
    assert_no_item_work(&demo.run());
    assert!(demo.why(&["tokens"]).contains("item `aino_17` is gone from `input`"));
    assert!(demo.why(&["tokens", "aino_17"]).contains("item `aino_17` is gone since "));
    assert!(!demo.file("out/tokens/aino/aino_17.npy").exists());

    let renamed = String::from_utf8(table.clone()).unwrap().replace("aino_17", "aino_99");
    demo.write(TABLE, renamed);
    demo.write("data/wavs/aino_99.wav", &wav);
    assert_no_item_work(&demo.run());
    assert!(demo.why(&["tokens"]).contains("item `aino_99` is new on `input`"));
    assert!(demo.file("out/tokens/aino/aino_99.npy").is_file());

    demo.write(TABLE, table);
    demo.write(CLIP, wav);
    demo.remove("data/wavs/aino_99.wav");
    let ran = demo.run();
    assert_executed(&ran, &[]);
    assert_eq!(ran.all("worker-started").len(), 0);
    let why = demo.why(&["tokens", "aino_99"]);
    assert!(why.contains("item `aino_99` is gone since "), "{why}");
}

fn assert_no_item_work(ran: &RanProgram) {
    let executed = ran.executed();
    for stage in ["checked", "voice", "spoken", "tokens", "heard", "codec"] {
        assert_eq!(executed.get(stage), None, "{stage}");
    }
    assert_eq!((executed["packed"], executed["summary"]), (1, 1));
}

#[test]
fn another_sentence_is_one_item_and_the_model_stays() {
    let demo = done();
    demo.replace(SENTENCES, "Hyvää päivää, mummo.", "Hyvää iltaa, mummo.");
    let ran = demo.run();
    let expected = [
        ("sentences", 1),
        ("sentences_audited", 1),
        ("sentences_spoken", 1),
        ("spoken_sentences", 1),
    ];
    assert_executed(&ran, &expected);
    let why = demo.why(&["spoken_sentences", "003"]);
    let change = "from \"Hyvää päivää, mummo.\" to \"Hyvää iltaa, mummo.\"";
    assert!(why.contains("field `text` of `003` changed") && why.contains(change), "{why}");
}

#[test]
fn touching_every_file_is_no_work() {
    let demo = done();
    for name in demo.names("data/wavs") {
        let path = format!("data/wavs/{name}");
        demo.write(&path, demo.read(&path));
    }
    for path in ["pipeline.toml", TABLE] {
        demo.write(path, demo.read(path));
    }
    demo.run().assert_nothing_done();
    assert!(demo.why(&["clips"]).starts_with("clips is fresh"));
}

#[test]
fn the_same_samples_in_another_file_stop_where_they_are_equal() {
    let demo = done();
    demo.write(CLIP, sound::tagged(&demo.read(CLIP)));
    let ran = demo.run();
    let executed = ran.executed();
    assert_eq!((executed["clips"], executed["checked"], executed["voice"]), (1, 1, 1));
    for stage in ["spoken", "sides", "codec", "tokens", "packed", "heard"] {
        assert_eq!(executed.get(stage), None, "{stage}");
    }
    let why = demo.why(&["voice", "aino_17"]);
    assert!(why.contains("field `audio` of `aino_17` changed"), "{why}");
    let why = demo.why(&["tokens", "aino_17"]);
    assert!(why.starts_with("item `aino_17` arrives as at run 1"), "{why}");
}

#[test]
fn another_order_of_the_rows_executes_no_item() {
    let demo = done();
    demo.edit(TABLE, |text| text.lines().rev().collect::<Vec<_>>().join("\n"));
    let why = demo.why(&["clips"]);
    assert!(why.contains("file `data/metadata.csv` changed from "), "{why}");
    assert_executed(&demo.run(), &[("clips", 1)]);
}
