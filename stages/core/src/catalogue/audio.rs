//! The kinds of the family `audio`.

use crate::kind::{FieldType, Fields, InputPort, Kind, OutputPort};
use crate::parameter::{Default, Parameter, ParameterType, Unit};

pub const KINDS: &[&Kind] = &[&RESAMPLE];

/// An item stage reads the fields that it names; what it writes replaces fields of that name.
pub static RESAMPLE: Kind = Kind {
    name: "audio.resample",
    summary: "Converts audio to another sample rate.",
    doc: "Audio that has the rate already passes untouched, bit for bit.",
    inputs: &[InputPort {
        reads: Fields::These(&[("audio", FieldType::Blob)]),
        doc: "Clips as `audio/wav`.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[("audio", FieldType::Blob)],
        doc: "The same clips at the new rate.",
        ..OutputPort::DATASET
    }],
    parameters: &[Parameter {
        name: "rate",
        parameter_type: ParameterType::Integer { min: 4_000, max: 384_000 },
        default: Default::Integer(16_000),
        unit: Unit::Hertz,
        doc: "The sample rate that the clips are given.",
        ..Parameter::BASE
    }],
    ..Kind::BASE
};
