//! The kinds of the family `text`.

use crate::cost::{Cost, Rates};
use crate::kind::{FieldType, Fields, InputPort, Kind, OutputPort};
use crate::parameter::{Default, Parameter, ParameterType};

pub const KINDS: &[&Kind] = &[&NORMALIZE];

/// The clips with texts.
pub const TEXTS: InputPort = InputPort {
    reads: Fields::These(&[("text", FieldType::Text)]),
    doc: "Clips with their texts.",
    ..InputPort::DATASET
};

pub static NORMALIZE: Kind = Kind {
    name: "text.normalize",
    summary: "Normalises texts, and spells out numbers.",
    doc: "Unicode form, quotes, dashes, spaces, invisible and control characters, emoji, and \
        letter case by choice. Every change is counted in the notes. Numbers are spelled out only \
        where their reading is unambiguous; remaining digits are counted, and `text.audit` stops \
        on them. A second pass changes nothing.",
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
            doc: "The conversion of upper and lower case.",
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
            doc: "Zero-width joiners: kept in Indic scripts, where they are spelling, or \
                everywhere, or nowhere.",
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
