//! Recordings with more sound than their headers state.

use throstle_tests::{Project, wav};

const MANIFEST: &str = r#"
[pipeline]
name = "lengths"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"
columns = ["file", "text", "speaker"]

[stage.decoded]
use = "audio.decode"
input = "clips"
export = "out/{id}.wav"
quarantine = 1.0
"#;

/// The bytes of the samples in a file of the export.
fn sound(project: &Project, path: &str) -> Vec<u8> {
    project.read(path).split_off(44)
}

#[test]
fn all_sound_is_read_and_what_is_odd_is_told_where_the_person_looks() {
    let project = Project::new(MANIFEST);
    let clip = wav(1_000);
    let mut crashed = clip.clone();
    crashed[4..8].fill(0);
    crashed[40..44].fill(0);
    project.write("data/wavs/crashed.wav", &crashed);
    project.write("data/wavs/joined.wav", [&clip[..], &clip[..]].concat());
    let mut stereo = clip.clone();
    stereo[22] = 2;
    stereo[28..32].copy_from_slice(&64_000_u32.to_le_bytes());
    stereo[32] = 4;
    project.write("data/wavs/changes.wav", [&clip[..], &stereo[..]].concat());
    let rows = ["crashed", "joined", "changes"].map(|name| format!("{name}.wav|Sana.|aino\n"));
    project.write("data/metadata.csv", rows.concat());
    let output = project.output(&["run"]);
    let told = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("joined-files: 1"), "{told}");
    assert!(told.contains("unknown-length: 1"), "{told}");
    assert!(told.contains("the number of channels changes at 0.10 s, from 1 to 2"), "{told}");
    assert_eq!(sound(&project, "out/crashed.wav"), clip[44..]);
    assert_eq!(sound(&project, "out/joined.wav"), clip[44..].repeat(2));
}
