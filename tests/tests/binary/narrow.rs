//! What is printed on a terminal fits it, whatever the names.

use throstle_tests::screen::Screen;
use throstle_tests::{Project, write_clips};

const STAGE: &str = "words_that_are_counted_by_a_program_with_a_very_long_name";

/// Clips with names in several scripts, and a matrix of stages with long names.
fn project() -> Project {
    let manifest = format!(
        r#"
[pipeline]
name = "a_pipeline_with_a_name_that_is_also_rather_long"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.{STAGE}]
use = "command"
input = "clips"
fields = ["text"]
matrix = {{ version = ["one", "another_version_that_is_long"] }}
command = "case {{text}} in *z*) echo 悪い声 a\u0308 >&2; exit 3;; esac; printf %s {{text}} | wc -w > {{out.words}}"
outputs = {{ words = "words.txt" }}
quarantine = 0.9

[stage.summary]
use = "report.summary"
input = "clips"
"#
    );
    let project = Project::new(&manifest);
    write_clips(&project, &["漢字の録音その一", "a\u{308}e\u{301}o\u{308}", "plain", "zz", "z"]);
    project
}

/// What the command leaves on a terminal of so many columns; no line goes on in the next one.
fn shown(project: &Project, arguments: &[&str], columns: u16) -> String {
    let mut command = project.throstle(arguments);
    command.env("TERM", "xterm");
    let (_, screen) = Screen::start(command, columns, 120).end();
    let rows: Vec<String> = screen.rows(0, columns).collect();
    for (row, text) in rows.iter().enumerate() {
        let is_wrapped = screen.row_wrapped(row as u16);
        assert!(!is_wrapped, "{arguments:?} at {columns} columns goes on after:\n{text}");
    }
    screen.contents()
}

const COMMANDS: [&[&str]; 6] = [
    &["plan"],
    &["status"],
    &["history"],
    &["items", "clips"],
    &["items", "clips", "--fields", "text"],
    &["stages"],
];

#[test]
fn tables_and_plans_fit_the_terminal() {
    let project = project();
    for columns in [80, 60] {
        shown(&project, &["plan"], columns);
        project.throstle(&["run"]).output().unwrap();
        for command in COMMANDS {
            let shown = shown(&project, command, columns);
            assert!(shown.lines().count() > 1, "{command:?}: {shown}");
        }
        project.edit("data/metadata.csv", |table| table.replace("Sana", "Sana ja"));
    }
}

#[test]
fn what_has_no_room_in_a_list_of_items_is_named() {
    let project = project();
    project.throstle(&["run", ".", "clips"]).output().unwrap();
    let whole = shown(&project, &["items", "clips"], 160);
    assert!(!whole.contains("columns that do not fit") && whole.contains("aino"), "{whole}");
    let narrow = shown(&project, &["items", "clips"], 40);
    assert!(narrow.contains("columns that do not fit") && narrow.contains("--fields"), "{narrow}");
}

#[test]
fn what_nobody_looks_at_is_not_broken_into_lines() {
    let project = project();
    let plan = project.printed(&["plan"]);
    let line = plan.lines().find(|line| line.starts_with(STAGE)).unwrap();
    assert!(line.contains("to execute") && line.len() > 80, "{plan}");
}
