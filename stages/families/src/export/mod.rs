//! Export of models to files of the original projects, for all families.

mod recipe;

use std::collections::BTreeMap;

use stage_core::{Blob, Context, Fields, NewValue, StageError};
use stage_formats::onnx::WeightType;

use crate::artifact::{self, CONFIG};
use crate::import::CONFIG_FILE;
use crate::onnx::{GraphFiles, Target};
pub use recipe::Recipe;

/// The tensors of a file by name.
pub type Recipes = BTreeMap<String, Recipe>;

/// The file format of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Pth,
    Safetensors,
}

/// A family that `model.export` supports.
pub trait Exporter: Sync {
    /// The format that the original project reads.
    fn format(&self) -> Format {
        Format::Pth
    }

    /// The weight files by name.
    fn weights(&self, model: &Fields, format: Format) -> Vec<(&'static str, Recipes)> {
        let name = match format {
            Format::Pth => "model.pth",
            Format::Safetensors => "model.safetensors",
        };
        vec![(name, as_they_are(model))]
    }

    /// The key in the PyTorch file that contains the tensors, if they are not at the top.
    fn dictionary(&self, _file: &str) -> Option<&'static str> {
        None
    }

    /// The tensors of a discriminator, in the format in which the original project trains it.
    fn discriminator(&self, _model: &Fields) -> Recipes {
        Recipes::new()
    }

    /// Notes on a model that the original project cannot load, with the reason.
    fn limits(
        &self,
        _model: &Fields,
        _context: &mut dyn Context,
    ) -> Result<Vec<String>, StageError> {
        Ok(Vec::new())
    }

    /// The model as an ONNX graph.
    ///
    /// # Errors
    ///
    /// If there is none, or the program that it is for cannot use it.
    fn graph(
        &self,
        _model: &Fields,
        _target: Target,
        _stored: WeightType,
        _context: &mut dyn Context,
    ) -> Result<GraphFiles, StageError> {
        Err(StageError::with_help(
            "models of this family have no ONNX form",
            "leave out `format`: `throstle serve` works with the files of the original project",
        ))
    }

    /// All other files.
    ///
    /// # Errors
    ///
    /// If the model lacks required data, or part of it is unreadable.
    fn descriptions(
        &self,
        model: &Fields,
        _context: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        Ok(copies(model, &[(CONFIG, CONFIG_FILE)]))
    }
}

/// The tensors of a model under their own names.
pub fn as_they_are(model: &Fields) -> Recipes {
    let names = artifact::tensors(model).map(|(name, _)| name.to_owned());
    names.map(|name| (name.clone(), Recipe::Same(name))).collect()
}

/// Fields that become files of these names, if present.
pub fn copies(model: &Fields, files: &[(&str, &str)]) -> Vec<(String, NewValue)> {
    let copy = |(field, name): &(&str, &str)| {
        Some(((*name).to_owned(), NewValue::blob(Blob::clone(model.blob(field)?))))
    };
    files.iter().filter_map(copy).collect()
}
