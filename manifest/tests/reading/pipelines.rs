//! The meaning of correct manifests.

use manifest::pipeline::{Reads, Reference, StageId, StageWork, TemplatePart, Tolerance};
use stage_core::{FieldType, ParameterValue};

use crate::support::{CORPUS, load_with, pipeline, pipeline_with};

const VOICE: &str = r#"
[assets.codec]
path = "models/codec.safetensors"
license = "CC-BY-NC-SA-4.0"

[stage.voice]
use = "audio.resample"
input = "clips"
rate = "22.05kHz"

[stage.tokens]
use = "vq.encode"
input = "voice"
codec = "assets.codec"
export = "out/{speaker}/{id}.npy"
quarantine = "10%"
retries = 0
timeout = "90s"
salt = "again"
device = "cuda:1"

[session]
stop_after = "11h30m"
price_per_hour = 1.20
gpu_hours_per_week = 30
budget = 20

[prices]
a100 = { per_hour = 1.2, vram = "40GB" }
t4 = { per_hour = 0.35, vram = "15GB", speed = 0.15 }

[expect]
clips = 4000
sound = "8h"
"#;

#[test]
fn stages_come_after_what_they_read_whatever_the_order_of_the_text() {
    let pipeline = pipeline(
        "[stage.a]\nuse = \"audio.resample\"\ninput = \"b\"\n[stage.b]\nuse = \"audio.resample\"\ninput = \"clips\"\n",
    );
    let names: Vec<&str> = pipeline.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["clips", "b", "a"]);
    assert_eq!(pipeline.stages[2].id, StageId(2));
    assert_eq!(
        pipeline.stages[2].inputs["input"].references,
        [Reference::Stage { stage: StageId(1), port: "output" }]
    );
}

#[test]
fn everything_of_a_manifest_reaches_the_pipeline() {
    let pipeline = pipeline(VOICE);
    assert_eq!(pipeline.name, "voice");
    assert_eq!(pipeline.base, "home");
    assert_eq!(pipeline.session.stop_after_seconds, Some(41_400.0));
    assert_eq!(pipeline.session.price_per_hour, Some(1.2));
    assert_eq!(pipeline.session.gpu_hours_per_week, Some(30.0));
    assert_eq!(pipeline.session.budget, Some(20.0));
    let prices: Vec<(&str, f64, u64, f64)> = pipeline
        .session
        .prices
        .iter()
        .map(|price| (price.name.as_str(), price.per_hour, price.vram_bytes, price.speed))
        .collect();
    assert_eq!(prices, [("a100", 1.2, 40_000_000_000, 1.0), ("t4", 0.35, 15_000_000_000, 0.15)]);
    let expected = &pipeline.session.expected;
    assert_eq!((expected.clips, expected.sound_seconds), (Some(4000.0), Some(28_800.0)));
    let tokens = pipeline.find("tokens").unwrap();
    assert_eq!(tokens.policy.quarantine, Tolerance::Share(0.1), "a share in percent");
    assert_eq!(tokens.policy.retries, 0);
    assert_eq!(tokens.policy.timeout_seconds, Some(90.0));
    assert_eq!(tokens.policy.salt.as_deref(), Some("again"));
    assert_eq!(tokens.policy.device.to_string(), "cuda:1");
    assert_eq!(tokens.work, StageWork::Item);
    assert_eq!(tokens.parameters.bytes("batch").unwrap(), 64_000_000);
    assert!(tokens.licenses.contains("CC-BY-NC-SA-4.0"));
    let voice = pipeline.find("voice").unwrap();
    assert_eq!(voice.parameters.integer("rate").unwrap(), 22_050);
    assert!(voice.licenses.is_empty());
}

#[test]
fn an_export_names_the_first_file_that_the_stage_adds() {
    let pipeline = pipeline(VOICE);
    let export = &pipeline.find("tokens").unwrap().exports[0];
    assert_eq!((export.port, export.field.as_deref()), ("output", Some("tokens")));
    let parts = [
        TemplatePart::Text("out/".to_owned()),
        TemplatePart::Field("speaker".to_owned()),
        TemplatePart::Text("/".to_owned()),
        TemplatePart::Field("id".to_owned()),
        TemplatePart::Text(".npy".to_owned()),
    ];
    assert_eq!(export.template.0, parts);
}

