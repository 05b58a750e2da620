//! The ports and parameters that trainings and syntheses of several families have.

use crate::kinds::parameters::{absent, at_least_one, choice, count, number};
use stage_core::artifact::LOG as LOG_WORD;
use stage_core::{
    Default, FieldSet, FieldType, InputPort, OutputPort, Parameter, ParameterType, Role,
};

type Named = &'static [(&'static str, FieldType)];

/// The type of names and patterns in lists.
const TEXTS: ParameterType = ParameterType::List(&ParameterType::Text);

/// The port of held-out clips.
pub const fn validation(reads: Named, may_read: Named) -> InputPort {
    InputPort {
        name: "validation",
        reads: FieldSet::These(reads),
        may_read,
        optional: true,
        doc: "Held-out clips. A clip that is also on `input` is not trained on.",
        ..InputPort::DATASET
    }
}

/// The fields that every model has beside tensors and tokenizer.
pub const MODEL_FIELDS: Named = &[("config", FieldType::Blob), ("family", FieldType::Text)];

pub const LOG: OutputPort = OutputPort {
    name: "log",
    writes: &[("metrics", FieldType::Blob), ("events", FieldType::Blob)],
    doc: "`metrics`: losses, norms, learning rate and epochs by step, as JSON. `events`: the same \
          and the parameters as an event file of TensorBoard, with one second per step, so that \
          equal runs give equal files. Figures that the original project also has are under its \
          names.",
    gives: &[LOG_WORD],
    ..OutputPort::ARTIFACT
};

/// Trained adapters of this family.
pub const fn adapters(gives: &'static [&'static str]) -> OutputPort {
    OutputPort {
        name: "adapters",
        writes: &[("family", FieldType::Text), ("lineage", FieldType::Text)],
        open: true,
        doc: "The adapters alone, one field `tensor/NAME` for each matrix, and `lineage`: their \
              base, rank and alpha, as JSON.",
        gives,
        ..OutputPort::ARTIFACT
    }
}

pub const fn patterns(name: &'static str, default: Default, doc: &'static str) -> Parameter {
    Parameter { name, parameter_type: TEXTS, default, doc, ..Parameter::BASE }
}

/// A size of a new model; if it is absent, the stage chooses it.
pub const fn figure(name: &'static str, largest: i64, doc: &'static str) -> Parameter {
    absent(at_least_one(count(name, 0, doc), largest))
}

/// The parameters of adapters; the dropout has another name where the model has one of its own.
pub const fn lora(
    (rank, alpha): (i64, f64),
    (dropout_name, dropout): (&'static str, f64),
    modules: &'static [&'static str],
) -> [Parameter; 4] {
    [
        at_least_one(count("rank", rank, "The inner width of the adapters."), 10_000_000),
        number("alpha", 1e6, alpha, "The output of the adapters is scaled by `alpha` / `rank`."),
        number(dropout_name, 0.99, dropout, "The dropout on the input of each adapter."),
        patterns(
            "modules",
            Default::Texts(modules),
            "Patterns of the modules that get an adapter; `*` stands for anything. The notes have the \
             number of matches of each; a pattern without matches is an error.",
        ),
    ]
}

/// The speaking rate that durations are compared with.
pub const CHARACTERS_PER_SECOND: Parameter = Parameter {
    parameter_type: ParameterType::Number { min: 0.1, max: 1000.0 },
    ..number("characters_per_second", 1000.0, 14.0, "The speaking rate of the language.")
};

/// The compute type of a synthesis.
pub const PRECISION: Parameter = choice(
    "precision",
    &["auto", "f32", "bf16", "fp16"],
    "The compute type; `auto`: the type of the stored model, and f32 on the CPU.",
);

/// The sentences that are spoken at once.
pub const BATCH: Parameter = Parameter {
    role: Role::Execution,
    ..at_least_one(
        count(
            "batch",
            8,
            "Sentences, or pieces of long ones, that are spoken at once; halved if they do not fit into \
             memory.",
        ),
        65_536,
    )
};
