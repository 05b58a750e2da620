//! Changes to the manifest and to the place of the project.

use std::collections::BTreeMap;

use throstle_tests::{RanProgram, copy_folder};

use crate::project::{CLIPS, done};

const MANIFEST: &str = "pipeline.toml";

#[test]
fn another_case_of_the_texts_leaves_audio_and_tokens_alone() {
    let demo = done();
    let of_clips = "input = \"voice\"\nnumbers = \"$numbers\"";
    demo.replace(MANIFEST, of_clips, &format!("{of_clips}\ncase = \"lower\""));
    let why = demo.why(&["spoken"]);
    assert!(why.contains("parameter `case` changed from \"keep\" to \"lower\""), "{why}");
    let ran = demo.run();
    let executed = ran.executed();
    assert_eq!(executed["spoken"], CLIPS);
    for stage in ["sides", "packed", "characters"] {
        assert_eq!(executed[stage], 1, "{stage}");
    }
    for stage in ["clips", "checked", "voice", "codec", "tokens", "heard"] {
        assert_eq!(executed.get(stage), None, "{stage}");
    }
    let why = demo.why(&["packed", "aino_01"]);
    let change = "from \"Aamulla järvi oli aivan tyyni.\" to \"aamulla järvi oli aivan tyyni.\"";
    assert!(why.contains("field `text` of `aino_01`") && why.contains(change), "{why}");
}

#[test]
fn another_codec_is_fitted_and_used_and_what_is_above_it_stays() {
    let demo = done();
    demo.replace(MANIFEST, "codebooks = 8", "codebooks = 4");
    let why = demo.why(&["codec"]);
    assert!(why.contains("parameter `codebooks` changed from 8 to 4"), "{why}");
    let ran = demo.run();
    let executed = ran.executed();
    assert_eq!((executed["codec"], executed["tokens"], executed["heard"]), (1, CLIPS, 3));
    assert_eq!(executed["packed"], 1);
    for stage in ["clips", "checked", "voice", "spoken", "sides", "codec_clips", "characters"] {
        assert_eq!(executed.get(stage), None, "{stage}");
    }
    let why = demo.why(&["tokens"]);
    assert!(why.contains("of the artifact on `codec` changed from "), "{why}");
    demo.replace(MANIFEST, "codebooks = 4", "codebooks = 8");
    assert_eq!(demo.run().executed(), BTreeMap::new(), "the codec before is still known");
}

#[test]
fn formatting_and_comments_are_no_change() {
    let demo = done();
    demo.edit(MANIFEST, |text| format!("# spaced out\n\n{}", text.replace(" = ", "  =  ")));
    let ran = demo.run();
    ran.assert_nothing_done();
    let why = demo.why(&["tokens"]);
    assert!(why.starts_with("tokens is fresh; run 1 brought it up to date because"), "{why}");
    assert!(why.contains("never finished before"), "{why}");
}

#[test]
fn a_folder_that_was_moved_or_copied_is_no_change() {
    let demo = done();
    let elsewhere = tempfile::tempdir().unwrap();
    let copied = elsewhere.path().join("copied");
    copy_folder(demo.path(), &copied, &[]);
    RanProgram::of_folder(&copied).assert_nothing_done();
    let moved = elsewhere.path().join("moved");
    std::fs::rename(&copied, &moved).unwrap();
    RanProgram::of_folder(&moved).assert_nothing_done();
}
