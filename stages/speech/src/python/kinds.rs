//! The kinds of the family `python`: the user's own Python programs.

use stage_core::device::DeviceName;
use stage_core::output_types::{NUMBER, TEXT};
use stage_core::{
    Batching, Default, FieldSet, InputPort, Kind, Mistake, OutputPort, Parameter, ParameterType,
    ParameterValue, Parameters, Role, Verdicts, Work,
};

pub const KINDS: &[&Kind] = &[&PYTHON, &ALL];

const SCRIPT: Parameter = Parameter {
    name: "script",
    parameter_type: ParameterType::File,
    doc: "The Python program. Its content is part of the key.",
    ..Parameter::BASE
};

const FUNCTION: Parameter = Parameter {
    name: "function",
    default: Default::Absent,
    doc: "The function of the script that is called. Default: the only one with `@stage`.",
    ..Parameter::BASE
};

const FILES: Parameter = Parameter {
    name: "files",
    parameter_type: ParameterType::Map(&ParameterType::File),
    default: Default::Absent,
    doc: "Files that the script imports or reads: the name beside the script, and the path. Their \
        content is part of the key: `files = { \"features.py\" = \"lib/features.py\" }`. Packages \
        of the interpreter are not tracked: name those that matter in `version`.",
    ..Parameter::BASE
};

const FIELDS: Parameter = Parameter {
    name: "fields",
    parameter_type: ParameterType::List(&ParameterType::Text),
    default: Default::Texts(&[]),
    doc: "The fields that the function sees. Only these make it run again. `id` is a field as well: \
        without it, an item under another id is the same item.",
    ..Parameter::BASE
};

const OUTPUTS: Parameter = Parameter {
    name: "outputs",
    parameter_type: ParameterType::Map(&ParameterType::Text),
    doc: "The outputs by name: `number`, `text`, or the kind of a file, such as `audio/wav`, \
        `tokens/npy` or `file/json`.",
    ..Parameter::BASE
};

const PARAMETERS: Parameter = Parameter {
    name: "parameters",
    parameter_type: ParameterType::Map(&ParameterType::Any),
    default: Default::Absent,
    doc: "Values for the program, which gets them as `setup.parameters`.",
    ..Parameter::BASE
};

const SEED: Parameter = Parameter {
    name: "seed",
    parameter_type: ParameterType::Integer { min: 0, max: i64::MAX },
    default: Default::PipelineSeed,
    doc: "The seed of each item is made of this and of the fields that the function sees.",
    ..Parameter::BASE
};

const VERSION: Parameter = Parameter {
    name: "version",
    default: Default::Absent,
    doc: "A text for everything else that the output depends on, such as `librosa 0.11`. Another \
        version runs the function again. If the script has a version of its own \
        (`@stage(version = …)`), it must be the same.",
    ..Parameter::BASE
};

const ENVIRONMENT: Parameter = Parameter {
    name: "environment",
    parameter_type: ParameterType::Map(&ParameterType::Text),
    default: Default::Absent,
    doc: "Variables that the program sees besides PATH, HOME, LC_ALL, TZ, TMPDIR, VIRTUAL_ENV, \
        CUDA_VISIBLE_DEVICES and those of Python.",
    ..Parameter::BASE
};

const INTERPRETER: Parameter = Parameter {
    name: "python",
    default: Default::Absent,
    role: Role::Execution,
    doc: "The interpreter, such as `.venv/bin/python`. Default: that of the active virtual \
        environment, else `python3`. Another interpreter does not run the function again: see \
        `version`.",
    ..Parameter::BASE
};

const DEVICES: Parameter = Parameter {
    name: "devices",
    parameter_type: ParameterType::List(&ParameterType::Device { or_auto: false }),
    default: Default::Devices(&[DeviceName::CPU]),
    role: Role::Execution,
    doc: "The devices that the program gets as `setup.device`, such as `[\"cuda:0\", \"cuda:1\"]`. \
        With GPUs there is one process per device.",
    ..Parameter::BASE
};

const THREADS: Parameter = Parameter {
    name: "threads",
    parameter_type: ParameterType::Integer { min: 1, max: 1024 },
    default: Default::Integer(1),
    role: Role::Execution,
    doc: "The threads that libraries such as numpy and torch use in one process.",
    ..Parameter::BASE
};

