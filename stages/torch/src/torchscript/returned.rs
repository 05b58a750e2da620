//! The result of a module as values of an item.

use stage_core::{NewValue, Reject, StageError};
use stage_families::kinds::torchscript::UNUSED;
use stage_formats::npy::{self, FloatArray, IntArray, Width};
use tch::{Device, IValue, Kind, TchError, Tensor};

use crate::error::TorchError;

/// The reason why a result cannot be taken.
#[derive(Debug)]
pub enum ReturnError {
    Reject(Reject),
    Error(StageError),
}

impl From<TorchError> for ReturnError {
    fn from(error: TorchError) -> ReturnError {
        ReturnError::Error(error.into())
    }
}

impl From<TchError> for ReturnError {
    fn from(error: TchError) -> ReturnError {
        ReturnError::from(TorchError::from(error))
    }
}

fn reject<T>(code: &str, reason: String) -> Result<T, ReturnError> {
    Err(ReturnError::Reject(Reject::new(code, reason)))
}

fn unable<T>(message: String, help: &str) -> Result<T, ReturnError> {
    let help = (!help.is_empty()).then(|| help.to_owned());
    Err(ReturnError::Error(StageError::Unable { message, help }))
}

/// The form of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputForm {
    Number,
    /// An array in a file of this kind.
    Array(String),
}

/// The outputs, and the order in which a module returns them.
#[derive(Clone, Debug, Default)]
pub struct ModuleOutputs {
    pub outputs: Vec<(String, OutputForm)>,
    pub order: Vec<String>,
}

impl ModuleOutputs {
    /// The outputs among the values of a result.
    pub fn take(&self, result: IValue) -> Result<Vec<(String, NewValue)>, ReturnError> {
        let mut named = self.named(result)?;
        let each = |(name, form): &(String, OutputForm)| {
            let at = named.iter().position(|(own, _)| own == name);
            let Some(at) = at else { return self.missing(name, &named) };
            let (_, value) = named.swap_remove(at);
            let value = match form {
                OutputForm::Number => NewValue::Number(number(name, &value)?),
                OutputForm::Array(kind) => NewValue::bytes(kind.as_str(), file(name, &value)?),
            };
            Ok((name.clone(), value))
        };
        self.outputs.iter().map(each).collect()
    }

    fn named(&self, result: IValue) -> Result<Vec<(String, IValue)>, ReturnError> {
        let mut values = match result {
            IValue::GenericDict(pairs) => return entries(pairs),
            other => listed(other),
        };
        if let ([only], []) = (self.outputs.as_slice(), self.order.as_slice())
            && values.len() == 1
        {
            return Ok(values.pop().map(|value| (only.0.clone(), value)).into_iter().collect());
        }
        if let ([IValue::Tensor(tensor)], true) = (values.as_slice(), self.order.len() > 1) {
            values = spread(tensor, self.order.len())?.unwrap_or(values);
        }
        if values.len() != self.order.len() {
            let several: Vec<String> = values.iter().map(describe).collect();
            let message = match several.as_slice() {
                [one] => {
                    format!("the module returns {one} instead of {} values", self.outputs.len())
                }
                _ => format!("the module returns {} values: {}", several.len(), several.join(", ")),
            };
            let help = "list the outputs in order in `returns`, with `_` for unused values";
            return unable(message, help);
        }
        let named = self.order.iter().cloned().zip(values);
        Ok(named.filter(|(name, _)| name != UNUSED).collect())
    }

    fn missing<T>(&self, name: &str, named: &[(String, IValue)]) -> Result<T, ReturnError> {
        let names: Vec<String> = named.iter().map(|(own, _)| format!("`{own}`")).collect();
        let names = names.join(", ");
        unable(format!("the module does not return `{name}`, but {names}"), "")
    }
}

/// The value that stages with one output take: the only one, or that with this name or position.
pub fn one(result: IValue, taken: Option<&str>) -> Result<IValue, ReturnError> {
    let help = "select one with `output`, by its position from 0 or its name";
    match (result, taken) {
        (IValue::GenericDict(pairs), Some(name)) => {
            let entries = entries(pairs)?;
            let names: Vec<String> = entries.iter().map(|(own, _)| format!("`{own}`")).collect();
            match entries.into_iter().find(|(own, _)| own == name) {
                Some((_, value)) => Ok(value),
                None => {
                    let names = names.join(", ");
                    unable(format!("the module does not return `{name}`, but {names}"), "")
                }
            }
        }
        (IValue::GenericDict(pairs), None) => {
            unable(format!("the module returns a dictionary of {} values", pairs.len()), help)
        }
        (other, taken) => {
            let mut values = listed(other);
            let at = taken.map_or(Some(0), |taken| taken.parse().ok());
            match at.filter(|at| *at < values.len() && (taken.is_some() || values.len() == 1)) {
                Some(at) => Ok(values.swap_remove(at)),
                None => {
                    let several: Vec<String> = values.iter().map(describe).collect();
                    let count = several.len();
                    let message =
                        format!("the module returns {count} values: {}", several.join(", "));
                    unable(message, help)
                }
            }
        }
    }
}

fn entries(pairs: Vec<(IValue, IValue)>) -> Result<Vec<(String, IValue)>, ReturnError> {
    let entry = |(name, value)| match name {
        IValue::String(name) => Ok((name, value)),
        other => unable(
            format!("the module returns a dictionary with {} as a key", describe(&other)),
            "return a dictionary with strings as keys",
        ),
    };
    pairs.into_iter().map(entry).collect()
}

