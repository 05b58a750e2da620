//! Runs the example of a page, and compares the list of benchmarks with its page. The commands of the
//! guides and the README are tested with the worker (stages/torch/tests/programs/first).
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use throstle_tests::guide::{blocks, document, root};
use throstle_tests::{Project, wav};

mod agents;

#[test]
fn the_example_of_the_moving_page_runs() {
    let text = document("docs/moving.md");
    let project = Project::new(&blocks(&text, "toml").join("\n"));
    for (name, level) in [("a", 1_000), ("b", 2_000)] {
        project.write(&format!("data/wavs/{name}.wav"), wav(level));
    }
    project.write("data/metadata.csv", "a.wav|Yksi.\nb.wav|Kaksi.\n");
    project.write("pitch.py", "import sys\nopen(sys.argv[2], 'w').write('pitch')\n");
    project.write("length.py", blocks(&text, "python").join("\n"));
    assert_eq!(project.run().executed(), [("clips", 1), ("length", 2), ("pitch", 2)].into());
    assert_eq!(project.names("out/pitch"), ["a.npy", "b.npy"]);
}

const CLIPS: &str = "docs/guides/clips.md";

/// The blocks of a kind, one after the other.
fn blocks_of(text: &str, kind: &str) -> Vec<String> {
    let start = format!("```{kind}\n");
    let behind = text.split(&start).skip(1);
    behind.filter_map(|rest| Some(rest.split_once("\n```")?.0.to_owned())).collect()
}

/// The project of the guide, with clips of the demo and the stages of the guide.
fn project_of_clips(text: &str) -> Project {
    let project = Project::default();
    project.printed(&["init", "mine", "--template", "folder"]);
    for number in 1..=6 {
        let wav = root().join(format!("pipelines/demo/data/wavs/aino_{number:02}.wav"));
        let clip = format!("mine/data/anna/{number:03}");
        project.write(&format!("{clip}.wav"), std::fs::read(wav).unwrap());
        project.write(&format!("{clip}.txt"), format!("It is {number} o'clock in the morning."));
    }
    let stages = &blocks_of(text, "toml")[0];
    project.edit("mine/pipeline.toml", |manifest| {
        let (_, rest) = manifest.split_once("[stage.clips]").unwrap();
        let clips = rest.split("\n\n").next().unwrap();
        format!("[pipeline]\nname = \"mine\"\n\n[stage.clips]{clips}\n\n{stages}\n")
    });
    project
}

#[test]
fn every_step_of_the_guide_for_clips_works() {
    let text = document(CLIPS);
    let project = project_of_clips(&text);
    let commands = blocks(&text, "sh");
    let commands = commands.into_iter().filter(|command| !command.starts_with("throstle init"));
    let mut reviews = 0;
    for command in commands {
        if command.starts_with("throstle review") {
            // The page writes the table: here one text.
            reviews += 1;
            let listed = project.printed(&["items", "clips", "-m", "mine", "--format", "jsonl"]);
            let first: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
            assert!(first["id"].as_str().unwrap().starts_with("anna/"), "{first}");
            project.write("mine/corrections.csv", "segment,action,text,at,with\n");
            continue;
        }
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        project.printed(&words);
    }
    assert_eq!(reviews, 2);
    let table = project.text("mine/out/corpus/metadata.csv");
    assert_eq!(table.lines().count(), 1 + 6, "{table}");
    assert!(table.contains("It is one o'clock"), "{table}");
}

#[test]
fn the_stage_for_clips_without_texts_is_valid() {
    let text = document(CLIPS);
    let project = project_of_clips(&text);
    project.write("mine/whisper_texts.py", &blocks_of(&text, "python")[0]);
    project.write("mine/corrections.csv", "segment,action,text,at,with\n");
    project.edit("mine/pipeline.toml", |manifest| {
        let (head, rest) = manifest.split_once("[stage.clips]").unwrap();
        let (_, rest) = rest.split_once("\n\n").unwrap();
        let rest = rest.replacen("input = \"clips\"", "input = \"transcribed\"", 1);
        format!("{head}{}\n\n{rest}", blocks_of(&text, "toml")[1])
    });
    assert!(project.printed(&["check", "mine"]).contains("is valid"));
}

