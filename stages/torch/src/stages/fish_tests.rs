//! The stages of Fish Speech as the engine calls them, on a model of a few thousand parameters.
#![allow(clippy::unwrap_used)]

mod checkpoints;

use std::collections::BTreeMap;

use stage_core::catalogue::fish;
use stage_core::{
    Default as Preset, Fields, GatherInput, GatherOutput, Item, Job, Kind, Output, ParameterValue,
    Parameters, PortInput, PortOutput, Setup, Stage, StageError, Value,
};
use stage_formats::artifact;

use super::all;
use crate::codec::Codes;
use crate::fish::vocabulary::byte_level;
use crate::machine::Machine;
use crate::mel::MelShape;
use crate::mel_rvq::{Config, MelRvq};
use crate::npy;
use crate::testing::Bench;

type Ports = BTreeMap<String, Fields>;
type Written<'a> = &'a [(&'a str, ParameterValue)];

fn whole(number: i64) -> ParameterValue {
    ParameterValue::Integer(number)
}

fn text(text: &str) -> ParameterValue {
    ParameterValue::Text(text.to_owned())
}

fn parameters(kind: &Kind, written: Written) -> Parameters {
    let preset = |preset: &Preset| match preset {
        Preset::Text(own) => text(own),
        Preset::Integer(number) => whole(*number),
        Preset::Number(number) => ParameterValue::Number(*number),
        Preset::Flag(flag) => ParameterValue::Flag(*flag),
        Preset::Seconds(seconds) => ParameterValue::Seconds(*seconds),
        Preset::Texts(texts) => ParameterValue::List(texts.iter().map(|one| text(one)).collect()),
        Preset::PipelineSeed => whole(1),
        _ => ParameterValue::Absent,
    };
    let presets = kind.parameters.iter();
    let mut values: BTreeMap<String, ParameterValue> =
        presets.map(|one| (one.name.to_owned(), preset(&one.default))).collect();
    for (name, value) in written {
        assert!(values.contains_key(*name), "`{}` has no parameter `{name}`", kind.name);
        values.insert((*name).to_owned(), value.clone());
    }
    Parameters(values)
}

fn open(kind: &'static Kind, setup: Setup, bench: &mut Bench) -> Result<Job, StageError> {
    let stages = all(&Machine::default());
    let stage = stages.iter().find(|stage| stage.kind().name == kind.name).unwrap();
    Stage::open(&**stage, setup, bench)
}

fn gather(
    kind: &'static Kind,
    written: Written,
    ports: Vec<(&str, PortInput)>,
    bench: &mut Bench,
) -> Result<Ports, StageError> {
    let output = gathered(kind, written, ports, bench)?;
    let fields = |(port, output): (String, PortOutput)| match output {
        PortOutput::Artifact(values) => {
            Some((port, bench.keep_all(Output { values, notes: Vec::new() })))
        }
        PortOutput::Dataset(_) => None,
    };
    Ok(output.ports.into_iter().filter_map(fields).collect())
}

fn gathered(
    kind: &'static Kind,
    written: Written,
    ports: Vec<(&str, PortInput)>,
    bench: &mut Bench,
) -> Result<GatherOutput, StageError> {
    let parameters = parameters(kind, written);
    let setup = Setup { parameters, device: "cpu".into(), ..Setup::default() };
    let Job::Gather(mut job) = open(kind, setup, bench)? else { panic!("no gather") };
    let ports = ports.into_iter().map(|(port, input)| (port.to_owned(), vec![input])).collect();
    job.run(GatherInput { ports }, bench)
}

fn artifact_of(fields: &Fields) -> PortInput {
    PortInput::Artifact { stage: "above".into(), fields: fields.clone() }
}

/// A model of 3 codebooks of 24 entries.
fn base(bench: &mut Bench) -> Fields {
    let written = [
        ("codebooks", whole(3)),
        ("entries", whole(24)),
        ("layers", whole(1)),
        ("dim", whole(16)),
        ("heads", whole(2)),
        ("key_heads", whole(1)),
        ("max_length", whole(96)),
    ];
    gather(&fish::INIT, &written, Vec::new(), bench).unwrap().remove("model").unwrap()
}

fn clip(bench: &mut Bench, number: usize, codebooks: usize) -> Item {
    let code = |at: usize| ((at * 5 + number * 7) % 24) as u16;
    let codes = Codes { codebooks, frames: 6, values: (0..codebooks * 6).map(code).collect() };
    let mut item = bench.item(number, "tokens", npy::KIND, &npy::write(&codes).unwrap());
    item.fields.set("text", Value::text(format!("sana {number}")));
    item
}

fn clips(bench: &mut Bench, codebooks: usize) -> PortInput {
    let items = (0..6).map(|number| clip(bench, number, codebooks)).collect();
    PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() }
}

/// Four steps of two rows each, with little around them.
fn quick() -> Vec<(&'static str, ParameterValue)> {
    vec![
        ("steps", whole(4)),
        ("batch", whole(1)),
        ("accumulation", whole(2)),
        ("warm_up", whole(0)),
        ("validate_every", whole(2)),
        ("save_every", whole(2)),
        ("validation_fraction", ParameterValue::Number(0.3)),
    ]
}

fn tune(
    kind: &'static Kind,
    more: Written,
    base: &Fields,
    bench: &mut Bench,
) -> Result<Ports, StageError> {
    let clips = clips(bench, 3);
    let written = [&quick()[..], more].concat();
    gather(kind, &written, vec![("input", clips), ("base", artifact_of(base))], bench)
}

fn refusal(result: Result<Ports, StageError>) -> (String, String) {
    let error = result.unwrap_err();
    (error.to_string(), error.help().unwrap_or_default().to_owned())
}

#[test]
fn training_that_is_stopped_at_any_look_ends_with_the_same_outputs() {
    let kinds: [&'static Kind; 2] = [&fish::FINETUNE, &fish::LORA];
    for kind in kinds {
        let quiet = [("preflight", ParameterValue::Flag(false))];
        let mut bench = Bench::default();
        let base = base(&mut bench);
        let straight = tune(kind, &quiet, &base, &mut bench).unwrap();
        let mut stops = 0;
        for looks in 0.. {
            bench.checkpoints.clear();
            bench.stop_after = Some(looks);
            match tune(kind, &quiet, &base, &mut bench) {
                Err(StageError::Stopped) => stops += 1,
                outputs => {
                    assert_eq!(outputs.unwrap(), straight);
                    break;
                }
            }
            bench.stop_after = None;
            assert_eq!(tune(kind, &quiet, &base, &mut bench).unwrap(), straight, "{looks}");
        }
        assert!(stops >= 4 * 3, "{stops}");
    }
}

#[test]
fn a_preflight_changes_nothing_in_what_comes_out() {
    let kinds: [&'static Kind; 2] = [&fish::FINETUNE, &fish::LORA];
    for kind in kinds {
        let mut bench = Bench::default();
        let base = base(&mut bench);
        let run = |flag: bool, bench: &mut Bench| {
            bench.checkpoints.clear();
            let written = [("preflight", ParameterValue::Flag(flag))];
            tune(kind, &written, &base, bench).unwrap()
        };
        assert_eq!(run(true, &mut bench), run(false, &mut bench));
        assert!(bench.metrics.iter().any(|(_, values)| values.contains_key("preflight/loss")));
    }
}

#[test]
fn adapters_on_weights_that_were_lost_are_refused() {
    let mut bench = Bench::default();
    let mut lost = base(&mut bench);
    lost.remove(artifact::LINEAGE);
    let (message, help) = refusal(tune(&fish::LORA, &[], &lost, &mut bench));
    assert!(message.starts_with("the base knows nothing: its loss is "), "{message}");
    assert!(help.contains("import the published files again"), "{help}");
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let mut bench = Bench::default();
    let mut other = base(&mut bench);
    let (_, marks) = byte_level(20);
    let blob = bench.keep(artifact::TOKENIZER_KIND, marks.as_bytes());
    other.set(artifact::SPECIAL_TOKENS, Value::Blob(blob.into()));
    let (message, _) = refusal(tune(&fish::FINETUNE, &[], &other, &mut bench));
    assert!(message.starts_with("the tokenizer does not belong to the model: "), "{message}");
    other.remove(artifact::SPECIAL_TOKENS);
    let (message, _) = refusal(tune(&fish::FINETUNE, &[], &other, &mut bench));
    assert_eq!(message, "the model has no `special_tokens.json`");
}

#[test]
fn clips_and_codecs_of_another_shape_are_refused() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let input = vec![("input", clips(&mut bench, 2)), ("base", artifact_of(&base))];
    let (message, help) = refusal(gather(&fish::FINETUNE, &quick(), input, &mut bench));
    assert!(message.ends_with("its tokens are of 2 codebooks, the model has 3"), "{message}");
    assert!(help.contains("codec that the model was made for"), "{help}");
    let codec = codec(3, 32, &mut bench);
    let error = speak(&base, &codec, &["Hei."], &mut bench).unwrap_err();
    let expected = "the codec has 3 codebooks of up to 32 entries, the model 3 of 24";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_configuration_that_lost_the_scaling_of_codebooks_is_refused() {
    let mut bench = Bench::default();
    let mut unscaled = base(&mut bench);
    let config = stage_core::Context::read(&mut bench, unscaled.blob("config").unwrap()).unwrap();
    let config = String::from_utf8(config.to_vec()).unwrap();
    let config = config.replace("\"scale_codebook_embeddings\": true,", "");
    let blob = bench.keep(artifact::CONFIG_KIND, config.as_bytes());
    unscaled.set(artifact::CONFIG, Value::Blob(blob.into()));
    let (message, help) = refusal(tune(&fish::FINETUNE, &[], &unscaled, &mut bench));
    assert!(message.starts_with("`config.json` does not say whether"), "{message}");
    assert!(help.contains("\"scale_codebook_embeddings\": true"), "{help}");
}

#[test]
fn a_codec_is_no_text_model() {
    let mut bench = Bench::default();
    let mut other = base(&mut bench);
    other.set(artifact::FAMILY, Value::text(artifact::DAC));
    let (message, _) = refusal(tune(&fish::FINETUNE, &[], &other, &mut bench));
    let expected = "what arrived on `base` is no text model of Fish Speech: it is a codec";
    assert_eq!(message, expected);
}

#[test]
fn a_pattern_that_names_no_module_and_no_length_of_training_are_refused() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let modules = [("modules", ParameterValue::List(vec![text("layers.*.nothing")]))];
    let (message, _) = refusal(tune(&fish::LORA, &modules, &base, &mut bench));
    assert!(message.starts_with("`layers.*.nothing` names no module"), "{message}");
    let both = [("epochs", ParameterValue::Number(2.0))];
    let (message, _) = refusal(tune(&fish::FINETUNE, &both, &base, &mut bench));
    assert_eq!(message, "how long to train is not said");
}

#[test]
fn adapters_merge_into_their_own_base_only() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let adapters = tune(&fish::LORA, &[], &base, &mut bench).unwrap().remove("adapters").unwrap();
    bench.checkpoints.clear();
    let other = tune(&fish::FINETUNE, &[], &base, &mut bench).unwrap().remove("model").unwrap();
    let merge = |base: &Fields, bench: &mut Bench| {
        let input = vec![("base", artifact_of(base)), ("adapters", artifact_of(&adapters))];
        gather(&fish::MERGE, &[], input, bench)
    };
    let merged = merge(&base, &mut bench).unwrap().remove("model").unwrap();
    let norm = artifact::tensor_field("norm.weight");
    assert_eq!(merged.get(&norm), base.get(&norm), "what has no adapter is the same object");
    let adapted = artifact::tensor_field("layers.0.attention.wqkv.weight");
    assert_ne!(merged.get(&adapted), base.get(&adapted));
    let (message, _) = refusal(merge(&other, &mut bench));
    assert!(message.starts_with("the adapters were trained on the model "), "{message}");
}

fn codec(codebooks: usize, entries: usize, bench: &mut Bench) -> Fields {
    let config = Config::new(MelShape::at_rate(16_000), codebooks, entries);
    let bands = config.mel.bands;
    let books = (0..codebooks * entries * bands).map(|at| (at % 7) as f32 * 0.1).collect();
    let codec = MelRvq::from_parts(config, vec![-3.0; bands], books);
    let blob = bench.keep("model/safetensors", &codec.save().unwrap());
    [("model", Value::Blob(blob.into()))].into_iter().collect()
}

fn speak(
    model: &Fields,
    codec: &Fields,
    sentences: &[&str],
    bench: &mut Bench,
) -> Result<Vec<Fields>, StageError> {
    let item = |text: &&str| Item::new("", [("text", Value::text(*text))].into_iter().collect());
    let items: Vec<Item> = sentences.iter().map(item).collect();
    spoken(&[("model", model), ("codec", codec)], &items, bench)
}

fn spoken(
    artifacts: &[(&str, &Fields)],
    items: &[Item],
    bench: &mut Bench,
) -> Result<Vec<Fields>, StageError> {
    let own = |(port, fields): &(&str, &Fields)| ((*port).to_owned(), vec![(*fields).clone()]);
    let setup = Setup {
        parameters: parameters(&fish::SYNTHESIZE, &[("max_frames", whole(12))]),
        artifacts: artifacts.iter().map(own).collect(),
        device: "cpu".into(),
        ..Setup::default()
    };
    let Job::Item(job) = open(&fish::SYNTHESIZE, setup, bench)? else { panic!("no item job") };
    let outputs = job.process(items, bench)?;
    Ok(outputs.into_iter().map(|output| bench.keep_all(output.unwrap())).collect())
}

#[test]
fn a_sentence_is_spoken_the_same_whatever_else_is_spoken() {
    let mut bench = Bench::default();
    let (base, codec) = (base(&mut bench), codec(3, 24, &mut bench));
    let both = speak(&base, &codec, &["Yksi.", "Kaksi."], &mut bench).unwrap();
    let alone = speak(&base, &codec, &["Kaksi."], &mut bench).unwrap();
    assert_eq!(both[1], alone[0]);
    assert_ne!(both[0].blob("tokens"), both[1].blob("tokens"));
    for spoken in &both {
        let frames = spoken.number("frames").unwrap();
        assert_eq!(spoken.number("seconds").unwrap(), frames * 256.0 / 16_000.0);
        let stop = spoken.text("stop").unwrap();
        assert!(if frames < 12.0 { stop == "end" } else { stop == "limit" }, "{frames} {stop}");
    }
}
