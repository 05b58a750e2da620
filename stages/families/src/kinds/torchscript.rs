//! The kinds that run a TorchScript module of the user.

use stage_core::output_types::NUMBER;
use stage_core::{
    Default, Derived, FieldSet, FieldType, InputPort, Kind, Mistake, OutputPort, Parameter,
    ParameterType, ParameterValue, Parameters, Place, Role, Unit, Verdicts,
};

use super::parameters::LONGEST;

pub const KINDS: &[&Kind] = &[&APPLY, &EMBED, &RATE];

/// The name in `returns` of a value that is not needed.
pub const UNUSED: &str = "_";
/// The kind of a file with an embedding.
pub const EMBEDDING_KIND: &str = "embedding/npy";
/// The forms of the input.
pub const AUDIO: &str = "audio";
pub const ARRAY: &str = "array";
/// The inputs of an embedder.
pub const SAMPLES: &str = "samples";
pub const FBANK: &str = "fbank";

/// The format of files with arrays.
const ARRAY_FORMAT: &str = "/npy";

const RECORDINGS: InputPort = InputPort {
    reads: FieldSet::These(&[("audio", FieldType::Blob)]),
    doc: "Recordings as mono `audio/wav` at `rate`.",
    ..InputPort::DATASET
};

const MODULE: InputPort = InputPort {
    name: "module",
    reads: FieldSet::All,
    doc: "The module as one file, which `torch.jit.save` has written: an asset, or an artifact of \
        `command.once` or `python.all`.",
    ..InputPort::ARTIFACT
};

const HERTZ: Parameter = Parameter {
    name: "rate",
    parameter_type: ParameterType::Integer { min: 1_000, max: 384_000 },
    default: Default::Integer(16_000),
    unit: Unit::Hertz,
    doc: "The sample rate that the module expects. Recordings at another rate are quarantined: put \
        `audio.resample` before this stage.",
    ..Parameter::BASE
};

const DIMENSIONS: Parameter = Parameter {
    name: "dimensions",
    parameter_type: ParameterType::Integer { min: 1, max: 3 },
    default: Default::Integer(2),
    doc: "The shape of the sound that the module gets: 1 is `[samples]`, 2 is `[1, samples]`, 3 is \
        `[1, 1, samples]`.",
    ..Parameter::BASE
};

const METHOD: Parameter = Parameter {
    name: "method",
    default: Default::Text("forward"),
    doc: "The method of the module that is called.",
    ..Parameter::BASE
};

const SEED: Parameter = Parameter {
    name: "seed",
    parameter_type: ParameterType::Integer { min: 0, max: i64::MAX },
    default: Default::PipelineSeed,
    doc: "The seed of the random numbers that a module draws: the same for each item.",
    ..Parameter::BASE
};

const TAKEN: Parameter = Parameter {
    name: "output",
    default: Default::Absent,
    doc: "The value to take if the module returns several: its position from 0, or its name in a \
        dictionary.",
    ..Parameter::BASE
};

const LONGEST_SOUND: Parameter = Parameter {
    doc: "Longer recordings are quarantined: a module gets a recording whole.",
    ..LONGEST
};

const ON_FAILURE: Parameter = Parameter {
    name: "on_failure",
    parameter_type: ParameterType::Choice(&["reject", "reject-all", "fail"]),
    default: Default::Text("reject"),
    role: Role::Execution,
    doc: "For an exception in the module: `reject` quarantines the item, and fails the stage if the \
        first 20 items fail alike; `reject-all` always quarantines the item; `fail` ends the run.",
    ..Parameter::BASE
};

