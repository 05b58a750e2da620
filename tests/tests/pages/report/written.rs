//! The contents of the page.

use throstle_tests::{Project, command, tone, voice, write_clips};

use super::page::{done, report, run};

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
        "never finished before",
        "truncated",
        "Loss",
        "step-30",
        "duration ratio",
        // Measures of the samples by later stages, and their comparison with a good run.
        "voiced share",
        "Measures compared with the baseline",
        "CC-BY-NC-SA-4.0",
        "not stated",
    ] {
        assert!(page.contains(part), "nothing of `{part}`");
    }
}

#[test]
fn sound_that_is_raised_to_a_higher_rate_is_told_by_the_run_and_the_page() {
    let project = voice::project(3);
    let raised = "\n[stage.raised]\nuse = \"audio.resample\"\ninput = \"checked\"\nrate = 44100\n";
    project
        .edit("pipeline.toml", |text| text.replace("\n[session]", &format!("{raised}\n[session]")));
    let output = command("small_world", project.path(), &["run"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let note = "raised from 16 to 44.1 kHz, with sound up to 1 kHz";
    assert!(told.contains(&format!("raised notes: {note}: 3")), "{told}");
    let page = report(&project, &[]);
    for part in [note, "Bandwidth", "Half of the clips have no sound above "] {
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
    assert!(first.contains("never finished before") && !first.contains("metadata.csv` changed"));
}

#[test]
fn a_run_that_failed_says_where_and_what_it_did_not_come_to() {
    let project = throstle_tests::voice::project(3);
    project.replace("pipeline.toml", "quarantine = 0.5", "quarantine = 0");
    let output = command("small_world", project.path(), &["run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let page = report(&project, &[]);
    assert!(
        page.contains("<strong>checked failed: </strong>1 of 4 items of `clips` were quarantined")
    );
    assert!(page.contains("not reached by the run"));
    assert!(!page.contains("id=\"samples\"") && !page.contains("id=\"training\""));
}

#[test]
fn the_page_grows_by_the_data_of_a_clip_and_not_by_a_row_each() {
    let length = |clips| without_recordings(&report(&done(clips), &[])).len();
    let (few, many) = (length(60), length(240));
    assert!(many < few + few / 10 + 180 * 120, "{few} bytes with 60 clips, {many} with 240");
}

/// The data of the list of clips.
fn list(page: &str) -> serde_json::Value {
    let (_, data) = page.split_once("<script type=\"application/json\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn every_clip_is_listed_once_with_its_text_and_figures() {
    let page = report(&done(90), &[]);
    let list = list(&page);
    let clips = list["clips"].as_array().unwrap();
    let mut ids: Vec<&str> = clips.iter().map(|clip| clip[1].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((clips.len(), ids.len()), (91, 91), "the one that is cut too");
    let rows =
        page.matches("<tr data-at=").count() + page.matches("<tr class=\"later\" data-at=").count();
    assert!((10..=60).contains(&rows), "{rows} rows stand in the page");
    assert_eq!(list["columns"][0][0], "Seconds");
    assert!(
        clips
            .iter()
            .all(|clip| clip[2].as_str().unwrap().contains("Lause numero") || clip[1] == "cut")
    );
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
    let columns = "[stage.clips]\ncolumns = [\"file\", \"text\", \"speaker\"]";
    project.replace("pipeline.toml", "[stage.clips]", columns);
    project.replace("pipeline.toml", "CC-BY-NC-SA-4.0", "<b onload=x>licence</b>");
    run(&project);
    let page = without_recordings(&report(&project, &[]));
    assert!(page.contains("alert(1)"), "the text is shown");
    // One is the page's own, the other one is data.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("<script nonce=").count(), 1);
    let (before, rest) = page.split_once("<script type=\"application/json\">").unwrap();
    let (data, after) = rest.split_once("</script>").unwrap();
    assert!(!data.contains('<'), "{data}");
    assert!(list(&page)["clips"][0][2].as_str().unwrap().contains("<img src=x"));
    let page = [before, after].concat();
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
fn runs_stand_beside_each_other_with_what_differs() {
    let project = done(3);
    assert!(!report(&project, &[]).contains("id=\"runs\""), "one run is beside none");
    project.replace("pipeline.toml", "steps = 60", "steps = 80");
    run(&project);
    let page = report(&project, &[]);
    let (_, runs) = page.split_once("id=\"runs\"").unwrap();
    let (runs, _) = runs.split_once("</section>").unwrap();
    for expected in
        ["model.steps", "<code>60</code>", "<code>80</code>", "model: best held-out loss"]
    {
        assert!(runs.contains(expected), "nothing of `{expected}`: {runs}");
    }
    assert!(!runs.contains("checked.min_duration"), "what is the same is left out: {runs}");
    assert!(!report(&project, &["--run", "1"]).contains("id=\"runs\""));
}

#[test]
fn the_curves_of_several_runs_share_their_charts() {
    let project = done(3);
    project.replace("pipeline.toml", "steps = 60", "steps = 80");
    run(&project);
    project.replace("data/metadata.csv", "Lause numero 1,", "Lause numero yksi,");
    run(&project);
    let page = report(&project, &["--runs", "1,3"]);
    let (_, training) = page.split_once("id=\"training\"").unwrap();
    let (training, _) = training.split_once("</section>").unwrap();
    for expected in ["Held-out loss", "series-1\">run 1<", "series-2\">run 3<"] {
        assert!(training.contains(expected), "nothing of `{expected}`");
    }
    assert!(!training.contains("run 2<"));
    assert!(page.contains(", run 3</title>"), "all else is of the last of them");
    // The second and the third run have the same outcome where nothing that the stage reads changed.
    let output = command("small_world", project.path(), &["report", ".", "--runs", "1,9"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no run 9"));
}

#[test]
fn the_curves_of_a_matrix_share_their_charts() {
    let project = throstle_tests::voice::project(2);
    project.replace("pipeline.toml", "steps = 60\n", "matrix = { steps = [40, 60] }\n");
    for stage in ["auditions", "auditioned", "again", "measured", "regression"] {
        without_stage(&project, stage);
    }
    run(&project);
    let page = report(&project, &[]);
    let (_, training) = page.split_once("id=\"training\"").unwrap();
    let (training, _) = training.split_once("</section>").unwrap();
    assert!(
        training.contains("2 trainings; best held-out loss: 2.5, in [steps=60] at step 60"),
        "{training}"
    );
    assert_eq!(
        training.matches("series series-1").count(),
        training.matches("series series-2").count()
    );
    assert!(
        training.contains("Differences between the trainings of model")
            && training.contains("steps")
    );
}

/// Takes a stage out of the manifest.
fn without_stage(project: &throstle_tests::Project, stage: &str) {
    project.edit("pipeline.toml", |text| {
        let (before, rest) = text.split_once(&format!("[stage.{stage}]")).unwrap();
        let end = rest.find("\n[").map_or(rest.len(), |at| at + 1);
        format!("{before}{}", &rest[end..])
    });
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

#[test]
fn a_stage_outside_of_the_targets_is_told_as_such() {
    let project = done(3);
    project.replace("data/metadata.csv", "Lause numero 1,", "Lause numero yksi,");
    let output = command("small_world", project.path(), &["run", ".", "clips"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = report(&project, &[]);
    assert!(page.contains("not among the targets of the run; its outcome is from run 1"), "{page}");
    assert!(!page.contains("not reached by the run"), "{page}");
}

#[test]
fn the_notes_are_those_of_all_clips_whichever_run_processed_them() {
    let project = throstle_tests::Project::of_clips(
        &["a", "b", "c"],
        "\n[stage.plain]\nuse = \"text.normalize\"\ninput = \"clips\"\ncase = \"lower\"\n",
    );
    let noted = || {
        let page = project.printed(&["report", ".", "--output", "-"]);
        let (_, row) = page.split_once("case changed").unwrap();
        let (row, _) = row.split_once("</tr>").unwrap();
        row.contains(">3<")
    };
    assert_eq!(project.run().code, Some(0));
    assert!(noted());
    project.edit("data/metadata.csv", |text| text.replacen("a.wav|", "a.wav|Uusi ", 1));
    let ran = project.run();
    assert_eq!(ran.executed().get("plain"), Some(&1), "{:?}", ran.events);
    assert!(noted());
    // Nothing is processed at all: the outcomes of single items are known.
    project.edit("data/metadata.csv", |text| text.replacen("a.wav|Uusi ", "a.wav|", 1));
    assert_eq!(project.run().executed().get("plain"), None);
    assert!(noted());
}

#[test]
fn clips_of_two_sources_that_are_merged_count_once() {
    let manifest = r#"
[pipeline]
name = "merged"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.more]
use = "corpus.table"
table = "more/metadata.csv"
audio = "more/wavs"

[stage.both]
use = "dataset.merge"
input = ["clips", "more"]

[stage.checked]
use = "audio.check"
input = "both"
min_duration = "10ms"
"#;
    let project = Project::new(manifest);
    write_clips(&project, &["a", "b", "c"]);
    project.write("more/metadata.csv", "d|Sana d.\ne|Sana e.\n");
    for (name, hertz) in [("d", 300.0), ("e", 400.0)] {
        project.write(&format!("more/wavs/{name}.wav"), tone(hertz, 1.0, 8_000));
    }
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    let page = report(&project, &[]);
    let (_, clips) = page.split_once("<dt>Clips</dt><dd>").unwrap();
    assert!(clips.starts_with("5 "), "{}", &clips[..80]);
}
