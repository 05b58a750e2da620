//! The parameters that every training stage has, and parameters of kinds of several families.

use stage_core::artifact::WEIGHTS;
use stage_core::course::{self, SAVE_EVERY, VALIDATE_EVERY};
use stage_core::device::DeviceId;
use stage_core::{
    Default, FieldType, Mistake, ON_CHANGE, OutputPort, Parameter, ParameterType, Parameters,
    PortType, Role, StageError, Unit,
};

/// Two lists of parameters as one.
pub const fn join<const A: usize, const B: usize, const C: usize>(
    first: [Parameter; A],
    second: [Parameter; B],
) -> [Parameter; C] {
    assert!(A + B == C, "the length of the joined list");
    let mut all = [Parameter::BASE; C];
    let mut at = 0;
    while at < C {
        all[at] = if at < A { first[at] } else { second[at - A] };
        at += 1;
    }
    all
}

pub const fn count(name: &'static str, default: i64, doc: &'static str) -> Parameter {
    Parameter {
        name,
        parameter_type: ParameterType::Integer { min: 0, max: 1_000_000_000 },
        default: Default::Integer(default),
        unit: Unit::Count,
        doc,
        ..Parameter::BASE
    }
}

pub const fn at_least_one(parameter: Parameter, max: i64) -> Parameter {
    Parameter { parameter_type: ParameterType::Integer { min: 1, max }, ..parameter }
}

pub const fn number(name: &'static str, max: f64, default: f64, doc: &'static str) -> Parameter {
    Parameter {
        name,
        parameter_type: ParameterType::Number { min: 0.0, max },
        default: Default::Number(default),
        doc,
        ..Parameter::BASE
    }
}

pub const fn duration(name: &'static str, seconds: f64, doc: &'static str) -> Parameter {
    let (parameter_type, default) = (ParameterType::Duration, Default::Seconds(seconds));
    Parameter { name, parameter_type, default, doc, ..Parameter::BASE }
}

pub const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    doc: &'static str,
) -> Parameter {
    let parameter_type = ParameterType::Choice(words);
    Parameter { name, parameter_type, default: Default::Text(words[0]), doc, ..Parameter::BASE }
}

const fn flag(name: &'static str, default: bool, doc: &'static str) -> Parameter {
    let parameter_type = ParameterType::Flag;
    Parameter { name, parameter_type, default: Default::Flag(default), doc, ..Parameter::BASE }
}

/// Counted in steps, or a share of all steps.
const fn or_share(parameter: Parameter) -> Parameter {
    let parameter_type = match parameter.parameter_type {
        ParameterType::Integer { min, max } => ParameterType::CountOrShare { min, max },
        other => other,
    };
    Parameter { parameter_type, ..parameter }
}

const fn execution(parameter: Parameter) -> Parameter {
    Parameter { role: Role::Execution, ..parameter }
}

pub const fn absent(parameter: Parameter) -> Parameter {
    Parameter { default: Default::Absent, ..parameter }
}

/// Tests if a parameter has a value that is known.
pub fn given(parameters: &Parameters, unknown: &[&str], name: &str) -> bool {
    parameters.is_set(name) && !unknown.contains(&name)
}

/// The value of a parameter that is set and known.
pub fn known<'a, T>(
    parameters: &'a Parameters,
    unknown: &[&str],
    name: &str,
    read: impl FnOnce(&'a Parameters, &str) -> Result<T, StageError>,
) -> Option<T> {
    given(parameters, unknown, name).then(|| read(parameters, name).ok()).flatten()
}

/// A number that must be more than 0, for the `check` of a kind.
pub fn not_zero(parameters: &Parameters, unknown: &[&str], name: &'static str) -> Vec<Mistake> {
    match known(parameters, unknown, name, Parameters::number) {
        Some(0.0) => vec![Mistake {
            parameter: name,
            message: format!("`{name}` is 0, expected more than 0"),
            help: None,
        }],
        _ => Vec::new(),
    }
}

/// Mistakes in the parameters of every training: a GPU that `devices` names twice, devices without work, moments that never move, and a division by zero where a
/// gradient is 0.
pub fn training_mistakes(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let names = known(parameters, unknown, "devices", Parameters::devices).unwrap_or_default();
    let devices = names.iter().map(|name| name.first());
    let gpus: Vec<DeviceId> = devices.filter(|device| device.is_gpu()).collect();
    let again = (1..gpus.len()).find(|at| gpus[..*at].contains(&gpus[*at]));
    let twice = again.map(|at| Mistake {
        parameter: "devices",
        message: format!("`devices` has `{}` twice", gpus[at]),
        help: Some("name each GPU once; `cuda` is `cuda:0`".to_owned()),
    });
    let still = ["beta_1", "beta_2"].into_iter().filter(|name| {
        known(parameters, unknown, name, Parameters::number).is_some_and(|beta| beta >= 1.0)
    });
    let still = still.map(|parameter| Mistake {
        parameter,
        message: format!("`{parameter}` is 1, expected less than 1"),
        help: None,
    });
    let count = names.len() as i64;
    let is_known = ["batch", "accumulation"].iter().all(|name| given(parameters, unknown, name));
    let rows = is_known.then(|| course::rows_of_step(parameters).ok()).flatten();
    let idle = rows.map(|rows| rows as i64).filter(|rows| *rows < count).map(|rows| Mistake {
        parameter: "devices",
        message: format!("a step has {rows} rows for {count} devices: some would have no work"),
        help: Some("more rows by `batch` or `accumulation`, or fewer `devices`".to_owned()),
    });
    let zero = not_zero(parameters, unknown, "epsilon");
    twice.into_iter().chain(idle).chain(still).chain(zero).collect()
}

