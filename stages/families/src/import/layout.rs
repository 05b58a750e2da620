//! The mapping from the tensors of a file to those of the model, and checks that it is complete.

use std::collections::{BTreeMap, BTreeSet};

use stage_core::StageError;
use stage_formats::shapes::{self, Expected};
use stage_formats::weight_norm::paired;
use stage_formats::{FormatError, Tensor, TensorInfo, WeightFile};

/// The tensors of a model by name.
pub struct TensorLayout {
    tensors: BTreeMap<String, TensorOrigin>,
    /// Tensors of the file that no model of the family has, or that are computed again.
    pub dropped: u64,
    /// Names of further tensors, which the model does not have.
    pub unknown: Vec<String>,
}

/// The origin of a tensor.
struct TensorOrigin {
    info: TensorInfo,
    /// Names in the file; several tensors are stacked.
    stored: Vec<String>,
}

impl TensorLayout {
    /// From tensors by name, each with its names in the file.
    ///
    /// # Errors
    ///
    /// If several cannot be stacked.
    pub fn of(
        file: &WeightFile,
        stored: BTreeMap<String, Vec<String>>,
    ) -> Result<TensorLayout, StageError> {
        let infos = file.tensors();
        let used: usize = stored.values().map(Vec::len).sum();
        let dropped = infos.len().saturating_sub(used) as u64;
        let mut tensors = BTreeMap::new();
        for (name, stored) in stored {
            let parts: Vec<&TensorInfo> =
                stored.iter().filter_map(|name| infos.get(name.as_str()).copied()).collect();
            let info = match parts.as_slice() {
                [one] => (*one).clone(),
                several => TensorInfo::stack_rows(several).ok_or_else(|| {
                    StageError::failed(format!("the parts of `{name}` do not fit together"))
                })?,
            };
            tensors.insert(name, TensorOrigin { info, stored });
        }
        Ok(TensorLayout { tensors, dropped, unknown: Vec::new() })
    }

    /// Renames the tensors of a file, and drops those without a new name.
    ///
    /// # Errors
    ///
    /// If two get the same name.
    pub fn renamed(
        file: &WeightFile,
        prefixes: &[&str],
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<TensorLayout, StageError> {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, stored) in file.plain_names(prefixes).names {
            let Some(name) = rename(&name) else { continue };
            if names.insert(name.clone(), vec![stored]).is_some() {
                let message = format!("the file has two tensors for `{name}`");
                return Err(StageError::failed(message));
            }
        }
        TensorLayout::of(file, names)
    }

    /// Removes the last axis, of size one, if a file has it and the model does not.
    pub fn drop_last_axis(&mut self, is_meant: impl Fn(&str) -> bool) {
        for (name, TensorOrigin { info, .. }) in &mut self.tensors {
            if is_meant(name) && matches!(info.shape[..], [_, _, 1]) {
                info.shape.pop();
            }
        }
    }

    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Names in the file of a tensor.
    pub fn stored(&self, name: &str) -> &[String] {
        self.tensors.get(name).map(|place| place.stored.as_slice()).unwrap_or_default()
    }

    pub fn tensor(&self, file: &WeightFile, name: &str) -> Result<Tensor, FormatError> {
        match self.stored(name) {
            [one] => {
                let (tensor, place) = (file.tensor(one)?, self.tensors.get(name));
                match place.filter(|place| place.info != *tensor.info()) {
                    Some(place) => Tensor::new(place.info.clone(), tensor.data().clone()),
                    None => Ok(tensor),
                }
            }
            several => {
                let parts: Result<Vec<Tensor>, FormatError> =
                    several.iter().map(|part| file.tensor(part)).collect();
                Tensor::stack_rows(&parts?)
            }
        }
    }

    /// The shapes of the tensors, in the integers of libtorch.
    pub fn shapes(&self) -> impl Iterator<Item = (&str, Vec<i64>)> {
        let sizes =
            |place: &TensorOrigin| place.info.shape.iter().map(|size| *size as i64).collect();
        self.tensors.iter().map(move |(name, place)| (name.as_str(), sizes(place)))
    }

    /// The same as [`fit`](Self::fit) for weights that may be stored in pairs.
    pub fn fit_paired(&mut self, expected: Vec<Expected>) -> Result<(), StageError> {
        let expected = paired(expected, |name| self.tensors.contains_key(name));
        self.fit(&expected)
    }

    /// Leaves out the tensors that the model does not have, as the loaders of the original projects
    /// do, and checks the others.
    pub fn fit(&mut self, expected: &[Expected]) -> Result<(), StageError> {
        let known: BTreeSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        let fitting = self.shapes().filter(|(name, _)| known.contains(name)).collect();
        if shapes::compare(&fitting, expected).is_err() {
            // The name of another tensor may say where a missing one is.
            return self.check(expected);
        }
        let unknown = self.names().filter(|name| !known.contains(name));
        self.unknown = unknown.map(str::to_owned).collect();
        self.tensors.retain(|name, _| known.contains(name.as_str()));
        Ok(())
    }

    pub fn check(&self, expected: &[Expected]) -> Result<(), StageError> {
        shapes::compare(&self.shapes().collect(), expected).map_err(|problems| {
            StageError::failed(format!("the weights do not match `config.json`: {problems}"))
        })
    }
}
