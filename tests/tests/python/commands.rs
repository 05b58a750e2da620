//! Python programs as commands, with only its standard library.

use std::os::unix::fs::PermissionsExt;

use throstle_tests::{Project, RanProgram, write_clips};

/// A program for every clip and one for all of them.
const MANIFEST: &str = r#"
[pipeline]
name = "python"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.level]
use = "command"
input = "clips"
fields = ["audio", "text"]
script = "level.py"
command = "python3 {script} {audio} {text} {out.level}"
outputs = { level = "level.json" }
version = "Python 3"
version_command = "python3 --version"
quarantine = 0.5
export = "out/{id}.json"

[stage.loudest]
use = "command.once"
input = "level"
fields = ["level"]
script = "loudest.py"
command = "python3 {script} {items} {out.loudest}"
outputs = { loudest = "loudest.txt" }
export = "out/loudest.txt"
"#;

const LEVEL: &str = r#"
import json, struct, sys, wave

audio, text, out = sys.argv[1:]
with wave.open(audio) as clip:
    samples = [sample for (sample,) in struct.iter_unpack("<h", clip.readframes(clip.getnframes()))]
if max(samples) >= 5000:
    sys.exit(f"too loud for {text}")
with open(out, "w") as file:
    json.dump({"text": text, "level": max(samples)}, file)
"#;

const LOUDEST: &str = r#"
import json, sys

items, out = sys.argv[1:]
levels = {}
for line in open(items):
    item = json.loads(line)
    levels[item["id"]] = json.load(open(item["level"]))["level"]
open(out, "w").write(max(levels, key=levels.get))
"#;

/// Three clips, the last the loudest.
fn project() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b", "c"]);
    project.write("level.py", LEVEL);
    project.write("loudest.py", LOUDEST);
    project
}

fn done() -> Project {
    let project = project();
    assert_eq!(project.run().executed(), [("clips", 1), ("level", 3), ("loudest", 1)].into());
    project
}