/// The longest recording whose length counts twice.
pub const LONGEST: Parameter = Parameter {
    name: "longest",
    parameter_type: ParameterType::Duration,
    default: Default::Seconds(60.0),
    unit: Unit::Seconds,
    doc: "Longer recordings are quarantined: time and memory grow with the product of the lengths.",
    ..Parameter::BASE
};

pub const SEED: Parameter = Parameter {
    name: "seed",
    parameter_type: ParameterType::Integer { min: 0, max: i64::MAX },
    default: Default::PipelineSeed,
    doc: "The seed of random numbers.",
    ..Parameter::BASE
};

/// The checkpoints that a training kept: models or adapters.
pub const fn checkpoints(of: &'static [&'static str]) -> OutputPort {
    OutputPort { brings: of, ..CHECKPOINTS }
}

const CHECKPOINTS: OutputPort = OutputPort {
    name: "checkpoints",
    port_type: PortType::Dataset,
    writes: &[("step", FieldType::Number), (WEIGHTS, FieldType::Blob)],
    passes: None,
    open: true,
    doc: "The best `keep` states, those of `keep_every`, and the last one, as `step-400`: `step`, `held_out` (the loss on \
          held-out clips, where it was measured), all fields of a model or of adapters, and \
          `weights`, which names those fields in one file. A tensor that did not change is stored \
          once. `model.audition` reads all of them, `dataset.item` selects one.",
    ..OutputPort::DATASET
};

/// The parameter of [`TRAINING`] with this name, for families that do not have all of them.
pub const fn shared(name: &str) -> Parameter {
    from::<1>(name)[0]
}

/// The first `N` parameters of [`TRAINING`] from this name on.
pub const fn from<const N: usize>(name: &str) -> [Parameter; N] {
    let mut first = 0;
    while !is_same(TRAINING[first].name, name) {
        first += 1;
        assert!(first < COUNT, "no training stage has a parameter of this name");
    }
    let mut all = [Parameter::BASE; N];
    let mut at = 0;
    while at < N {
        all[at] = TRAINING[first + at];
        at += 1;
    }
    all
}

/// A shared parameter that is a number, with another default.
pub const fn with_number(name: &str, default: f64) -> Parameter {
    Parameter { default: Default::Number(default), ..shared(name) }
}

