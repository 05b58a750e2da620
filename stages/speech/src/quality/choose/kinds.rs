//! The kinds of the family `quality` that compare models by their measured sentences.

use stage_core::ExpressionForm;
use stage_core::cost::{Cost, Rates};
use stage_core::{
    Default, Derived, FieldSet, FieldType, InputPort, Kind, OutputPort, Parameter, ParameterType,
    ParameterValue, Parameters, Unit, Work, artifact,
};
use stage_expression as expression;

use stage_families::kinds::parameters::SEED;

pub type Named = &'static [(&'static str, FieldType)];

/// The fields by which `model.audition` names an item's model and sentence.
const PLACE: Named = &[("checkpoint", FieldType::Text), ("sentence", FieldType::Text)];

pub const BASE_NAME: Parameter = Parameter {
    name: "base_name",
    default: Default::Text("base"),
    doc: "The `checkpoint` of the sentences that the untuned model has spoken.",
    ..Parameter::BASE
};

pub const CONFIDENCE: Parameter = Parameter {
    name: "confidence",
    parameter_type: ParameterType::Number { min: 0.5, max: 0.999 },
    default: Default::Number(0.9),
    doc: "The confidence of intervals. Each bound alone is right more often: at 0.9 in 95 % of \
          cases.",
    ..Parameter::BASE
};

pub const BOOTSTRAP: Parameter = Parameter {
    name: "bootstrap",
    parameter_type: ParameterType::Integer { min: 100, max: 100_000 },
    default: Default::Integer(2_000),
    unit: Unit::Count,
    doc: "Draws of the bootstrap.",
    ..Parameter::BASE
};

const MEASURE: ParameterType = ParameterType::Expression(ExpressionForm::Measure);

const PREFERENCE: &[Parameter] = &[
    Parameter {
        name: "measure",
        parameter_type: MEASURE,
        doc: "A measure, such as `mean(similarity)`.",
        ..Parameter::BASE
    },
    Parameter {
        name: "better",
        parameter_type: ParameterType::Choice(&["lower", "higher"]),
        default: Default::Text("lower"),
        doc: "The better direction.",
        ..Parameter::BASE
    },
];

pub const REQUIRE: Parameter = Parameter {
    name: "require",
    parameter_type: ParameterType::List(&ParameterType::Expression(ExpressionForm::Requirement)),
    default: Default::Texts(&[]),
    doc: "Requirements; all of them have to be met.",
    ..Parameter::BASE
};

pub const PREFER: Parameter = Parameter {
    name: "prefer",
    parameter_type: ParameterType::List(&ParameterType::Record(PREFERENCE)),
    default: Default::Texts(&[]),
    doc: "The preferred measures, the most important first. Without any, the first \
          candidate that meets the requirements is chosen: the earliest checkpoint, or the voice \
          with the most clips.",
    ..Parameter::BASE
};

pub const LEAST: Parameter = Parameter {
    name: "least",
    parameter_type: ParameterType::Integer { min: 1, max: 1_000_000 },
    default: Default::Integer(50),
    unit: Unit::Count,
    doc: "The smallest number of sentences to choose by; fewer are an error.",
    ..Parameter::BASE
};

pub const HOLD: Parameter = Parameter {
    name: "hold",
    parameter_type: ParameterType::Number { min: 0.0, max: 0.9 },
    default: Default::Number(0.5),
    doc: "The share of sentences that are only reported on.",
    ..Parameter::BASE
};

pub const TIE: Parameter = Parameter {
    name: "tie",
    parameter_type: ParameterType::Choice(&["earlier", "exact"]),
    default: Default::Text("earlier"),
    doc: "`earlier`: of checkpoints with overlapping quality (the interval of their difference \
          contains 0) the earliest is chosen; `exact`: only of those with equal figures.",
    ..Parameter::BASE
};

pub const RATED: InputPort = InputPort {
    name: "rated",
    optional: true,
    doc: "Ranks of the same candidates by people, of `rate.result`: of those that meet the \
          requirements the one that people prefer is chosen, and `prefer` decides between those \
          that people do not tell apart. Without votes, `prefer` decides alone.",
    takes: &[artifact::RATED],
    reads: FieldSet::These(&[("report", FieldType::Blob)]),
    ..InputPort::ARTIFACT
};

