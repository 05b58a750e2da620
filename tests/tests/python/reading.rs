//! The module `throstle`: data sets of a pipeline in Python, with only its standard library.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use throstle_tests::guide::root;
use throstle_tests::{Project, command};

/// Clips as they are, small files in packs, and one large file.
const STAGES: &str = r#"
[stage.notes]
use = "python"
input = "clips"
script = "notes.py"
function = "notes"
fields = ["text"]
outputs = { note = "file/txt", large = "file/bin", words = "number" }
"#;

const NOTES: &str = "def notes(item):\n    text = item['text'] + ' \\u00e4'\n    \
    return {'note': text.encode(), 'large': text.encode() * 200_000, 'words': len(text.split())}\n";

fn project() -> Project {
    let project = Project::of_clips(&["a", "b", "c"], STAGES);
    project.write("notes.py", NOTES);
    assert_eq!(project.run().executed()["notes"], 3);
    project
}

/// A program that imports the module, ready to be started in the project.
fn python(project: &Project, script: &str) -> Command {
    let mut python = Command::new("python3");
    let throstle = command("throstle", project.path(), &[]);
    python.args(["-c", script]).current_dir(project.path());
    python.env("PYTHONPATH", root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("THROSTLE", throstle.get_program());
    python
}

/// The JSON that a script prints.
fn told(output: Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn items_have_the_texts_numbers_and_bytes_of_the_stage() {
    let project = project();
    let script = r#"
import json, throstle
pipeline = throstle.open(".")
notes = pipeline["notes"]
assert len(notes) == 3 and list(pipeline) == ["clips", "notes"], pipeline
first = notes[0]
assert dict(notes[-1])["id"] == "c" and [item.id for item in notes[:2]] == ["a", "b"]
same = throstle.open("pipeline.toml")["notes"]
large = open(first["large"].path, "rb").read()
print(json.dumps({
    "fields": notes.fields, "text": first["text"], "words": first["words"],
    "note": bytes(first["note"].view).decode(), "kind": first["note"].kind,
    "small": open(first["note"].path, encoding="utf-8").read(),
    "large": [len(large), large == first["large"].bytes, first["large"].path.startswith(notes.cache)],
    "audio": [first["audio"].rate, first["audio"].size, first["audio"].path],
    "same": notes.digest == same.digest, "digest": len(notes.digest),
}))
"#;
    let told = told(python(&project, script).output().unwrap());
    assert_eq!(told["fields"], json!(["audio", "large", "note", "speaker", "text", "words"]));
    assert_eq!((&told["text"], &told["words"]), (&json!("Sana a."), &json!(3.0)));
    assert_eq!((&told["note"], &told["kind"]), (&json!("Sana a. ä"), &json!("file/txt")));
    assert_eq!((&told["small"], &told["same"]), (&json!("Sana a. ä"), &json!(true)));
    assert_eq!(told["large"], json!([2_000_000, true, true]));
    let audio = project.file("data/wavs/a.wav");
    let size = std::fs::metadata(&audio).unwrap().len();
    assert_eq!(told["audio"], json!([16_000, size, audio.to_str().unwrap()]));
}

#[test]
fn a_data_set_is_picklable_and_notices_another_output() {
    let project = project();
    let script = r#"
import json, pickle, subprocess, os, throstle
notes = throstle.open(".")["notes"]
kept = pickle.dumps(notes)
again = pickle.loads(kept)
equal = [a["note"].bytes == b["note"].bytes and a["text"] == b["text"] for a, b in zip(notes, again)]
child = os.fork()
if child == 0:
    os._exit(0 if notes[1]["note"].bytes == b"Sana b. \xc3\xa4" else 1)
equal.append(os.waitpid(child, 0)[1] == 0)
text = open("data/metadata.csv", encoding="utf-8").read()
open("data/metadata.csv", "w", encoding="utf-8").write(text.replace("Sana b.", "Sana x."))
subprocess.run([throstle.reader.program(), "run", "."], check=True, capture_output=True)
try:
    pickle.loads(kept)
except throstle.reader.Error as error:
    print(json.dumps([all(equal), str(error)]))
"#;
    let told = told(python(&project, script).output().unwrap());
    assert_eq!(told, json!([true, "the output of `notes` changed meanwhile"]));
}

#[test]
fn what_is_not_there_is_told_in_words() {
    let project = project();
    let script = r#"
import json, throstle
told = []
for name in ["nothing", "notes.other"]:
    try:
        throstle.open(".")[name]
    except (KeyError, throstle.reader.Error) as error:
        told.append(f"{type(error).__name__}: {error}")
try:
    throstle.open("nowhere")
except throstle.reader.Error as error:
    told.append(str(error))
print(json.dumps(told))
"#;
    let told = told(python(&project, script).output().unwrap());
    assert_eq!(told[0], "KeyError: 'nothing'");
    assert!(told[1].as_str().unwrap().contains("has no output `other`"), "{told}");
    assert!(told[2].as_str().unwrap().contains("nowhere"), "{told}");
}

/// The objects of an older output, which nothing else needs any more.
#[test]
fn gc_leaves_the_objects_of_an_open_data_set_alone() {
    let project = project();
    let script = r#"
import sys, throstle
notes = throstle.open(".")["notes"]
print("open", flush=True)
sys.stdin.readline()
before = [(item["note"].bytes, item["large"].bytes) for item in notes]
assert [note.decode() for note, _ in before] == ["Sana a. ä", "Sana b. ä", "Sana c. ä"]
assert all(len(large) == 2_000_000 for _, large in before)
notes.close()
print("closed", flush=True)
sys.stdin.readline()
"#;
    let mut reader = python(&project, script);
    let mut reader = reader.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(reader.stdout.take().unwrap());
    let mut orders = reader.stdin.take().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "open\n");

    project.replace("notes.py", "u00e4", "u00f6");
    assert_eq!(project.run().executed()["notes"], 3);
    let gc = ["cache", "gc", "--yes", "--keep-runs", "1", "--empty-trash"];
    let swept = project.printed(&gc);
    assert!(swept.contains("kept 6 objects that other programs are reading"), "{swept}");
    std::io::Write::write_all(&mut orders, b"go\n").unwrap();
    line.clear();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "closed\n");
    let swept = project.printed(&gc);
    assert!(swept.contains("removed 6 objects"), "{swept}");
    drop(orders);
    assert!(reader.wait().unwrap().success());
    project.run().assert_nothing_done();
}