#[test]
fn the_page_of_benchmarks_has_every_part_with_its_limits() {
    let code = document("tests/benches/numbers/arguments.rs");
    let (_, list) = code.split_once("pub const PARTS").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let groups = list.lines().map(|line| line.split('"').skip(1).step_by(2).collect::<Vec<_>>());
    let parts = groups.flat_map(|names| match names.len() {
        0 | 1 => names,
        _ => names[1..].to_vec(),
    });
    let parts: BTreeSet<&str> = parts.collect();
    let page = document("docs/benchmarks.md");
    let (_, table) = page.split_once("| part | row | measured | limit |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split('|').map(str::trim).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == 6 && !row[4].is_empty()), "{rows:?}");
    let named = rows.iter().map(|row| row[1].trim_matches('`')).filter(|part| !part.is_empty());
    assert_eq!(named.collect::<BTreeSet<_>>(), parts);
    assert!(parts.len() > 9, "{parts:?}");
}

/// The keys of a command job of Azure ML and of a task of SkyPilot that the files of the guide use, from
/// the references of both.
const AZURE: [&str; 10] = [
    "$schema",
    "type",
    "display_name",
    "code",
    "command",
    "environment",
    "compute",
    "resources",
    "identity",
    "environment_variables",
];
const SKYPILOT: [&str; 6] = ["name", "workdir", "resources", "envs", "secrets", "run"];

/// A document in YAML, read by the first python3 that can; none if there is no such one.
fn yaml(file: &Path) -> Option<Value> {
    const READ: &str =
        "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let moto = root().join(".stores/moto/bin/python");
    for python in [PathBuf::from("python3"), moto] {
        let has_yaml = Command::new(&python).args(["-c", "import yaml"]).output();
        if !has_yaml.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let output = Command::new(python).args(["-c", READ]).arg(file).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {told}", file.display());
        return Some(serde_json::from_slice(&output.stdout).unwrap());
    }
    eprintln!("left out: no python3 has the package `yaml`");
    None
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The shell reads the whole text and runs nothing.
fn assert_is_shell(text: &str) {
    let checked = Command::new("bash").args(["-n", "-c", text]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(text.contains("throstle run . --cache"), "{text}");
}

/// A remote that a program with the feature `cloud` can use.
fn assert_is_bucket(url: &Value) {
    let address: remote::Address = url.as_str().unwrap().parse().unwrap();
    assert!(["s3", "az", "gs"].contains(&address.scheme()), "{url}");
}

#[test]
fn the_files_of_the_guide_for_one_cache_can_be_read_by_their_services() {
    let folder = root().join("docs/guides/one-cache");
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<String> = names.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(names.iter().collect::<Vec<_>>(), ["azure-ml.yml", "brev.sh", "skypilot.yml"]);
    assert_is_shell(&document("docs/guides/one-cache/brev.sh"));
    let guide = document("docs/guides/one-cache.md");
    assert!(names.iter().all(|name| guide.contains(&format!("(one-cache/{name})"))), "{names:?}");
    let Some(azure) = yaml(&folder.join("azure-ml.yml")) else { return };
    assert_eq!(keys(&azure), AZURE.into());
    assert_eq!(azure["type"], "command");
    assert_is_shell(azure["command"].as_str().unwrap());
    assert_is_bucket(&azure["environment_variables"]["THROSTLE_REMOTE"]);
    let sky = yaml(&folder.join("skypilot.yml")).unwrap();
    assert_eq!(keys(&sky), SKYPILOT.into());
    assert_is_shell(sky["run"].as_str().unwrap());
    assert_is_bucket(&sky["envs"]["THROSTLE_REMOTE"]);
    assert_eq!(sky["resources"]["job_recovery"]["recover_on_exit_codes"][0], 75);
    assert!(sky["secrets"].as_object().unwrap().values().all(Value::is_null), "{sky}");
}

#[test]
fn the_image_for_azure_has_the_torch_that_the_programs_are_built_with() {
    let script = document("tools/libtorch.sh");
    let version = script.lines().find_map(|line| line.strip_prefix("version=")).unwrap();
    let file = document("docs/guides/one-cache/azure-ml.yml");
    let image = file.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap();
    assert!(image.starts_with(&format!("pytorch/pytorch:{version}-cuda")), "{image}: {version}");
    let (minor, _) = version.rsplit_once('.').unwrap();
    let guide = document("docs/guides/one-cache.md");
    assert!(guide.contains(&format!("torch {minor} or `throstle setup`")), "{version}");
}

/// Both recipes, with empty files in the place of weights and recordings.
#[test]
fn the_recipes_with_judges_pass_the_check() {
    let project = Project::default();
    project.printed(&["init", "piper", "--template", "piper-voice"]);
    let judges = "pipelines/judges/pipeline.toml";
    project.write("judges/pipeline.toml", document(judges));
    for script in ["transcribe.py", "embed.py", "dnsmos.py"] {
        project.write(&format!("judges/{script}"), document(&format!("pipelines/judges/{script}")));
    }
    for folder in ["piper", "judges"] {
        for file in
            ["models/voice/voice.onnx", "models/whisper-base/model.bin", "data/metadata.csv"]
        {
            project.write(&format!("{folder}/{file}"), "");
        }
        let told = project.printed(&["check", folder]);
        assert!(told.contains("is valid"), "{told}");
    }
}