pub static APPLY: Kind = Kind {
    name: "torchscript.apply",
    summary: "Calls a TorchScript module for every item.",
    doc: "\
The module is a file that `torch.jit.save` has written, after `torch.jit.script` or
`torch.jit.trace`. It runs on libtorch in the worker, without Python, in evaluation mode and f32, on
`device`. It is a program: run only modules that you trust.

With `form = \"audio\"` the module gets a recording as f32 samples from -1 to 1; with
`form = \"array\"` an array of a NumPy file as f32, with axes of length 1 in front up to
`dimensions`. It returns a number, a tensor, a tuple or list of these, or a dictionary with texts as
keys. One value is the only output; the values of a tuple, and those of a vector of several numbers,
are named in their order in `returns`; a dictionary has the names of the outputs.

Items are computed one by one, and the optimiser of graphs is off, so a result depends neither on
other items nor on their order. A module that changes itself while it runs, such as one that counts
its calls, breaks this rule, and its results are not reproducible.

An output replaces a field of the same name. An exception in the module quarantines the item with
the last line of its message, as do values that are not finite. Output that the module prints goes
to the log.",
    place: Place::Worker,
    verdicts: Verdicts::OfProgram { parameter: "on_failure", unless: "reject-all" },
    inputs: &[
        InputPort {
            reads: FieldSet::Derived(Derived { names: read_field, parameter: "field", also: &[] }),
            doc: "Items with mono `audio/wav` at `rate`, or with arrays.",
            ..InputPort::DATASET
        },
        MODULE,
    ],
    outputs: &[OutputPort {
        open: true,
        doc: "The items with the outputs as fields.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        Parameter {
            name: "field",
            default: Default::Text("audio"),
            doc: "The field that the module gets.",
            ..Parameter::BASE
        },
        Parameter {
            name: "form",
            parameter_type: ParameterType::Choice(&[AUDIO, ARRAY]),
            default: Default::Text(AUDIO),
            doc: "The form of the field: a recording, or an array of floats or integers.",
            ..Parameter::BASE
        },
        Parameter { default: Default::Absent, doc: RATE_OF_AUDIO, ..HERTZ },
        Parameter {
            parameter_type: ParameterType::Integer { min: 1, max: 8 },
            default: Default::Absent,
            doc: "The number of dimensions of the tensor: for a recording 1 is `[samples]`, 2 is \
                `[1, samples]` and 3 is `[1, 1, samples]`. Default: 2 for a recording, and those of \
                the array.",
            ..DIMENSIONS
        },
        METHOD,
        Parameter {
            name: "outputs",
            parameter_type: ParameterType::Map(&ParameterType::Text),
            doc: "The outputs by name: `number`, or the kind of an array such as `features/npy`. \
                Floats are written as f32, integers as i64.",
            ..Parameter::BASE
        },
        Parameter {
            name: "returns",
            parameter_type: ParameterType::List(&ParameterType::Text),
            default: Default::Texts(&[]),
            doc: "The outputs in the order in which the module returns them, `_` for a value that \
                is not needed. Not given for one value and for a dictionary.",
            ..Parameter::BASE
        },
        LONGEST_SOUND,
        SEED,
        ON_FAILURE,
    ],
    check: mistakes,
    ..Kind::BASE
};

const RATE_OF_AUDIO: &str = "The sample rate of recordings, which `form = \"audio\"` needs. Recordings \
    at another rate are quarantined: put `audio.resample` before this stage.";