#[test]
fn a_data_set_carries_the_fields_that_pass_and_those_that_are_added() {
    let pipeline = pipeline(VOICE);
    let known = &pipeline.find("tokens").unwrap().fields["output"];
    let names: Vec<&str> = known.fields.keys().map(String::as_str).collect();
    assert_eq!(names, ["audio", "duration", "speaker", "text", "tokens"]);
    assert_eq!(known.fields["tokens"], FieldType::Blob);
    assert!(!known.open);
}

#[test]
fn a_port_reads_what_its_kind_says_and_its_parameters_name() {
    let pipeline = pipeline(
        r#"
[stage.fit]
use = "vq.fit"
input = "clips"
[stage.tokens]
use = "vq.encode"
input = "clips"
codec = "fit"
[stage.text]
use = "text.normalize"
input = "tokens"
[stage.pack]
use = "dataset.pack"
input = "text"
fields = ["text", "speaker"]
"#,
    );
    let reads = |stage: &str| pipeline.find(stage).unwrap().inputs["input"].reads.clone();
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    assert_eq!(reads("text"), Reads::Fields { names: names(&["language", "text"]), id: false });
    assert_eq!(
        reads("pack"),
        Reads::Fields { names: names(&["speaker", "text", "tokens"]), id: true }
    );
    assert_eq!(pipeline.find("tokens").unwrap().inputs["codec"].reads, Reads::All);
}

#[test]
fn the_seed_of_the_pipeline_is_the_default_seed() {
    let text = "[pipeline]\nname = \"x\"\nseed = 7\n[stage.c]\nuse = \"corpus.open\"\n[stage.f]\nuse = \"vq.fit\"\ninput = \"c\"\n";
    let loaded = load_with(text, &[]).unwrap();
    assert_eq!(loaded.pipeline.stages[1].parameters.integer("seed").unwrap(), 7);
}

#[test]
fn values_of_params_and_overrides_take_their_places() {
    let text = "[params]\nrate = 8000\n[stage.a]\nuse = \"audio.resample\"\ninput = \"clips\"\nrate = \"$rate\"\n";
    let rate = |set: &[&str]| {
        pipeline_with(text, set).find("a").unwrap().parameters.integer("rate").unwrap()
    };
    assert_eq!(rate(&[]), 8_000);
    assert_eq!(rate(&["params.rate=11025"]), 11_025);
    assert_eq!(rate(&["stage.a.rate=12000"]), 12_000);
    assert_eq!(rate(&["a.rate=16kHz"]), 16_000);
    assert_eq!(rate(&["a.rate=9000", "a.rate=\"24kHz\""]), 24_000);
}

#[test]
fn a_doubled_dollar_sign_is_a_text_that_begins_with_one() {
    let pipeline =
        pipeline("[stage.a]\nuse = \"command\"\nrun = \"$$HOME\"\noutputs = { a = \"a.txt\" }\n");
    assert_eq!(pipeline.find("a").unwrap().parameters.text("run").unwrap(), "$HOME");
}

#[test]
fn a_matrix_makes_a_stage_for_every_value_and_its_readers_follow() {
    let pipeline = pipeline(
        r#"
[stage.voice]
use = "audio.resample"
input = "clips"
matrix = { rate = [16000, "22.05kHz"] }
[stage.loud]
use = "audio.loudness"
input = "voice"
export = "out/{matrix}/{id}.wav"
[stage.all]
use = "dataset.merge"
input = ["loud"]
[stage.one]
use = "audio.loudness"
input = "voice[rate=22050]"
"#,
    );
    let names: Vec<&str> = pipeline.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "clips",
            "voice[rate=16000]",
            "voice[rate=22050]",
            "loud[rate=16000]",
            "loud[rate=22050]",
            "all",
            "one"
        ]
    );
    let upstream = |name: &str| -> Vec<&str> {
        let stage = pipeline.find(name).unwrap();
        stage.upstream().map(|id| pipeline.stage(id).name.as_str()).collect()
    };
    assert_eq!(upstream("loud[rate=22050]"), ["voice[rate=22050]"]);
    assert_eq!(upstream("all"), ["loud[rate=16000]", "loud[rate=22050]"]);
    assert_eq!(upstream("one"), ["voice[rate=22050]"]);
    let export = &pipeline.find("loud[rate=22050]").unwrap().exports[0];
    assert_eq!(export.template.0[0], TemplatePart::Text("out/rate=22050/".to_owned()));
}

