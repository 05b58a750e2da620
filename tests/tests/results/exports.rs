//! Allowed paths of exported files, and removal of obsolete ones.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use engine::engine::RunOptions;
use engine::event::Status;
use throstle_tests::{Lab, MANIFEST as LAB_MANIFEST, Project, RanProgram, write_clips};

const MANIFEST: &str = r#"
[pipeline]
name = "exports"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.words]
use = "command"
input = "clips"
fields = ["text"]
command = "printf %s {text} > {out.words}"
outputs = { words = "words.txt" }
export = "out/words/{id}.txt"

[stage.summary]
use = "report.summary"
input = ["clips", "words"]
export = "out/summary.json"
"#;

fn project() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b"]);
    project
}

fn done() -> Project {
    let project = project();
    assert_eq!(project.run().code, Some(0));
    project
}

fn removed(ran: &RanProgram, stage: &str) -> u64 {
    let of_stage = |event: &&serde_json::Value| event["stage"] == stage;
    let events = ran.all("exported").into_iter().filter(of_stage);
    events.map(|event| event["removed"].as_u64().unwrap()).sum()
}

#[test]
fn files_of_another_path_go_when_the_new_ones_stand() {
    let project = done();
    project.replace("pipeline.toml", "out/words/{id}.txt", "out/{speaker}/{id}.txt");
    let ran = project.run();
    assert_eq!((ran.executed(), removed(&ran, "words")), ([].into(), 2));
    assert_eq!(project.names("out"), ["aino", "summary.json"]);
    project.run().assert_nothing_done();
}

#[test]
fn files_of_a_stage_that_is_gone_go_with_it() {
    let project = done();
    project.edit("pipeline.toml", |text| text.split("[stage.summary]").next().unwrap().to_owned());
    assert_eq!(removed(&project.run(), "summary"), 1);
    assert_eq!(project.names("out"), ["words"]);
    project.write("pipeline.toml", MANIFEST);
    assert_eq!(project.run().executed(), [].into(), "its result is still known");
    assert_eq!(project.names("out"), ["summary.json", "words"]);
}

#[test]
fn files_that_somebody_has_edited_or_another_export_writes_stay() {
    let project = done();
    project.remove("out/words/a.txt");
    project.write("out/words/a.txt", "my own");
    // The same path, spelt in another way.
    project.replace("pipeline.toml", "out/summary.json", "./out//summary.json");
    project.edit("pipeline.toml", |text| text.replace("export = \"out/words/{id}.txt\"", ""));
    let ran = project.run();
    assert_eq!(removed(&ran, "words"), 1);
    let told = "`out/words/a.txt` is no longer exported, but stays, since it was edited; remove it if \
                you do not need it";
    assert_eq!(notes(&ran), [told]);
    assert_eq!(project.names("out/words"), ["a.txt"]);
    assert_eq!(project.text("out/words/a.txt"), "my own");
    assert!(project.file("out/summary.json").exists());
}

#[test]
fn a_run_of_some_stages_takes_nothing_back() {
    let project = done();
    project.edit("pipeline.toml", |text| text.replace("export = \"out/summary.json\"", ""));
    let ran = RanProgram::of(project.output(&["run", ".", "words", "--json"]));
    ran.assert_nothing_done();
    assert!(project.file("out/summary.json").exists());
}

#[test]
fn files_of_a_run_of_some_stages_go_when_their_stage_is_gone() {
    let project = project();
    let ran = RanProgram::of(project.output(&["run", ".", "words", "--json"]));
    assert_eq!(ran.code, Some(0));
    assert_eq!(project.names("out/words"), ["a.txt", "b.txt"]);
    project.replace("pipeline.toml", "out/words/{id}.txt", "out/others/{id}.txt");
    let ran = RanProgram::of(project.output(&["run", ".", "words", "--json"]));
    assert_eq!((ran.executed(), removed(&ran, "words")), ([].into(), 0));
    assert_eq!(removed(&project.run(), "words"), 2);
    assert_eq!(project.names("out"), ["others", "summary.json"]);
    project.run().assert_nothing_done();
}

