//! A small catalogue with one kind for each rule.

use stage_core::{
    Catalogue, Default, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    PortType, Role, Unit, Work,
};

pub fn catalogue() -> Catalogue {
    let mut catalogue = stage_speech::catalogue();
    for kind in [
        &TABLE, &OPEN, &RESAMPLE, &LOUDNESS, &NORMALIZE, &FIT, &ENCODE, &MERGE, &PACK, &SPLIT,
        &COMMAND, &SPEAK,
    ] {
        catalogue.add(kind);
    }
    catalogue
}

static TABLE: Kind = Kind {
    name: "corpus.table",
    summary: "Reads a table.",
    work: Work::Source,
    outputs: &[OutputPort {
        writes: &[
            ("audio", FieldType::Blob),
            ("text", FieldType::Text),
            ("speaker", FieldType::Text),
            ("duration", FieldType::Number),
        ],
        passes: None,
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "table",
            parameter_type: ParameterType::File,
            doc: "The table.",
            ..Parameter::BASE
        },
        Parameter {
            name: "audio",
            parameter_type: ParameterType::SourcePath,
            default: Default::Absent,
            role: Role::Execution,
            doc: "The folder of the clips.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

static OPEN: Kind = Kind {
    name: "corpus.open",
    work: Work::Source,
    outputs: &[OutputPort {
        writes: &[("audio", FieldType::Blob)],
        passes: None,
        open: true,
        ..OutputPort::DATASET
    }],
    ..Kind::BASE
};

const AUDIO_INPUT: InputPort =
    InputPort { reads: FieldSet::These(&[("audio", FieldType::Blob)]), ..InputPort::DATASET };

static RESAMPLE: Kind = Kind {
    name: "audio.resample",
    inputs: &[AUDIO_INPUT],
    outputs: &[OutputPort { writes: &[("audio", FieldType::Blob)], ..OutputPort::DATASET }],
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

static LOUDNESS: Kind = Kind {
    name: "audio.loudness",
    inputs: &[AUDIO_INPUT],
    outputs: &[OutputPort {
        writes: &[("audio", FieldType::Blob), ("loudness", FieldType::Number)],
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "target",
            parameter_type: ParameterType::Number { min: -70.0, max: 0.0 },
            default: Default::Number(-23.0),
            unit: Unit::Lufs,
            ..Parameter::BASE
        },
        Parameter {
            name: "ceiling",
            parameter_type: ParameterType::Number { min: -20.0, max: 0.0 },
            default: Default::Number(-1.0),
            unit: Unit::Decibel,
            ..Parameter::BASE
        },
        Parameter {
            name: "silence",
            parameter_type: ParameterType::Number { min: 0.0, max: 100.0 },
            default: Default::Absent,
            unit: Unit::Percent,
            ..Parameter::BASE
        },
        Parameter {
            name: "fade",
            parameter_type: ParameterType::Duration,
            default: Default::Seconds(0.01),
            ..Parameter::BASE
        },
        Parameter {
            name: "limits",
            parameter_type: ParameterType::List(&ParameterType::Record(&[
                Parameter { name: "field", doc: "Which one.", ..Parameter::BASE },
                Parameter {
                    name: "min",
                    parameter_type: ParameterType::Number { min: f64::MIN, max: f64::MAX },
                    default: Default::Absent,
                    ..Parameter::BASE
                },
            ])),
            default: Default::Absent,
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

static NORMALIZE: Kind = Kind {
    name: "text.normalize",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("text", FieldType::Text)]),
        may_read: &[("language", FieldType::Text)],
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort { writes: &[("text", FieldType::Text)], ..OutputPort::DATASET }],
    parameters: &[
        Parameter {
            name: "case",
            parameter_type: ParameterType::Choice(&["keep", "lower", "upper"]),
            default: Default::Text("keep"),
            ..Parameter::BASE
        },
        Parameter {
            name: "strict",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(false),
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

static FIT: Kind = Kind {
    name: "vq.fit",
    work: Work::Gather,
    inputs: &[AUDIO_INPUT],
    outputs: &[OutputPort { name: "codec", ..OutputPort::ARTIFACT }],
    parameters: &[Parameter {
        name: "seed",
        parameter_type: ParameterType::Integer { min: i64::MIN, max: i64::MAX },
        default: Default::PipelineSeed,
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

static ENCODE: Kind = Kind {
    name: "vq.encode",
    summary: "Turns audio into tokens.",
    inputs: &[
        AUDIO_INPUT,
        InputPort { name: "codec", doc: "What turns audio into tokens.", ..InputPort::ARTIFACT },
    ],
    outputs: &[OutputPort { writes: &[("tokens", FieldType::Blob)], ..OutputPort::DATASET }],
    parameters: &[Parameter {
        name: "batch",
        parameter_type: ParameterType::Size,
        default: Default::Bytes(64_000_000),
        role: Role::Execution,
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

static MERGE: Kind = Kind {
    name: "dataset.merge",
    work: Work::Gather,
    inputs: &[InputPort { reads: FieldSet::All, many: true, ..InputPort::DATASET }],
    outputs: &[OutputPort::DATASET],
    ..Kind::BASE
};

static PACK: Kind = Kind {
    name: "dataset.pack",
    work: Work::Gather,
    inputs: &[InputPort {
        reads: FieldSet::Named { parameter: "fields", also: &[("tokens", FieldType::Blob)] },
        reads_id: true,
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort::ARTIFACT],
    parameters: &[Parameter {
        name: "fields",
        parameter_type: ParameterType::List(&ParameterType::Text),
        default: Default::Texts(&["text"]),
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

static SPLIT: Kind = Kind {
    name: "dataset.split",
    work: Work::Gather,
    inputs: &[InputPort { reads_id: true, ..InputPort::DATASET }],
    outputs: &[
        OutputPort { name: "train", ..OutputPort::DATASET },
        OutputPort { name: "validation", ..OutputPort::DATASET },
    ],
    ..Kind::BASE
};

static SPEAK: Kind = Kind {
    name: "my.speak",
    inputs: &[
        InputPort { reads: FieldSet::These(&[("text", FieldType::Text)]), ..InputPort::DATASET },
        InputPort { name: "model", ..InputPort::ARTIFACT },
        InputPort { name: "codec", ..InputPort::ARTIFACT },
        InputPort {
            name: "reference",
            reads: FieldSet::These(&[("text", FieldType::Text), ("tokens", FieldType::Blob)]),
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort { writes: &[("tokens", FieldType::Blob)], ..OutputPort::DATASET }],
    ..Kind::BASE
};

static COMMAND: Kind = Kind {
    name: "command",
    work: Work::Chosen { parameter: "per" },
    inputs: &[
        InputPort { reads: FieldSet::All, optional: true, ..InputPort::DATASET },
        InputPort { name: "models", many: true, optional: true, ..InputPort::ARTIFACT },
    ],
    outputs: &[OutputPort { open: true, port_type: PortType::Dataset, ..OutputPort::DATASET }],
    parameters: &[
        Parameter { name: "run", doc: "The command.", ..Parameter::BASE },
        Parameter {
            name: "per",
            parameter_type: ParameterType::Choice(&["item", "once"]),
            default: Default::Text("item"),
            ..Parameter::BASE
        },
        Parameter {
            name: "outputs",
            parameter_type: ParameterType::Map(&ParameterType::Text),
            ..Parameter::BASE
        },
        Parameter {
            name: "token",
            default: Default::Absent,
            role: Role::Secret,
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};
