//! The recipes for tensors of an exported file.

use stage_core::StageError;
use stage_formats::weight_norm;
use stage_formats::{Dtype, FormatError, Tensor, TensorInfo};

/// Names are those of the model's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    Same(String),
    /// The weight of a pair, with weight norm removed.
    Folded {
        length: String,
        direction: String,
    },
    /// One of the pair of a weight under weight norm.
    LengthOf(String),
    DirectionOf(String),
}

impl Recipe {
    /// The type and the shape of the result; `read` returns a tensor of the model.
    pub fn info(
        &self,
        mut read: impl FnMut(&str) -> Result<Tensor, StageError>,
    ) -> Result<TensorInfo, StageError> {
        let (Recipe::Same(name)
        | Recipe::DirectionOf(name)
        | Recipe::LengthOf(name)
        | Recipe::Folded { direction: name, .. }) = self;
        let mut info = read(name)?.info().clone();
        match self {
            Recipe::Same(_) | Recipe::DirectionOf(_) => {}
            Recipe::Folded { .. } => info.dtype = Dtype::F32,
            Recipe::LengthOf(_) => {
                info.dtype = Dtype::F32;
                info.shape.iter_mut().skip(1).for_each(|size| *size = 1);
            }
        }
        Ok(info)
    }

    pub fn make(
        &self,
        mut read: impl FnMut(&str) -> Result<Tensor, StageError>,
    ) -> Result<Tensor, StageError> {
        let failed =
            |name: &str, error: FormatError| StageError::failed(format!("`{name}`: {error}"));
        match self {
            Recipe::Same(name) => read(name),
            Recipe::Folded { length, direction } => {
                let folded = weight_norm::fold(&read(length)?, &read(direction)?);
                folded.map_err(|error| failed(direction, error))
            }
            Recipe::LengthOf(name) | Recipe::DirectionOf(name) => {
                let split = weight_norm::split(&read(name)?);
                let (length, direction) = split.map_err(|error| failed(name, error))?;
                Ok(if matches!(self, Recipe::LengthOf(_)) { length } else { direction })
            }
        }
    }
}
