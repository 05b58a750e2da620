//! The manual and the schema match the code.

use camino::{Utf8Path, Utf8PathBuf};
use manifest::{
    FileKind, LoadOptions, LoadedPipeline, kind_page, load, reference, schema, schema_text,
};
use serde_json::Value;
use stage_core::{Kind, ParameterType};

use crate::catalogue;
use crate::support::{CORPUS, rendered};

const BLESS: &str = "is out of date: cargo run -p manifest --example bless";

fn stored(name: &str) -> String {
    let path = format!("{}/../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("it is checked in")
}

/// The objections of the schema to a manifest.
fn objections(schema: &Value, manifest: &str) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).expect("a valid schema");
    let table: toml::Table = manifest.parse().expect("TOML");
    let value = serde_json::to_value(table).expect("a value");
    validator.iter_errors(&value).map(|error| error.to_string()).collect()
}

#[test]
fn the_manual_follows_from_the_catalogue() {
    let same = stored("manifest.md") == reference(&stage_speech::catalogue());
    assert!(same, "docs/manifest.md {BLESS}");
}

#[test]
fn the_schema_follows_from_the_catalogue() {
    let same = stored("schema.json") == schema_text(&stage_speech::catalogue());
    assert!(same, "docs/schema.json {BLESS}");
}

#[test]
fn the_schema_is_a_schema() {
    let schema = schema(&stage_speech::catalogue());
    assert!(jsonschema::meta::is_valid(&schema));
}