#[test]
fn a_stage_that_reads_one_matrix_on_two_ways_is_not_multiplied() {
    let pipeline = pipeline(
        r#"
[stage.voice]
use = "audio.resample"
input = "clips"
matrix = { rate = [16000, 22050] }
[stage.fit]
use = "vq.fit"
input = "voice"
[stage.tokens]
use = "vq.encode"
input = "voice"
codec = "fit"
"#,
    );
    let tokens = pipeline.stages.iter().filter(|stage| stage.name.starts_with("tokens["));
    assert_eq!(tokens.count(), 2);
}

#[test]
fn two_matrices_multiply_and_equal_names_are_told_apart() {
    let pipeline = pipeline(
        r#"
[stage.a]
use = "audio.resample"
input = "clips"
matrix = { rate = [16000, 22050] }
[stage.b]
use = "audio.resample"
input = "a"
matrix = { rate = [8000, 11025] }
"#,
    );
    let names: Vec<&str> = pipeline.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(
        names[3..],
        [
            "b[a.rate=16000,b.rate=8000]",
            "b[a.rate=16000,b.rate=11025]",
            "b[a.rate=22050,b.rate=8000]",
            "b[a.rate=22050,b.rate=11025]"
        ]
    );
}

#[test]
fn declared_outputs_of_a_command_are_fields() {
    let pipeline = pipeline(
        "[stage.a]\nuse = \"command\"\ninput = \"clips\"\nrun = \"x\"\nper = \"once\"\noutputs = { pitch = \"pitch.npy\" }\nexport = \"out/{id}.npy\"\n",
    );
    let stage = pipeline.find("a").unwrap();
    assert_eq!(stage.work, StageWork::Gather);
    assert_eq!(stage.fields["output"].fields["pitch"], FieldType::Blob);
    assert_eq!(stage.exports[0].field.as_deref(), Some("pitch"));
}

#[test]
fn records_in_lists_keep_their_keys() {
    let pipeline = pipeline(
        "[stage.a]\nuse = \"audio.loudness\"\ninput = \"clips\"\nlimits = [{ field = \"duration\", min = 1 }]\nsilence = \"5%\"\ntarget = \"-20 LUFS\"\nceiling = \"-2dB\"\nfade = \"250ms\"\n",
    );
    let parameters = &pipeline.find("a").unwrap().parameters;
    let limits = parameters.list("limits").unwrap();
    let ParameterValue::Map(limit) = &limits[0] else { panic!("{limits:?}") };
    assert_eq!(limit["field"], ParameterValue::Text("duration".to_owned()));
    assert_eq!(limit["min"], ParameterValue::Number(1.0));
    assert_eq!(parameters.number("silence").unwrap(), 5.0);
    assert_eq!(parameters.number("target").unwrap(), -20.0);
    assert_eq!(parameters.number("ceiling").unwrap(), -2.0);
    assert_eq!(parameters.seconds("fade").unwrap(), 0.25);
}

#[test]
fn comments_formatting_and_the_order_of_keys_change_nothing() {
    let written = format!("{CORPUS}{VOICE}");
    let other = r#"
# the same, in another hand
session = { gpu_hours_per_week = 30, price_per_hour = 1.2, stop_after = '11h30m', budget = 20.0 }
expect = { sound = '480m', clips = 4_000.0 }
prices.a100 = { vram = '40000MB', per_hour = 1.20, speed = 1 }
prices.t4 = { vram = '15GB', per_hour = 0.35, speed = 0.15 }
pipeline.name = "voice"
stage.clips = { audio = "data/wavs", table = """data/metadata.csv""", use = 'corpus.table' }
[stage.voice]
rate    = 22_050 # hertz
input   = "clips"
"use"   = "audio.resample"
[stage.tokens]
device = "cuda:1"
salt = "again"
timeout = "1m30s"
retries = 0x0
quarantine = 0.1
export = "./out//{speaker}/{id}.npy"
codec = "assets.codec"
input = "voice.output"
use = "vq.encode"
[assets]
codec = { license = "CC-BY-NC-SA-4.0", path = "models/codec.safetensors" }
"#;
    let [one, two] = [written.as_str(), other].map(|text| {
        let mut pipeline = load_with(text, &[]).unwrap().pipeline;
        // The text itself is kept for other machines.
        pipeline.written.text.clear();
        format!("{pipeline:#?}")
    });
    assert_eq!(one, two);
}