#[test]
fn a_link_that_leads_out_of_the_project_is_not_followed() {
    let project = project();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), project.file("out")).unwrap();
    let ran = project.run();
    let failed = ran.all("stage-failed");
    assert_eq!((ran.code, failed.len()), (Some(1), 2), "{ran:?}");
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.contains("a symbolic link on its path leads outside"), "{message}");
    assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0);
}

#[test]
fn an_export_that_failed_fails_again_until_its_files_are_written() {
    let project = done();
    let elsewhere = tempfile::tempdir().unwrap();
    let words = project.file("out/words");
    std::fs::remove_dir_all(&words).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &words).unwrap();
    for _ in 0..2 {
        let ran = project.run();
        assert_eq!((ran.code, ran.all("stage-failed").len()), (Some(1), 1), "{ran:?}");
    }
    std::fs::remove_file(&words).unwrap();
    // Now one of the two files has no place.
    std::fs::create_dir_all(words.join("a.txt")).unwrap();
    for _ in 0..2 {
        assert_eq!(project.run().code, Some(1));
        assert!(project.file("out/words/b.txt").is_file());
    }
    std::fs::remove_dir(words.join("a.txt")).unwrap();
    assert_eq!(project.run().code, Some(0));
    assert_eq!(project.names("out/words"), ["a.txt", "b.txt"]);
    // They are still files of this export.
    project.replace("pipeline.toml", "out/words/{id}.txt", "out/others/{id}.txt");
    assert_eq!(removed(&project.run(), "words"), 2);
}

#[test]
fn a_link_within_the_project_is_followed() {
    let project = project();
    std::fs::create_dir(project.file("made")).unwrap();
    std::os::unix::fs::symlink("made", project.file("out")).unwrap();
    assert_eq!(project.run().code, Some(0));
    assert_eq!(project.names("made"), ["summary.json", "words"]);
    project.run().assert_nothing_done();
}

#[test]
fn no_export_leads_into_the_cache_wherever_it_lies() {
    let project = project();
    let refused = project.output(&["run", ".", "--cache", "out"]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("an export path cannot be in the cache folder"), "{told}");
    // Nor does another mistake hide it.
    let refused = project.output(&["run", ".", "--cache", "out", "--set", "words.fields=[\"no\"]"]);
    let both = String::from_utf8(refused.stderr).unwrap();
    assert!(both.contains("an export path cannot be in the cache folder"), "{both}");
    assert!(both.contains("`no`"), "{both}");
    // Values from the data are only known at export.
    project.replace("pipeline.toml", "out/words/{id}.txt", "{speaker}/{id}/objects");
    project.replace("data/metadata.csv", "aino", "kept");
    let arguments = ["run", ".", "--json", "--cache", "kept"];
    let ran = RanProgram::of(project.output(&arguments));
    assert_eq!(ran.code, Some(1));
    let failed = ran.all("stage-failed");
    assert!(failed[0]["message"].as_str().unwrap().contains("it is inside the cache"), "{ran:?}");
    assert!(!project.file("kept/a").exists());
}

/// One of the speakers has a name that is no valid folder name.
fn odd_speakers(odd: &[&str]) -> Project {
    let project = Project::new(&MANIFEST.replace("out/words/{id}", "out/words/{speaker}/{id}"));
    write_clips(&project, &["a", "b", "c", "d", "e"]);
    for name in odd {
        let (usual, odd) = (format!("{name}.|aino"), format!("{name}.|../aino"));
        project.replace("data/metadata.csv", &usual, &odd);
    }
    project
}

fn notes(ran: &RanProgram) -> Vec<&str> {
    ran.all("note").into_iter().map(|note| note["message"].as_str().unwrap()).collect()
}