/// The fields of expressions in these parameters.
pub fn fields_in(parameters: &Parameters, names: &[&str]) -> Vec<(String, FieldType)> {
    fn texts(value: &ParameterValue) -> Vec<&str> {
        match value {
            ParameterValue::Text(text) => vec![text],
            ParameterValue::List(values) => values.iter().flat_map(texts).collect(),
            ParameterValue::Map(values) => values.get("measure").map(texts).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
    let texts = names.iter().flat_map(|name| texts(parameters.get(name)));
    let mut fields: Vec<(String, FieldType)> = texts.flat_map(expression::fields).collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields.dedup();
    fields
}

pub static CHOOSE: Kind = Kind {
    name: "quality.choose",
    version: 2,
    summary: "Chooses the checkpoint that speaks best, beside the untuned base.",
    doc: "\
The checkpoint with the lowest loss need not have the best voice. This stage compares checkpoints by measures of the
sentences that `model.audition` let each of them speak, with the untuned model on its port `base`.

`require = [\"mean(cer) <= base + 0.01\", \"share(cer > 0.3 or stop != 'end') <= 0.02\"]` leaves out
checkpoints. `mean`, `median`, `p90`, `min` and `max` take a number of each sentence, `share` and `count` a
comparison; `base` is the value of the other side's measure for the untuned model. Numbers are
joined by `+ - * /`, comparisons by `and`, `or` and `not`. A checkpoint passes if the whole interval
of the difference does, at `confidence`: few sentences prove little, so few pass. The intervals come
from a bootstrap over whole sentences, the same for all checkpoints, and hold for all checkpoints at
once: more checkpoints do not make it easier to pass by chance.

`prefer = [{ measure = \"mean(similarity)\", better = \"higher\" }]` orders the others. A checkpoint is
out if another one is better in one measure and worse in none; then the measures decide in their
order. If nothing tells two apart, the one with fewer steps is chosen: it has kept more of the base.
The untuned base is always a candidate: if it speaks better, no checkpoint is chosen, and `none` decides.
If nothing tells a checkpoint and the base apart, the checkpoint is chosen, with a warning.

With `rated`, the ranks by people come before the measures in `prefer`. Checkpoints that were not in
the listening test are out as soon as there are votes.

A checkpoint without one of the figures for one of the sentences is out; if the base lacks one, the
stage fails. A missing figure never counts as 0.

The share `hold` of the sentences, selected by a hash, takes no part in the choice, and the report
has the figures of the chosen checkpoint for these. With `hold = 0`, show other sentences to
`quality.gain`. The result is a model, or adapters, as `dataset.item` selects them.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::Derived(Derived {
                names: |parameters| fields_in(parameters, &["require", "prefer"]),
                parameter: "require",
                also: PLACE,
            }),
            doc: "Measured sentences of `model.audition`.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "checkpoints",
            reads: FieldSet::All,
            doc: "The `checkpoints` of the training, which spoke the sentences.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "base",
            optional: true,
            doc: "The untuned model, as the result if no checkpoint is chosen.",
            ..InputPort::ARTIFACT
        },
        RATED,
    ],
    outputs: &[
        OutputPort {
            name: "model",
            open: true,
            doc: "The chosen checkpoint with all its fields: a model or adapters.",
            ..OutputPort::ARTIFACT
        },
        OutputPort {
            name: "report",
            writes: &[("report", FieldType::Blob), ("chosen", FieldType::Text)],
            doc: "Each checkpoint beside the base, with intervals, and the reason why it was not \
                  chosen, as JSON; and the name of the `chosen` one.",
            gives: &[artifact::REPORT],
            ..OutputPort::ARTIFACT
        },
    ],
    parameters: &[
        REQUIRE,
        PREFER,
        BASE_NAME,
        CONFIDENCE,
        BOOTSTRAP,
        LEAST,
        HOLD,
        TIE,
        Parameter {
            name: "none",
            parameter_type: ParameterType::Choice(&["base", "fail"]),
            default: Default::Text("base"),
            doc: "The result if no checkpoint meets the requirements, or the base is better than all: the \
                  model on `base`, or an error that has the reasons.",
            ..Parameter::BASE
        },
        SEED,
    ],
    ..Kind::BASE
};

pub static GAIN: Kind = Kind {
    name: "quality.gain",
    version: 2,
    summary: "Shows the gain of each model over the untuned base.",
    doc: "\
`measures = [\"mean(cer)\", \"share(cer > 0.3)\"]`, as for `quality.choose`. Each measure of each
model has an interval and stands beside that of the base, with the difference over the same sentences and its
interval, from a bootstrap over whole sentences. An interval that contains 0 shows no difference. The stage
fails if a model lacks a sentence or a figure that another one has; `missing = \"report\"` allows missing
sentences, since an untuned model may not speak all of them.

`recordings` is the ceiling: real recordings, measured by the same stages. A recogniser makes errors on them
too, and even recordings of one voice are not fully similar to each other. For a model that speaks through a codec, `decoded` has the same
recordings after that codec. A warning says if the sentences are much longer or shorter than the recordings.

The figures are fair only for sentences that took no part in the choice of a model.",
    work: Work::Gather,
    cost: Cost::Rates(Rates::LIGHT),
    inputs: &[
        InputPort {
            reads: FieldSet::Derived(Derived {
                names: |parameters| fields_in(parameters, &["measures"]),
                parameter: "measures",
                also: PLACE,
            }),
            may_read: &[("step", FieldType::Number), ("text", FieldType::Text)],
            doc: "Measured sentences of `model.audition`.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "recordings",
            optional: true,
            reads: FieldSet::All,
            doc: "Measured recordings, preferably of the same sentences.",
            ..InputPort::DATASET
        },
        InputPort {
            name: "decoded",
            optional: true,
            reads: FieldSet::All,
            doc: "Measured recordings that went through the codec of the model.",
            ..InputPort::DATASET
        },
    ],
    outputs: &[OutputPort {
        writes: &[("report", FieldType::Blob)],
        doc: "The table, as JSON.",
        gives: &[artifact::REPORT],
        ..OutputPort::ARTIFACT
    }],
    parameters: &[
        Parameter {
            name: "measures",
            parameter_type: ParameterType::List(&MEASURE),
            doc: "The measures of the table.",
            ..Parameter::BASE
        },
        BASE_NAME,
        CONFIDENCE,
        BOOTSTRAP,
        SEED,
        Parameter {
            name: "missing",
            parameter_type: ParameterType::Choice(&["fail", "report"]),
            default: Default::Text("fail"),
            doc: "A sentence that a model lacks, for example because the stage that should have spoken it \
                  quarantined it: fail the stage, or compare each model on the sentences that it \
                  and the base have, and report the number of missing ones.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};
