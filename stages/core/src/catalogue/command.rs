//! The kinds of the family `command`: programs of the user's own.

use crate::kind::{Fields, InputPort, Kind, OutputPort, Verdicts, Work};
use crate::parameter::{Default, Parameter, ParameterType, Role};

pub const KINDS: &[&Kind] = &[&COMMAND, &ONCE];

const DECLARED: InputPort = InputPort {
    reads: Fields::Named { parameter: "fields", also: &[] },
    doc: "Items, of which the command sees the fields that it names.",
    ..InputPort::DATASET
};

const LINE: Parameter = Parameter {
    name: "command",
    doc: "The line for `sh -c`. `{field}` is the text of a field, or the path of a file with its bytes; \
          `{out.name}` is the path of an output; `{script}` that of the script; `{base}` the \
          manifest's folder. Values are quoted. `{{` is a plain brace, `${NAME}` the shell's own.",
    ..Parameter::BASE
};

const FIELDS: Parameter = Parameter {
    name: "fields",
    parameter_type: ParameterType::List(&ParameterType::Text),
    default: Default::Texts(&[]),
    doc: "The fields that the command sees. Only these make it run again.",
    ..Parameter::BASE
};

const OUTPUTS: Parameter = Parameter {
    name: "outputs",
    parameter_type: ParameterType::Map(&ParameterType::Text),
    doc: "The files that the command writes: name of the field, file name.",
    ..Parameter::BASE
};

const TEXTS: Parameter = Parameter {
    name: "texts",
    parameter_type: ParameterType::List(&ParameterType::Text),
    default: Default::Texts(&[]),
    doc: "Those of `outputs` that become texts, without the end of their last line; the others are \
          files. With `outputs = { text = \"text.txt\" }` and `texts = [\"text\"]` a program such \
          as uroman writes the texts anew.",
    ..Parameter::BASE
};

const SCRIPT: Parameter = Parameter {
    name: "script",
    parameter_type: ParameterType::File,
    default: Default::Absent,
    doc: "A file, such as a Python program, whose content is part of the key.",
    ..Parameter::BASE
};

const ENVIRONMENT: Parameter = Parameter {
    name: "environment",
    parameter_type: ParameterType::Map(&ParameterType::Text),
    default: Default::Absent,
    doc: "Variables that the command sees besides PATH, HOME, LC_ALL, TZ and TMPDIR.",
    ..Parameter::BASE
};

const VERSION: Parameter = Parameter {
    name: "version",
    default: Default::Absent,
    doc: "What `version_command` must print, as part of the key: another version is other work.",
    ..Parameter::BASE
};

const VERSION_COMMAND: Parameter = Parameter {
    name: "version_command",
    default: Default::Absent,
    role: Role::Execution,
    doc: "A line that prints the version of the program, such as `espeak-ng --version`; it is run \
          before the first item, and the run ends if it does not print `version`.",
    ..Parameter::BASE
};

const DOC: &str = "The command runs in a private folder with a clean environment. It must end with \
                   status 0 and write every declared output. When it takes too long or the run is \
                   stopped, it and all that it started are killed.";

pub static COMMAND: Kind = Kind {
    name: "command",
    summary: "Runs a command for every item.",
    doc: "\
The command runs in a private folder with a clean environment. It must end with status 0 and write
every declared output. When it takes too long or the run is stopped, it and all that it started are
killed.

When the first 20 items of more than 20 fail alike, with the same status and the same last line, the
command or its environment is taken to be broken: the stage fails with that line, and none of these
items is set aside.",
    verdicts: Verdicts::OfProgram { parameter: "on_failure", unless: "reject-all" },
    inputs: &[DECLARED],
    outputs: &[OutputPort {
        open: true,
        doc: "The items with the outputs as fields.",
        ..OutputPort::DATASET
    }],
    parameters: &[
        LINE,
        FIELDS,
        OUTPUTS,
        TEXTS,
        SCRIPT,
        ENVIRONMENT,
        VERSION,
        VERSION_COMMAND,
        Parameter {
            name: "on_failure",
            parameter_type: ParameterType::Choice(&["reject", "reject-all", "fail"]),
            default: Default::Text("reject"),
            role: Role::Execution,
            doc: "Whether a status other than 0 sets the item aside or ends the run. With `reject-all` \
                  items are set aside even where the first 20 fail alike.",
            ..Parameter::BASE
        },
    ],
    ..Kind::BASE
};

pub static ONCE: Kind = Kind {
    name: "command.once",
    summary: "Runs a command once, for a whole data set or for none.",
    doc: DOC,
    work: Work::Gather,
    inputs: &[InputPort {
        reads_id: true,
        optional: true,
        doc: "Items as JSON lines at `{items}`: `id` and the named fields, blobs as paths of files.",
        ..DECLARED
    }],
    outputs: &[OutputPort { open: true, doc: "The outputs by name.", ..OutputPort::ARTIFACT }],
    parameters: &[LINE, FIELDS, OUTPUTS, TEXTS, SCRIPT, ENVIRONMENT, VERSION, VERSION_COMMAND],
    ..Kind::BASE
};