#[test]
fn an_item_that_cannot_be_exported_is_told_before_the_work_and_stops_no_other() {
    let project = odd_speakers(&["b"]);
    let ran = project.run();
    assert_eq!(ran.executed()["words"], 5);
    let told = "1 of 5 items cannot be exported: item `b`: its export path \
                `out/words/../aino/b.txt` leads outside the folder";
    assert_eq!(notes(&ran), [told; 2], "before the work, and of the export");
    let place = |name: &str| {
        let is_it = |event: &serde_json::Value| event["event"] == name && event["stage"] == "words";
        ran.events.iter().position(is_it).unwrap()
    };
    assert!(place("note") < place("stage-finished"), "{:?}", ran.events);
    let exported = ["a.txt", "c.txt", "d.txt", "e.txt"];
    assert_eq!(project.names("out/words/aino"), exported);
    let again = project.run();
    again.assert_nothing_done();
    assert_eq!(notes(&again), [told], "it is not forgotten");
    let printed = project.printed(&["export"]);
    assert!(printed.ends_with("all other exported files are up to date\n"), "{printed}");
    project.replace("data/metadata.csv", "../aino", "aino");
    assert_eq!(notes(&project.run()), [""; 0]);
    assert_eq!(project.names("out/words/aino").len(), 5);
    // It may become so without any work on it.
    project.replace("data/metadata.csv", "b.|aino", "b.|../aino");
    let ran = project.run();
    assert_eq!((ran.code, ran.executed().get("words")), (Some(0), None));
    assert_eq!(notes(&ran).len(), 1, "{ran:?}");
    assert_eq!(project.names("out/words/aino"), exported);
}

#[test]
fn too_many_items_that_cannot_be_exported_fail_the_stage_before_its_work() {
    let project = odd_speakers(&["a", "b", "c", "d"]);
    let ran = project.run();
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.executed_in_any_case(), [("clips", 1)].into());
    let failed = ran.all("stage-failed");
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.starts_with("4 of 5 items cannot be exported; the first is item `a`: "));
    // Done before the export existed.
    let path = "out/words/{speaker}/{id}";
    project.replace("pipeline.toml", path, "out/words/{id}");
    assert_eq!(project.run().code, Some(0));
    project.replace("pipeline.toml", "out/words/{id}", path);
    let ran = project.run();
    assert_eq!((ran.code, ran.all("stage-failed").len()), (Some(1), 1), "{ran:?}");
}

const NO_SPEAKERS: &str = r#"
[pipeline]
name = "fields"

[stage.clips]
use = "corpus.jsonl"
file = "list.jsonl"
audio = "data/wavs"

[stage.spoken]
use = "text.normalize"
input = "clips"

[stage.sides]
use = "dataset.split"
input = "spoken"

[stage.voice]
use = "command"
input = "sides"
fields = ["audio"]
command = "cp {audio} {out.copy}"
outputs = { copy = "copy.wav" }
export = "out/{speaker}/{id}.wav"
"#;

#[test]
fn a_path_with_a_field_that_no_row_has_fails_before_any_work() {
    let project = Project::new(NO_SPEAKERS);
    write_clips(&project, &["a", "b"]);
    let row = |id: &str| {
        format!("{{\"id\":\"{id}\",\"audio_filepath\":\"{id}.wav\",\"text\":\"Hei\"}}\n")
    };
    project.write("list.jsonl", ["a", "b"].map(row).concat());
    let ran = project.run();
    assert_eq!((ran.code, ran.executed_in_any_case()), (Some(1), [("clips", 1)].into()));
    let failed = ran.all("stage-failed");
    assert_eq!((failed.len(), &failed[0]["stage"]), (1, &"voice".into()));
    assert_eq!(
        failed[0]["message"],
        "2 of 2 items cannot be exported; the first is item `a`: it has no field `speaker` for the \
         export path"
    );
    project.replace("pipeline.toml", "{speaker}/", "");
    assert_eq!(project.run().code, Some(0));
    assert_eq!(project.names("out").len(), 2);
}

/// Outputs that lie in separate files in the cache.
fn large() -> Project {
    let project = project();
    let zeros = "head -c 2097152 /dev/zero > {out.words}; printf %s {text} >>";
    project.replace("pipeline.toml", "printf %s {text} >", zeros);
    assert_eq!(project.run().code, Some(0));
    project
}

