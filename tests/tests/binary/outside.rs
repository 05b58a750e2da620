//! A stage from another crate, linked into its own program: `make outside` builds it, and names it in
//! `THROSTLE_OUTSIDE`. Without that, these tests say that they are left out.

use throstle_tests::{Project, RanProgram, command, wav};

/// The path of the program.
fn program() -> Option<String> {
    let program = std::env::var("THROSTLE_OUTSIDE").ok();
    if program.is_none() {
        eprintln!("left out: `make outside` builds the program that this test runs");
    }
    program
}

const MANIFEST: &str = r#"
[pipeline]
name = "quiet"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.quiet]
use = "my.whisper"
input = "clips"
quieter_by_db = 20
export = "out/{id}.wav"
"#;

/// Two clips of a constant level.
fn project() -> Project {
    let project = Project::new(MANIFEST);
    project.write("data/metadata.csv", "one.wav|Yksi sana.|aino\ntwo.wav|Kaksi sanaa.|aino\n");
    project.write("data/wavs/one.wav", wav(1_000));
    project.write("data/wavs/two.wav", wav(-20_000));
    project
}

fn samples(wav: &[u8]) -> Vec<i16> {
    hound::WavReader::new(wav).unwrap().samples().map(Result::unwrap).collect()
}

fn run(program: &str, project: &Project) -> RanProgram {
    RanProgram::of(command(program, project.path(), &["run", ".", "--json"]).output().unwrap())
}

#[test]
fn a_stage_from_outside_runs_and_is_kept_like_any_other() {
    let Some(program) = program() else { return };
    let project = project();
    assert_eq!(run(&program, &project).executed(), [("clips", 1), ("quiet", 2)].into());
    assert_eq!(samples(&project.read("out/one.wav")), [100; 1_600]);
    assert_eq!(samples(&project.read("out/two.wav")), [-2_000; 1_600]);
    run(&program, &project).assert_nothing_done();
    project.write("data/wavs/two.wav", wav(3_000));
    assert_eq!(run(&program, &project).executed(), [("clips", 1), ("quiet", 1)].into());
    project.replace("data/metadata.csv", "Yksi sana.", "Yksi vain.");
    assert_eq!(run(&program, &project).executed(), [("clips", 1)].into(), "no transcript is read");
    project.replace("pipeline.toml", "quieter_by_db = 20", "quieter_by_db = 0");
    assert_eq!(run(&program, &project).executed(), [("quiet", 2)].into());
    assert_eq!(samples(&project.read("out/two.wav")), [3_000; 1_600]);
}

#[test]
fn a_clip_that_the_stage_cannot_read_is_set_aside_with_its_reason() {
    let Some(program) = program() else { return };
    let project = project();
    project.write("data/wavs/two.wav", "this is no sound");
    project.replace("pipeline.toml", "quieter_by_db = 20", "quarantine = 0.5");
    let ran = run(&program, &project);
    assert_eq!(ran.quarantined("quiet"), 1, "{ran:?}");
    let set_aside = ran.all("item-quarantined");
    assert_eq!(
        (&set_aside[0]["item"], &set_aside[0]["code"]),
        (&"two".into(), &"unreadable".into())
    );
}

#[test]
fn the_program_documents_and_checks_the_stage() {
    let Some(program) = program() else { return };
    let project = project();
    let page = command(&program, project.path(), &["stages", "my.whisper"]).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    for part in ["my.whisper", "Makes clips quieter.", "quieter_by_db", "20", "audio"] {
        assert!(page.contains(part), "`{part}` is missing in {page}");
    }
    let schema = command(&program, project.path(), &["schema"]).output().unwrap();
    assert!(String::from_utf8(schema.stdout).unwrap().contains("my.whisper"));
    project.replace("pipeline.toml", "quieter_by_db = 20", "quieter_by_db = 200");
    let refused = command(&program, project.path(), &["check"]).output().unwrap();
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors.contains("quieter_by_db") && errors.contains("60"), "{errors}");
}

#[test]
fn a_program_without_the_stage_refuses_the_manifest() {
    let project = project();
    let refused = project.output(&["run", "."]);
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{errors}");
    assert!(errors.contains("my.whisper"), "{errors}");
    let Some(program) = program() else { return };
    project.replace("pipeline.toml", "my.whisper", "my.wisper");
    let refused = command(&program, project.path(), &["check"]).output().unwrap();
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("my.whisper"), "the nearest name is told: {errors}");
    assert!(!project.file(".throstle").exists(), "nothing is made for a manifest that is wrong");
}
