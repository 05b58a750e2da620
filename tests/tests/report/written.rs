//! The contents of the page.

use throstle_tests::command;

use crate::page::{done, report, run};

/// The page without its recordings.
fn without_recordings(page: &str) -> String {
    page.split("base64,").map(|part| part.split_once('"').map_or(part, |(_, rest)| rest)).collect()
}

#[test]
fn the_same_cache_gives_the_same_page() {
    let project = done(3);
    let first = report(&project, &[]);
    assert!(first.starts_with("<!DOCTYPE html>"));
    assert_eq!(report(&project, &[]), first);
    assert_eq!(report(&project, &["--run", "1"]), first);
}

#[test]
fn every_part_of_a_run_has_its_place() {
    let page = report(&done(3), &[]);
    for part in [
        "id=\"run\"",
        "id=\"data\"",
        "id=\"quarantine\"",
        "id=\"training\"",
        "id=\"samples\"",
        "id=\"cost\"",
        "id=\"provenance\"",
        // Stages with reasons, quarantined items with reasons, and provenance.
        "never run before",
        "truncated",
        "Loss",
        "step-30",
        "duration ratio",
        // Measures of the samples by later stages, and their comparison with a good run.
        "voiced share",
        "Measures against a run that was good",
        "CC-BY-NC-SA-4.0",
        "not stated",
    ] {
        assert!(page.contains(part), "nothing of `{part}`");
    }
}

#[test]
fn what_a_stage_did_stands_there_and_why() {
    let project = done(3);
    project.replace("data/metadata.csv", "Lause numero 1,", "Lause numero yksi,");
    run(&project);
    let page = report(&project, &[]);
    assert!(page.contains("file `data/metadata.csv` changed"), "{page}");
    let first = report(&project, &["--run", "1"]);
    assert!(first.contains("never run before") && !first.contains("metadata.csv` changed"));
}

#[test]
fn a_run_that_failed_says_where_and_what_it_did_not_come_to() {
    let project = throstle_tests::voice::project(3);
    project.replace("pipeline.toml", "quarantine = 0.5", "quarantine = 0");
    let output = command("small_world", project.path(), &["run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let page = report(&project, &[]);
    assert!(page.contains("<strong>checked failed: </strong>1 of 4 items were quarantined"));
    assert!(page.contains("the run did not come to it"));
    assert!(!page.contains("id=\"samples\"") && !page.contains("id=\"training\""));
}

#[test]
fn the_page_does_not_grow_with_the_data_set() {
    let length = |clips| without_recordings(&report(&done(clips), &[])).len();
    let (few, many) = (length(60), length(240));
    assert!(many < few + few / 10, "{few} bytes with 60 clips, {many} with 240");
}

#[test]
fn what_others_have_written_stays_text() {
    let project = throstle_tests::voice::project(2);
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onclick=\"x";
    project.edit("data/metadata.csv", |table| {
        table
            .replace("Lause numero 0", &format!("{hostile}\u{202e}"))
            .replace("|aino", &format!("|{hostile}"))
    });
    project.replace("pipeline.toml", "CC-BY-NC-SA-4.0", "<b onload=x>licence</b>");
    run(&project);
    let page = without_recordings(&report(&project, &[]));
    assert!(page.contains("alert(1)"), "the text is shown");
    assert_eq!(page.matches("<script").count(), 1, "there is one script, the page's own");
    for broken in ["<img", "\u{202e}", "\" onclick", "<b onload"] {
        assert!(!page.contains(broken), "{broken}");
    }
}

#[test]
fn a_page_refers_to_nothing_outside() {
    let page = without_recordings(&report(&done(2), &[]));
    let namespaces = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(!namespaces.contains("://") && !namespaces.contains("url(//"), "{page}");
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn before_the_first_run_there_is_nothing_to_show() {
    let project = throstle_tests::voice::project(1);
    let output = command("small_world", project.path(), &["report"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("no run of `voice` has finished yet") && told.contains("help: run it"));
    assert!(!project.file("report.html").exists());
}

#[test]
fn lost_recordings_are_left_out_and_the_page_is_written() {
    let project = done(2);
    let whole = report(&project, &[]).matches("<audio").count();
    project.write("data/wavs/clip00000.wav", "gone");
    let page = report(&project, &[]);
    assert!(page.contains("cannot be played"));
    assert_eq!(page.matches("<audio").count(), whole - 1);
}