/// A shared parameter that is a count, with another default.
pub const fn with_count(name: &str, default: i64) -> Parameter {
    Parameter { default: Default::Integer(default), ..shared(name) }
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The end of a rung of a sweep.
pub const UNTIL: Parameter = absent(or_share(at_least_one(
    count(
        course::UNTIL,
        0,
        "The training ends after this step, or share of all steps, while its schedule goes on to \
            the last one. Sweeps with `rungs` set this; do not set it by hand there. A longer training continues \
            from the last state of this one, and ends with the same bits as one that was never interrupted.",
    ),
    1_000_000_000,
)));

pub const COUNT: usize = 36;

/// Duration, learning rate, batches, precision, and kept checkpoints.
pub const TRAINING: [Parameter; COUNT] = [
    absent(at_least_one(
        count("steps", 0, "Optimiser steps. Give either this or `epochs`."),
        1_000_000_000,
    )),
    absent(number("epochs", 1e6, 0.0, "Passes over the clips, in place of `steps`.")),
    number("learning_rate", 10.0, 1e-4, "The learning rate after the warm-up."),
    or_share(count(
        "warm_up",
        10,
        "Steps over which the learning rate rises from 0, or a share of all steps. It ends before \
         the training does.",
    )),
    choice(
        "schedule",
        &["constant", "linear", "cosine", "exponential"],
        "The learning rate schedule after the warm-up: constant, or a decay to `final_rate` of it \
            at the last step.",
    ),
    number("final_rate", 1.0, 0.1, "The final learning rate, relative to `learning_rate`."),
    at_least_one(count("batch", 4, "Rows of clips that are computed at a time."), 65_536),
    at_least_one(
        count(
            "accumulation",
            1,
            "Batches per optimiser step. Every token has the same weight, whichever batch it is \
                in.",
        ),
        65_536,
    ),
    at_least_one(
        count(
            "max_length",
            4096,
            "The longest row, in tokens. A row has whole clips; a longer clip is quarantined.",
        ),
        1_000_000,
    ),
    choice(
        "precision",
        &["auto", "f32", "tf32", "bf16", "fp16"],
        "Number format of the computation. Weights stay in f32, and fp16 uses loss scaling. `tf32` \
            is f32 with matrix products and convolutions of ten bits of precision; only this \
            format uses TF32. `auto`: bf16 if the GPU supports it, fp16 on older ones, f32 on the \
            CPU; the result is also found under the selected format. Unsupported formats are \
            refused.",
    ),
    choice(
        "attention",
        &["auto", "flash", "efficient", "math"],
        "Kernel of scaled dot product attention. `auto`: the fastest that libtorch finds. `flash` \
         needs a CPU or compute capability 8.0, `efficient` any GPU; `math` keeps the whole \
         attention matrix in memory, and computes everything that the chosen kernel does not \
         support.",
    ),
    flag(
        "packing",
        true,
        "Rows hold several whole clips, up to `max_length`; off, each row holds one clip, padded \
            to the longest of its batch.",
    ),
    choice(
        "optimizer",
        &["adamw", "fused_adamw"],
        "`fused_adamw` updates each tensor in one pass over its memory; on a GPU, `adamw` does so \
            too. Both compute AdamW, but round in a different order.",
    ),
    number(
        "weight_decay",
        10.0,
        0.0,
        "Decoupled; never on biases, norms and the embeddings of words.",
    ),
    number("beta_1", 1.0, 0.9, "Of AdamW."),
    number("beta_2", 1.0, 0.95, "Of AdamW."),
    number("epsilon", 1.0, 1e-5, "Of AdamW."),
    number("clip", 1e9, 1.0, "The largest norm of all gradients together; 0 for none."),
    execution(flag(
        "gradient_checkpointing",
        true,
        "Recomputes layers in the backward pass instead of keeping their activations: a third \
            slower, with a fraction of the memory. On the CPU, gradients are the same to the bit; on \
            a GPU, to rounding.",
    )),
    number(
        "validation_fraction",
        0.5,
        0.05,
        "The share of clips that is held out without the port `validation`; selected by a hash of \
            the clip, so that other clips move none. A clip with another text or sound is another \
            clip and may change sides: `dataset.split` goes by ids. Of several clips at least one \
            is held out, unless this is 0.",
    ),
    or_share(at_least_one(
        count(
            "validate_every",
            VALIDATE_EVERY,
            "Steps between validations, or a share of all steps.",
        ),
        1_000_000_000,
    )),
    count(
        "patience",
        0,
        "Training ends after this number of validations without a better held-out loss; 0: never \
         early. At least this number must come before the last step.",
    ),
    number(
        "min_delta",
        1e9,
        0.0,
        "The smallest decrease of the held-out loss that counts as better.",
    ),
    choice(
        "take",
        &["best", "last"],
        "The weights of the result: those with the lowest held-out loss, or the last ones.",
    ),
    count(
        "keep",
        1,
        "The number of states with the lowest held-out losses on `checkpoints`, besides the last \
            one.",
    ),
    absent(or_share(at_least_one(
        count(
            "keep_every",
            0,
            "Also keeps the state after each such number of steps, or share of all steps, on \
                `checkpoints`: states that no loss has selected, for `quality.choose`. Each state of \
                a whole model takes the disk space of a model.",
        ),
        1_000_000_000,
    ))),
    UNTIL,
    at_least_one(
        count(
            "max_skipped",
            20,
            "A step with a non-finite loss or gradient is skipped. After this number of such \
                steps in a row, training returns to its best state, once, and continues with the \
                next clips; after as many again it fails and names the clips.",
        ),
        1_000_000_000,
    ),
    execution(or_share(count(
        "save_every",
        SAVE_EVERY,
        "Steps between checkpoints, or a share of all steps. A stopped run resumes from its last \
            checkpoint. 0: by time alone. A request to stop always saves one.",
    ))),
    execution(duration("save_interval", 600.0, "The longest time between checkpoints.")),
    SEED,
    choice(
        "parity",
        &["corrected", "upstream"],
        "`upstream` trains as the original project does, defects included, which the description \
         of the stage lists. For comparisons only.",
    ),
    ON_CHANGE,
    execution(Parameter {
        name: "devices",
        parameter_type: ParameterType::List(&ParameterType::Device { or_auto: false }),
        default: Default::Devices(&[]),
        doc: "Devices that share each step, such as `[\"cuda:0\", \"cuda:1\"]`; if empty, the \
              device of the stage. A step has `batch` x `accumulation` rows on any number of \
              devices; its sums are rounded in a different order, as on another device.",
        ..Parameter::BASE
    }),
    execution(flag(
        "preflight",
        true,
        "Looks for mistakes that would ruin hours of training before it begins: see the \
         description of the stage.",
    )),
    execution(absent(at_least_one(
        count(
            "report_every",
            0,
            "Steps between reports of the loss during training; if not given, a hundredth of all \
             steps, and at most 10. The log does not depend on it.",
        ),
        1_000_000_000,
    ))),
];
