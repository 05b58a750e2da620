//! Whole manifests of the built-in kinds.

use crate::support::{load_from, rendered};

/// From a corpus to packed tokens, with an example of each check on the way.
const TOKENS: &str = r#"
[pipeline]
name = "demo"
seed = 1

[params]
rate = "16kHz"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.checked]
use = "audio.check"
input = "clips"
max_duration = "20s"

[stage.voice]
use = "audio.resample"
input = "checked"
rate = "$rate"
export = "out/wavs/{speaker}/{id}.wav"

[stage.text]
use = "text.normalize"
input = "voice"
case = "lower"
numbers = "fi"

# What it writes is a text again, which the audit reads.
[stage.romanised]
use = "command"
input = "text"
command = "printf '%s' {text} | python3 -m uroman > {out.text}"
fields = ["text"]
outputs = { text = "text.txt" }
texts = ["text"]

[stage.audit]
use = "text.audit"
input = "romanised"
characters = "abc"
on_unknown = "report"
export = { report = "out/audit.json" }

[stage.split]
use = "dataset.split"
input = "text"

[stage.codec]
use = "vq.fit"
input = "split.training"

[stage.tokens]
use = "vq.encode"
input = "split.all"
codec = "codec"
export = "out/tokens/{side}/{id}.npy"

[stage.pack]
use = "dataset.pack"
input = "tokens"
shards = 4
export = "out/shards"

[stage.best]
use = "speaker.select"
input = "tokens"
by = "clips"

[stage.listen]
use = "vq.decode"
input = "best"
codec = "codec"
export = "out/listen/{id}.wav"

[stage.pitch]
use = "command"
input = "voice"
command = "pitch {audio} > {out.pitch}"
fields = ["audio"]
outputs = { pitch = "pitch.json" }
export = "out/pitch/{id}.json"

[stage.summary]
use = "report.summary"
input = ["tokens", "pitch"]
artifacts = ["pack"]
export = "out/summary.json"

[session]
stop_after = "11h30m"
"#;

#[test]
fn a_pipeline_from_corpus_to_shards_has_no_mistakes() {
    match load_from(&stage_speech::catalogue(), TOKENS, &[]) {
        Ok(loaded) => {
            assert_eq!(loaded.pipeline.stages.len(), 14);
            let warnings: Vec<&str> = loaded.warnings.iter().map(|each| each.message()).collect();
            assert_eq!(warnings, Vec::<&str>::new());
        }
        Err(problems) => panic!("{}", rendered(&problems)),
    }
}

#[test]
fn the_same_pipeline_agrees_with_the_schema() {
    let schema = manifest::schema(&stage_speech::catalogue());
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let table: toml::Table = TOKENS.parse().expect("TOML");
    let value = serde_json::to_value(table).expect("a value");
    let objections: Vec<String> =
        validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert_eq!(objections, Vec::<String>::new());
}

#[test]
fn an_audit_needs_a_model_or_a_vocabulary() {
    let told = |extra: &str| {
        let manifest = format!(
            "[pipeline]\nname = \"x\"\n[assets.files]\npath = \"models/codec.safetensors\"\n[stage.model]\nuse = \
             \"model.import\"\nasset = \"assets.files\"\n[stage.lines]\nuse = \"corpus.sentences\"\n\
             sentences = [\"a\"]\n[stage.audit]\nuse = \"text.audit\"\ninput = \"lines\"\n{extra}\n"
        );
        match load_from(&stage_speech::catalogue(), &manifest, &[]) {
            Ok(_) => String::new(),
            Err(problems) => rendered(&problems).replace("\n  | ", " "),
        }
    };
    let none = told("");
    let needs =
        "stage `audit` has no `model` or `vocabulary` or `characters`, and `text.audit` needs one";
    assert!(none.contains(needs), "{none}");
    assert_eq!(told("characters = \"ab\""), "");
    assert_eq!(told("model = \"model\""), "");
    let both = told("model = \"model\"\ncharacters = \"ab\"");
    assert!(both.contains("`characters` and `model` are both given"), "{both}");
    let empty = told("characters = \"\"");
    assert!(empty.contains("`characters` is empty"), "{empty}");
}
