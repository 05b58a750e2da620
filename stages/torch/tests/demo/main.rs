//! The demo from end to end with the real programs: the results of a first run, and only the
//! affected work after any change.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod auditions;
mod changes;
mod clips;
mod graphs;
mod parameters;
mod piper;
mod piper_recipe;
mod project;
mod shared;
mod sound;
mod sweeps;
mod training;
mod vits;
mod voices;
mod xtts;

use project::{CLIPS, done, first};

#[test]
fn a_first_run_makes_every_output() {
    let (_, ran) = first();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    let last = ran.last();
    assert_eq!((&last["event"], &last["status"]), (&"finished".into(), &"done".into()));
    assert!(last["seconds"].as_f64().unwrap() > 0.0);
    let executed = ran.executed();
    assert_eq!(executed["clips"], 1);
    assert_eq!(executed["checked"], CLIPS + 1);
    for stage in ["voice", "spoken", "tokens"] {
        assert_eq!(executed[stage], CLIPS, "{stage}");
    }
    assert_eq!((executed["codec"], executed["packed"], executed["heard"]), (1, 1, 3));
    for stage in ["untrained", "trained", "adapted", "merged", "voice_sample"] {
        assert_eq!(executed[stage], 1, "{stage}");
    }
    assert_eq!(executed["spoken_sentences"], 3);
    let demo = done();
    assert_eq!(demo.names("out/wavs"), ["aino", "eero", "veikko"]);
    assert_eq!(demo.names("out/wavs/aino").len(), 17);
    assert_eq!(demo.names("out/tokens/veikko").len(), 6);
    assert_eq!(demo.names("out/heard"), ["aino_01.wav", "aino_09.wav", "aino_17.wav"]);
    assert_eq!(demo.names("out/spoken"), ["001.wav", "002.wav", "003.wav"]);
    let shards = demo.files("out/packed");
    assert!((2..=8).contains(&shards.len()), "{:?}", shards.keys());
    for file in ["out/summary.json", "out/speakers.json", "out/characters.json"] {
        serde_json::from_slice::<serde_json::Value>(&demo.read(file)).unwrap();
    }
}

#[test]
fn the_broken_clip_is_set_aside_with_its_reason() {
    let (_, ran) = first();
    let set_aside = ran.all("item-quarantined");
    assert_eq!(set_aside.len(), 1, "{set_aside:?}");
    assert_eq!(
        (&set_aside[0]["stage"], &set_aside[0]["item"]),
        (&"checked".into(), &"eero_10".into())
    );
    let reason = set_aside[0]["reason"].as_str().unwrap();
    assert!(
        !reason.is_empty() && set_aside[0]["code"].as_str().is_some_and(|code| !code.is_empty())
    );
    assert_eq!((ran.quarantined("checked"), ran.quarantined("voice")), (1, 0));
    let arguments = ["items", "checked", "--quarantined", "--format", "jsonl"];
    let listed = done().printed(&arguments);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["id"], &listed["reason"]), (&"eero_10".into(), &reason.into()));
    assert!(!done().file("out/wavs/eero/eero_10.wav").exists());
}

#[test]
fn a_second_run_does_nothing_and_starts_no_worker() {
    let demo = done();
    let ran = demo.run();
    ran.assert_nothing_done();
    assert_eq!((ran.reused("tokens"), ran.reused("checked")), (CLIPS, CLIPS + 1));
    assert_eq!((ran.reused("packed"), ran.quarantined("checked")), (1, 1));
}
