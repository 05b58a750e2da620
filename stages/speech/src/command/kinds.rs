//! The kinds of the family `command`: the user's own programs.

mod once;

use stage_core::output_types::is_folder;
use stage_core::{
    Default, FieldSet, InputPort, Kind, Mistake, OutputPort, Parameter, ParameterType,
    ParameterValue, Parameters, Role, Verdicts,
};

use super::line::{Piece, Place, Shell, pieces};

pub use once::{Form, ONCE, REJECT};

pub const KINDS: &[&Kind] = &[&COMMAND, &ONCE];

const DECLARED: InputPort = InputPort {
    reads: FieldSet::Named { parameter: "fields", also: &[] },
    doc: "Items; the command gets the fields that its line names.",
    ..InputPort::DATASET
};

const LINE: Parameter = Parameter {
    name: "command",
    doc: "The line for `sh -c`. `{field}` is the text of a field, or the path of its file; \
        `{out.name}` is the path of an output, `{script}` the path of the script, `{base}` the \
        folder of the manifest. `{{` is a plain brace, `${NAME}` a variable of the shell. A value \
        reaches the shell as a variable in quotes and is one word, so write the placeholder of a \
        field without quotes. A field is an error where the shell would run a value: \
        in quotes, back quotes, here-documents, `${...}` and arithmetic, and for a name of a \
        variable or of a program. It is one in the usual code of other programs too: in the text \
        of `eval`, `sh -c`, `python3 -c`, `awk`, `sed`, `ssh` and others. `check` does not know \
        every program, option and way through variables, files and pipes, so pass a value as an \
        argument: `sh -c 'echo \"$1\"' sh {field}`, `awk -v n={field} '...'`. A value may begin \
        with `-`: write `--` before it for programs that accept `--`. `sox` and `perl -n` run a \
        name with `|` at an end, and `echo $text` without quotes splits the value. A line of \
        plain words runs without a shell, which is faster. As in any shell, a pipeline (`a | b`) has the status of its last program: if the others can fail, use files, \
        or `set -o pipefail` where `sh` has it. A missing program in a pipeline fails the stage. \
        The command runs in a private folder: write `{base}/tool` for a program beside the \
        manifest.",
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
    doc: "The outputs that become texts, without a final line break; the others are files. With \
        `outputs = { text = \"text.txt\" }` and `texts = [\"text\"]` a program such as uroman \
        replaces the texts.",
    ..Parameter::BASE
};

const SCRIPT: Parameter = Parameter {
    name: "script",
    parameter_type: ParameterType::File,
    default: Default::Absent,
    doc: "A file, such as a Python program; its content is part of the key.",
    ..Parameter::BASE
};

pub(crate) const ENVIRONMENT: Parameter = Parameter {
    name: "environment",
    parameter_type: ParameterType::Map(&ParameterType::Text),
    default: Default::Absent,
    doc: "Variables that the command sees besides PATH, HOME, LC_ALL, TZ and TMPDIR.",
    ..Parameter::BASE
};

pub(crate) const VERSION: Parameter = Parameter {
    name: "version",
    default: Default::Absent,
    doc: "The expected output of `version_command`. It is part of the key: another version runs \
        the command again.",
    ..Parameter::BASE
};

pub(crate) const VERSION_COMMAND: Parameter = Parameter {
    name: "version_command",
    default: Default::Absent,
    role: Role::Execution,
    doc: "A line that prints the version of the program, such as `espeak-ng --version`; it is run \
          before the first item, and the run ends if it does not print `version`.",
    ..Parameter::BASE
};

pub static COMMAND: Kind = Kind {
    name: "command",
    summary: "Runs a command for every item.",
    doc: "\
The command runs in a private folder with a clean environment. It must end with status 0 and write
every declared output. When it exceeds `timeout` or the run is stopped, it is killed with all
processes that it started. A daemon (a process in a session of its own, `setsid`, with an ended
parent) goes on after the run: end it in the command itself.

A failure on a full disk stops the run and quarantines no item. A program that was killed, or that
reports an error of the machine, is retried, also by the next run.

If the first 20 items of more than 20 fail with the same status and the same last line, the command
or its environment counts as broken: the stage fails with that line, and none of these items is
quarantined.",
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
            doc: "For a status other than 0: `reject` quarantines the item, and fails the stage if \
                the first 20 items fail alike; `reject-all` always quarantines the item; `fail` \
                ends the run.",
            ..Parameter::BASE
        },
    ],
    check: |parameters, unknown| Line::new(parameters, unknown, &[]).mistakes(),
    ..Kind::BASE
};

/// The mistakes of a stage with a command line, and no declared fields and outputs.
pub(crate) fn mistakes_of_line(
    parameters: &Parameters,
    unknown: &[&str],
    places: &[&str],
) -> Vec<Mistake> {
    Line::new(parameters, unknown, places).mistakes()
}

/// The parts of a path below the folder of the outputs.
fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

/// A command line, with all names that it may contain.
struct Line<'a> {
    parameters: &'a Parameters,
    unknown: &'a [&'a str],
    /// Placeholders that only this kind of command has.
    more: &'a [&'a str],
    may_be_folders: bool,
}

