//! Parameters of a stage: their definitions and their values.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::device::DeviceName;
use crate::error::StageError;

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
    None,
    Hertz,
    Decibel,
    Lufs,
    Seconds,
    Percent,
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

#[derive(Clone, Copy, Debug)]
pub enum ParameterType {
    Text,
    Choice(&'static [&'static str]),
    Integer {
        min: i64,
        max: i64,
    },
    Number {
        min: f64,
        max: f64,
    },
    /// A count, or a share of the whole: `200` or `"5%"`.
    CountOrShare {
        min: i64,
        max: i64,
    },
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
    Required,
    /// Absent, which the stage can detect.
    Absent,
    Text(&'static str),
    Integer(i64),
    Number(f64),
    Flag(bool),
    Seconds(f64),
    Bytes(u64),
    Texts(&'static [&'static str]),
    Device(DeviceName),
    Devices(&'static [DeviceName]),
    /// `[pipeline] seed`.
    PipelineSeed,
}

#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub parameter_type: ParameterType,
    pub default: Default,
    pub role: Role,
    pub unit: Unit,
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

#[derive(Clone, Debug, std::default::Default, Serialize, Deserialize)]
pub enum ParameterValue {
    #[default]
    Absent,
    Text(String),
    Integer(i64),
    Number(f64),
    Flag(bool),
    Seconds(f64),
    Bytes(u64),
    List(Vec<ParameterValue>),
    Map(BTreeMap<String, ParameterValue>),
    /// From 0 to 1.
    Share(f64),
    Device(DeviceName),
}

/// Numbers are compared by their bits, as keys do.
impl PartialEq for ParameterValue {
    fn eq(&self, other: &ParameterValue) -> bool {
        use ParameterValue::*;
        match (self, other) {
            (Absent, Absent) => true,
            (Text(a), Text(b)) => a == b,
            (Integer(a), Integer(b)) => a == b,
            (Number(a), Number(b)) | (Seconds(a), Seconds(b)) | (Share(a), Share(b)) => {
                a.to_bits() == b.to_bits()
            }
            (Flag(a), Flag(b)) => a == b,
            (Bytes(a), Bytes(b)) => a == b,
            (List(a), List(b)) => a == b,
            (Map(a), Map(b)) => a == b,
            (Device(a), Device(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for ParameterValue {}

impl fmt::Display for ParameterValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Absent => write!(formatter, "(not set)"),
            ParameterValue::Text(text) => write!(formatter, "{text:?}"),
            ParameterValue::Integer(number) => write!(formatter, "{number}"),
            ParameterValue::Number(number) => write!(formatter, "{number}"),
            // 0.07 times 100 is not 7.
            ParameterValue::Share(share) => write!(formatter, "{}%", (share * 1e11).round() / 1e9),
            ParameterValue::Flag(flag) => write!(formatter, "{flag}"),
            ParameterValue::Seconds(seconds) => write!(formatter, "{seconds}s"),
            ParameterValue::Bytes(bytes) => write!(formatter, "{bytes}B"),
            ParameterValue::Device(device) => write!(formatter, "\"{device}\""),
            ParameterValue::List(values) => {
                write!(formatter, "[")?;
                for (at, value) in values.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(formatter, "{comma}{value}")?;
                }
                write!(formatter, "]")
            }
            ParameterValue::Map(values) => {
                write!(formatter, "{{")?;
                for (at, (name, value)) in values.iter().enumerate() {
                    let comma = if at == 0 { " " } else { ", " };
                    write!(formatter, "{comma}{name} = {value}")?;
                }
                write!(formatter, " }}")
            }
        }
    }
}

/// The checked values of a stage, one for each parameter of its kind.
#[derive(Clone, Debug, std::default::Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters(pub BTreeMap<String, ParameterValue>);

impl Parameters {
    pub fn get(&self, name: &str) -> &ParameterValue {
        self.0.get(name).unwrap_or(&ParameterValue::Absent)
    }

    pub fn is_set(&self, name: &str) -> bool {
        !matches!(self.get(name), ParameterValue::Absent)
    }

    /// The value of a parameter that may be absent.
    pub fn if_set<'a, T>(
        &'a self,
        name: &str,
        read: impl FnOnce(&'a Parameters, &str) -> Result<T, StageError>,
    ) -> Result<Option<T>, StageError> {
        self.is_set(name).then(|| read(self, name)).transpose()
    }

    pub fn text(&self, name: &str) -> Result<&str, StageError> {
        match self.get(name) {
            ParameterValue::Text(text) => Ok(text),
            other => Err(mismatch(name, "a text", other)),
        }
    }

    pub fn integer(&self, name: &str) -> Result<i64, StageError> {
        match self.get(name) {
            ParameterValue::Integer(number) => Ok(*number),
            other => Err(mismatch(name, "an integer", other)),
        }
    }

    /// The integer, or `preset` if it is absent.
    pub fn integer_or(&self, name: &str, preset: i64) -> Result<i64, StageError> {
        Ok(self.if_set(name, Parameters::integer)?.unwrap_or(preset))
    }

    pub fn number(&self, name: &str) -> Result<f64, StageError> {
        match self.get(name) {
            ParameterValue::Number(number) => Ok(*number),
            ParameterValue::Integer(number) => Ok(*number as f64),
            other => Err(mismatch(name, "a number", other)),
        }
    }

    pub fn flag(&self, name: &str) -> Result<bool, StageError> {
        match self.get(name) {
            ParameterValue::Flag(flag) => Ok(*flag),
            other => Err(mismatch(name, "true or false", other)),
        }
    }

    pub fn seconds(&self, name: &str) -> Result<f64, StageError> {
        match self.get(name) {
            ParameterValue::Seconds(seconds) => Ok(*seconds),
            other => Err(mismatch(name, "a duration", other)),
        }
    }

    pub fn bytes(&self, name: &str) -> Result<u64, StageError> {
        match self.get(name) {
            ParameterValue::Bytes(bytes) => Ok(*bytes),
            other => Err(mismatch(name, "a size", other)),
        }
    }

    pub fn list(&self, name: &str) -> Result<&[ParameterValue], StageError> {
        match self.get(name) {
            ParameterValue::List(values) => Ok(values),
            ParameterValue::Absent => Ok(&[]),
            other => Err(mismatch(name, "a list", other)),
        }
    }

    pub fn texts(&self, name: &str) -> Result<Vec<&str>, StageError> {
        fn text<'a>(name: &str, value: &'a ParameterValue) -> Result<&'a str, StageError> {
            match value {
                ParameterValue::Text(text) => Ok(text),
                other => Err(mismatch(name, "a list of texts", other)),
            }
        }
        self.list(name)?.iter().map(|value| text(name, value)).collect()
    }

    /// The devices of a list.
    pub fn devices(&self, name: &str) -> Result<Vec<DeviceName>, StageError> {
        let device = |value: &ParameterValue| match value {
            ParameterValue::Device(device) => Ok(*device),
            other => Err(mismatch(name, "a list of devices", other)),
        };
        self.list(name)?.iter().map(device).collect()
    }

    pub fn map(&self, name: &str) -> Result<BTreeMap<&str, &ParameterValue>, StageError> {
        match self.get(name) {
            ParameterValue::Map(values) => {
                Ok(values.iter().map(|(name, value)| (name.as_str(), value)).collect())
            }
            ParameterValue::Absent => Ok(BTreeMap::new()),
            other => Err(mismatch(name, "a table", other)),
        }
    }
}

fn mismatch(name: &str, expected: &str, found: &ParameterValue) -> StageError {
    StageError::failed(format!("parameter `{name}` should be {expected} but is {found}"))
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
