//! A weight file of any format, and the names of its tensors without prefixes of training tools.

use std::collections::BTreeMap;

use cache::fs::Fs;
use camino::Utf8Path;

use crate::error::FormatError;
use crate::parts::Parts;
use crate::pth::PthFile;
use crate::safetensors::SafetensorsFile;
use crate::stranger::{HEAD, Stranger};
use crate::tensor::{Tensor, TensorInfo};

/// The extensions of weight files, the cheapest to read first.
pub const ENDINGS: [&str; 5] = ["safetensors", "pth", "pt", "ckpt", "bin"];

/// The prefix of weights in checkpoints of training runs.
const STATE: &str = "state_dict.";

#[derive(Clone, Debug)]
pub enum WeightFile {
    Pth(PthFile),
    Safetensors(SafetensorsFile),
}

impl WeightFile {
    /// Maps a file, which must not change meanwhile.
    pub fn open(fs: &dyn Fs, path: &Utf8Path) -> Result<WeightFile, FormatError> {
        WeightFile::read(fs.map(path)?)
    }

    /// The content determines the format. If the file is read in parts, only its directory is read.
    pub fn read(parts: impl Into<Parts>) -> Result<WeightFile, FormatError> {
        let parts = parts.into();
        let head = parts.up_to("PyTorch", 0, HEAD)?;
        let read = match head.get(8) {
            Some(b'{') if !head.starts_with(b"PK") => {
                SafetensorsFile::read(parts).map(WeightFile::Safetensors)
            }
            _ => PthFile::read(parts).map(WeightFile::Pth),
        };
        read.map_err(|error| match (&error, Stranger::as_binary(&head)) {
            (FormatError::Damaged { .. } | FormatError::TooMuch { .. }, Some(stranger)) => {
                FormatError::Stranger { format: "weights", stranger }
            }
            _ => error,
        })
    }

    /// Names with types and shapes.
    pub fn tensors(&self) -> BTreeMap<&str, &TensorInfo> {
        match self {
            WeightFile::Pth(file) => file.tensors().collect(),
            WeightFile::Safetensors(file) => file.tensors().collect(),
        }
    }

    pub fn tensor(&self, name: &str) -> Result<Tensor, FormatError> {
        match self {
            WeightFile::Pth(file) => file.tensor(name),
            WeightFile::Safetensors(file) => file.tensor(name),
        }
    }

    /// The weights by their plain names, with the names for [`Self::tensor`]. If a file has a
    /// `state_dict`, or names with one of the prefixes, only those count, and the others belong to
    /// something else.
    pub fn plain_names(&self, prefixes: &[&str]) -> BTreeMap<String, String> {
        let mut names: BTreeMap<String, String> =
            self.tensors().keys().map(|name| (name.to_string(), name.to_string())).collect();
        for prefix in [&[STATE], prefixes].concat() {
            let stripped: BTreeMap<String, String> = names
                .iter()
                .filter_map(|(name, stored)| {
                    Some((name.strip_prefix(prefix)?.to_owned(), stored.clone()))
                })
                .collect();
            if !stripped.is_empty() {
                names = stripped;
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::safetensors;

    fn file(names: &[&str]) -> WeightFile {
        let tensor = Tensor::from_f32([1], &[1.0]).unwrap();
        let tensors = names.iter().map(|name| (*name, &tensor));
        WeightFile::read(safetensors::write(tensors).unwrap()).unwrap()
    }

    fn plain(names: &[&str], prefixes: &[&str]) -> Vec<String> {
        file(names).plain_names(prefixes).into_keys().collect()
    }

    #[test]
    fn only_the_weights_of_a_checkpoint_count() {
        let names = ["state_dict.model.a", "state_dict.model.b", "optimizer_states.0.state.0.x"];
        assert_eq!(plain(&names, &["model."]), ["a", "b"]);
        assert_eq!(file(&names).plain_names(&["model."])["a"], "state_dict.model.a");
    }

    #[test]
    fn a_prefix_chooses_and_its_absence_changes_nothing() {
        assert_eq!(plain(&["generator.a", "discriminator.b"], &["generator."]), ["a"]);
        assert_eq!(plain(&["a", "b"], &["generator.", "model."]), ["a", "b"]);
    }

    #[test]
    fn the_content_tells_the_format() {
        assert!(matches!(file(&["a"]), WeightFile::Safetensors(_)));
        let pth = include_bytes!("../tests/fixtures/pth/types.pth");
        assert!(matches!(WeightFile::read(&pth[..]).unwrap(), WeightFile::Pth(_)));
        assert!(WeightFile::read(&b""[..]).is_err());
    }

    #[test]
    fn what_a_failed_download_left_is_named() {
        let pointer: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
        for (bytes, told, help) in [
            (pointer, "a git-lfs pointer", "git lfs pull"),
            (b"<!DOCTYPE html><html></html>", "an HTML page", "fetch the file again"),
            (b"{\"error\": \"not found\"}", "a JSON document", "fetch the file again"),
        ] {
            let error = WeightFile::read(bytes.to_vec()).unwrap_err().of("model.pth");
            assert_eq!(error.to_string(), format!("`model.pth`: it is {told}, not weights"));
            assert!(error.help().is_some_and(|advice| advice.contains(help)), "{error:?}");
        }
    }
}
