//! The demo on a second machine, with a remote in common with the first.

use std::collections::BTreeMap;

use throstle_tests::{Project, RanProgram};

use crate::project::done;
use crate::sound;

const CLIP: &str = "data/wavs/aino_17.wav";

fn run(project: &Project, remote: &str) -> RanProgram {
    RanProgram::of(project.output(&["run", ".", "--json", "--remote", remote]))
}

fn change(project: &Project) {
    project.write(CLIP, sound::softer(&project.read(CLIP)));
}

#[test]
fn a_second_machine_executes_nothing_and_then_only_what_a_changed_clip_changes() {
    let folder = tempfile::tempdir().unwrap();
    let remote = format!("file://{}", folder.path().to_str().unwrap());
    let one = done();
    one.printed(&["push", "--remote", &remote]);
    let other = Project::copy_of(one.path(), &[".throstle", "out"]);
    let ran = run(&other, &remote);
    assert_eq!(ran.executed(), BTreeMap::new(), "{}", ran.errors);
    assert_eq!(other.files("out"), one.files("out"));
    // The first machine makes the same change without the remote.
    change(&other);
    change(&one);
    let (ran, alone) = (run(&other, &remote), run(&one, "none"));
    assert_eq!(ran.executed(), alone.executed());
    assert_eq!(ran.executed()["tokens"], 1);
    assert_eq!(other.files("out"), one.files("out"));
}
