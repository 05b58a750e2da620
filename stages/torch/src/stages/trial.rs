//! Runs a stage as the engine calls it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use stage_core::device::DeviceId;
use stage_core::{
    Default as Preset, Fields, GatherInput, GatherOutput, Job, Kind, NewValue, Output,
    ParameterValue, Parameters, PortInput, PortOutput, Setup, Stage, StageError, Value,
};
use stage_formats::checkpoint;

use super::all;
use crate::device::Machine;
use crate::testing::Bench;

pub type Ports = BTreeMap<String, Fields>;
pub type Written<'a> = &'a [(&'a str, ParameterValue)];

pub fn whole(number: i64) -> ParameterValue {
    ParameterValue::Integer(number)
}

pub fn text(text: &str) -> ParameterValue {
    ParameterValue::Text(text.to_owned())
}

pub fn parameters(kind: &Kind, written: Written) -> Parameters {
    let preset = |preset: &Preset| match preset {
        Preset::Text(own) => text(own),
        Preset::Integer(number) => whole(*number),
        Preset::Number(number) => ParameterValue::Number(*number),
        Preset::Flag(flag) => ParameterValue::Flag(*flag),
        Preset::Seconds(seconds) => ParameterValue::Seconds(*seconds),
        Preset::Bytes(bytes) => ParameterValue::Bytes(*bytes),
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

pub fn open(kind: &'static Kind, setup: Setup, bench: &mut Bench) -> Result<Job, StageError> {
    let stages = all(&Machine::default());
    let stage = stages.iter().find(|stage| stage.kind().name == kind.name).unwrap();
    Stage::open(&**stage, setup, bench)
}

pub fn gather(
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

pub fn gathered(
    kind: &'static Kind,
    written: Written,
    ports: Vec<(&str, PortInput)>,
    bench: &mut Bench,
) -> Result<GatherOutput, StageError> {
    let parameters = parameters(kind, written);
    let setup = Setup { parameters, device: DeviceId::Cpu, ..Setup::default() };
    let Job::Gather(mut job) = open(kind, setup, bench)? else { panic!("not a gather") };
    let ports = ports.into_iter().map(|(port, input)| (port.to_owned(), vec![input])).collect();
    job.run(GatherInput { ports }, bench)
}

/// The checkpoint that a sentence of `model.audition` brings, from a model or adapters.
pub fn weights_of(fields: &Fields, bench: &mut Bench) -> Value {
    let kept = fields.iter().map(|(name, value)| (name.to_string(), NewValue::Kept(value.clone())));
    let checkpoint = checkpoint::item(4, None, kept.collect()).unwrap();
    let output = Output { values: checkpoint.values, notes: Vec::new() };
    bench.keep_all(output).get(checkpoint::WEIGHTS).cloned().unwrap()
}

pub fn artifact_of(fields: &Fields) -> PortInput {
    PortInput::Artifact { stage: "above".into(), fields: fields.clone() }
}