/// The manifests of the project, with their paths.
fn recipes() -> Vec<(Utf8PathBuf, String)> {
    let folder = format!("{}/../pipelines", env!("CARGO_MANIFEST_DIR"));
    let recipes = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for recipe in recipes.filter(|entry| entry.path().is_dir()) {
        let files = std::fs::read_dir(recipe.path()).expect("a folder").flatten();
        for file in files.filter(|file| file.path().extension().is_some_and(|end| end == "toml")) {
            let text = std::fs::read_to_string(file.path()).expect("a text");
            found.push((Utf8PathBuf::from_path_buf(file.path()).expect("UTF-8"), text));
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn the_recipes_of_the_project_agree_with_the_schema() {
    let schema = schema(&stage_speech::catalogue());
    for (path, text) in recipes() {
        assert_eq!(objections(&schema, &text), Vec::<String>::new(), "{path}");
    }
}

/// The files on the disk, and weights and recordings as if they were there, which every user has to
/// provide.
fn files(path: &Utf8Path) -> FileKind {
    match (path.is_file(), path.is_dir()) {
        (true, _) => FileKind::File,
        (_, true) => FileKind::Folder,
        _ if path.components().any(|part| ["data", "models"].contains(&part.as_str())) => {
            match path.extension() {
                Some(_) => FileKind::File,
                None => FileKind::Folder,
            }
        }
        _ => FileKind::Missing,
    }
}

fn read(path: &Utf8Path, text: &str) -> LoadedPipeline {
    let options = LoadOptions { secrets: &|_| Some("set".to_owned()), ..LoadOptions::default() };
    match load(text, path, &stage_speech::catalogue(), &options, &files) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{}", rendered(&problems)),
    }
}

#[test]
fn the_recipes_of_the_project_have_no_mistakes() {
    for (path, text) in recipes() {
        let warnings: Vec<String> = read(&path, &text)
            .warnings
            .iter()
            .map(|warning| warning.message().to_owned())
            .collect();
        assert_eq!(warnings, Vec::<String>::new(), "{path}");
    }
}

/// The indented lines of a page that begin with this one.
fn shown(page: &str, first: &str) -> String {
    let from = page.lines().skip_while(|line| *line != format!("    {first}"));
    let lines = from.take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| format!("{}\n", line.trim_start_matches("    "))).collect()
}

#[test]
fn the_recipe_of_the_page_on_quality_has_no_mistakes_with_either_recogniser() {
    let page = stored("quality.md");
    let by_command = shown(&page, "[pipeline]");
    let (before, from) = by_command.split_once("[stage.transcribed]").expect("the stage");
    let (_, behind) = from.split_once("[stage.understood]").expect("the stage behind it");
    let by_checkpoint = shown(&page, "[assets.recogniser]");
    let by_checkpoint = format!("{before}{by_checkpoint}[stage.understood]{behind}");
    for (text, stages) in [(by_command, 11), (by_checkpoint, 13)] {
        let loaded = read(Utf8Path::new("pipeline.toml"), &text);
        assert_eq!(loaded.pipeline.stages.len(), stages, "all stages of the page");
        assert!(loaded.warnings.is_empty());
    }
}

#[test]
fn the_licence_of_the_weights_reaches_the_voice() {
    let recipes = recipes();
    let (path, text) =
        recipes.iter().find(|(_, text)| text.contains("CC-BY-NC-SA-4.0")).expect("a recipe");
    let pipeline = read(path, text).pipeline;
    let licenses = |stage: &str| pipeline.find(stage).expect(stage).licenses.clone();
    for stage in ["tokens", "finnish", "adapters", "merged", "heard"] {
        assert!(licenses(stage).contains("CC-BY-NC-SA-4.0"), "{stage}");
    }
    assert!(licenses("voice").is_empty());
}

const GOOD: &str = r#"
[params]
rate = 8000
[assets.codec]
path = "models/codec"
license = "MIT"
[stage.voice]
use = "audio.resample"
input = "clips"
rate = "16kHz"
export = { output = { audio = "out/{id}.wav" } }
quarantine = "5%"
[stage.loud]
use = "audio.loudness"
input = "voice"
matrix = { target = [-23, "-20 LUFS"], fade = "$fades" }
limits = [{ field = "duration", min = 1 }]
timeout = "1h30m"
[stage.all]
use = "dataset.merge"
input = ["loud", "voice"]
[stage.tokens]
use = "vq.encode"
input = "all"
codec = "assets.codec"
batch = "64MB"
[stage.own]
use = "command"
matrix = { run = ["a", "b"] }
outputs = { a = "a.txt" }
[session]
stop_after = "$time"
price_per_hour = 1.2
budget = 20.0
[prices]
a100 = { per_hour = 1.2, vram = "40GB" }
t4 = { per_hour = 0.35, vram = "15GB", speed = 0.15 }
[expect]
clips = 4000
sound = "8h"
"#;

#[test]
fn the_schema_takes_what_the_manifest_takes() {
    let schema = schema(&catalogue::catalogue());
    let text = format!("{CORPUS}{GOOD}");
    assert_eq!(objections(&schema, &text), Vec::<String>::new());
}

#[test]
fn the_schema_refuses_what_the_manifest_refuses() {
    let schema = schema(&catalogue::catalogue());
    let changes = [
        ("rate = \"16kHz\"", "rate = \"16 kilo\""),
        ("rate = \"16kHz\"", "rate = 100"),
        ("rate = \"16kHz\"", "raet = 16000"),
        ("use = \"audio.loudness\"", "use = \"audio.louder\""),
        ("batch = \"64MB\"", "batch = 64"),
        ("timeout = \"1h30m\"", "timeout = \"soon\""),
        ("codec = \"assets.codec\"\n", ""),
        ("matrix = { run = [\"a\", \"b\"] }\n", ""),
        ("field = \"duration\", ", ""),
        ("[session]", "[sesion]"),
        ("license = ", "licence = "),
        ("per_hour = 1.2, ", ""),
        ("vram = \"40GB\"", "vram = 40"),
        ("speed = 0.15", "speed = 0"),
        ("sound = \"8h\"", "sound = 8"),
    ];
    for (written, changed) in changes {
        assert!(GOOD.contains(written), "{written}");
        let text = format!("{CORPUS}{}", GOOD.replacen(written, changed, 1));
        assert_ne!(objections(&schema, &text), Vec::<String>::new(), "{changed}");
    }
}

/// All parameters of a kind, those inside of records included.
fn documented(kind: &'static Kind) -> Vec<(&'static str, &'static str)> {
    let mut entries: Vec<(&str, &str)> = Vec::new();
    entries.extend(kind.inputs.iter().map(|port| (port.name, port.doc)));
    entries.extend(kind.outputs.iter().map(|port| (port.name, port.doc)));
    for parameter in kind.parameters {
        entries.push((parameter.name, parameter.doc));
        if let ParameterType::List(ParameterType::Record(fields)) = parameter.parameter_type {
            entries.extend(fields.iter().map(|field| (field.name, field.doc)));
        }
    }
    entries
}

#[test]
fn everything_in_the_catalogue_is_documented() {
    for kind in stage_speech::catalogue().iter() {
        assert!(!kind.summary.is_empty(), "{}", kind.name);
        for (name, doc) in documented(kind) {
            assert!(!doc.is_empty(), "{}: {name}", kind.name);
        }
    }
}

#[test]
fn no_kind_takes_a_key_that_every_stage_has() {
    let common = ["use", "export", "matrix", "quarantine", "retries", "timeout", "salt", "device"];
    for kind in stage_speech::catalogue().iter() {
        let ports = kind.inputs.iter().map(|port| port.name);
        let names: Vec<&str> =
            ports.chain(kind.parameters.iter().map(|parameter| parameter.name)).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!common.contains(name), "{}: {name}", kind.name);
            assert!(!names[..at].contains(name), "{}: {name} is there twice", kind.name);
        }
    }
}

#[test]
fn the_page_of_a_kind_says_everything_about_it() {
    let catalogue = catalogue::catalogue();
    insta::assert_snapshot!(kind_page(catalogue.get("vq.encode").expect("it is there")), @r#"
vq.encode: Turns audio into tokens.
works on one item at a time, behaviour version 1

INPUTS
  input  (data set)
      reads: audio (file)
  codec  (artifact)
      What turns audio into tokens.

OUTPUTS
  output  (data set)
      adds: tokens (file), keeps the fields of input

PARAMETERS
  batch  (size; default "64MB")
      Not part of the cache key.

Every stage also takes quarantine, retries, timeout, salt, device, executor, export and matrix.
"#);
}