const VERIFY: Parameter = Parameter {
    name: "verify",
    parameter_type: ParameterType::Flag,
    default: Default::Flag(false),
    role: Role::Execution,
    doc: "Repeat one item of the first batch alone in a fresh process. Another result fails the \
        stage: the output of a stage may depend neither on other items nor on their order.",
    ..Parameter::BASE
};

const ARTIFACT: InputPort = InputPort {
    name: "artifact",
    optional: true,
    doc: "An asset or an artifact, such as a folder with a model: `setup.artifact` has its files.",
    ..InputPort::ARTIFACT
};

pub static PYTHON: Kind = Kind {
    name: "python",
    summary: "Calls a Python function for every item.",
    doc: "\
A Python process is started once per core or device and kept for the run, so a model is loaded once:

    from throstle import stage

    def load(setup):
        return Model(setup.parameters[\"size\"], setup.device)

    @stage(setup=load)
    def measure(item, model):
        return {\"score\": model.score(item[\"audio\"], item[\"text\"])}

Texts are `str`, numbers `float`, files paths. The function returns every declared output: a number,
a text, or for a file its bytes or the path of a file in the folder `item.out`. With
`@stage(batch=True)` it gets a list of at most `batch` items and returns a list. `item.seed` is the
seed of an item. `raise Reject(\"too short\")` quarantines the item. Output that the program prints
goes to the log.

An exception quarantines the item, according to `on_failure`; in a batch only the item that causes
it. A process that dies or exceeds `timeout` (which does not count loading) is started again with
half of the batch, until a single item remains; that item is retried and then quarantined for this
run. Faults of the machine, such as a full disk, are no verdicts. If the first 20 items of more than
20 fail alike, the stage fails with that message. It also fails if three items were tried alone
without an answer in time, and none had one.

The program must give the same output for an item in any batch and with any number of processes;
`verify` checks this.",
    batching: Batching::ByCount { parameter: "batch" },
    watches_time: true,
    verdicts: Verdicts::OfProgram { parameter: "on_failure", unless: "reject-all" },
    inputs: &[
        InputPort {
            reads: FieldSet::Named { parameter: "fields", also: &[] },
            doc: "Items; the function gets the named fields.",
            ..InputPort::DATASET
        },
        ARTIFACT,
    ],
    outputs: &[OutputPort {
        open: true,
        doc: "The items with the outputs as fields.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        SCRIPT,
        FUNCTION,
        FILES,
        FIELDS,
        OUTPUTS,
        PARAMETERS,
        SEED,
        VERSION,
        ENVIRONMENT,
        INTERPRETER,
        Parameter {
            name: "batch",
            parameter_type: ParameterType::Integer { min: 1, max: 4096 },
            default: Default::Integer(8),
            role: Role::Execution,
            doc: "The largest number of items that a process gets at once.",
            ..Parameter::BASE
        },
        Parameter {
            name: "workers",
            parameter_type: ParameterType::Integer { min: 0, max: 1024 },
            default: Default::Integer(0),
            role: Role::Execution,
            doc: "The largest number of processes; 0: one per thread of the run, or one per GPU in \
                `devices`.",
            ..Parameter::BASE
        },
        DEVICES,
        THREADS,
        VERIFY,
        Parameter {
            name: "on_failure",
            parameter_type: ParameterType::Choice(&["reject", "reject-all", "fail"]),
            default: Default::Text("reject"),
            role: Role::Execution,
            doc: "For an exception: `reject` quarantines the item, and fails the stage if the first \
                20 items fail alike; `reject-all` always quarantines the item; `fail` ends the run.",
            ..Parameter::BASE
        },
    ],
    check: mistakes,
    ..Kind::BASE
};

pub static ALL: Kind = Kind {
    name: "python.all",
    summary: "Calls a Python function once, for a whole data set or without input.",
    doc: "\
The function gets the list of all items, sorted by id, and returns the declared outputs, which become
an artifact:

    from throstle import stage

    @stage
    def loudest(items, state):
        return {\"name\": max(items, key=lambda item: item[\"level\"]).id}

It may also return a pair: the outputs, and a list of items for the port `items`. Those are items that
it was given, changed by `item.with_fields(cluster=3)` or not, or new ones: `Item(\"id\", cluster=3)`.
Items that it was given keep their fields; any other field must be in `item_outputs`.

Otherwise everything is as for `python`: `throstle stages python`.",
    work: Work::Gather,
    watches_time: true,
    inputs: &[
        InputPort {
            reads: FieldSet::Named { parameter: "fields", also: &[] },
            reads_id: true,
            optional: true,
            doc: "Items; the function gets their ids and the named fields.",
            ..InputPort::DATASET
        },
        ARTIFACT,
    ],
    outputs: &[
        OutputPort { open: true, doc: "The outputs by name.", ..OutputPort::ARTIFACT },
        OutputPort {
            name: "items",
            passes: None,
            open: true,
            doc: "The items that the function returns; none if it returns only outputs.",
            ..OutputPort::DATASET
        },
    ],
    parameters: &[
        SCRIPT,
        FUNCTION,
        FILES,
        FIELDS,
        OUTPUTS,
        Parameter {
            name: "item_outputs",
            default: Default::Absent,
            doc: "The fields that the function sets in the items that it returns, in the same form.",
            ..OUTPUTS
        },
        PARAMETERS,
        SEED,
        VERSION,
        ENVIRONMENT,
        INTERPRETER,
        DEVICES,
        THREADS,
    ],
    check: mistakes,
    ..Kind::BASE
};

/// Types that tables of outputs have wrong.
pub(crate) fn mistakes_of_types(parameters: &Parameters, tables: &[&'static str]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for &parameter in tables {
        for (name, value) in parameters.map(parameter).unwrap_or_default() {
            let ParameterValue::Text(kind) = value else { continue };
            if !is_type(kind) || !is_name(name) {
                let message = if is_name(name) {
                    format!("output `{name}` cannot be `{}`", kind.escape_debug())
                } else {
                    format!("`{}` is not a name of an output", name.escape_debug())
                };
                let help = "write `number`, `text`, or the kind of a file such as `audio/wav` or `file/json`";
                mistakes.push(Mistake { parameter, message, help: Some(help.to_owned()) });
            }
        }
    }
    mistakes
}

fn mistakes(parameters: &Parameters, _unknown: &[&str]) -> Vec<Mistake> {
    let mut mistakes = mistakes_of_types(parameters, &["outputs", "item_outputs"]);
    for name in parameters.map("files").unwrap_or_default().into_keys() {
        if !is_inside(name) || name == SCRIPT_FILE {
            let message = format!("`{}` cannot be the name of a file", name.escape_debug());
            let help = Some("write a relative path, such as `features.py`".to_owned());
            mistakes.push(Mistake { parameter: "files", message, help });
        }
    }
    let is_wrong = |name: &&str| name.is_empty() || name.contains(['=', '\0']);
    for name in parameters.map("environment").unwrap_or_default().into_keys().filter(is_wrong) {
        let message = format!("`{}` is not a valid name of a variable", name.escape_debug());
        mistakes.push(Mistake { parameter: "environment", message, help: None });
    }
    mistakes
}

/// The name of the script beside its files.
pub const SCRIPT_FILE: &str = "script.py";

fn is_type(kind: &str) -> bool {
    let is_word = |word: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.+".contains(letter);
        !word.is_empty() && !word.starts_with('.') && word.chars().all(is_plain)
    };
    [NUMBER, TEXT].contains(&kind)
        || kind.split_once('/').is_some_and(|(family, format)| is_word(family) && is_word(format))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.chars().any(|c| c.is_control() || c == '/')
}

fn is_inside(path: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    !path.chars().any(char::is_control) && path.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_a_number_a_text_or_a_kind_of_file() {
        for kind in ["number", "text", "audio/wav", "tokens/npy", "file/tar.gz"] {
            assert!(is_type(kind), "{kind}");
        }
        for kind in ["", "audio", "float", "/wav", "audio/", "a/b/c", "file/..", "file/a b"] {
            assert!(!is_type(kind), "{kind}");
        }
    }

    #[test]
    fn a_file_of_a_script_lies_beside_it() {
        assert!(is_inside("features.py") && is_inside("lib/features.py"));
        for path in ["", "/etc/passwd", "../x.py", "a//b", "a/./b", "a\n"] {
            assert!(!is_inside(path), "{path:?}");
        }
    }
}
