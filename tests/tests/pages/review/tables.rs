//! The table of corrections: its lines, undoing, and the tables of two people.

use std::process::Command;

use serde_json::{Value, json};
use throstle_tests::Project;

use super::server::{Server, row};
use super::speech::{items, ran, spoken};

const EMPTY: &str = "segment,action,text,at,with\n";

/// The clips of the first recording in order of time.
fn in_order(server: &Server) -> Vec<Value> {
    let rows = server.rows().into_iter();
    let mut rows: Vec<Value> =
        rows.filter(|row| row["id"].as_str().unwrap().starts_with("one/")).collect();
    let start = |row: &Value| row["start"].as_f64().unwrap();
    rows.sort_by(|one, two| start(one).total_cmp(&start(two)));
    rows
}

fn lines(project: &Project) -> Vec<String> {
    project.text("corrections.csv").lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn each_correction_is_a_line_and_can_be_undone() {
    let project = spoken();
    let server = Server::start(&project);
    let clips = in_order(&server);
    let (key, id) = (&clips[3]["key"], clips[3]["id"].as_str().unwrap());
    let text = |text: &str| json!({"action": "text", "key": key, "text": text});
    server.correct(&text("  Other \t words. "));
    assert_eq!(lines(&project), [format!("{id},text,Other words.,,")]);
    server.correct(&text("Better words."));
    server.drop_clip(&clips[3]);
    assert_eq!(lines(&project), [format!("{id},drop,,,")]);
    // Dropping again takes it back.
    server.drop_clip(&clips[3]);
    assert_eq!(project.text("corrections.csv"), EMPTY);
    let undo = json!({"action": "undo"});
    server.correct(&undo);
    assert_eq!(lines(&project), [format!("{id},drop,,,")]);
    server.correct(&undo);
    assert_eq!(lines(&project), [format!("{id},text,Better words.,,")]);
    server.correct(&undo);
    let last = server.correct(&undo);
    assert_eq!(
        (project.text("corrections.csv").as_str(), &last["corrections"]),
        (EMPTY, &json!(0))
    );
    assert_eq!(in_order(&server), clips);
    assert_eq!(server.refused(&undo), "nothing to undo");
}

#[test]
fn cuts_that_undo_each_other_leave_no_lines() {
    let project = spoken();
    let server = Server::start(&project);
    let clips = in_order(&server);
    let seconds = clips[4]["seconds"].as_f64().unwrap();
    let split = json!({"action": "split", "key": clips[4]["key"], "at": 1.5});
    server.correct(&split);
    let parts = in_order(&server);
    assert_eq!(parts.len(), clips.len() + 1);
    let both = [&parts[4], &parts[5]].map(|part| part["seconds"].as_f64().unwrap());
    assert_eq!((both[0], (both[0] + both[1] - seconds).abs() < 1e-9), (1.5, true));
    // The sounds of the parts are those of the whole in a row.
    let sound = |row: &Value| server.get(&format!("/audio/{}", row["key"].as_str().unwrap())).1;
    let halves = [sound(&parts[4]), sound(&parts[5])];
    assert_eq!(halves[0].len(), 44 + 12_000 * 2);
    server.correct(&json!({"action": "join", "key": parts[4]["key"]}));
    assert_eq!(
        (in_order(&server), project.text("corrections.csv").as_str()),
        (clips.clone(), EMPTY)
    );
    let whole = sound(&clips[4]);
    assert_eq!(whole[44..], [&halves[0][44..], &halves[1][44..]].concat());

    // The other way round: the join comes first, and its cut is moved by a split elsewhere.
    server.correct(&json!({"action": "join", "key": clips[4]["key"]}));
    let joined = in_order(&server);
    assert_eq!(joined.len(), clips.len() - 1);
    let back = json!({"action": "split", "key": joined[4]["key"], "at": seconds});
    server.correct(&back);
    assert_eq!(
        (in_order(&server), project.text("corrections.csv").as_str()),
        (clips.clone(), EMPTY)
    );
    server.correct(&json!({"action": "join", "key": clips[4]["key"]}));
    server.correct(&json!({"action": "split", "key": joined[4]["key"], "at": seconds + 0.1}));
    assert_eq!((in_order(&server).len(), lines(&project).len()), (clips.len(), 2));
    // Only the two segments at the moved cut are heard again.
    drop(server);
    let after = ran(&project);
    let executed = after.executed();
    assert_eq!((executed["corrected"], executed["heard"]), (1, 2), "{executed:?}");
    assert_eq!(items(&project, "corrected").len(), 40);
}

#[test]
fn the_tables_of_two_people_are_merged_by_lines() {
    let [ann, bob, both] = [spoken(), spoken(), spoken()];
    let clips = in_order(&Server::start(&ann));
    let correct = |project: &Project, places: &[usize], text: &str| {
        let server = Server::start(project);
        for at in places {
            let id = clips[*at]["id"].as_str().unwrap();
            let rows = server.rows();
            let text = format!("{text} {at}.");
            server.correct(&json!({"action": "text", "key": row(&rows, id)["key"], "text": text}));
        }
    };
    correct(&ann, &[0, 3, 8, 10], "Ann heard");
    correct(&bob, &[1, 4, 15], "Bob heard");
    let merge = || {
        let paths = [&ann, &both, &bob].map(|project| project.file("corrections.csv"));
        let merged = Command::new("git")
            .args(["merge-file", "--union", "-p"])
            .args(&paths)
            .current_dir(both.path())
            .output()
            .unwrap();
        assert!(merged.status.success(), "{merged:?}");
        merged.stdout
    };
    let merged = merge();
    both.write("corrections.csv", &merged);
    assert_eq!(lines(&both).len(), 7);
    let after = ran(&both);
    assert_eq!(after.executed()["fitting"], 7);
    let texts: Vec<Value> = items(&both, "fitting").iter().map(|it| it["text"].clone()).collect();
    for text in ["Ann heard 8.", "Bob heard 15."] {
        assert!(texts.contains(&json!(text)), "{text}");
    }
    // Both have corrected the same clip, each in another way.
    correct(&bob, &[8], "Bob heard");
    both.write("corrections.csv", EMPTY);
    both.write("corrections.csv", merge());
    let failed = ran(&both);
    assert_eq!(failed.code, Some(1));
    let told = failed.all("stage-failed")[0].to_string();
    assert!(told.contains("Ann heard 8.") && told.contains("Bob heard 8."), "{told}");
    assert!(told.contains("lines "), "{told}");
    // A review does not begin with such a table either.
    let output = both.output(&["review", "aligned", "--port", "0"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("Bob heard 8."), "{told}");
}

#[test]
fn a_table_that_another_program_changed_is_not_overwritten() {
    let project = spoken();
    let server = Server::start(&project);
    let clips = in_order(&server);
    server.drop_clip(&clips[2]);
    let own = project.text("corrections.csv");
    let drop_clip = json!({"action": "drop", "key": clips[1]["key"]});
    let refused = |wish: &Value| {
        let told = server.refused(wish);
        assert!(told.contains("corrections.csv` was changed by another program"), "{told}");
        assert!(told.contains("start `throstle review` again"), "{told}");
    };
    let other = format!("{own}{},drop,,,\n", clips[6]["id"].as_str().unwrap());
    for changed in [other.as_str(), "<<<<<<< HEAD\n", ""] {
        project.write("corrections.csv", changed);
        refused(&drop_clip);
        refused(&json!({"action": "undo"}));
        assert_eq!(project.text("corrections.csv"), changed);
    }
    project.remove("corrections.csv");
    refused(&drop_clip);
    // The table as this review wrote it.
    project.write("corrections.csv", &own);
    server.drop_clip(&clips[1]);
    assert_eq!(lines(&project).len(), 2);
    drop(server);
    // A new review has the lines of both.
    project.write("corrections.csv", &other);
    let server = Server::start(&project);
    server.drop_clip(&in_order(&server)[1]);
    assert_eq!(lines(&project).len(), 3);
}

#[test]
fn a_second_review_of_a_table_is_refused() {
    let project = spoken();
    let server = Server::start(&project);
    let output = project.output(&["review", "corrected", "--port", "0"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("another `throstle review` writes to"), "{told}");
    assert!(told.contains("end that review first"), "{told}");
    // A killed one does not stop the next one.
    drop(server);
    let rows = Server::start(&project).rows();
    assert_eq!(rows.len(), 40);
}

/// A dropped clip is quarantined by the stage that is reviewed.
#[test]
fn clips_that_the_stage_itself_quarantined_are_listed_and_can_be_taken_back() {
    let project = spoken();
    let server = Server::start(&project);
    let clip = in_order(&server).swap_remove(3);
    let id = clip["id"].as_str().unwrap();
    server.drop_clip(&clip);
    drop(server);
    assert_eq!(ran(&project).quarantined("aligned"), 1);
    let server = Server::start(&project);
    let rows = server.rows();
    assert_eq!(rows.len(), 40);
    let dropped = row(&rows, id);
    let verdict = dropped["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("aligned: "), "{verdict}");
    assert_eq!(dropped["action"], "drop");
    server.drop_clip(dropped);
    assert_eq!(project.text("corrections.csv"), EMPTY);
}

#[test]
fn a_review_says_what_it_needs() {
    let project = spoken();
    let told = |arguments: &[&str]| {
        let output = project.output(&[&["review"], arguments, &["--port", "0"]].concat());
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(told(&["aligne"]).contains("`aligned`"));
    let error = told(&["loud"]);
    assert!(error.contains("has other files of sound than `corrected`"), "{error}");
    assert!(error.contains("review `fitting`, whose"), "{error}");
    // A table that is not there yet is made by the first correction.
    project.remove("corrections.csv");
    let server = Server::start(&project);
    let rows = server.rows();
    server.drop_clip(&rows[0]);
    assert_eq!(lines(&project).len(), 1);
    drop(server);
    project.replace("pipeline.toml", "table = \"corrections.csv\"\n", "");
    assert!(told(&["aligned"]).contains("`table = \"corrections.csv\"`"));
}
