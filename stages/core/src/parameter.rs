//! Parameters of a stage: their definitions and their values.

mod value;

use crate::device::DeviceName;

pub use self::value::{ParameterValue, Parameters};

/// The role of a parameter in the key of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Part of the key: another value is other work.
    Content,
    /// A setting of the run: never part of a key.
    Execution,
    /// The name of an environment variable: its value is never stored or printed.
    Secret,
}

/// The unit that a plain number is in, for messages and documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The number has no unit. With limits of 0 and 1, a manifest may write it in percent: `"5%"`
    /// is 0.05.
    None,
    /// `16000` or `"16kHz"`.
    Hertz,
    /// `-3` or `"-3dB"`.
    Decibel,
    /// Loudness (EBU R 128): `-23` or `"-23LUFS"`.
    Lufs,
    /// `1.5` or `"1.5s"`.
    Seconds,
    /// `5` or `"5%"`: the value is 5, not 0.05.
    Percent,
    /// A number of things, without a notation of its own.
    Count,
}

/// The meaning of a parameter with an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionForm {
    /// True or false for a candidate, beside the base.
    Requirement,
    /// A number for a candidate.
    Measure,
}

/// The type of a parameter: the values that a manifest may have, and the [`ParameterValue`] that
/// each becomes.
#[derive(Clone, Copy, Debug)]
pub enum ParameterType {
    /// Any text.
    Text,
    /// One of these words, as a text.
    Choice(&'static [&'static str]),
    /// A whole number within both limits, which are included.
    Integer {
        /// The smallest valid value.
        min: i64,
        /// The largest valid value.
        max: i64,
    },
    /// A finite number within both limits, which are included.
    Number {
        /// The smallest valid value, in the unit of the parameter.
        min: f64,
        /// The largest valid value, in the unit of the parameter.
        max: f64,
    },
    /// A count, or a share of the whole: `200` or `"5%"`.
    CountOrShare {
        /// The smallest valid count; a share has its own limits of 0 and 1.
        min: i64,
        /// The largest valid count.
        max: i64,
    },
    /// `true` or `false`.
    Flag,
    /// A text, a number, true or false, or a list or table of these.
    Any,
    /// `"90s"`, `"11h30m"`.
    Duration,
    /// `"64MB"`, `"12GiB"`.
    Size,
    /// `"cpu"`, `"cuda"`, `"cuda:1"`.
    Device {
        /// `"auto"` too: the choice is left to the run.
        or_auto: bool,
    },
    /// A file with content that enters the key, and a path that does not.
    File,
    /// The same for a file that may be missing, such as one that a command writes.
    OptionalFile,
    /// A file or folder that a source reads.
    SourcePath,
    /// A folder that a source reads, and that may be missing.
    OptionalFolder,
    /// A list, with each value of this type.
    List(&'static ParameterType),
    /// User-chosen names with values of one type.
    Map(&'static ParameterType),
    /// A table with these keys.
    Record(&'static [Parameter]),
    /// An expression over measured sentences, such as `mean(cer) <= base + 0.01`.
    Expression(ExpressionForm),
}

/// The value of a parameter that is not written.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    /// The manifest must have the parameter.
    Required,
    /// Absent, which the stage can detect.
    Absent,
    /// For [`ParameterType::Text`] and [`ParameterType::Choice`].
    Text(&'static str),
    /// For [`ParameterType::Integer`] and [`ParameterType::CountOrShare`].
    Integer(i64),
    /// For [`ParameterType::Number`], in the unit of the parameter.
    Number(f64),
    /// For [`ParameterType::Flag`].
    Flag(bool),
    /// For [`ParameterType::Duration`], in seconds.
    Seconds(f64),
    /// For [`ParameterType::Size`], in bytes.
    Bytes(u64),
    /// For a list of texts.
    Texts(&'static [&'static str]),
    /// For [`ParameterType::Device`].
    Device(DeviceName),
    /// For a list of devices.
    Devices(&'static [DeviceName]),
    /// `[pipeline] seed`.
    PipelineSeed,
}

/// The definition of a parameter, from which the checks of a manifest, its schema and its manual
/// follow.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The key in the manifest, in lower case with `_` between words.
    pub name: &'static str,
    /// The values that a manifest may have.
    pub parameter_type: ParameterType,
    /// The value if the manifest has none. Except for [`Default::Absent`], the default of a content
    /// parameter is part of the key like a written value.
    pub default: Default,
    /// Part of the key or not. A parameter that can change an output must be [`Role::Content`].
    pub role: Role,
    /// The unit of an integer or a number; [`Unit::None`] for other types.
    pub unit: Unit,
    /// One or a few sentences of Markdown, for the manual and for messages.
    pub doc: &'static str,
}

impl Parameter {
    /// The base for definitions: a required content text.
    pub const BASE: Parameter = Parameter {
        name: "",
        parameter_type: ParameterType::Text,
        default: Default::Required,
        role: Role::Content,
        unit: Unit::None,
        doc: "",
    };

    /// The files and folders that a value of this parameter names, each under a name of its own.
    pub fn paths<'a>(&self, value: &'a ParameterValue) -> Vec<(String, &'a str)> {
        match (self.parameter_type, value) {
            (
                ParameterType::File
                | ParameterType::OptionalFile
                | ParameterType::SourcePath
                | ParameterType::OptionalFolder,
                ParameterValue::Text(path),
            ) => vec![(self.name.to_owned(), path)],
            (ParameterType::Map(ParameterType::File), ParameterValue::Map(files)) => {
                let name = |name: &String| format!("{}.{name}", self.name);
                let path = |(own, value): (&String, &'a ParameterValue)| match value {
                    ParameterValue::Text(path) => Some((name(own), path.as_str())),
                    _ => None,
                };
                files.iter().filter_map(path).collect()
            }
            _ => Vec::new(),
        }
    }

    /// True if the content of files stands for the value, in keys too.
    pub fn is_of_files(&self) -> bool {
        matches!(
            self.parameter_type,
            ParameterType::File
                | ParameterType::OptionalFile
                | ParameterType::Map(ParameterType::File)
        )
    }
}

/// The parameter of every training kind for a finished model with changed inputs. It enters no key
/// itself; the parent that it leads to does.
pub const ON_CHANGE: Parameter = Parameter {
    name: "on_change",
    parameter_type: ParameterType::Choice(&["retrain", "continue"]),
    default: Default::Text("retrain"),
    role: Role::Execution,
    doc: "The reaction to changed inputs or parameters of a finished stage: `retrain` starts from \
        scratch, `continue` continues from the last model, and the key of that model becomes part \
        of the new key.",
    ..Parameter::BASE
};
