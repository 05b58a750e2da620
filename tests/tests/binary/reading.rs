//! The read-only commands: lists, pictures, pages.

use serde_json::Value;

use throstle_tests::{Project, command, small_disk};

use crate::small::{done, project};

#[test]
fn items_are_listed_in_every_form() {
    let project = done();
    let table = project.printed(&["items", "words"]);
    assert_eq!(table.lines().count(), 6, "{table}");
    let lines = project.printed(&["items", "words", "--format", "jsonl"]);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 5);
    assert_eq!((&rows[0]["id"], &rows[0]["text"]), (&"a".into(), &"Sana a.".into()));
    assert_eq!(rows[0]["words"]["kind"], "file/txt");
    let csv = project.printed(&["items", "words", "--format", "csv", "--fields", "speaker,text"]);
    assert_eq!(csv.lines().next(), Some("id,speaker,text"));
    assert_eq!(csv.lines().nth(5), Some("e,aino,Sana e."));
    let ids = project.printed(&["items", "words", "--format", "csv", "--fields", "id"]);
    assert_eq!(ids, "id\na\nb\nc\nd\ne\n");
    let ids = project.printed(&["items", "words", "--format", "csv", "--fields", "text,id"]);
    assert_eq!(ids.lines().next(), Some("id,text"));
    project.printed(&["items", "words", "--format", "parquet", "-o", "words.parquet"]);
    let parquet = project.read("words.parquet");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let to_standard_output = project.printed(&["items", "words", "-o", "-"]);
    assert_eq!(to_standard_output, table);
    assert!(!project.file("-").exists());
    let unknown = project.output(&["items", "words", "--fields", "loudness"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("`loudness`"));
}

#[test]
fn items_before_the_first_run_say_how_to_get_them() {
    let output = project().output(&["items", "words"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no output yet") && errors.contains("throstle run"), "{errors}");
}

#[test]
fn the_graph_is_drawn_in_every_form() {
    let project = done();
    assert!(project.printed(&["graph"]).starts_with("flowchart TD"));
    assert!(project.printed(&["graph", "--format", "dot"]).starts_with("digraph"));
    let svg = project.printed(&["graph", "--format", "svg", "--no-plan"]);
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for name in ["clips", "words", "summary"] {
        assert!(svg.contains(name), "{name}");
    }
    project.printed(&["graph", "--format", "svg", "-o", "graph.svg"]);
    assert!(project.text("graph.svg").starts_with("<svg"));
}

#[test]
fn the_state_and_the_log_tell_of_the_run() {
    let project = done();
    assert!(project.printed(&["status"]).starts_with("small: run 1 of "));
    let status: Value = serde_json::from_str(&project.printed(&["status", "--json"])).unwrap();
    assert_eq!(status["stages"]["words"]["verdict"], "fresh");
    assert_eq!(status["last"]["run"], 1);
    assert_eq!(project.printed(&["log"]).lines().count(), 2);
    assert!(project.printed(&["log", "1"]).contains("words: done, 5 executed"));
    let events = project.printed(&["log", "1", "--json"]);
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["status"]), (&"finished".into(), &"done".into()));
    assert_eq!(project.output(&["log", "7"]).status.code(), Some(2));
}

#[test]
fn exports_come_back_from_the_cache_alone() {
    let project = done();
    std::fs::remove_dir_all(project.file("out")).unwrap();
    project.printed(&["export"]);
    assert_eq!(project.text("out/a.txt").trim(), "2");
    assert_eq!(project.names("out").len(), 6);
    project.run().assert_nothing_done();
}

#[test]
fn the_pages_of_the_program_are_printed() {
    let project = project();
    assert!(project.printed(&["--version"]).starts_with("throstle "));
    assert!(project.printed(&["--help"]).contains("Exit codes"));
    assert!(project.printed(&["check"]).contains("`pipeline.toml` is valid: 3 stages"));
    assert!(project.printed(&["stages"]).contains("audio.resample"));
    assert!(project.printed(&["stages", "audio.resample"]).contains("rate"));
    let family = project.printed(&["stages", "audio"]);
    assert!(family.lines().skip(1).all(|line| line.starts_with("audio.")), "{family}");
    assert_eq!(project.output(&["stages", "audi"]).status.code(), Some(2));
    serde_json::from_str::<Value>(&project.printed(&["schema"])).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        assert!(project.printed(&["completions", shell]).contains("throstle"), "{shell}");
    }
    let doctor = project.output(&["doctor"]);
    let told = String::from_utf8(doctor.stdout).unwrap();
    for part in ["libtorch", "GPU", "driver", "disk", "cache"] {
        assert!(told.contains(part), "`{part}` is missing in {told}");
    }
}

