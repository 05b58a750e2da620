//! The kinds of the family `text`.

use crate::artifact;
use crate::cost::{Cost, Rates};
use crate::kind::{FieldType, Fields, InputPort, Kind, OutputPort, Work};
use crate::parameter::{Default, Parameter, ParameterType};

pub const KINDS: &[&Kind] = &[&NORMALIZE, &AUDIT];

const TEXTS: InputPort = InputPort {
    reads: Fields::These(&[("text", FieldType::Text)]),
    doc: "Clips with their texts.",
    ..InputPort::DATASET
};

pub static NORMALIZE: Kind = Kind {
    name: "text.normalize",
    summary: "Writes texts that sound the same the same way, and numbers as words.",
    doc: "Unicode form, quotes, dashes, spaces, invisible and control characters, emoji, and letter \
          case by choice. Every change is counted in the notes. Numbers are spelled out only where \
          their reading is plain; digits that are left are counted, for `text.audit` to stop on. A \
          second time changes nothing.",
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[TEXTS],
    outputs: &[OutputPort {
        writes: &[("text", FieldType::Text)],
        doc: "The clips with their texts normalised.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "form",
            parameter_type: ParameterType::Choice(&["nfc", "nfd", "nfkc"]),
            default: Default::Text("nfc"),
            doc: "The Unicode form that the target tokenizer was made with.",
            ..Parameter::BASE
        },
        Parameter {
            name: "case",
            parameter_type: ParameterType::Choice(&["keep", "lower", "upper"]),
            default: Default::Text("keep"),
            doc: "What happens to upper and lower case.",
            ..Parameter::BASE
        },
        Parameter {
            name: "keep",
            parameter_type: ParameterType::List(&ParameterType::Choice(&[
                "quote",
                "dash",
                "ellipsis",
                "space",
                "invisible",
                "control",
                "emoji",
            ])),
            default: Default::Texts(&[]),
            doc: "Kinds of characters that stay as they are.",
            ..Parameter::BASE
        },
        Parameter {
            name: "joiners",
            parameter_type: ParameterType::Choice(&["indic", "keep", "remove"]),
            default: Default::Text("indic"),
            doc: "Zero-width joiners: kept in Indic scripts, where they are spelling, or everywhere, or nowhere.",
            ..Parameter::BASE
        },
        Parameter {
            name: "numbers",
            parameter_type: ParameterType::Choice(&["keep", "fi", "gu"]),
            default: Default::Text("keep"),
            doc: "The language in which numbers are spelled out, or none.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static AUDIT: Kind = Kind {
    name: "text.audit",
    summary: "Stops on characters that the target tokenizer does not know.",
    doc: "Tokenizers drop unknown characters in silence. The report lists each with its count, \
          code point and the first clips that have it. The vocabulary is that of a VITS `model`, \
          whose tokenizer then reads the texts, or a `vocab.json`, a `tokenizer.json` or a text \
          file with the characters, or `characters`. Texts with letters or digits beyond \
          ASCII, where the model was trained on romanised ones (`is_uroman`), end the run as \
          unknown characters do. An item without a text is set aside.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort { reads_id: true, ..TEXTS },
        InputPort {
            name: "model",
            reads: Fields::These(&[
                ("vocab.json", FieldType::Blob),
                ("tokenizer_config.json", FieldType::Blob),
            ]),
            optional: true,
            doc: "A VITS model that is to read the texts.",
            takes: &[artifact::VITS],
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[OutputPort {
        writes: &[
            ("report", FieldType::Blob),
            ("characters", FieldType::Number),
            ("digits", FieldType::Number),
            ("unknown", FieldType::Number),
        ],
        doc: "The table as JSON; characters and digits in all texts, and kinds of unknown characters.",
        gives: &[artifact::REPORT],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "vocabulary",
            parameter_type: ParameterType::File,
            default: Default::Absent,
            doc: "The file that lists what the tokenizer knows.",
            ..Parameter::BASE
        },
        Parameter {
            name: "characters",
            default: Default::Text(""),
            doc: "Characters that are known as well, or instead of a file.",
            ..Parameter::BASE
        },
        Parameter {
            name: "lower_case",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(true),
            doc: "The tokenizer lower-cases what it does not know before it gives up.",
            ..Parameter::BASE
        },
        Parameter {
            name: "allow",
            default: Default::Text(""),
            doc: "Characters that may be dropped, such as `\"-;`.",
            ..Parameter::BASE
        },
        Parameter {
            name: "on_unknown",
            parameter_type: ParameterType::Choice(&["fail", "report"]),
            default: Default::Text("fail"),
            doc: "Whether other unknown characters end the run or only stand in the report.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};
