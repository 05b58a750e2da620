//! Data and programs with terminal escapes: their text is shown, harmless.

use std::process::Output;

use throstle_tests::{Project, write_clips};

/// A title is set, the screen is cleared, the cursor goes up, the line runs backwards, a bell.
const HARM: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[1A\u{202e}\u{9b}31m\u{8}";

const MANIFEST: &str = r#"
[pipeline]
name = "harm"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"
quarantine = 0.9

[stage.words]
use = "command"
input = "clips"
fields = ["text"]
command = "case {text} in *bad*) printf '\\033[2J\\007%s' {text} >&2; exit 3;; esac; echo {text} > {out.words}"
outputs = { words = "words.txt" }
quarantine = 0.9
export = "out/{speaker}/{id}.txt"
"#;

/// Clips with hostile file names, texts and speakers.
fn project() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b"]);
    project.write(&format!("data/wavs/c{HARM}.wav"), throstle_tests::wav(7));
    let rows = [
        format!("a.wav|bad {HARM}|aino\n"),
        format!("b.wav|good {HARM}|aino{HARM}\n"),
        format!("c{HARM}.wav|good|aino\n"),
        format!("gone{HARM}.wav|good|aino\n"),
    ];
    project.write("data/metadata.csv", rows.concat());
    project
}

/// Only text, line breaks and tabs.
fn assert_harmless(arguments: &[&str], output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(stream.clone()).unwrap();
        let harms = |one: char| {
            (one.is_control() && !matches!(one, '\n' | '\t'))
                || ('\u{202a}'..='\u{202e}').contains(&one)
        };
        let found: Vec<char> = text.chars().filter(|one| harms(*one)).collect();
        assert!(found.is_empty(), "{arguments:?} gives {found:?} in {text:?}");
    }
}

#[test]
fn what_data_and_programs_say_cannot_command_the_terminal() {
    let project = project();
    let calls: [&[&str]; 14] = [
        &["check"],
        &["plan"],
        &["run"],
        &["run"],
        &["status"],
        &["log"],
        &["log", "1"],
        &["items", "clips"],
        &["items", "words"],
        &["items", "clips", "--quarantined"],
        &["items", "words", "--quarantined"],
        &["why", "words", "a"],
        &["graph"],
        &["export"],
    ];
    for arguments in calls {
        assert_harmless(arguments, &project.output(arguments));
    }
    let told = project.output(&["run"]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("quarantined"), "{told:?}");
}

#[test]
fn arguments_and_manifests_that_mean_harm_are_told_harmlessly() {
    let project = project();
    for arguments in [
        &["run", HARM][..],
        &["why", HARM],
        &["why", "words", HARM],
        &["items", HARM],
        &["run", ".", "--set", HARM],
        &["stages", HARM],
        &["log", HARM],
    ] {
        assert_harmless(arguments, &project.output(arguments));
    }
    for from in ["corpus.table", "clips", "harm"] {
        let project = self::project();
        // As TOML writes it, and as it must not appear.
        let escaped: String =
            HARM.chars().map(|one| format!("\\u{:04x}", u32::from(one))).collect();
        project.replace("pipeline.toml", &format!("\"{from}\""), &format!("\"{escaped}\""));
        assert_harmless(&["check"], &project.output(&["check"]));
        project.write("pipeline.toml", MANIFEST.replace(from, HARM));
        assert_harmless(&["check"], &project.output(&["check"]));
    }
}
