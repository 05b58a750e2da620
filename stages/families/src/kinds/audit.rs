//! The kind `text.audit`: texts as the tokenizer of a model reads them.

use super::parameters::known;
use stage_core::artifact::REPORT;
use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, FieldSet, FieldType, InputPort, Kind, Mistake, OutputPort, Parameter, ParameterType,
    Parameters, Work,
};

use crate::artifact;
use crate::vits::PHONEMES;

pub const KINDS: &[&Kind] = &[&AUDIT];

/// Clips with texts.
pub const TEXTS: InputPort = InputPort {
    reads: FieldSet::These(&[("text", FieldType::Text)]),
    doc: "Clips with their texts.",
    ..InputPort::DATASET
};

pub static AUDIT: Kind = Kind {
    name: "text.audit",
    version: 3,
    summary: "Stops on characters that the target tokenizer does not know.",
    doc: "Tokenizers silently drop unknown characters. The report lists each with its count, code \
        point and first clips; it is written even if the stage fails, and `throstle items` shows it. \
        No training of the same run starts before this check is done: audit the sentences to speak too, so that \
        mistakes in them also stop the run early. The vocabulary is that of a VITS or XTTS `model`, whose tokenizer \
        then reads the texts, or their `phonemes` if it reads those, or a `vocab.json`, a `tokenizer.json` or a text file with the \
        characters, or `characters`. Texts with letters or digits beyond ASCII, where the model \
        was trained on romanised ones (`is_uroman`), end the run like unknown characters. Texts \
        for an XTTS model are cleaned as for training first, and a language without a tag ends the \
        run. The cleaning of XTTS spells out the parts of dates, times, ranges and telephone numbers such as `12.05.2024` as numbers \
        of their own, so these end the run too; what looks like a decimal, such as the time `10.30`, passes. An item without a text is quarantined. A mark such as `?` inside or at the start of a word, as in \
        `caf?s` and `?tudiant`, stands for a lost letter: the file was once converted to an \
        encoding without it. Such words stop the run too, even if the tokenizer knows the mark.",
    work: Work::Gather,
    precedes_training: true,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads_id: true,
            may_read: &[("language", FieldType::Text), (PHONEMES, FieldType::Text)],
            ..TEXTS
        },
        InputPort {
            name: "model",
            reads: FieldSet::These(&[("vocab.json", FieldType::Blob)]),
            may_read: &[("family", FieldType::Text), ("tokenizer_config.json", FieldType::Blob)],
            optional: true,
            replaced_by: &["vocabulary", "characters"],
            doc: "The VITS or XTTS model that will read the texts.",
            takes: &[artifact::VITS, artifact::XTTS],
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
        doc: "The table as JSON; characters and digits in all texts, and kinds of unknown \
            characters.",
        gives: &[REPORT],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "vocabulary",
            parameter_type: ParameterType::File,
            default: Default::Absent,
            doc: "The file with the vocabulary of the tokenizer.",
            ..Parameter::BASE
        },
        Parameter {
            name: "characters",
            default: Default::Absent,
            doc: "Further known characters, or all of them without a file.",
            ..Parameter::BASE
        },
        Parameter {
            name: "lower_case",
            parameter_type: ParameterType::Flag,
            default: Default::Flag(true),
            doc: "The tokenizer tries an unknown character in lower case.",
            ..Parameter::BASE
        },
        Parameter {
            name: "language",
            default: Default::Absent,
            doc: "For an XTTS `model`: the language of texts that have no field `language`, such as \
                  `en`.",
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
            doc: "The effect of other unknown characters: fail the stage, or only list them in \
                the report.",
            ..Parameter::BASE
        },
        Parameter {
            name: "on_lost",
            parameter_type: ParameterType::Choice(&["fail", "report"]),
            default: Default::Text("fail"),
            doc: "The effect of words with a mark in the place of a lost letter: fail the stage, or \
                only list them in the report.",
            ..Parameter::BASE
        },
    ],
    check: |parameters, unknown| {
        let characters = known(parameters, unknown, "characters", Parameters::text);
        let is_empty = characters.is_some_and(str::is_empty);
        let help = "write the characters that the tokenizer knows, or leave it out";
        let mistake = || Mistake::new("characters", "`characters` is empty", help);
        is_empty.then(mistake).into_iter().collect()
    },
    ..Kind::BASE
};
