//! `python`: a function for each item or for a batch of them.

use std::collections::BTreeMap;

use serde_json::json;
use throstle_tests::{Project, RanProgram};

use crate::{project, values};

/// A function that makes a number, a text and a file, and writes down each start of a process.
const MEASURE: &str = r#"
import os, random, struct, sys, wave
from throstle import stage

print("a stray line", file=sys.stdout)

def load(setup):
    with open(os.path.join(setup.parameters["log"]), "a") as log:
        log.write("started\n")
    return setup.parameters["factor"]

@stage(setup=load)
def measure(item, factor):
    print("{\"type\": \"done\"}")
    os.write(1, b"noise\n")
    with wave.open(item["audio"]) as clip:
        frames = clip.readframes(clip.getnframes())
    level = max(sample for (sample,) in struct.iter_unpack("<h", frames))
    path = os.path.join(item.out, "loud.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{item['text']} {level}")
    return {
        "level": level * factor,
        "words": item["text"].upper() + " ñ \U0001F426",
        "loud": path,
        "drawn": random.random(),
        "own": float(item.seed),
    }
"#;

const FIELDS: &str = r#"
fields = ["audio", "text"]
outputs = { level = "number", words = "text", loud = "file/txt", drawn = "number", own = "number" }
"#;

fn measuring(names: &[&str], more: &str) -> Project {
    let project = project(names, MEASURE, "");
    let log = project.file("started.log");
    let stage = format!("{FIELDS}parameters = {{ factor = 0.5, log = {log:?} }}\n{more}");
    project.edit("pipeline.toml", |text| format!("{text}{stage}"));
    project
}

fn starts(project: &Project) -> usize {
    project.text("started.log").lines().count()
}

#[test]
fn a_function_gets_fields_and_gives_numbers_texts_and_files() {
    let project = measuring(&["a", "b", "c"], "export = { loud = \"out/{id}.txt\" }\n");
    assert_eq!(project.run().executed(), [("clips", 1), ("measured", 3)].into());
    assert_eq!(project.text("out/a.txt"), "Sana a. 1000");
    let levels = values(&project, "measured", "level");
    assert_eq!(levels[1], ("b".to_owned(), json!(500.5)));
    let words = values(&project, "measured", "words");
    assert_eq!(words[2].1, json!("SANA C. ñ \u{1F426}"));
    project.run().assert_nothing_done();
}

#[test]
fn a_process_is_kept_for_the_run() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let project = measuring(&names, "batch = 1\nworkers = 2\n");
    assert_eq!(project.run().executed()["measured"], 40);
    assert!((1..=2).contains(&starts(&project)), "{}", starts(&project));
}

#[test]
fn any_batch_and_any_number_of_processes_give_the_same_outputs() {
    let names: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut listed = Vec::new();
    for settings in ["batch = 1\nworkers = 1", "batch = 7\nworkers = 3", "batch = 64"] {
        let project = measuring(&names, settings);
        assert_eq!(project.run().executed()["measured"], 30);
        let fields = ["level", "words", "loud", "drawn", "own"];
        listed.push(fields.map(|field| values(&project, "measured", field)));
    }
    assert_eq!(listed[0], listed[1]);
    assert_eq!(listed[0], listed[2]);
    let drawn: std::collections::BTreeSet<String> =
        listed[0][3].iter().map(|(_, value)| value.to_string()).collect();
    assert_eq!(drawn.len(), 30, "every item has a seed of its own");
}

/// Neither the batch nor the processes, nor the interpreter, are part of the key.
#[test]
fn only_what_the_output_depends_on_runs_a_function_again() {
    let project = measuring(&["a", "b"], "batch = 1\nversion = \"1\"\n");
    project.run().executed();
    for (old, new) in [
        ("batch = 1", "batch = 2\nworkers = 1\nthreads = 2"),
        ("workers = 1", "workers = 2\npython = \"python3\"\nverify = true"),
    ] {
        project.replace("pipeline.toml", old, new);
        project.run().assert_nothing_done();
    }
    for (file, old, new, why) in [
        ("pipeline.toml", "version = \"1\"", "version = \"2\"", "parameter `version` changed"),
        ("pipeline.toml", "factor = 0.5", "factor = 2", "parameter `parameters` changed"),
        ("measure.py", "upper()", "lower()", "content of the file `script` changed"),
    ] {
        project.replace(file, old, new);
        let told = project.why(&["measured"]);
        assert!(told.contains(why), "{told}");
        assert_eq!(project.run().executed()["measured"], 2, "{why}");
    }
    project.replace("data/metadata.csv", "Sana b.", "Sana toinen.");
    assert_eq!(project.run().executed()["measured"], 1);
}

