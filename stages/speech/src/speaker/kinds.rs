//! The kinds of the family `speaker`.

use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType, Work,
    artifact,
};

pub const KINDS: &[&Kind] = &[&STATS, &SELECT, &MATCH];

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
        reads: FieldSet::All,
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

/// A cosine of two directions.
const COSINE: ParameterType = ParameterType::Number { min: -1.0, max: 1.0 };

pub static MATCH: Kind = Kind {
    name: "speaker.match",
    summary: "Names the voice of each clip by reference clips, or groups clips by voice.",
    doc: "\
Compares speaker embeddings by their cosine. An embedding is a NumPy array or a JSON list of numbers
in the field `embedding`, made by `speaker.embed` or by a program of your own.

With `reference`, the mean direction of the reference clips of each speaker is that voice; reference
clips without a speaker are one voice named `reference`. A clip gets the name of the nearest voice,
and is quarantined as `other-speaker` if no voice is near enough.

Without `reference`, clips are grouped by voice: the two groups with the highest mean cosine between
their clips become one as long as that mean is at least `min_cosine`. The groups are named
`voice-1`, `voice-2` and so on by their number of clips. More clips can change these names, so use
reference clips where you can. `speaker.select` with `by = \"minutes\"` keeps the voice with the most
sound. At most 20,000 clips are grouped.

A clip with the field `halves`, the cosine between its two halves, is quarantined as `two-voices` if
this is too low.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::All,
            doc: "Clips with their embeddings.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "reference",
            reads: FieldSet::These(&[("embedding", FieldType::Blob)]),
            may_read: &[("speaker", FieldType::Text)],
            optional: true,
            doc: "Clips of known voices, with their embeddings.",
            ..InputPort::DATASET
        },
    ],
    outputs: &[
        OutputPort {
            writes: &[("speaker", FieldType::Text), ("speaker_cosine", FieldType::Number)],
            doc: "The clips with their voice, and the cosine between a clip and its voice.",
            ..OutputPort::DATASET
        },
        OutputPort {
            name: "voices",
            writes: &[("report", FieldType::Blob)],
            doc: "The voices with their clips, their cosines and the voice nearest to each, as \
                  JSON.",
            gives: &[artifact::REPORT],
            ..OutputPort::ARTIFACT
        },
    ],
    parameters: &[
        Parameter {
            name: "min_cosine",
            parameter_type: COSINE,
            default: Default::Number(0.5),
            doc: "The lowest cosine between a clip and its voice, or between groups that become \
                  one. A good value depends on the model of the embeddings.",
            ..Parameter::BASE
        },
        Parameter {
            name: "halves",
            parameter_type: COSINE,
            default: Default::Number(0.4),
            doc: "The lowest cosine between the two halves of a clip.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};
