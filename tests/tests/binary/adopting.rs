//! A folder of tokens from another tool is adopted without encoding.

use throstle_tests::{Project, wav};

/// The stages in the guide for existing tokens, without the codec.
const MANIFEST: &str = r#"
[pipeline]
name = "adopting"

[stage.clips]
use = "corpus.folder"
folder = "data"
tokens = "data"

[stage.adopted]
use = "vq.adopt"
input = "clips"
others = "keep"

[stage.taken]
use = "dataset.filter"
input = "adopted"
where = [{ field = "adopted", any_of = ["yes"] }]

[stage.missing]
use = "dataset.filter"
input = "adopted"
where = [{ field = "adopted", any_of = ["no"] }]

[stage.packed]
use = "dataset.pack"
input = "taken"
format = "protos"
shards = 1
export = "out/packed"
"#;

/// An array as NumPy writes it: ten codebooks of zeros, 64-bit integers.
fn tokens(frames: usize) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let shape = format!("{{'descr': '<i8', 'fortran_order': False, 'shape': (10, {frames}), }}");
    bytes.extend(format!("{shape:<117}\n").into_bytes());
    bytes.resize(128 + 80 * frames, 0);
    bytes
}

/// Four clips of 100 ms, which are 3 frames; one has stale tokens and one has none.
fn project() -> Project {
    let project = Project::new(MANIFEST);
    for (level, name) in (1_000_i16..).zip(["a", "b", "c", "d"]) {
        project.write(&format!("data/aino/{name}.wav"), wav(level));
        project.write(&format!("data/aino/{name}.lab"), "Hei.");
    }
    for (name, frames) in [("a", 3), ("b", 4), ("c", 9)] {
        project.write(&format!("data/aino/{name}.npy"), tokens(frames));
    }
    project
}

fn ids(project: &Project, stage: &str) -> Vec<String> {
    let lines = project.printed(&["items", stage, "--format", "csv", "--fields", "speaker"]);
    let id = |line: &str| line.split(',').next().unwrap().to_owned();
    lines.lines().skip(1).map(id).collect()
}

#[test]
fn stale_and_missing_tokens_are_told_apart_from_those_that_are_taken() {
    let project = project();
    let ran = project.run();
    assert_eq!(ran.executed()["adopted"], 4);
    assert_eq!(ids(&project, "taken"), ["aino/a", "aino/b"]);
    assert_eq!(ids(&project, "missing"), ["aino/c", "aino/d"]);
    project.run().assert_nothing_done();
}

#[test]
fn tokens_that_are_no_files_count_as_missing_and_are_told() {
    let project = project();
    project.remove("data/aino/b.npy");
    nix::unistd::mkfifo(&project.file("data/aino/b.npy"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    std::os::unix::fs::symlink("d.npy", project.file("data/aino/d.npy")).unwrap();
    let ran = project.run();
    assert_eq!(ran.executed()["adopted"], 4);
    assert_eq!(ids(&project, "taken"), ["aino/a"]);
    let ended = ran.all("stage-finished").into_iter().find(|event| event["stage"] == "clips");
    assert_eq!(ended.unwrap()["notes"]["tokens that cannot be read"], 2, "{ran:?}");
}

#[test]
fn an_array_that_arrives_or_a_clip_that_changes_is_looked_at_alone() {
    let project = project();
    project.run();
    project.write("data/aino/d.npy", tokens(3));
    assert_eq!(project.run().executed()["adopted"], 1);
    assert_eq!(ids(&project, "missing"), ["aino/c"]);
    // Twice as long: the tokens of the old recording are stale.
    let longer = [wav(1_000), vec![0; 3_200]].concat();
    let mut header = longer;
    let (riff, data) = ((header.len() - 8) as u32, 6_400_u32);
    header[4..8].copy_from_slice(&riff.to_le_bytes());
    header[40..44].copy_from_slice(&data.to_le_bytes());
    project.write("data/aino/a.wav", header);
    assert_eq!(project.run().executed()["adopted"], 1);
    assert_eq!(ids(&project, "missing"), ["aino/a", "aino/c"]);
}

#[test]
fn a_clip_that_is_recorded_again_at_its_old_length_has_stale_tokens() {
    let project = project();
    project.run();
    project.write("data/aino/a.wav", wav(9_000));
    assert_eq!(project.run().executed()["adopted"], 1);
    assert_eq!(ids(&project, "missing"), ["aino/a", "aino/c", "aino/d"]);
    project.run().assert_nothing_done();
    // New tokens are adopted for the new recording.
    let mut made_again = tokens(3);
    *made_again.last_mut().unwrap() = 0;
    made_again[128] = 1;
    project.write("data/aino/a.npy", made_again);
    project.run();
    assert_eq!(ids(&project, "missing"), ["aino/c", "aino/d"]);
}

#[test]
fn the_old_recording_in_another_form_keeps_its_tokens() {
    let project = project();
    project.run();
    let tagged = [wav(1_000), b"LIST\x04\0\0\0INFO".to_vec()].concat();
    project.write("data/aino/a.wav", tagged);
    project.run();
    assert_eq!(ids(&project, "taken"), ["aino/a", "aino/b"]);
}

#[test]
fn without_being_kept_stale_tokens_set_their_clip_aside() {
    let project = project();
    project.replace("pipeline.toml", "others = \"keep\"", "quarantine = 0.5");
    assert_eq!(project.run().quarantined("adopted"), 2);
    let set_aside = project.printed(&["items", "adopted", "--quarantined"]);
    assert!(set_aside.contains("aino/c  stale-tokens"), "{set_aside}");
}