fn listed(value: IValue) -> Vec<IValue> {
    match value {
        IValue::Tuple(values) | IValue::GenericList(values) => values,
        IValue::TensorList(values) => values.into_iter().map(IValue::Tensor).collect(),
        IValue::DoubleList(values) => values.into_iter().map(IValue::Double).collect(),
        IValue::IntList(values) => values.into_iter().map(IValue::Int).collect(),
        IValue::BoolList(values) => values.into_iter().map(IValue::Bool).collect(),
        IValue::StringList(values) => values.into_iter().map(IValue::String).collect(),
        other => vec![other],
    }
}

/// The numbers of a vector of this length, whatever ones are in its shape.
fn spread(tensor: &Tensor, count: usize) -> Result<Option<Vec<IValue>>, ReturnError> {
    let is_vector = tensor.size().iter().filter(|size| **size != 1).count() == 1;
    if !is_vector || tensor.numel() != count {
        return Ok(None);
    }
    let numbers = Vec::<f64>::try_from(plain(tensor, Kind::Double)?)?;
    Ok(Some(numbers.into_iter().map(IValue::Double).collect()))
}

/// A finite number.
pub fn number(name: &str, value: &IValue) -> Result<f64, ReturnError> {
    let number = match value {
        IValue::Double(number) => *number,
        IValue::Int(number) => *number as f64,
        IValue::Bool(flag) => f64::from(u8::from(*flag)),
        IValue::Tensor(tensor) if tensor.numel() == 1 && is_real(tensor) => {
            let one = Vec::<f64>::try_from(plain(tensor, Kind::Double)?)?;
            one.first().copied().unwrap_or(f64::NAN)
        }
        other => {
            let reason = format!("the output `{name}` is {}, not one number", describe(other));
            return reject("output-no-number", reason);
        }
    };
    if number.is_finite() {
        Ok(number)
    } else {
        reject("not-finite", format!("the output `{name}` is {number}"))
    }
}

/// The finite numbers of a vector, whatever ones are in its shape.
pub fn vector(name: &str, value: &IValue) -> Result<Vec<f32>, ReturnError> {
    match value {
        IValue::Tensor(tensor)
            if tensor.size().iter().filter(|size| **size != 1).count() <= 1
                && tensor.numel() > 1
                && is_real(tensor) =>
        {
            finite(name, Vec::<f32>::try_from(plain(tensor, Kind::Float)?)?)
        }
        other => {
            let reason = format!("the output `{name}` is {}, not a vector", describe(other));
            reject("output-no-vector", reason)
        }
    }
}

/// A NumPy file.
fn file(name: &str, value: &IValue) -> Result<Vec<u8>, ReturnError> {
    let scalar;
    let tensor = match value {
        IValue::Tensor(tensor) if is_real(tensor) => tensor,
        IValue::Double(number) => {
            scalar = Tensor::from(*number);
            &scalar
        }
        IValue::Int(number) => {
            scalar = Tensor::from(*number);
            &scalar
        }
        other => {
            let reason = format!("the output `{name}` is {}, not an array", describe(other));
            return reject("output-no-array", reason);
        }
    };
    let shape: Vec<u64> = tensor.size().into_iter().map(|size| size as u64).collect();
    let written = if is_whole(tensor.kind()) {
        let values = Vec::<i64>::try_from(plain(tensor, Kind::Int64)?)?;
        npy::write(&IntArray { shape, values }, Width::I64)
    } else {
        let values = finite(name, Vec::<f32>::try_from(plain(tensor, Kind::Float)?)?)?;
        npy::write_floats(&FloatArray { shape, values })
    };
    written.map_err(|error| ReturnError::Error(StageError::failed(error.to_string())))
}

fn finite(name: &str, values: Vec<f32>) -> Result<Vec<f32>, ReturnError> {
    match values.iter().filter(|value| !value.is_finite()).count() {
        0 => Ok(values),
        wrong => {
            let of = values.len();
            let reason = format!("{wrong} of {of} values of the output `{name}` are not finite");
            reject("not-finite", reason)
        }
    }
}

/// The values in one row, on the processor.
fn plain(tensor: &Tensor, kind: Kind) -> Result<Tensor, TorchError> {
    Ok(tensor.f_to_device(Device::Cpu)?.f_to_kind(kind)?.f_reshape([-1])?)
}

fn is_whole(kind: Kind) -> bool {
    matches!(kind, Kind::Uint8 | Kind::Int8 | Kind::Int16 | Kind::Int | Kind::Int64 | Kind::Bool)
}

fn is_real(tensor: &Tensor) -> bool {
    let floats = [Kind::Half, Kind::BFloat16, Kind::Float, Kind::Double];
    let kind = tensor.f_kind().ok();
    kind.is_some_and(|kind| is_whole(kind) || floats.contains(&kind))
}

fn describe(value: &IValue) -> String {
    match value {
        IValue::None => "nothing".to_owned(),
        IValue::Tensor(tensor) => format!("a tensor of shape {:?}", tensor.size()),
        IValue::Double(_) | IValue::Int(_) => "a number".to_owned(),
        IValue::Bool(_) => "a boolean".to_owned(),
        IValue::String(_) => "a string".to_owned(),
        IValue::Tuple(values) | IValue::GenericList(values) => format!("{} values", values.len()),
        IValue::GenericDict(pairs) => format!("a dictionary of {} values", pairs.len()),
        IValue::TensorList(values) => format!("{} tensors", values.len()),
        IValue::DoubleList(_) | IValue::IntList(_) | IValue::BoolList(_) => {
            "a list of numbers".to_owned()
        }
        IValue::StringList(_) => "a list of strings".to_owned(),
        _ => "an object".to_owned(),
    }
}
