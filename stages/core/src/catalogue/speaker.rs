//! The kinds of the family `speaker`.

use crate::artifact;
use crate::cost::{Cost, Rates};
use crate::kind::{FieldType, Fields, InputPort, Kind, OutputPort, Work};
use crate::parameter::{Default, Parameter, ParameterType};

pub const KINDS: &[&Kind] = &[&STATS, &SELECT];

pub static STATS: Kind = Kind {
    name: "speaker.stats",
    summary: "Adds up clips, minutes and characters by speaker.",
    doc: "Minutes need the field `seconds`, which `audio.decode` and `audio.check` write. The \
        median signal-to-noise ratio needs `snr`, which `audio.check` writes.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        may_read: &[
            ("seconds", FieldType::Number),
            ("snr", FieldType::Number),
            ("speaker", FieldType::Text),
            ("text", FieldType::Text),
        ],
        doc: "Clips.",
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort {
        writes: &[("report", FieldType::Blob), ("speakers", FieldType::Number)],
        doc: "A list of the speakers as JSON, by name, and their number.",
        gives: &[artifact::REPORT],
        ..OutputPort::ARTIFACT
    }],
    ..Kind::BASE
};

pub static SELECT: Kind = Kind {
    name: "speaker.select",
    summary: "Keeps the clips of the speakers with the most clips or minutes.",
    doc: "Ties are ordered by name. Clips without a speaker are quarantined.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[InputPort {
        reads: Fields::All,
        doc: "Clips with their speakers.",
        ..InputPort::DATASET
    }],
    outputs: &[
        OutputPort { doc: "The clips of the selected speakers.", ..OutputPort::DATASET },
        OutputPort {
            name: "speakers",
            writes: &[("names", FieldType::Text), ("report", FieldType::Blob)],
            doc: "The selected names, one per line, and their totals as JSON.",
            gives: &[artifact::REPORT],
            ..OutputPort::ARTIFACT
        },
    ],
    parameters: &[
        Parameter {
            name: "by",
            parameter_type: ParameterType::Choice(&["clips", "minutes"]),
            default: Default::Text("clips"),
            doc: "The ranking criterion. Minutes need the field `seconds` on every clip.",
            ..Parameter::BASE
        },
        Parameter {
            name: "top",
            parameter_type: ParameterType::Integer { min: 1, max: 1_000_000 },
            default: Default::Integer(1),
            doc: "The number of speakers to keep.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};
