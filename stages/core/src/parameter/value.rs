//! The values of a stage's parameters, as a manifest or a default gives them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::device::DeviceName;
use crate::error::StageError;

/// The value of a parameter, checked against its type.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