pub static EMBED: Kind = Kind {
    name: "speaker.embed",
    summary: "Computes a speaker embedding of each recording with a TorchScript module.",
    doc: "\
The module is an embedder of your own as for `torchscript.apply`: it gets a recording as f32 samples,
or its filter banks, and returns a vector.

`embedding` has length 1, so that the scalar product of two embeddings is their cosine. `halves` is
the cosine between the first and the second half of the recording: it is low where the speaker
changes. Recordings shorter than twice `shortest` have no `halves`.",
    place: Place::Worker,
    verdicts: Verdicts::OfProgram { parameter: "on_failure", unless: "reject-all" },
    inputs: &[RECORDINGS, MODULE],
    outputs: &[OutputPort {
        writes: &[("embedding", FieldType::Blob), ("halves", FieldType::Number)],
        doc: "The recordings with `embedding` (`embedding/npy`, one dimension of f32) and `halves`.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        HERTZ,
        Parameter {
            name: "features",
            parameter_type: ParameterType::Choice(&[SAMPLES, FBANK]),
            default: Default::Text(SAMPLES),
            doc: "The input of the module: `samples`, or `fbank`, which modules of WeSpeaker \
                expect. Those are filter banks `[1, frames, 80]` as Kaldi computes them: frames of \
                25 ms each 10 ms, a Hamming window, and the mean over time removed.",
            ..Parameter::BASE
        },
        Parameter {
            doc: "The shape of the samples that the module gets: 1 is `[samples]`, 2 is \
                `[1, samples]`, 3 is `[1, 1, samples]`.",
            ..DIMENSIONS
        },
        METHOD,
        TAKEN,
        Parameter {
            name: "shortest",
            parameter_type: ParameterType::Duration,
            default: Default::Seconds(0.5),
            unit: Unit::Seconds,
            doc: "Shorter recordings are quarantined, since an embedding says little about them.",
            ..Parameter::BASE
        },
        LONGEST_SOUND,
        SEED,
        ON_FAILURE,
    ],
    ..Kind::BASE
};

pub static RATE: Kind = Kind {
    name: "quality.rate",
    summary: "Rates recordings with a TorchScript module, such as a predictor of MOS.",
    doc: "\
The module is a predictor of your own as for `torchscript.apply`: it gets a recording as f32 samples
and returns a number. Predictors of several numbers need `torchscript.apply`, or `output`.

Some predictors were trained on windows of one length: with `window`, the module hears a window each
`hop`, and `mos` is the mean. A recording shorter than a window is repeated until it fills one.
`dataset.filter` keeps recordings by `mos`.",
    place: Place::Worker,
    verdicts: Verdicts::OfProgram { parameter: "on_failure", unless: "reject-all" },
    inputs: &[RECORDINGS, MODULE],
    outputs: &[OutputPort {
        writes: &[("mos", FieldType::Number)],
        doc: "The recordings with `mos`.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        HERTZ,
        DIMENSIONS,
        METHOD,
        TAKEN,
        Parameter {
            name: "window",
            parameter_type: ParameterType::Duration,
            default: Default::Absent,
            unit: Unit::Seconds,
            doc: "The length of the sound that the module hears at a time. Default: the recording.",
            ..Parameter::BASE
        },
        Parameter {
            name: "hop",
            parameter_type: ParameterType::Duration,
            default: Default::Seconds(1.0),
            unit: Unit::Seconds,
            doc: "The time from one window to the next.",
            ..Parameter::BASE
        },
        LONGEST_SOUND,
        SEED,
        ON_FAILURE,
    ],
    check: window_mistakes,
    ..Kind::BASE
};

fn read_field(parameters: &Parameters) -> Vec<(String, FieldType)> {
    let field = parameters.text("field").ok();
    field.into_iter().map(|name| (name.to_owned(), FieldType::Blob)).collect()
}

fn mistakes(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut wrong = |parameter, message: String, help: &str| {
        let help = (!help.is_empty()).then(|| help.to_owned());
        mistakes.push(Mistake { parameter, message, help });
    };
    let is_audio = parameters.text("form") == Ok(AUDIO);
    if !unknown.contains(&"form") && !unknown.contains(&"rate") {
        match (is_audio, parameters.is_set("rate")) {
            (true, false) => {
                let message = "a recording needs the sample rate of the module".to_owned();
                wrong("form", message, "write `rate = 16000`, or the rate that it was trained on");
            }
            (false, true) => wrong("rate", "an array has no sample rate".to_owned(), ""),
            _ => {}
        }
    }
    if is_audio && parameters.integer("dimensions").is_ok_and(|count| count > 3) {
        let message = "a recording has at most 3 dimensions".to_owned();
        wrong("dimensions", message, "write 3 for `[1, 1, samples]`");
    }
    let outputs = parameters.map("outputs").unwrap_or_default();
    for (name, value) in &outputs {
        let ParameterValue::Text(kind) = value else { continue };
        if !is_type(kind) || !is_name(name) {
            let (name, kind) = (name.escape_debug(), kind.escape_debug());
            let message = format!("output `{name}` cannot be `{kind}`");
            wrong("outputs", message, "write `number`, or the kind of an array: `features/npy`");
        }
    }
    let returns = parameters.texts("returns").unwrap_or_default();
    if unknown.contains(&"outputs") || unknown.contains(&"returns") || returns.is_empty() {
        if outputs.is_empty() && !unknown.contains(&"outputs") {
            wrong(
                "outputs",
                "there is no output".to_owned(),
                "write `outputs = { mos = \"number\" }`",
            );
        }
        return mistakes;
    }
    let named: Vec<&str> = returns.iter().copied().filter(|name| *name != UNUSED).collect();
    for (at, name) in named.iter().enumerate() {
        let why = match (named[..at].contains(name), outputs.contains_key(name)) {
            (true, _) => "listed twice",
            (false, false) => "not in `outputs`",
            (false, true) => continue,
        };
        let message = format!("`{}` is {why}", name.escape_debug());
        wrong("returns", message, "write `_` for a value that is not needed");
    }
    for name in outputs.keys().filter(|name| !named.contains(name)) {
        wrong("returns", format!("the output `{}` is missing", name.escape_debug()), "");
    }
    mistakes
}

fn window_mistakes(parameters: &Parameters, _unknown: &[&str]) -> Vec<Mistake> {
    let is_zero = |name: &&str| parameters.seconds(name).is_ok_and(|seconds| seconds < 1e-3);
    let mistake = |name| Mistake {
        parameter: name,
        message: "the time is shorter than a millisecond".to_owned(),
        help: None,
    };
    ["window", "hop"].into_iter().filter(is_zero).map(mistake).collect()
}

fn is_type(kind: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.+".contains(letter);
    let is_word =
        |word: &str| !word.is_empty() && !word.starts_with('.') && word.chars().all(is_plain);
    kind == NUMBER || kind.strip_suffix(ARRAY_FORMAT).is_some_and(is_word)
}

fn is_name(name: &str) -> bool {
    let is_plain = !name.chars().any(|letter| letter.is_control() || letter == '/');
    !name.is_empty() && name != UNUSED && !name.starts_with('.') && is_plain
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    fn text(text: &str) -> ParameterValue {
        ParameterValue::Text(text.to_owned())
    }

    fn of(
        outputs: &[(&str, &str)],
        returns: &[&str],
        more: &[(&str, ParameterValue)],
    ) -> Vec<String> {
        let outputs = outputs.iter().map(|(name, kind)| ((*name).to_owned(), text(kind)));
        let mut values: BTreeMap<String, ParameterValue> = [
            ("form".to_owned(), text(AUDIO)),
            ("rate".to_owned(), ParameterValue::Integer(8_000)),
            ("outputs".to_owned(), ParameterValue::Map(outputs.collect())),
            (
                "returns".to_owned(),
                ParameterValue::List(returns.iter().map(|name| text(name)).collect()),
            ),
        ]
        .into();
        values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let found = mistakes(&Parameters(values), &[]);
        found.into_iter().map(|one| format!("{}: {}", one.parameter, one.message)).collect()
    }

    #[test]
    fn outputs_are_numbers_or_arrays_and_returns_names_each_of_them_once() {
        let good = [("mos", NUMBER), ("frames", "features/npy")];
        assert_eq!(of(&good, &["mos", "_", "frames", "_"], &[]), [""; 0]);
        assert_eq!(of(&good[..1], &[], &[]), [""; 0]);
        assert_eq!(of(&[], &[], &[]), ["outputs: there is no output"]);
        assert_eq!(of(&[("x", "text")], &[], &[]), ["outputs: output `x` cannot be `text`"]);
        assert_eq!(of(&[("_", NUMBER)], &[], &[]), ["outputs: output `_` cannot be `number`"]);
        assert_eq!(
            of(&good, &["mos", "mos", "noise"], &[]),
            [
                "returns: `mos` is listed twice",
                "returns: `noise` is not in `outputs`",
                "returns: the output `frames` is missing"
            ]
        );
    }

    #[test]
    fn a_recording_needs_a_rate_and_an_array_has_none() {
        let outputs = [("mos", NUMBER)];
        let without = of(&outputs, &[], &[("rate", ParameterValue::Absent)]);
        assert_eq!(without, ["form: a recording needs the sample rate of the module"]);
        let array = of(&outputs, &[], &[("form", text(ARRAY))]);
        assert_eq!(array, ["rate: an array has no sample rate"]);
        let none = of(&outputs, &[], &[("form", text(ARRAY)), ("rate", ParameterValue::Absent)]);
        assert_eq!(none, [""; 0]);
        let four = of(&outputs, &[], &[("dimensions", ParameterValue::Integer(4))]);
        assert_eq!(four, ["dimensions: a recording has at most 3 dimensions"]);
    }
}