#[test]
fn files_beside_the_script_are_imported_and_part_of_the_key() {
    let script = "from lib.features import size\ndef measure(item):\n    \
        return {'size': size(item['text']) + len(open('/dev/null').read())}\n";
    let more = "function = \"measure\"\nfields = [\"text\"]\noutputs = { size = \"number\" }\n\
        files = { \"lib/features.py\" = \"helpers.py\" }\n";
    let project = project(&["a"], script, more);
    project.write("helpers.py", "def size(text):\n    return len(text)\n");
    assert_eq!(project.run().executed()["measured"], 1);
    assert_eq!(values(&project, "measured", "size")[0].1, json!(7.0));
    project.write("helpers.py", "def size(text):\n    return 2 * len(text)\n");
    let why = project.why(&["measured"]);
    assert!(why.contains("file `files.lib/features.py` changed"), "{why}");
    assert_eq!(project.run().executed()["measured"], 1);
    assert_eq!(values(&project, "measured", "size")[0].1, json!(14.0));
    project.write("moved.py", project.read("helpers.py"));
    project.replace("pipeline.toml", "\"helpers.py\"", "\"moved.py\"");
    project.run().assert_nothing_done();
    project.remove("moved.py");
    let refused = project.output(&["check"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("moved.py"));
}

const BATCHED: &str = r#"
from throstle import stage

@stage(batch=True, outputs={"size": "number"})
def measure(items):
    if any("bad" in item["text"] for item in items):
        raise ValueError("bad text")
    return [{"size": len(item["text"])} for item in items]
"#;

#[test]
fn a_function_for_batches_gets_lists_and_an_exception_costs_one_item() {
    let names: Vec<String> = (0..9).map(|number| format!("n{number}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.push("bad");
    let more =
        "fields = [\"text\"]\noutputs = { size = \"number\" }\nbatch = 5\nquarantine = 0.5\n";
    let project = project(&names, BATCHED, more);
    let ran = project.run();
    assert_eq!((ran.executed()["measured"], ran.quarantined("measured")), (10, 1));
    let aside = ran.all("item-quarantined");
    assert_eq!(aside[0]["item"], "bad");
    let reason = aside[0]["reason"].as_str().unwrap();
    let told =
        "the program failed; it said: ValueError: bad text (line 7 of the script in `measure`)";
    assert_eq!(reason, told);
    project.run().assert_nothing_done();
}

#[test]
fn a_program_rejects_an_item_in_its_own_words() {
    let script = "from throstle import Reject, stage\n@stage\ndef measure(item, state):\n    \
        if item['id'] == 'b':\n        raise Reject('too short: \\u00e4')\n    return {'n': 1}\n";
    let more = "fields = [\"id\"]\noutputs = { n = \"number\" }\nquarantine = 0.5\n";
    let project = project(&["a", "b"], script, more);
    let ran = project.run();
    let aside = ran.all("item-quarantined");
    assert_eq!(
        (&aside[0]["code"], &aside[0]["reason"]),
        (&json!("rejected"), &json!("too short: ä"))
    );
    project.run().assert_nothing_done();
}

#[test]
fn four_thousand_items_reach_two_processes_in_batches() {
    let names: Vec<String> = (0..4000).map(|number| format!("n{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let script = "def measure(item):\n    text = item['text']\n    \
        return {'size': len(text), 'copy': open(item['audio'], 'rb').read(8) + text.encode()}\n";
    let more = "function = \"measure\"\nfields = [\"audio\", \"text\"]\n\
        outputs = { size = \"number\", copy = \"file/txt\" }\n";
    let project = project(&names, script, more);
    let ran = project.run();
    assert_eq!(ran.executed()["measured"], 4000);
    let sizes: BTreeMap<String, f64> = values(&project, "measured", "size")
        .into_iter()
        .map(|(id, size)| (id, size.as_f64().unwrap()))
        .collect();
    assert_eq!((sizes.len(), sizes["n0042"]), (4000, 11.0));
    project.run().assert_nothing_done();
}

#[test]
fn an_output_that_depends_on_the_order_of_items_is_found() {
    let script = "from throstle import stage\nseen = []\n@stage\ndef measure(item, state):\n    \
        seen.append(item['text'])\n    return {'n': len(seen)}\n";
    let more = "fields = [\"text\"]\noutputs = { n = \"number\" }\nverify = true\n";
    let project = project(&["a", "b", "c", "d"], script, more);
    let ran = project.run();
    assert_eq!(ran.code, Some(1), "{}", ran.errors);
    let message = ran.all("stage-failed")[0]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "an item alone in a fresh process gives another result: the output `n` differs"
    );
    project.replace("measure.py", "len(seen)", "len(item['text'])");
    assert_eq!(project.run().executed()["measured"], 4);
}

#[test]
fn a_replay_runs_one_item_in_a_fresh_process_and_keeps_its_files() {
    let project = measuring(&["a", "b"], "");
    project.run().executed();
    let told = project.printed(&["replay", "measured", "b"]);
    assert!(told.contains("the cache has the same result"), "{told}");
    let kept = ".throstle/replay/measured/b/command";
    assert_eq!(project.text(&format!("{kept}/out/0/loud.txt")), "Sana b. 1001");
    assert!(project.text(&format!("{kept}/stderr.txt")).contains("a stray line"));
}

#[test]
fn an_asset_reaches_the_program_as_files() {
    let script = "from throstle import stage\ndef load(setup):\n    \
        return open(setup.artifact['sub/table.txt']).read() + setup.device\n\
        @stage(setup=load)\ndef measure(item, state):\n    return {'t': state}\n";
    let more = "fields = [\"text\"]\noutputs = { t = \"text\" }\nartifact = \"assets.model\"\n\
        devices = [\"cpu\"]\n\n[assets.model]\npath = \"model\"\n";
    let project = project(&["a"], script, more);
    project.write("model/sub/table.txt", "words ");
    assert_eq!(project.run().executed()["measured"], 1);
    assert_eq!(values(&project, "measured", "t")[0].1, json!("words cpu"));
    project.write("model/sub/table.txt", "other ");
    assert_eq!(project.run().executed()["measured"], 1);
}

#[test]
fn the_interpreter_of_an_active_environment_is_used() {
    let script = "import os, sys\ndef measure(item):\n    return {'t': os.environ['MARK'] + sys.argv[0][-4:]}\n";
    let more = "function = \"measure\"\nfields = [\"text\"]\noutputs = { t = \"text\" }\n";
    let project = project(&["a"], script, more);
    let python = project.file("venv/bin/python");
    project.write("venv/bin/python", "#!/bin/sh\nMARK=active exec python3 \"$@\"\n");
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = project.throstle(&["run", ".", "--json"]);
    command.env("VIRTUAL_ENV", project.file("venv"));
    assert_eq!(RanProgram::of(command.output().unwrap()).executed()["measured"], 1);
    assert_eq!(values(&project, "measured", "t")[0].1, json!("active_.py"));
}

#[test]
fn a_trial_that_exceeds_its_time_limit_ranks_last() {
    let script = "import time\n\
        def quick(item):\n    return {'n': 1}\n\
        def slow(item):\n    time.sleep(600)\n\
        def good(item):\n    return {'n': 2}\n\
        def score(item):\n    return {'v': item['n']}\n";
    let more = "function = \"quick\"\nfields = []\noutputs = { n = \"number\" }\ntimeout = \"1s\"\n\n\
        [stage.scored]\nuse = \"python\"\ninput = \"measured\"\nscript = \"measure.py\"\n\
        function = \"score\"\nfields = [\"n\"]\noutputs = { v = \"number\" }\n\n\
        [sweep.kinds]\nstage = \"measured\"\nover = { function = [\"quick\", \"slow\", \"good\"] }\n\
        draw = \"grid\"\nof = \"scored\"\nscore = \"mean(v)\"\nbetter = \"higher\"";
    let project = project(&["a"], script, more);
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{:?}", ran.all("stage-failed"));
    let compared = project.printed(&["compare", "kinds", "--format", "json"]);
    let compared: serde_json::Value = serde_json::from_str(&compared).unwrap();
    let state = |kind: &str| {
        let mut rows = compared["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["function"].as_str().unwrap().contains(kind));
        row.unwrap_or_else(|| panic!("{compared}"))["state"].as_str().unwrap()
    };
    assert_eq!(state("good"), "winner", "{compared}");
    assert!(state("slow").starts_with("failed: "), "{compared}");
    project.run().assert_nothing_done();
    let output = project.output(&["items", "measured"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("has 3 stages `measured[…]`: name one of them"), "{told}");
    assert!(told.contains("they are: `measured[trial="), "{told}");
    assert!(!project.printed(&["check"]).contains("nothing reads stage `scored`"));
}

#[test]
fn a_trial_whose_function_always_fails_stops_no_other_and_ranks_last() {
    let script = "def one(item):\n    return {'n': 1}\n\
        def broken(item):\n    raise ValueError('these values do not work')\n\
        def two(item):\n    return {'n': 2}\n\
        def score(item):\n    return {'v': item['n']}\n";
    let more = "function = \"one\"\nfields = [\"text\"]\noutputs = { n = \"number\" }\nworkers = 1\n\n\
        [stage.scored]\nuse = \"python\"\ninput = \"measured\"\nscript = \"measure.py\"\n\
        function = \"score\"\nfields = [\"n\"]\noutputs = { v = \"number\" }\n\n\
        [sweep.kinds]\nstage = \"measured\"\nover = { function = [\"one\", \"broken\", \"two\"] }\n\
        draw = \"grid\"\nof = \"scored\"\nscore = \"mean(v)\"\nbetter = \"higher\"";
    let names: Vec<String> = (0..24).map(|number| format!("c{number:02}")).collect();
    let project = project(&names.iter().map(String::as_str).collect::<Vec<_>>(), script, more);
    let ran = project.run();
    assert_eq!(ran.code, Some(1), "{}", ran.errors);
    let message = ran.all("stage-failed")[0]["message"].as_str().unwrap();
    assert!(message.contains("the first 20 items failed in the same way"), "{message}");
    let state = |kind: &str| {
        let compared = project.printed(&["compare", "kinds", "--format", "json"]);
        let compared: serde_json::Value = serde_json::from_str(&compared).unwrap();
        let mut rows = compared["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["function"].as_str().unwrap().contains(kind));
        row.unwrap_or_else(|| panic!("{compared}"))["state"].as_str().unwrap().to_owned()
    };
    // In the first run, the values may not be to blame.
    assert_eq!(state("broken"), "open");
    // The first run counts only if another trial had ended when this one failed.
    let codes: Vec<Option<i32>> = (0..3).map(|_| project.run().code).collect();
    assert_eq!((codes[0], codes[2]), (Some(1), Some(0)), "{codes:?}");
    assert_eq!(state("two"), "winner");
    assert!(state("broken").starts_with("failed: "), "{}", state("broken"));
    project.run().assert_nothing_done();
}

#[test]
fn a_field_that_the_stage_does_not_ask_for_is_named_with_those_that_it_does() {
    let script =
        "def measure(item):\n    item.get('audio')\n    return {'n': len(item['audio'])}\n";
    let more = "function = \"measure\"\nfields = [\"text\"]\noutputs = { n = \"number\" }\nquarantine = 1.0\n";
    let project = project(&["a"], script, more);
    let ran = project.run();
    let reason = ran.all("item-quarantined")[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("`audio` is not one of the `fields` of the stage: text"), "{reason}");
}

/// A sweep over functions of items, whose results are then scored.
fn sweep_of(script: &str, functions: &str, more: &str, names: &[String]) -> Project {
    let script = format!(
        "import os, time\ndef good(item):\n    return {{'n': 2}}\n\
         def fair(item):\n    return {{'n': 1}}\n\
         def score(item):\n    return {{'v': item['n']}}\n{script}"
    );
    let more = format!(
        "function = \"fair\"\nfields = [\"text\"]\noutputs = {{ n = \"number\" }}\n{more}\n\n\
         [stage.scored]\nuse = \"python\"\ninput = \"measured\"\nscript = \"measure.py\"\n\
         function = \"score\"\nfields = [\"n\"]\noutputs = {{ v = \"number\" }}\n\n\
         [sweep.kinds]\nstage = \"measured\"\nover = {{ function = [\"fair\", {functions}] }}\n\
         draw = \"grid\"\nof = \"scored\"\nscore = \"mean(v)\"\nbetter = \"higher\""
    );
    project(&names.iter().map(String::as_str).collect::<Vec<_>>(), &script, &more)
}

fn state_of(project: &Project, function: &str) -> String {
    let compared = project.printed(&["compare", "kinds", "--format", "json"]);
    let compared: serde_json::Value = serde_json::from_str(&compared).unwrap();
    let mut rows = compared["rows"].as_array().unwrap().iter();
    let row = rows.find(|row| row["function"].as_str().unwrap().contains(function));
    row.unwrap_or_else(|| panic!("{compared}"))["state"].as_str().unwrap().to_owned()
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("c{number:02}")).collect()
}

#[test]
fn a_trial_with_one_late_item_ranks_last_and_leaves_its_other_items() {
    let script = "def slow(item):\n    time.sleep(600)\n\
        def mixed(item):\n    return {'n': 9} if '3' not in item['text'] else time.sleep(600)\n";
    let more = "quarantine = 0.5\nworkers = 1\nbatch = 1\ntimeout = \"1s\"";
    // More items than those by which a broken program is known.
    let project = sweep_of(script, "\"slow\", \"good\", \"mixed\"", more, &numbered(30));
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{:?}", ran.all("stage-failed"));
    // Those that had begun with the first one.
    let late = ran.all("item-quarantined").len();
    assert!(late < 10, "{late} of 33 items were waited for");
    for function in ["slow", "mixed"] {
        let state = state_of(&project, function);
        assert!(state.starts_with("failed: item `c") && state.contains("1 s"), "{state}");
    }
    assert_eq!(state_of(&project, "good"), "winner");
    project.run().assert_nothing_done();
    assert_eq!(project.output(&["sweep", "kinds"]).status.code(), Some(0));
}

#[test]
fn a_trial_with_an_item_that_ends_its_program_ranks_last_after_two_runs() {
    let script = "def dying(item):\n    if '3' in item['text']:\n        os._exit(9)\n    \
        return {'n': 9}\n";
    let more = "quarantine = 0.5\nworkers = 1";
    let project = sweep_of(script, "\"dying\", \"good\"", more, &numbered(5));
    let mut codes = Vec::new();
    while codes.last() != Some(&Some(0)) && codes.len() < 5 {
        let told = project.output(&["sweep", "kinds"]);
        codes.push(told.status.code());
        if codes.len() == 1 {
            assert_eq!(state_of(&project, "dying"), "open", "its values may not be to blame");
            assert_ne!(state_of(&project, "good"), "open", "the others go on");
        }
    }
    assert!((2..=4).contains(&codes.len()) && codes.ends_with(&[Some(0)]), "{codes:?}");
    let state = state_of(&project, "dying");
    assert!(state.starts_with("failed: failed in 2 runs; last error: item `c03`"), "{state}");
    assert_eq!(state_of(&project, "good"), "winner");
    project.run().assert_nothing_done();
}

#[test]
fn a_trial_that_may_not_reject_items_stops_no_other_and_ranks_last_after_two_runs() {
    let script = "def broken(item):\n    raise ValueError('these values do not work')\n";
    let project = sweep_of(script, "\"broken\", \"good\"", "on_failure = \"fail\"", &numbered(3));
    let mut codes = Vec::new();
    while codes.last() != Some(&Some(0)) && codes.len() < 5 {
        codes.push(project.output(&["sweep", "kinds"]).status.code());
        assert_ne!(state_of(&project, "good"), "open", "the others go on");
    }
    assert!((2..=4).contains(&codes.len()) && codes.ends_with(&[Some(0)]), "{codes:?}");
    assert!(state_of(&project, "broken").starts_with("failed: failed in 2 runs"));
    assert_eq!(state_of(&project, "good"), "winner");
}

#[test]
fn a_trial_is_tried_again_with_another_limit_or_after_a_retry() {
    let script = "def slow(item):\n    time.sleep(1 if not os.path.exists(MARK) else 0)\n    \
        return {'n': 9}\n";
    let more = "workers = 1\ntimeout = \"500ms\"";
    let project = sweep_of(script, "\"slow\", \"good\"", more, &numbered(2));
    let mark = project.file("mark");
    project.edit("measure.py", |text| format!("MARK = {mark:?}\n{text}"));
    assert_eq!(project.output(&["sweep", "kinds"]).status.code(), Some(0));
    assert!(state_of(&project, "slow").starts_with("failed"), "{}", state_of(&project, "slow"));
    assert_eq!(state_of(&project, "good"), "winner");
    project.write("mark", "");
    project.printed(&["retry", "measured[trial=2]"]);
    assert_eq!(project.output(&["sweep", "kinds"]).status.code(), Some(0));
    assert_eq!(state_of(&project, "slow"), "winner");
    // With other limits, in a cache that knows the failure.
    std::fs::remove_file(project.file("mark")).unwrap();
    std::fs::remove_dir_all(project.file(".throstle")).unwrap();
    project.output(&["sweep", "kinds"]);
    assert!(state_of(&project, "slow").starts_with("failed"));
    project.replace("pipeline.toml", "500ms", "20s");
    assert_eq!(project.output(&["sweep", "kinds"]).status.code(), Some(0));
    assert_eq!(state_of(&project, "slow"), "winner");
}

#[test]
fn a_sweep_that_stays_undecided_says_why_and_fails() {
    let script = "def above(item):\n    if '3' in item['text']:\n        time.sleep(600)\n    \
        return {'m': 1}\n";
    let project = sweep_of(script, "\"good\"", "workers = 1", &numbered(5));
    project.edit("pipeline.toml", |text| {
        text.replace(
            "[stage.measured]\nuse = \"python\"\ninput = \"clips\"",
            "[stage.above]\nuse = \"python\"\ninput = \"clips\"\nscript = \"measure.py\"\n\
             function = \"above\"\nfields = [\"text\"]\noutputs = { m = \"number\" }\n\
             quarantine = 0.5\ntimeout = \"1s\"\n\n\
             [stage.measured]\nuse = \"python\"\ninput = \"above\"",
        )
    });
    let told = project.output(&["sweep", "kinds"]);
    let errors = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(1), "{errors}");
    assert!(errors.contains("sweep `kinds` is not decided: items of stage `above`"), "{errors}");
    assert!(errors.contains("throstle items 'above' --quarantined"), "{errors}");
}

#[test]
fn items_are_listed_although_another_one_is_tried_again() {
    let script = "import os\nfrom throstle import stage\n@stage\ndef measure(item, state):\n    \
        if 'b' in item['text']:\n        os._exit(9)\n    return {'n': 1}\n";
    let more = "fields = [\"text\"]\noutputs = { n = \"number\" }\nquarantine = 0.5";
    let project = project(&["a", "b", "c"], script, more);
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{:?}", ran.all("stage-failed"));
    let known: Vec<String> = values(&project, "measured", "n").into_iter().map(|it| it.0).collect();
    assert_eq!(known, ["a", "c"]);
    let output = project.output(&["items", "measured"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("is not finished: listing its items so far"), "{errors}");
}
