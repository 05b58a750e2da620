//! What the tensors of an exported file are made of.

use std::collections::BTreeMap;

use stage_core::{Fields, StageError};
use stage_families::artifact::{self, FAMILY, VITS};
use stage_families::vits::{
    DISCRIMINATOR_PREFIX, is_normed, is_normed_in_transformers, of_original_discriminator,
};
use stage_formats::weight_norm::{self, DIRECTION, LENGTH, WHOLE, newer};
use stage_formats::{Dtype, FormatError, Tensor, TensorInfo};

/// Names are those of the model's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    Same(String),
    /// The whole weight of a pair.
    Folded {
        length: String,
        direction: String,
    },
    /// One of the pair that a whole weight becomes.
    LengthOf(String),
    DirectionOf(String),
}

/// The tensors of the file by name, as the original project wants them. Those of a VITS model are
/// what transformers speaks with: the WaveNets in pairs, all else whole, no discriminator.
pub fn recipes(model: &Fields) -> BTreeMap<String, Recipe> {
    let tensors = artifact::tensors(model).map(|(name, _)| name);
    match model.text(FAMILY) {
        Some(VITS) => tensors
            .filter(|name| !name.starts_with(DISCRIMINATOR_PREFIX))
            .flat_map(of_vits)
            .collect(),
        _ => tensors.map(|name| (name.to_owned(), Recipe::Same(name.to_owned()))).collect(),
    }
}

/// The tensors of a VITS model's discriminator by name, as the original project trains it: its
/// weights in pairs.
pub fn of_discriminator(model: &Fields) -> BTreeMap<String, Recipe> {
    let of = |name: &str| {
        let own = of_original_discriminator(name)?;
        let Some(module) = own.strip_suffix(WHOLE).filter(|_| is_normed(name)) else {
            return Some(vec![(own, Recipe::Same(name.to_owned()))]);
        };
        Some(vec![
            (format!("{module}{LENGTH}"), Recipe::LengthOf(name.to_owned())),
            (format!("{module}{DIRECTION}"), Recipe::DirectionOf(name.to_owned())),
        ])
    };
    artifact::tensors(model).filter_map(|(name, _)| of(name)).flatten().collect()
}

fn of_vits(name: &str) -> Vec<(String, Recipe)> {
    let same = || vec![(newer(name), Recipe::Same(name.to_owned()))];
    if is_normed_in_transformers(name) {
        let Some(module) = name.strip_suffix(WHOLE).filter(|_| is_normed(name)) else {
            return same();
        };
        return vec![
            (newer(&format!("{module}{LENGTH}")), Recipe::LengthOf(name.to_owned())),
            (newer(&format!("{module}{DIRECTION}")), Recipe::DirectionOf(name.to_owned())),
        ];
    }
    match (name.strip_suffix(LENGTH), name.strip_suffix(DIRECTION)) {
        (Some(_), _) => Vec::new(),
        (None, Some(module)) => {
            let (length, direction) = (format!("{module}{LENGTH}"), name.to_owned());
            vec![(format!("{module}{WHOLE}"), Recipe::Folded { length, direction })]
        }
        (None, None) => same(),
    }
}

impl Recipe {
    /// The type and the shape of what will be made; `read` gives a tensor of the model.
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