impl<'a> Line<'a> {
    fn new(parameters: &'a Parameters, unknown: &'a [&'a str], more: &'a [&'a str]) -> Line<'a> {
        Line { parameters, unknown, more, may_be_folders: false }
    }

    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = self.places();
        mistakes.extend(self.texts());
        mistakes.extend(self.files());
        mistakes.extend(self.folders());
        mistakes.extend(self.variables());
        mistakes
    }

    fn is_known(&self, parameter: &str) -> bool {
        !self.unknown.contains(&parameter)
    }

    /// Every placeholder must have a value.
    fn places(&self) -> Vec<Mistake> {
        let Ok(line) = self.parameters.text("command") else { return Vec::new() };
        if line.trim().is_empty() && self.is_known("command") {
            return vec![Mistake {
                parameter: "command",
                message: "`command` is empty".to_owned(),
                help: Some("write a line for `sh -c`".to_owned()),
            }];
        }
        let (Ok(pieces), Ok(shell)) = (pieces(line), Shell::read(line)) else {
            return vec![Mistake {
                parameter: "command",
                message: "a brace in `command` is not closed".to_owned(),
                help: Some("write `{{` for a plain brace".to_owned()),
            }];
        };
        let known = self.names();
        let mut mistakes: Vec<Mistake> = Vec::new();
        let fields = if self.parameters.0.contains_key("fields") {
            " `fields` lists the fields that the command sees, and"
        } else {
            ""
        };
        // Paths of the stage's own are text of the manifest; fields may say anything.
        let declared = self.parameters.texts("fields").unwrap_or_default();
        let is_own = |name: &str| {
            ["base", "script"].contains(&name)
                || name.starts_with("out.")
                || self.more.contains(&name)
        };
        let is_field = |name: &str| declared.contains(&name) || !is_own(name);
        for Place { name, fault, .. } in shell.places {
            let Some(fault) = fault.filter(|_| is_field(name)) else { continue };
            let mistake = Mistake {
                parameter: "command",
                message: format!("`{{{name}}}` in `command` {}", fault.place()),
                help: Some(fault.help(name)),
            };
            if !mistakes.contains(&mistake) {
                mistakes.push(mistake);
            }
        }
        for piece in pieces {
            let Piece::Place(name) = piece else { continue };
            if known.iter().any(|known| known == name) || self.may_be_known(name) {
                continue;
            }
            let listed: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            let mistake = Mistake {
                parameter: "command",
                message: format!("`{{{name}}}` in `command` is unknown"),
                help: Some(format!(
                    "known names: {};{fields} `{{{{` is a plain brace",
                    listed.join(", ")
                )),
            };
            if !mistakes.contains(&mistake) {
                mistakes.push(mistake);
            }
        }
        mistakes
    }

    fn names(&self) -> Vec<String> {
        let fields = self.parameters.texts("fields").unwrap_or_default();
        let mut names: Vec<String> = fields.into_iter().map(str::to_owned).collect();
        let outputs = self.parameters.map("outputs").unwrap_or_default();
        names.extend(outputs.keys().map(|name| format!("out.{name}")));
        names.extend(self.parameters.is_set("script").then(|| "script".to_owned()));
        names.extend(self.more.iter().map(|name| (*name).to_owned()));
        names.push("base".to_owned());
        names
    }

    /// True if a mistake elsewhere may hide the name.
    fn may_be_known(&self, name: &str) -> bool {
        match name {
            "script" => !self.is_known("script"),
            _ if name.starts_with("out.") => !self.is_known("outputs"),
            _ => !self.is_known("fields"),
        }
    }

    fn texts(&self) -> Vec<Mistake> {
        let (Ok(texts), Ok(outputs)) =
            (self.parameters.texts("texts"), self.parameters.map("outputs"))
        else {
            return Vec::new();
        };
        if !self.is_known("outputs") {
            return Vec::new();
        }
        let unknown = texts.into_iter().filter(|text| !outputs.contains_key(text));
        unknown
            .map(|text| Mistake {
                parameter: "texts",
                message: format!("`texts` names `{text}`, which is not in `outputs`"),
                help: None,
            })
            .collect()
    }

    /// Outputs are separate files below the folder of the outputs.
    fn files(&self) -> Vec<Mistake> {
        let outputs = self.parameters.map("outputs").unwrap_or_default();
        let mut seen: Vec<Vec<&str>> = Vec::new();
        let mut mistakes = Vec::new();
        for (name, value) in outputs {
            let ParameterValue::Text(file) = value else { continue };
            let parts = parts(file);
            let leads_out = file.starts_with('/') || parts.contains(&"..");
            let message = if parts.is_empty() || leads_out {
                format!("output `{name}` cannot be the file `{}`", file.escape_debug())
            } else if seen.contains(&parts) {
                format!("two outputs have the file `{file}`")
            } else {
                seen.push(parts);
                continue;
            };
            let help =
                Some("give each output its own relative path, such as `words.txt`".to_owned());
            mistakes.push(Mistake { parameter: "outputs", message, help });
        }
        mistakes
    }

    /// An item has single files.
    fn folders(&self) -> Vec<Mistake> {
        let outputs = self.parameters.map("outputs").unwrap_or_default();
        let is_folder =
            |value: &ParameterValue| matches!(value, ParameterValue::Text(file) if is_folder(file));
        let folders =
            outputs.into_iter().filter(|(_, value)| !self.may_be_folders && is_folder(value));
        folders
            .map(|(name, _)| Mistake {
                parameter: "outputs",
                message: format!(
                    "output `{name}` is a folder, which only `command.once` may write"
                ),
                help: Some("name a file, such as `words.txt`".to_owned()),
            })
            .collect()
    }

    fn variables(&self) -> Vec<Mistake> {
        let variables = self.parameters.map("environment").unwrap_or_default();
        let is_wrong = |name: &&str| name.is_empty() || name.contains(['=', '\0']);
        let wrong = variables.into_keys().filter(is_wrong);
        wrong
            .map(|name| Mistake {
                parameter: "environment",
                message: format!("`{}` is not a valid name of a variable", name.escape_debug()),
                help: None,
            })
            .collect()
    }
}
