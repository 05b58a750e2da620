//! What helps while a command is typed: completion, and the nearest name for one with a slip.

use std::process::Command;

use throstle_tests::Project;

use crate::small::{done, project};

/// What bash offers for the last of these words, with the script of `completions`.
fn offered(project: &Project, words: &[&str]) -> Vec<String> {
    let throstle = project.throstle(&[]);
    let folder = std::path::Path::new(throstle.get_program()).parent().unwrap().to_owned();
    let script = r#"
        eval "$(throstle completions bash)" || exit 1
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
        _clap_complete_throstle throstle "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["--norc", "-c", script, "bash", "throstle"])
        .args(words)
        .current_dir(project.path())
        .env("PATH", path)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn commands_stages_kinds_templates_and_fields_are_completed() {
    let project = done();
    for (words, expected) in [
        (&["hist"][..], &["history"][..]),
        (&["items", "wor"], &["words"]),
        (&["why", "s"], &["summary"]),
        (&["run", ".", "cl"], &["clips"]),
        (&["stages", "audio.res"], &["audio.resample"]),
        (&["init", "--template", "fo"], &["folder"]),
        (&["items", "words", "--fields", "sp"], &["speaker"]),
        (&["items", "words", "--fields", "text,wo"], &["text,words"]),
        (&["items", "no_such_stage", "--fields", "sp"], &[]),
    ] {
        assert_eq!(offered(&project, words), expected, "{words:?}");
    }
}

#[test]
fn an_empty_word_is_completed_by_all_that_fits() {
    let project = done();
    let stages = offered(&project, &["why", ""]);
    for stage in ["clips", "words", "summary"] {
        assert!(stages.iter().any(|offer| offer == stage), "{stages:?}");
    }
    assert!(offered(&project, &[""]).iter().any(|offer| offer == "history"));
    let fields = offered(&project, &["items", "words", "--fields", ""]);
    assert!(fields.iter().any(|offer| offer == "speaker"), "{fields:?}");
    let kinds = offered(&project, &["stages", ""]);
    assert!(kinds.iter().any(|offer| offer == "audio.resample"), "{kinds:?}");
}

#[test]
fn fields_are_known_before_the_first_run_as_far_as_the_manifest_says() {
    assert_eq!(offered(&project(), &["items", "clips", "--fields", "te"]), ["text"]);
}

#[test]
fn the_manifest_is_the_one_that_the_words_name() {
    let project = Project::default();
    let other = "[pipeline]\nname = \"other\"\n[stage.elsewhere]\nuse = \"corpus.folder\"\n\
                 folder = \"data\"\n";
    project.write("inner/pipeline.toml", other);
    assert_eq!(offered(&project, &["run", "inner", "el"]), ["elsewhere"]);
    assert_eq!(offered(&project, &["items", "-m", "inner", "el"]), ["elsewhere"]);
    assert_eq!(offered(&project, &["run", "inn"]), ["inner/"]);
    assert_eq!(offered(&project, &["items", "el"]), [""; 0]);
}

#[test]
fn a_manifest_with_mistakes_still_completes_its_stages() {
    let project = project();
    project.replace("pipeline.toml", "report.summary", "report.sumary");
    assert_eq!(offered(&project, &["why", "s"]), ["summary"]);
    project.write("pipeline.toml", "[[[");
    assert_eq!(offered(&project, &["why", "s"]), [""; 0]);
}

#[test]
fn every_shell_has_a_script_that_asks_the_program() {
    let project = Project::default();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = project.printed(&["completions", shell]);
        assert!(script.contains("THROSTLE_COMPLETE"), "{shell}: {script}");
    }
}

#[test]
fn a_slip_offers_the_nearest_name() {
    let project = done();
    for (words, expected) in [
        (&["rnu"][..], "'run'"),
        (&["cache", "stast"], "'stats'"),
        (&["init", "x", "--template", "foldr"], "'folder'"),
        (&["why", "wrods"], "did you mean `words`?"),
        (&["run", ".", "sumary"], "did you mean `summary`?"),
        (&["stages", "audio.resampel"], "did you mean `audio.resample`?"),
        (&["items", "words.outptu"], "did you mean `output`?"),
        (&["items", "words", "--fields", "speeker"], "did you mean `speaker`?"),
        (&["items", "words", "--fields", "x"], "known fields: `audio`"),
        (&["plan", ".", "--set", "stage.words.comand=x"], "did you mean `command`?"),
        (&["log", "."], "tip: `-m .` names the manifest"),
        (&["items", "words", "pipeline.toml"], "tip: `-m pipeline.toml` names the manifest"),
    ] {
        let output = project.output(words);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(expected), "{words:?}: {told}");
    }
}