#[test]
fn a_folder_in_the_place_of_an_object_is_put_aside_and_the_object_made_again() {
    let project = large();
    let before = project.files("out");
    let objects: Vec<String> = project.files(".throstle/objects").into_keys().collect();
    assert!(!objects.is_empty());
    for object in &objects {
        project.remove(&format!(".throstle/objects/{object}"));
        project.write(&format!(".throstle/objects/{object}/in-it"), "");
    }
    std::fs::remove_dir_all(project.file("out")).unwrap();
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.events);
    assert!(!ran.all("damaged").is_empty(), "{:?}", ran.events);
    assert!(project.files("out") == before, "the exports are others");
    assert_eq!(project.names(".throstle/trash/damaged").len(), objects.len());
    project.run().assert_nothing_done();
}

fn names_of(project: &Project, file: &str) -> u64 {
    project.file(file).metadata().unwrap().nlink()
}

#[test]
fn who_writes_into_an_exported_file_damages_no_object() {
    let project = large();
    let file = std::fs::OpenOptions::new().write(true).open(project.file("out/words/a.txt"));
    file.unwrap().write_all_at(b"my own", 1 << 20).unwrap();
    let verified = project.output(&["cache", "verify"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let is_edited = || project.read("out/words/a.txt").windows(6).any(|bytes| bytes == b"my own");
    project.run().assert_nothing_done();
    assert!(is_edited());
    let ran = overwritten(&project);
    assert_eq!(ran.executed(), [].into());
    assert_eq!(ran.all("exported")[0]["written"], 1);
    assert!(!is_edited());
}

fn overwritten(project: &Project) -> RanProgram {
    RanProgram::of(project.output(&["run", ".", "--json", "--overwrite"]))
}

fn kept(path: &str) -> String {
    format!(
        "warning: `{path}` differs from its export, and is kept: it is not updated any \
         more; remove the file, or use `--overwrite`, to export again"
    )
}

#[test]
fn a_file_that_somebody_has_changed_is_kept_and_told_until_it_is_removed() {
    let project = done();
    let path = "out/words/a.txt";
    for edit in ["corrected", "Sana", ""] {
        project.write(path, edit);
        for _ in 0..2 {
            let ran = project.run();
            ran.assert_nothing_done();
            assert_eq!((notes(&ran), project.text(path).as_str()), (vec![&*kept(path)], edit));
        }
    }
    let exported = project.output(&["export"]);
    assert_eq!(exported.status.code(), Some(0), "{exported:?}");
    let told = String::from_utf8(exported.stdout).unwrap();
    assert_eq!(told, format!("words: {}\nall other exported files are up to date\n", kept(path)));
    project.remove(path);
    let ran = project.run();
    assert_eq!((notes(&ran), project.text(path).as_str()), (vec![], "Sana a."));
    project.run().assert_nothing_done();
}

#[test]
fn a_changed_file_stays_while_the_others_follow_and_goes_only_when_told() {
    let project = done();
    project.write("out/words/a.txt", "corrected");
    project.edit("data/metadata.csv", |text| text.replace("Sana", "Lause"));
    let ran = project.run();
    assert_eq!(notes(&ran), [kept("out/words/a.txt")]);
    let of_words: Vec<_> =
        ran.all("exported").into_iter().filter(|event| event["stage"] == "words").collect();
    assert_eq!((&of_words[0]["written"], &of_words[0]["kept"]), (&1.into(), &1.into()));
    assert_eq!(project.text("out/words/a.txt"), "corrected");
    assert_eq!(project.text("out/words/b.txt"), "Lause b.");
    for program in [&["export", "--overwrite"][..], &["run", "--overwrite"]] {
        project.write("out/words/a.txt", "corrected");
        let output = project.output(program);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(project.text("out/words/a.txt"), "Lause a.", "{program:?}");
        project.run().assert_nothing_done();
    }
}

#[test]
fn a_restored_file_of_an_earlier_export_is_an_edit() {
    let project = done();
    let first = project.read("out/words/a.txt");
    project.edit("data/metadata.csv", |text| text.replace("Sana", "Lause"));
    project.run();
    project.write("out/words/a.txt", first);
    let ran = project.run();
    let path = "out/words/a.txt";
    assert_eq!((notes(&ran), project.text(path).as_str()), (vec![&*kept(path)], "Sana a."));
}

#[test]
fn a_file_that_was_there_before_the_first_export_is_kept() {
    let project = project();
    project.write("out/words/a.txt", "my own");
    let ran = project.run();
    assert_eq!((ran.code, notes(&ran)), (Some(0), vec![&*kept("out/words/a.txt")]));
    assert_eq!(project.text("out/words/a.txt"), "my own");
    assert_eq!(project.text("out/words/b.txt"), "Sana b.");
}

#[test]
fn a_changed_file_of_an_item_that_is_gone_stays_and_is_told_once() {
    let project = done();
    project.write("out/words/a.txt", "corrected");
    project.run();
    project.edit("data/metadata.csv", |text| {
        text.lines().filter(|line| !line.starts_with('a')).map(|line| format!("{line}\n")).collect()
    });
    let told = "`out/words/a.txt` is no longer exported, but stays, since it was edited; remove it if \
                you do not need it";
    assert_eq!(notes(&project.run()), [told]);
    assert_eq!(notes(&project.run()), [""; 0]);
    assert_eq!(project.text("out/words/a.txt"), "corrected");
}

#[test]
fn the_stage_that_takes_corrections_is_named() {
    let corrected = r#"
[stage.corrected]
use = "corpus.corrections"
input = "clips"
table = "fixes.csv"
"#;
    let project = Project::new(
        &MANIFEST.replace("[stage.words]", &format!("{corrected}\n[stage.words]")).replace(
            "use = \"command\"\ninput = \"clips\"",
            "use = \"command\"\ninput = \"corrected\"",
        ),
    );
    write_clips(&project, &["a", "b"]);
    project.write("fixes.csv", "segment,action,text\n");
    assert_eq!(project.run().code, Some(0));
    project.write("out/words/a.txt", "corrected");
    let told = "; corrections belong in `fixes.csv`, the table of stage `corrected`";
    assert_eq!(notes(&project.run()), [format!("{}{told}", kept("out/words/a.txt"))]);
}

#[test]
fn hard_links_are_made_where_they_are_asked_for_and_go_where_they_are_not() {
    let project = large();
    let (copy, hard) = (
        r#"export = "out/words/{id}.txt""#,
        r#"export = { words = "out/words/{id}.txt", link = "hard" }"#,
    );
    assert_eq!(names_of(&project, "out/words/a.txt"), 1);
    project.replace("pipeline.toml", copy, hard);
    assert_eq!(project.run().executed(), [].into());
    assert_eq!(names_of(&project, "out/words/a.txt"), 2);
    project.run().assert_nothing_done();
    project.replace("pipeline.toml", hard, copy);
    assert_eq!(project.run().executed(), [].into());
    assert_eq!(names_of(&project, "out/words/a.txt"), 1);
    project.run().assert_nothing_done();
}

/// Changes one byte of an object in a pack.
fn damage(project: &Project, object: &[u8]) {
    let packs = ".throstle/packs";
    for name in project.names(packs) {
        let mut bytes = project.read(&format!("{packs}/{name}"));
        if let Some(at) = bytes.windows(object.len()).position(|window| window == object) {
            bytes[at + object.len() / 2] ^= 1;
            return project.write(&format!("{packs}/{name}"), bytes);
        }
    }
    panic!("no pack has the object");
}

#[test]
fn an_export_that_meets_a_damaged_object_writes_every_file_at_once() {
    for arguments in [&["export"][..], &["run"]] {
        let project = project();
        // Each output also equals a file of the user.
        project.edit("pipeline.toml", |text| {
            let text = text.replace("fields = [\"text\"]", "fields = [\"audio\"]");
            text.replace("printf %s {text} >", "cat {audio} >")
        });
        assert_eq!(project.run().code, Some(0));
        let before = project.files("out");
        damage(&project, &before["words/a.txt"]);
        std::fs::remove_dir_all(project.file("out")).unwrap();
        let output = project.output(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert_eq!(project.files("out"), before, "{arguments:?}");
    }
}

#[test]
fn a_run_makes_a_damaged_object_again_and_exports_every_file_at_once() {
    let project = project();
    project.replace("pipeline.toml", "printf %s {text}", "printf 'made of %s' {text}");
    assert_eq!(project.run().code, Some(0));
    let before = project.files("out");
    damage(&project, b"made of Sana a.");
    std::fs::remove_dir_all(project.file("out")).unwrap();
    let output = project.output(&["export"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(project.names("out"), ["summary.json", "words"]);
    assert_eq!(project.names("out/words"), ["b.txt"], "all others are there");
    std::fs::remove_dir_all(project.file("out")).unwrap();
    assert_eq!(project.run().code, Some(0));
    assert_eq!(project.files("out"), before);
}

#[test]
fn files_behind_a_failed_stage_stay_until_it_is_mended() {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(project.run().code, Some(0));
    for id in ["a", "b", "c", "d"] {
        project.remove(&format!("data/wavs/{id}.wav"));
    }
    let ran = project.run();
    assert_eq!((ran.code, removed(&ran, "words")), (Some(1), 0), "{}", ran.errors);
    assert_eq!(project.names("out/words").len(), 6);
    // With the recordings it is as it was; without their rows the files go.
    project.edit("data/metadata.csv", |text| {
        text.lines().filter(|line| line.starts_with(['e', 'f'])).collect::<Vec<_>>().join("\n")
    });
    let ran = project.run();
    assert_eq!((ran.code, removed(&ran, "words")), (Some(0), 4), "{}", ran.errors);
    assert_eq!(project.names("out/words"), ["e.txt", "f.txt"]);
}

#[test]
fn a_folder_of_exports_goes_with_them_when_the_program_runs_beside_it() {
    let project = project();
    let run = || project.throstle(&["run"]).output().unwrap();
    assert_eq!(run().status.code(), Some(0));
    project.edit("pipeline.toml", |text| text.replace("out/", "other/"));
    let output = run();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(!project.file("out").exists() && project.file("other/summary.json").is_file());
}

#[test]
fn a_field_that_is_no_file_is_told_instead_of_ignored() {
    let row = |id: &str| {
        format!(
            "{{\"id\":\"{id}\",\"audio_filepath\":\"{id}.wav\",\"text\":\"Hei\",\"score\":3}}\n"
        )
    };
    let of = |export: &str| {
        let project = Project::new(&format!(
            "[pipeline]\nname = \"fields\"\n\n[stage.clips]\nuse = \"corpus.jsonl\"\n\
             file = \"list.jsonl\"\naudio = \"data/wavs\"\nexport = {export}\n"
        ));
        write_clips(&project, &["a", "b"]);
        project.write("list.jsonl", ["a", "b"].map(row).concat());
        project
    };
    let project = of("{ output = { score = \"out/{id}.txt\" } }");
    let ran = project.run();
    assert_eq!(ran.code, Some(1), "{}", ran.errors);
    let failed = ran.all("stage-failed");
    let told = failed[0]["message"].as_str().unwrap();
    assert!(told.starts_with("2 of 2 items cannot be exported"), "{told}");
    assert!(told.contains("item `a`: `score` is a number, but only files"), "{told}");
    let ran = of("{ output = { marks = \"out/{id}.txt\" } }").run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    assert_eq!(notes(&ran), ["warning: no item has the field `marks` to export"]);
}

#[test]
fn a_file_with_the_content_of_another_one_is_an_edit() {
    let project = done();
    let (one, other) = ("out/words/a.txt", "out/words/b.txt");
    let (text, other_text) = (project.text(one), project.text(other));
    project.write(one, &other_text);
    project.write(other, &text);
    let ran = project.run();
    ran.assert_nothing_done();
    assert_eq!((project.text(one), project.text(other)), (other_text, text));
    assert!(notes(&ran)[0].starts_with(&format!("warning: `{one}`, `{other}` differ from")));
}

#[test]
fn a_link_in_the_place_of_an_exported_file_is_kept() {
    let project = done();
    let path = "out/words/a.txt";
    project.write("mine.txt", "my own");
    project.remove(path);
    std::os::unix::fs::symlink("../../mine.txt", project.file(path)).unwrap();
    let ran = project.run();
    ran.assert_nothing_done();
    assert_eq!((notes(&ran), project.text(path).as_str()), (vec![&*kept(path)], "my own"));
    overwritten(&project);
    let texts = (project.text(path), project.text("mine.txt"));
    assert_eq!((texts.0.as_str(), texts.1.as_str()), ("Sana a.", "my own"));
}

#[test]
fn two_exports_to_one_path_are_an_error() {
    let project = done();
    project.replace("pipeline.toml", "out/summary.json", "out/words/a.txt");
    for _ in 0..2 {
        let ran = project.run();
        assert_eq!(ran.code, Some(1), "{}", ran.errors);
        let failed = ran.all("stage-failed")[0]["message"].as_str().unwrap();
        assert_eq!(failed, "`out/words/a.txt` is also exported by `words`");
    }
}

#[test]
fn an_export_of_a_field_that_the_output_lacks_leaves_earlier_files() {
    let project = project();
    let more =
        "\n[stage.corpus]\nuse = \"dataset.corpus\"\ninput = \"clips\"\nexport = \"out/corpus\"\n";
    project.edit("pipeline.toml", |text| format!("{text}{more}"));
    assert_eq!(project.run().code, Some(0));
    project.replace("pipeline.toml", "\"out/corpus\"", "{ more = \"out/corpus\" }");
    let ran = project.run();
    ran.assert_nothing_done();
    let told = notes(&ran);
    assert!(told.iter().any(|note| note.contains("has no field `more` to export")), "{told:?}");
    assert!(project.file("out/corpus/metadata.csv").exists());
}

#[test]
fn a_folder_in_the_place_of_an_outdated_export_stays() {
    let project = done();
    let path = "out/words/b.txt";
    project.remove(path);
    std::fs::create_dir(project.file(path)).unwrap();
    project.edit("data/metadata.csv", |text| {
        text.lines().filter(|line| !line.starts_with('b')).map(|line| format!("{line}\n")).collect()
    });
    assert_eq!(project.run().code, Some(0));
    assert!(project.file(path).is_dir());
    project.run().assert_nothing_done();
}

#[test]
fn hard_links_are_made_by_the_run_that_makes_the_objects() {
    let hard = "export = { body = \"out/{id}.txt\", link = \"hard\" }";
    let lab = Lab::new();
    lab.write("pipeline.toml", &LAB_MANIFEST.replace("export = \"out/{id}.txt\"", hard));
    // Large objects are files of their own.
    lab.write("data/anna1.txt", &"x".repeat(1 << 20));
    // None of them is in its place before the exports are written.
    let late =
        RunOptions { commit_every: Some(Duration::from_secs(3600)), ..RunOptions::default() };
    assert_eq!(lab.run_with(&late).status, Status::Done);
    assert_eq!(lab.base().join("out/anna1.txt").metadata().unwrap().nlink(), 2);
    assert!(lab.run().nothing_executed());
}

#[test]
fn files_of_an_earlier_run_are_told_where_a_stage_has_not_finished() {
    let project = done();
    let outdated = |ran: &RanProgram| -> Vec<(String, u64)> {
        let events = ran.all("exported").into_iter();
        let told = events
            .filter_map(|event| Some((event["stage"].as_str()?, event["outdated"].as_u64()?)));
        told.map(|(stage, files)| (stage.to_owned(), files)).collect()
    };
    assert_eq!(outdated(&project.run()), []);
    project.replace("pipeline.toml", "printf %s {text} >", "false && printf %s. {text} >");
    let ran = project.run();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(outdated(&ran), [("words".to_owned(), 2), ("summary".to_owned(), 1)]);
    let told = String::from_utf8(project.output(&["run", "."]).stderr).unwrap();
    let closing =
        "summary: its exported files are of an earlier run, since this run has not finished";
    assert!(told.contains(closing), "{told}");
    // Without an earlier run there is nothing to tell.
    std::fs::remove_dir_all(project.file(".throstle")).unwrap();
    assert_eq!(outdated(&project.run()), []);
}
