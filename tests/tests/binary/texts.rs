//! Texts: letters and numbers of a language, and the warning of digits that an audit will stop on.

use throstle_tests::Project;

const MANIFEST: &str = r#"
[pipeline]
name = "texts"

[stage.sentences]
use = "corpus.sentences"
sentences = ["İSTANBUL ve ISPARTA", "21 elma", "Hepsi bu"]

[stage.spoken]
use = "text.normalize"
input = "sentences"
case = "lower"

[stage.audit]
use = "text.audit"
input = "spoken"
characters = "abcçdefgğhıijklmnoöprsştuüvyz '"
"#;

fn said(project: &Project, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = project.output(arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn texts(project: &Project) -> String {
    said(project, &["items", "spoken", "--format", "jsonl", "--fields", "text"]).1
}

#[test]
fn plan_warns_of_digits_that_an_audit_will_stop_on() {
    let project = Project::new(MANIFEST);
    let (code, _, errors) = said(&project, &["plan", "."]);
    assert_eq!(code, Some(0), "{errors}");
    let warning = "stage `audit` will stop: 1 of 3 texts have digits, which are not among its \
                   characters; set `numbers` in `spoken`";
    assert!(errors.contains(warning), "{errors}");
    let (code, _, errors) = said(&project, &["run", "."]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("`2` U+0032 (once, as in `002`)") && errors.contains("`1` U+0031"),
        "{errors}"
    );
    let (code, listed, errors) = said(&project, &["items", "audit", "--format", "jsonl"]);
    assert!(code == Some(0) && errors.contains("`audit` failed in run 1"), "{errors}");
    assert!(listed.contains("\"unknown\"") && listed.contains("\"report\""), "{listed}");
    let report = said(&project, &["cat", "audit", "report"]).1;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["unknown"].as_array().unwrap().len(), 2, "{report}");

    project.replace("pipeline.toml", "case = \"lower\"", "case = \"lower\"\nnumbers = \"tr\"");
    let (_, _, errors) = said(&project, &["plan", "."]);
    assert!(!errors.contains("digits"), "{errors}");
    let (code, _, errors) = said(&project, &["run", "."]);
    assert_eq!(code, Some(0), "{errors}");
    let texts = texts(&project);
    assert!(texts.contains("yirmibir elma") && texts.contains("istanbul ve ısparta"), "{texts}");
}

#[test]
fn a_capital_i_with_a_dot_leaves_no_dot_behind_in_any_language() {
    let project = Project::new(MANIFEST.split("[stage.audit]").next().unwrap());
    assert_eq!(said(&project, &["run", "."]).0, Some(0));
    let usual = texts(&project);
    assert!(usual.contains("istanbul ve isparta") && !usual.contains('\u{307}'), "{usual}");
    project.replace("pipeline.toml", "case = \"lower\"", "case = \"lower\"\nlanguage = \"tr\"");
    assert_eq!(said(&project, &["run", "."]).0, Some(0));
    assert!(texts(&project).contains("istanbul ve ısparta"));
}

#[test]
fn plan_says_nothing_of_digits_if_a_program_writes_other_texts() {
    let warns = |stage: &str| {
        let manifest = MANIFEST.replace("input = \"spoken\"", "input = \"other\"");
        let project =
            Project::new(&format!("{manifest}\n[stage.other]\ninput = \"spoken\"\n{stage}"));
        project.write("other.py", "def other(item):\n    return {'text': 'abc', 'mark': 'abc'}\n");
        said(&project, &["plan", "."]).2.contains("digits")
    };
    let python = |field: &str| {
        let given =
            "use = \"python\"\nscript = \"other.py\"\nfunction = \"other\"\nfields = [\"text\"]";
        format!("{given}\noutputs = {{ {field} = \"text\" }}\n")
    };
    let command = |field: &str| {
        let given = format!("use = \"command\"\nfields = [\"text\"]\ntexts = [\"{field}\"]");
        let line = format!("echo {{text}} > {{out.{field}}}");
        format!("{given}\ncommand = \"{line}\"\noutputs = {{ {field} = \"a.txt\" }}\n")
    };
    assert!(!warns(&python("text")) && !warns(&command("text")));
    assert!(warns(&python("mark")) && warns(&command("mark")));
}

#[test]
fn items_with_notes_are_listed_and_the_log_has_every_note() {
    let project = Project::new(MANIFEST);
    project.edit("pipeline.toml", |text| {
        let (kept, _) = text.split_once("[stage.audit]").unwrap();
        kept.replace("\"Hepsi bu\"", "\"«Hepsi» “bu” – 3 … ‘5’\", \"Hepsi bu\"")
    });
    let (code, _, told) = said(&project, &["run", "."]);
    assert_eq!(code, Some(0), "{told}");
    let notes = told.lines().find(|line| line.starts_with("spoken notes: ")).unwrap();
    assert!(notes.contains("digits left: 4") && notes.ends_with(" more"), "{told}");
    assert!(told.contains("`throstle log 1` has all notes"), "{told}");
    let (_, listed, _) = said(&project, &["items", "spoken", "--noted", "--format", "jsonl"]);
    let rows: Vec<&str> = listed.lines().collect();
    assert_eq!(rows.len(), 4, "{listed}");
    assert_eq!(rows[1], r#"{"id":"002","notes":"digits left: 2"}"#);
    let (_, log, _) = said(&project, &["log", "1"]);
    assert!(log.contains("U+2026 replaced: 1") && !log.contains("more"), "{log}");
    assert_eq!(said(&project, &["items", "sentences", "--noted"]).0, Some(2));
}

#[test]
fn items_that_a_filter_did_not_keep_are_listed() {
    let project = Project::new(MANIFEST);
    project.edit("pipeline.toml", |text| {
        let (kept, _) = text.split_once("[stage.audit]").unwrap();
        let long = "\n[stage.long]\nuse = \"dataset.filter\"\ninput = \"sentences\"\n\
            where = [{ field = \"text\", min_length = 9 }]\n";
        format!("{kept}{long}")
    });
    assert_eq!(said(&project, &["run", "."]).0, Some(0));
    let list =
        |stage: &str, flag: &str| said(&project, &["items", stage, flag, "--format", "jsonl"]);
    let kept = list("long", "--quarantined").1;
    assert_eq!(kept, "", "what a filter leaves out is not quarantined");
    let (_, all, _) = said(&project, &["items", "sentences", "--format", "jsonl"]);
    let (_, long, _) = said(&project, &["items", "long", "--format", "jsonl"]);
    let (_, left_out, _) = list("long", "--left-out");
    let rest: Vec<&str> = all.lines().filter(|row| !long.contains(row)).collect();
    assert!(!rest.is_empty() && !long.is_empty(), "{all}");
    assert_eq!(left_out.lines().collect::<Vec<_>>(), rest);
    assert_eq!(list("sentences", "--left-out").0, Some(2));
    let rows = said(&project, &["items", "long", "--left-out", "--json"]).1;
    assert_eq!(rows, left_out, "the same format by its short name");
    // One plan for the outputs, the quarantine and the input.
    project.replace("pipeline.toml", "min_length = 9", "min_length = 8");
    let (code, _, told) = list("long", "--left-out");
    let warned = told.matches("`long` is not up to date").count();
    assert_eq!((code, warned), (Some(0), 1), "{told}");
}
