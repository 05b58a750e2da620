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

/// The value of a parameter, checked against its type.
#[derive(Clone, Debug, std::default::Default, Serialize, Deserialize)]
pub enum ParameterValue {
    /// Not written, and without a default; also the value of file parameters in a
    /// [`Setup`](crate::Setup), which has their content.
    #[default]
    Absent,
    /// A text, a word of a choice, a path as it was written, an expression, or the name of the
    /// variable with a secret.
    Text(String),
    /// A whole number, within the limits of its type.
    Integer(i64),
    /// A number in the unit of its parameter.
    Number(f64),
    /// The value of a flag.
    Flag(bool),
    /// A duration, as seconds.
    Seconds(f64),
    /// A size, as bytes.
    Bytes(u64),
    /// The values of a list, in the order of the manifest.
    List(Vec<ParameterValue>),
    /// The values of a map or a record, by name.
    Map(BTreeMap<String, ParameterValue>),
    /// From 0 to 1.
    Share(f64),
    /// A device, which may not exist on this machine.
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
    /// The value of this name; [`ParameterValue::Absent`] if there is none.
    pub fn get(&self, name: &str) -> &ParameterValue {
        self.0.get(name).unwrap_or(&ParameterValue::Absent)
    }

    /// True if the manifest has the parameter or it has a default.
    pub fn is_set(&self, name: &str) -> bool {
        !matches!(self.get(name), ParameterValue::Absent)
    }

    /// The value of a parameter that may be absent.
    ///
    /// # Errors
    ///
    /// Those of `read`, which is only called if there is a value.
    pub fn if_set<'a, T>(
        &'a self,
        name: &str,
        read: impl FnOnce(&'a Parameters, &str) -> Result<T, StageError>,
    ) -> Result<Option<T>, StageError> {
        self.is_set(name).then(|| read(self, name)).transpose()
    }

    /// The value of a text, a choice, a path or an expression.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter is absent or has another type.
    pub fn text(&self, name: &str) -> Result<&str, StageError> {
        match self.get(name) {
            ParameterValue::Text(text) => Ok(text),
            other => Err(mismatch(name, "a text", other)),
        }
    }

    /// The value of an integer.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter is absent or has another type, a number without a
    /// fraction included.
    pub fn integer(&self, name: &str) -> Result<i64, StageError> {
        match self.get(name) {
            ParameterValue::Integer(number) => Ok(*number),
            other => Err(mismatch(name, "an integer", other)),
        }
    }

    /// The integer, or `preset` if it is absent.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter has another type.
    pub fn integer_or(&self, name: &str, preset: i64) -> Result<i64, StageError> {
        Ok(self.if_set(name, Parameters::integer)?.unwrap_or(preset))
    }

    /// The value of a number, in the unit of the parameter. An integer is converted.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter is absent or has another type.
    pub fn number(&self, name: &str) -> Result<f64, StageError> {
        match self.get(name) {
            ParameterValue::Number(number) => Ok(*number),
            ParameterValue::Integer(number) => Ok(*number as f64),
            other => Err(mismatch(name, "a number", other)),
        }
    }

    /// The value of a flag.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter is absent or has another type.
    pub fn flag(&self, name: &str) -> Result<bool, StageError> {
        match self.get(name) {
            ParameterValue::Flag(flag) => Ok(*flag),
            other => Err(mismatch(name, "true or false", other)),
        }
    }

    /// The value of a duration, in seconds.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter is absent or has another type, a plain number
    /// included.
    pub fn seconds(&self, name: &str) -> Result<f64, StageError> {
        match self.get(name) {
            ParameterValue::Seconds(seconds) => Ok(*seconds),
            other => Err(mismatch(name, "a duration", other)),
        }
    }

    /// The value of a size, in bytes.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter is absent or has another type, a plain integer
    /// included.
    pub fn bytes(&self, name: &str) -> Result<u64, StageError> {
        match self.get(name) {
            ParameterValue::Bytes(bytes) => Ok(*bytes),
            other => Err(mismatch(name, "a size", other)),
        }
    }

    /// The values of a list; none if the parameter is absent.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter has another type.
    pub fn list(&self, name: &str) -> Result<&[ParameterValue], StageError> {
        match self.get(name) {
            ParameterValue::List(values) => Ok(values),
            ParameterValue::Absent => Ok(&[]),
            other => Err(mismatch(name, "a list", other)),
        }
    }

    /// The texts of a list; none if the parameter is absent.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter is no list, or if one of its values is no text.
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
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter is no list, or if one of its values is no device.
    pub fn devices(&self, name: &str) -> Result<Vec<DeviceName>, StageError> {
        let device = |value: &ParameterValue| match value {
            ParameterValue::Device(device) => Ok(*device),
            other => Err(mismatch(name, "a list of devices", other)),
        };
        self.list(name)?.iter().map(device).collect()
    }

    /// The values of a map or a record by name, sorted; none if the parameter is absent.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the parameter has another type.
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