#[test]
fn nothing_that_a_person_names_is_written_into_a_cache() {
    let project = done();
    let before = project.read(".throstle/ledger.redb");
    for arguments in [
        &["cat", "words", "a", "words", "-o", ".throstle/ledger.redb"][..],
        &["items", "words", "-o", ".throstle/new"],
        &["items", "words", "--format", "webdataset", "--to", ".throstle/set"],
        &["graph", "-o", ".throstle/objects/graph"],
        &["report", "-o", ".throstle/report.html"],
        &["init", ".throstle/new"],
        &["new-stage", "room-tone", "--to", ".throstle/stage"],
    ] {
        let output = project.output(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("is in the cache"), "{said}");
    }
    assert!(project.read(".throstle/ledger.redb") == before);
    assert!(!project.file(".throstle/set").exists());
}

#[test]
fn no_output_overwrites_the_manifest_or_what_it_reads() {
    let project = done();
    let read = |path: &str| project.read(path);
    let before = [read("pipeline.toml"), read("data/metadata.csv"), read("data/wavs/a.wav")];
    std::os::unix::fs::symlink("data", project.file("link")).unwrap();
    for file in ["pipeline.toml", "data/metadata.csv", "data/wavs/a.wav", "link/wavs/a.wav"] {
        for arguments in [
            &["cat", "words", "b", "words", "-o", file][..],
            &["items", "words", "-o", file],
            &["graph", "-o", file],
            &["report", "-o", file],
        ] {
            let output = project.output(arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(said.contains("is a file of the pipeline"), "{said}");
        }
    }
    let after = [read("pipeline.toml"), read("data/metadata.csv"), read("data/wavs/a.wav")];
    assert!(before == after);
    project.printed(&["items", "words", "-o", "list.txt"]);
    project.printed(&["items", "words", "-o", "list.txt"]);
}

#[test]
fn files_that_only_other_stages_need_may_be_missing() {
    let project = project();
    let other = "\n[assets.model]\npath = \"model.bin\"\n\n[stage.taken]\nuse = \"model.import\"\n\
                 asset = \"assets.model\"\n\n[stage.more]\nuse = \"corpus.table\"\n\
                 table = \"more.csv\"\naudio = \"data/wavs\"\n";
    project.write("pipeline.toml", format!("{}{other}", crate::small::MANIFEST));
    for (arguments, told) in [
        (&["run"][..], [true, true]),
        (&["run", ".", "more"], [true, false]),
        (&["run", ".", "taken"], [false, true]),
        (&["run", ".", "taken", "more"], [true, true]),
    ] {
        let output = project.output(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        let named = ["more.csv", "model.bin"].map(|file| said.contains(file));
        assert_eq!(named, told, "{arguments:?}: {said}");
    }
    project.printed(&["run", ".", "words"]);
    assert_eq!(project.printed(&["items", "words.output"]).lines().count(), 6);
    project.printed(&["why", "words", "a"]);
}

#[test]
fn results_can_be_read_when_their_sources_are_gone() {
    let project = done();
    let clips = project.printed(&["items", "clips"]);
    std::fs::rename(project.file("data"), project.file("elsewhere")).unwrap();
    assert_eq!(project.output(&["run"]).status.code(), Some(2));
    let output = project.output(&["items", "clips"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), clips);
    assert!(said.contains("`clips` is not up to date: using its output of run 1"), "{said}");
    assert_eq!(project.printed(&["cat", "words", "a", "words"]).trim(), "2");
    assert_eq!(project.printed(&["items", "words", "--quarantined"]), "id\n");
    for arguments in [&["status"][..], &["graph"], &["why", "words"], &["report"]] {
        project.printed(arguments);
    }
    let none = project.output(&["export"]);
    let said = String::from_utf8_lossy(&none.stderr);
    assert_eq!(none.status.code(), Some(1), "{said}");
    assert!(said.contains("skipped `words`, which is not up to date"), "{said}");
    assert_eq!(project.names("out").len(), 6, "exported files stay");
}

#[test]
fn a_spoken_text_overwrites_nothing_that_its_voice_is_made_of() {
    let project = Project::default();
    project.printed(&["init", "demo", "--template", "demo"]);
    let table = project.read("demo/data/metadata.csv");
    for (file, why) in [
        ("demo/data/metadata.csv", "is a file of the pipeline"),
        ("demo/pipeline.toml", "is a file of the pipeline"),
    ] {
        let output = project.output(&["say", "demo:spoken_sentences", "Hei.", "-o", file]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
    assert!(project.read("demo/data/metadata.csv") == table);
}

#[test]
fn a_voice_without_a_place_is_refused() {
    let project = project();
    for voice in ["=", "a=", "", "a=.:", ".:"] {
        let output = project.output(&["serve", voice]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let told = if voice.ends_with(".:") { "names no stage after" } else { "is not a voice" };
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn a_source_without_items_is_told_by_every_command() {
    let project = project();
    std::fs::remove_dir_all(project.file("data/wavs")).unwrap();
    std::fs::create_dir(project.file("data/wavs")).unwrap();
    let warns = |arguments: &[&str], warning: &str| {
        let output = project.output(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(said.contains(warning), "{arguments:?}: {said}");
    };
    warns(&["check"], "warning: the folder `data/wavs` is empty");
    project.write("data/metadata.csv", "file|text\n");
    for arguments in [&["plan"][..], &["status"]] {
        warns(arguments, "warning: stage `clips` has no items");
    }
    // Also when nothing is left to do.
    for _ in 0..2 {
        warns(&["run"], "clips: warning: the stage has no items");
    }
}

#[test]
fn quarantined_rows_are_listed_in_the_order_of_their_file() {
    let row = |id: usize, audio: &str| {
        format!("{{\"id\":\"c{id}\",\"audio_filepath\":\"{audio}\",\"text\":\"Hei\"}}\n")
    };
    let rows: Vec<String> = (1..13)
        .map(|at| match at {
            1 => row(at, "a.wav"),
            // Rows that cannot be read are known before missing files.
            3 | 11 => "{}\n".to_owned(),
            _ => row(at, "missing.wav"),
        })
        .collect();
    let project = Project::new(
        "[pipeline]\nname = \"rows\"\n\n[stage.clips]\nuse = \"corpus.jsonl\"\n\
         file = \"list.jsonl\"\naudio = \"data/wavs\"\nquarantine = 1.0\n",
    );
    throstle_tests::write_clips(&project, &["a"]);
    project.write("list.jsonl", rows.concat());
    project.printed(&["run"]);
    let listed =
        project.printed(&["items", "clips", "--quarantined", "--format", "csv", "--fields", "id"]);
    let expected: Vec<String> = (2..13).map(|row| format!("list.jsonl:{row}")).collect();
    assert_eq!(listed.lines().skip(1).collect::<Vec<_>>(), expected);
}

#[test]
fn a_full_disk_leaves_no_part_of_a_data_set_and_asks_to_run_again() {
    if !small_disk::is_available() {
        return;
    }
    let project = done();
    let program = command("throstle", project.path(), &[]);
    let program = program.get_program().to_str().unwrap();
    for format in ["hf", "webdataset", "shar"] {
        let lines = format!(
            "head -c 60k /dev/zero > disk/fill\n\
             {program} items clips --format {format} --to disk/set; echo $? > code\n\
             ls disk > names\n"
        );
        let output = small_disk::script(project.path(), "64k", &lines);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(project.text("code").trim(), "75", "{format}: {said}");
        assert_eq!(project.text("names").trim(), "fill", "{format}");
        assert!(said.contains("free some space") && !said.contains("standard output"), "{said}");
    }
}

#[test]
fn there_is_no_card_of_a_stage_without_a_model() {
    let output = done().output(&["card", "words"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`words` is not a model"), "{said}");
}
