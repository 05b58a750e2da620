//! The kinds of the family `voice`: speakers and reference clips compared by sentences.

use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, Derived, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    Parameters, Work, artifact,
};

use crate::quality::choose::kinds::{
    BASE_NAME, BOOTSTRAP, CONFIDENCE, HOLD, LEAST, PREFER, RATED, REQUIRE, TIE, fields_in,
};
use stage_families::kinds::parameters::SEED;

pub const KINDS: &[&Kind] = &[&AUDITION, &CHOOSE];

pub static AUDITION: Kind = Kind {
    name: "voice.audition",
    summary: "Pairs each sentence with each speaker.",
    doc: "\
Makes an item of every sentence and every speaker, for a model with several: `vits.synthesize` speaks
each in the voice of its `speaker`. The item of `hello` and `aino` is `hello@aino`.

A reference clip is not a field of a sentence but an input of `fish.synthesize` or `xtts.voice`. Give
each candidate an instance of a `matrix` instead: `dataset.item` with
`matrix = { id = [\"aino_01\", \"aino_07\"] }`, and `by = \"stage\"` in `voice.choose`.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::All,
            doc: "Sentences with all their fields, of `corpus.sentences` for example.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "clips",
            may_read: &[("speaker", FieldType::Text)],
            optional: true,
            doc: "Clips of the speakers, if `speakers` does not name them.",
            ..InputPort::DATASET
        },
    ],
    outputs: &[OutputPort {
        writes: &[("sentence", FieldType::Text), ("speaker", FieldType::Text)],
        doc: "One item for each sentence and speaker: `sentence` is the id of the sentence.",
        ..OutputPort::DATASET
    }],
    parameters: &[Parameter {
        name: "speakers",
        parameter_type: ParameterType::List(&ParameterType::Text),
        default: Default::Texts(&[]),
        doc: "The speakers. Default: all of `clips`.",
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

/// The fields of expressions, and those that name voice and sentence.
fn fields(parameters: &Parameters) -> Vec<(String, FieldType)> {
    let mut fields = fields_in(parameters, &["require", "prefer"]);
    if parameters.text("by").is_ok_and(|by| by == "speaker") {
        let named = ["speaker", "sentence"].map(|name| (name.to_owned(), FieldType::Text));
        fields.extend(named);
    }
    fields
}

pub static CHOOSE: Kind = Kind {
    name: "voice.choose",
    version: 2,
    summary: "Chooses the speaker or the reference clip that gives the best voice.",
    doc: "\
`speaker.stats` and `speaker.select` count clips and minutes before anything is trained. This stage
compares voices by sentences that a model speaks with them, with the expressions, intervals and ties
of `quality.choose`: `require` leaves voices out, `prefer` orders the others.

`base` in an expression is the voice with the most clips, which `speaker.select` would take, or the
one that `base_name` names. If nothing tells two voices apart, the one with more clips is chosen,
then by name. A voice without one of the figures is out.

With `by = \"speaker\"` each sentence names its `speaker` and its `sentence`, as `voice.audition` writes
them. With `by = \"stage\"` each reference of `input` is a voice: the name is the value in the brackets
of the matrix instance, and the sentence is the id of the item. The chosen name is that of a speaker,
or the id of a clip.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::Derived(Derived { names: fields, parameter: "require", also: &[] }),
            reads_id: true,
            reads_name: true,
            many: true,
            doc: "Measured sentences.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "clips",
            reads: FieldSet::All,
            doc: "The clips of all voices.",
            ..InputPort::DATASET
        },
        RATED,
    ],
    outputs: &[
        OutputPort {
            passes: Some("clips"),
            doc: "The clips of the chosen speaker, or the chosen clip; `dataset.item` without `id` \
                  takes it.",
            ..OutputPort::DATASET
        },
        OutputPort {
            name: "report",
            writes: &[("report", FieldType::Blob), ("chosen", FieldType::Text)],
            doc: "Each voice beside the base, with intervals, and the reason why it was not \
                  chosen, as JSON; and the name of the `chosen` one.",
            gives: &[artifact::REPORT],
            ..OutputPort::ARTIFACT
        },
    ],
    parameters: &[
        Parameter {
            name: "by",
            parameter_type: ParameterType::Choice(&["speaker", "stage"]),
            default: Default::Text("speaker"),
            doc: "The voice of a sentence: its field `speaker`, or the stage that it comes from.",
            ..Parameter::BASE
        },
        REQUIRE,
        PREFER,
        Parameter {
            default: Default::Absent,
            doc: "The voice that others are compared with. Default: the one with the most clips.",
            ..BASE_NAME
        },
        CONFIDENCE,
        BOOTSTRAP,
        LEAST,
        HOLD,
        Parameter {
            doc: "`earlier`: of voices with overlapping quality the one with the most clips is \
                  chosen; `exact`: only of those with equal figures.",
            ..TIE
        },
        Parameter {
            name: "none",
            parameter_type: ParameterType::Choice(&["base", "fail"]),
            default: Default::Text("base"),
            doc: "The result if no voice meets the requirements: the base, or an error that has \
                  the reasons.",
            ..Parameter::BASE
        },
        SEED,
    ],
    ..Kind::BASE
};