/// A reader that was killed holds nothing.
#[test]
fn a_dead_reader_keeps_nothing_from_gc() {
    let project = project();
    let script =
        "import os, throstle\nnotes = throstle.open('.')['notes']\nos.kill(os.getpid(), 9)\n";
    assert!(!python(&project, script).output().unwrap().status.success());
    let leases =
        || project.names(".throstle/locks").into_iter().filter(|name| name.starts_with("lease-"));
    assert_eq!(leases().count(), 1);
    project.replace("notes.py", "u00e4", "u00f6");
    project.run().executed();
    let swept = project.printed(&["cache", "gc", "--yes", "--keep-runs", "1"]);
    assert!(swept.contains("removed 8 objects") && !swept.contains("are reading"), "{swept}");
    assert_eq!(leases().count(), 0);
}

#[test]
fn webdataset_and_shar_are_the_same_from_python_and_from_the_program() {
    let project = project();
    let script = r#"
import gzip, io, json, tarfile, throstle
notes = throstle.open(".")["notes"]
[tar] = notes.to_webdataset("own/%06d.tar")
own = {entry.name: tarfile.open(tar).extractfile(entry).read() for entry in tarfile.open(tar)}
theirs = {entry.name: tarfile.open("web/000000.tar").extractfile(entry).read() for entry in tarfile.open("web/000000.tar")}
assert sorted(own) == sorted(theirs), (sorted(own), sorted(theirs))
rest = [name for name in own if not name.endswith("json")]
assert all(own[name] == theirs[name] for name in rest)
assert all(json.loads(own[name]) == json.loads(theirs[name]) for name in own if name.endswith("json"))
cuts, tar = notes.to_shar("ownshar")
load = lambda path: [json.loads(line) for line in gzip.open(path, "rt", encoding="utf-8")]
assert load(cuts) == load("shar/cuts.000000.jsonl.gz"), (load(cuts), load("shar/cuts.000000.jsonl.gz"))
names = lambda path: [(entry.name, tarfile.open(path).extractfile(entry).read()) for entry in tarfile.open(path)]
own, theirs = names(tar), names("shar/recording.000000.tar")
assert [name for name, _ in own] == [name for name, _ in theirs] and own[0] == theirs[0]
print(json.dumps({"names": sorted(name for name in rest if name.startswith("a.")), "cut": load(cuts)[0]}))
"#;
    for (format, folder) in [("webdataset", "web"), ("shar", "shar")] {
        project.printed(&["items", "notes", "--format", format, "--to", folder]);
    }
    let told = told(python(&project, script).output().unwrap());
    assert_eq!(told["names"], json!(["a.audio.wav", "a.large.bin", "a.note.txt"]));
    assert_eq!(told["cut"]["duration"], json!(0.1));
    assert_eq!(told["cut"]["supervisions"][0]["text"], json!("Sana a."));
}

#[test]
fn a_folder_for_datasets_has_the_files_and_a_list_of_them() {
    let project = project();
    project.printed(&["items", "notes", "--format", "hf", "--to", "hf"]);
    let list = project.text("hf/metadata.jsonl");
    let row: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    assert_eq!(row["file_name"], "audio/a.wav");
    assert_eq!((&row["note_file_name"], &row["text"]), (&json!("note/a.txt"), &json!("Sana a.")));
    assert_eq!(project.read("hf/audio/a.wav"), project.read("data/wavs/a.wav"));
    assert_eq!(project.text("hf/note/a.txt"), "Sana a. ä");
    let again = project.output(&["items", "notes", "--format", "hf", "--to", "hf"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("`hf` is not empty"));
    let without = project.output(&["items", "notes", "--format", "hf"]);
    assert_eq!(without.status.code(), Some(2));
    let table = project.output(&["items", "notes", "--to", "x"]);
    assert_eq!(table.status.code(), Some(2));
}

#[test]
fn cat_writes_one_value_as_it_is() {
    let project = project();
    assert_eq!(project.printed(&["cat", "notes", "a", "note"]), "Sana a. ä");
    assert_eq!(project.printed(&["cat", "notes", "a", "text"]), "Sana a.\n");
    assert_eq!(project.printed(&["cat", "notes", "b", "words"]), "3\n");
    let audio = project.output(&["cat", "clips", "b"]);
    assert_eq!(audio.stdout, project.read("data/wavs/b.wav"));
    project.printed(&["cat", "notes", "c", "large", "--output", "large.bin"]);
    assert_eq!(project.read("large.bin").len(), 2_000_000);
    for (arguments, told) in [
        (&["cat", "notes", "d", "note"], "has no item `d`"),
        (&["cat", "notes", "a", "nots"], "has no field `nots`"),
        (&["cat", "notes", "a", "--output=-"], "`a` has several values"),
        (&["cat", "nothing", "a", "b"], "nothing"),
    ] {
        let refused = project.output(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(errors.contains(told), "{errors}");
    }
}