#[test]
fn programs_of_ones_own_work_on_items_and_on_all_of_them() {
    let project = done();
    assert_eq!(project.text("out/a.json"), r#"{"text": "Sana a.", "level": 1000}"#);
    assert_eq!(project.text("out/loudest.txt"), "c");
    project.run().assert_nothing_done();
}

#[test]
fn a_changed_item_runs_the_program_for_it_alone() {
    let project = done();
    project.replace("data/metadata.csv", "Sana b.", "Sana toinen.");
    assert_eq!(project.run().executed(), [("clips", 1), ("level", 1), ("loudest", 1)].into());
    assert_eq!(project.text("out/b.json"), r#"{"text": "Sana toinen.", "level": 1001}"#);
}

#[test]
fn a_changed_program_runs_again_and_why_says_so() {
    let project = done();
    project.replace("level.py", "max(samples)}", "min(samples)}");
    let why = project.why(&["level"]);
    assert!(why.contains("content of the file `script` changed from "), "{why}");
    let ran = project.run();
    assert_eq!(ran.executed(), [("level", 3)].into(), "equal output stops there");
    project.write("renamed.py", project.read("level.py"));
    project.replace("pipeline.toml", "\"level.py\"", "\"renamed.py\"");
    project.run().assert_nothing_done();
}

#[test]
fn a_program_that_fails_sets_its_item_aside_with_what_it_said() {
    let project = project();
    project.write("data/wavs/b.wav", throstle_tests::wav(6_000));
    let ran = project.run();
    assert_eq!(ran.executed()["loudest"], 1);
    let set_aside = ran.all("item-quarantined");
    assert_eq!((&set_aside[0]["item"], set_aside.len()), (&"b".into(), 1));
    let reason = set_aside[0]["reason"].as_str().unwrap();
    assert_eq!(reason, "the command ended with status 1; it said: too loud for Sana b.");
    project.run().assert_nothing_done();
    project.replace("pipeline.toml", "quarantine = 0.5", "on_failure = \"fail\"");
    project.replace("level.py", "5000", "5500");
    let ran = project.run();
    assert_eq!((ran.code, &ran.last()["status"]), (Some(1), &"failed".into()));
    let message = ran.all("stage-failed")[0]["message"].as_str().unwrap();
    assert!(message.contains("too loud for Sana b."), "{message}");
}

#[test]
fn a_program_that_is_not_there_is_named_and_its_items_are_tried_again() {
    let project = project();
    let set = "--set=stage.level.command=pythonette {script} {audio} {text} {out.level}";
    let ran = RanProgram::of(project.output(&["run", ".", "--json", set]));
    assert_eq!(ran.code, Some(1));
    let message = ran.all("stage-failed")[0]["message"].as_str().unwrap();
    assert!(message.contains("the program `pythonette` was not found; install it"), "{message}");

    project.write("bin/pythonette", "#!/bin/sh\nexec python3 \"$@\"\n");
    let program = project.file("bin/pythonette");
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", project.file("bin").display(), std::env::var("PATH").unwrap());
    let mut command = project.throstle(&["run", ".", "--json", set]);
    let ran = RanProgram::of(command.env("PATH", path).output().unwrap());
    assert_eq!(ran.executed(), [("level", 3), ("loudest", 1)].into());
}

#[test]
fn a_script_that_is_not_there_is_an_error_of_the_manifest() {
    let project = project();
    project.replace("pipeline.toml", "\"loudest.py\"", "\"nowhere.py\"");
    let refused = project.output(&["check"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nowhere.py"));
}

/// The version that the manifest states is part of the key, and the program must have it.
#[test]
fn another_version_of_the_program_is_other_work() {
    let project = done();
    project.replace("pipeline.toml", "version = \"Python 3\"", "version = \"Python 2\"");
    let why = project.why(&["level"]);
    let change = "parameter `version` changed from \"Python 3\" to \"Python 2\"";
    assert!(why.contains(change), "{why}");
    let ran = project.run();
    assert_eq!(ran.code, Some(1));
    let message = ran.all("stage-failed")[0]["message"].as_str().unwrap();
    assert!(message.contains("`python3 --version` printed `Python 3."), "{message}");
    assert!(message.contains("expected `Python 2`"), "{message}");
    project.replace("pipeline.toml", "\"Python 2\"", "\"Python \"");
    assert_eq!(project.run().executed()["level"], 3);
}

/// A program that makes a folder and a data set of all clips.
const WHOLE: &str = r#"
[stage.parts]
use = "command.once"
input = "clips"
fields = ["text"]
script = "parts.py"
command = "python3 {script} {items} {out.items} {out.model}"
outputs = { model = "model/" }
items = "made/parts.jsonl"
item_outputs = { note = "file/txt", words = "number" }
quarantine = 0.5
export = { output = "out/model", items = { note = "out/notes/{id}.txt" } }

[stage.below]
use = "command"
input = "parts.items"
fields = ["note", "words"]
command = "cat {note} > {out.copy}; echo {words} >> {out.copy}"
outputs = { copy = "copy.txt" }
export = "out/copies/{id}.txt"

[stage.asset]
use = "command.once"
artifact = "parts"
command = "cat {artifact}/config.json {artifact}/sub/weights.bin > {out.all}"
outputs = { all = "all.txt" }
export = "out/all.txt"
"#;

const PARTS: &str = r#"
import json, os, sys

items, out, model = sys.argv[1:]
words = 0
with open(out, "w") as made:
    for line in open(items):
        item = json.loads(line)
        if item["id"] == "b":
            made.write(json.dumps({"id": "b", "reject": "not this one"}) + "\n")
            continue
        note = os.path.join(os.path.dirname(out), item["id"] + ".txt")
        open(note, "w").write(item["text"])
        count = len(item["text"].split())
        words += count
        made.write(json.dumps({"id": item["id"], "note": note, "words": count}) + "\n")
    open(os.path.join(os.path.dirname(out), "sum"), "w").write("all")
    made.write(json.dumps({"id": "sum", "note": "sum", "words": words}) + "\n")
os.mkdir(model + "/sub")
open(model + "/config.json", "w").write("{}")
open(model + "/sub/weights.bin", "w").write("w")
"#;

#[test]
fn a_program_for_all_items_makes_a_folder_and_a_data_set() {
    let project = Project::of_clips(&["a", "b", "c"], WHOLE);
    project.write("parts.py", PARTS);
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    let executed = [("clips", 1), ("parts", 1), ("below", 3), ("asset", 1)];
    assert_eq!((ran.executed(), ran.quarantined("parts")), (executed.into(), 1));
    assert_eq!(project.names("out/model"), ["config.json", "sub"]);
    assert_eq!(project.text("out/model/sub/weights.bin"), "w");
    assert_eq!(project.names("out/notes"), ["a.txt", "c.txt", "sum.txt"]);
    assert_eq!(project.text("out/copies/sum.txt"), "all4\n");
    assert_eq!(project.text("out/all.txt"), "{}w");
    assert!(project.printed(&["why", "parts", "b"]).contains("rejected): not this one"));
    let replayed = project.output(&["replay", "parts"]);
    let told = String::from_utf8([replayed.stdout, replayed.stderr].concat()).unwrap();
    assert!(told.contains("the cache has the same result"), "{told}");
    project.run().assert_nothing_done();

    // One changed text: the program runs, and below it the items that came out differently.
    project.replace("data/metadata.csv", "Sana c.", "Toinen sana.");
    let ran = project.run();
    assert_eq!(ran.executed(), [("clips", 1), ("parts", 1), ("below", 1)].into());
    project.replace("pipeline.toml", "words = \"number\" }", "words = \"text\" }");
    let why = project.why(&["parts"]);
    assert!(why.contains("item_outputs"), "{why}");
    let ran = project.run();
    let message = ran.all("stage-failed")[0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`sum`: the output `words` is not a text"), "{message}");
}

/// Two files that can be exported, and one with a line break in its name.
const BREAKS: &str = r#"
[pipeline]
name = "names"

[stage.made]
use = "command.once"
command = """cd {out.model} && printf w > one.txt && printf w > two.txt && printf x > "$(printf 'a\\nb')" """
outputs = { model = "model/" }
export = "out/model"
"#;

#[test]
fn a_file_that_cannot_be_exported_under_its_name_is_told_and_the_others_are_there() {
    let project = Project::new(BREAKS);
    for executed in [Some(1), None] {
        let ran = project.run();
        assert_eq!(
            (ran.code, ran.executed_in_any_case().get("made").copied()),
            (Some(1), executed)
        );
        let message = ran.all("stage-failed")[0]["message"].as_str().unwrap().to_owned();
        assert!(
            message.starts_with(r"cannot export the file `a\nb` to `out/model`: "),
            "{message}"
        );
        assert_eq!(project.names("out/model"), ["one.txt", "two.txt"]);
    }
    project.replace("pipeline.toml", r"a\\nb", "ab");
    assert_eq!(project.run().code, Some(0));
    assert_eq!(project.names("out/model"), ["ab", "one.txt", "two.txt"]);
}

/// Prints the inode of each input, and changes all of them in place.
const INODES: &str = r#"
import json, os, sys

items, out = sys.argv[1:]
lines = []
for line in open(items):
    item = json.loads(line)
    path = item["audio"]
    head = open(path, "rb").read(4)
    lines.append(f"{item['id']} {os.stat(path).st_ino} {head.decode()} {item['text']}")
    if item["text"].endswith("changes."):
        open(path, "r+b").write(b"gone")
open(out, "w").write("\n".join(lines))
"#;

#[test]
fn inputs_of_a_program_for_all_clips_stay_and_a_changed_one_is_laid_out_again() {
    let ids: Vec<String> = (0..80).map(|number| format!("c{number:02}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let project = Project::new(
        r#"
[pipeline]
name = "kept"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.inodes]
use = "command.once"
input = "clips"
fields = ["audio", "text"]
script = "inodes.py"
command = "python3 {script} {items} {out.inodes}"
outputs = { inodes = "inodes.txt" }
export = "out/inodes.txt"
"#,
    );
    write_clips(&project, &ids);
    project.write("inodes.py", INODES);
    project.run();
    let lines = |project: &Project| -> Vec<(String, String)> {
        let text = project.text("out/inodes.txt");
        let line = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let (id, inode) = (words.next().unwrap(), words.next().unwrap());
            assert_eq!(words.next().as_deref(), Some("RIFF"), "{line}");
            (id, inode)
        };
        text.lines().map(line).collect()
    };
    let first = lines(&project);
    assert_eq!(first.len(), 80);
    let table = project.text("data/metadata.csv");
    // A text is no file: all files stay. Then the program changes one of them in place.
    project.replace("data/metadata.csv", "Sana c07.", "This one changes.");
    assert_eq!(project.run().executed(), [("clips", 1), ("inodes", 1)].into());
    let second = lines(&project);
    let same = |one: &[(String, String)], two: &[(String, String)]| {
        let differ = one.iter().zip(two).filter(|(one, two)| one != two);
        differ.map(|(one, _)| one.0.clone()).collect::<Vec<String>>()
    };
    assert_eq!(same(&first, &second), Vec::<String>::new());
    project.write("data/metadata.csv", &table);
    project.run();
    // The next program has the whole recording again.
    let third = lines(&project);
    assert!(same(&second, &third).iter().all(|id| id == "c07"), "{third:?}");
    assert_eq!(&project.read("data/wavs/c07.wav")[..4], b"RIFF");
    let removed = project.printed(&["cache", "gc", "--max-size", "1GB", "--yes"]);
    assert!(removed.contains("of copies of inputs of programs"), "{removed}");
    project.run().assert_nothing_done();
}
