//! A weight file of any format, or the shards of one, and the names of its tensors without prefixes of
//! training tools.

use std::collections::BTreeMap;

use cache::fs::Fs;
use camino::Utf8Path;

use crate::error::FormatError;
use crate::onnx::OnnxFile;
use crate::parts::Parts;
use crate::pth::PthFile;
use crate::safetensors::SafetensorsFile;
use crate::shards::{self, Shards};
use crate::stranger::{HEAD, Stranger};
use crate::tensor::{Tensor, TensorInfo};

/// The extensions of weight files, the cheapest to read first.
pub const ENDINGS: [&str; 5] = ["safetensors", "pth", "pt", "ckpt", "bin"];

/// The extension of graphs, which have weights without the parts that only training needs.
pub const GRAPH_ENDING: &str = "onnx";

/// The prefix of weights in checkpoints of training runs.
const STATE: &str = "state_dict.";

/// The prefixes that PyTorch adds to every name of a wrapped model: by `DataParallel` and
/// `DistributedDataParallel`, and by `torch.compile`.
const WRAPPERS: [&str; 2] = ["module.", "_orig_mod."];

#[derive(Clone, Debug)]
pub enum WeightFile {
    Pth(PthFile),
    Safetensors(SafetensorsFile),
    Shards(Shards),
    Onnx(OnnxFile),
}

/// The weights by their plain names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainNames {
    /// With the names for [`WeightFile::tensor`].
    pub names: BTreeMap<String, String>,
    /// The prefixes of wrapped models that were removed, such as `module.`; empty if there were none.
    pub unwrapped: String,
}

impl WeightFile {
    /// Maps a file, or the shards that it lists; they must not change meanwhile.
    pub fn open(fs: &dyn Fs, path: &Utf8Path) -> Result<WeightFile, FormatError> {
        if !shards::is_index(path.as_str()) {
            return WeightFile::read(fs.map(path)?);
        }
        let index = shards::Index::read(fs.map(path)?)?;
        let folder = path.parent().unwrap_or(Utf8Path::new(""));
        index.open(|name| match fs.map(&folder.join(name)) {
            Err(error) if error.is_not_found() => Ok(None),
            mapped => Ok(Some(WeightFile::read(mapped?)?)),
        })
    }

    /// The content determines the format. If the file is read in parts, only its directory is read.
    pub fn read(parts: impl Into<Parts>) -> Result<WeightFile, FormatError> {
        let parts = parts.into();
        let head = parts.up_to("PyTorch", 0, HEAD)?;
        let read = match head.get(8) {
            Some(b'{') if !head.starts_with(b"PK") => {
                SafetensorsFile::read(parts).map(WeightFile::Safetensors)
            }
            _ if OnnxFile::is_one(&head) => OnnxFile::read(&parts).map(WeightFile::Onnx),
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
            WeightFile::Shards(shards) => shards.tensors(),
            WeightFile::Onnx(file) => file.tensors().collect(),
        }
    }

    pub fn tensor(&self, name: &str) -> Result<Tensor, FormatError> {
        match self {
            WeightFile::Pth(file) => file.tensor(name),
            WeightFile::Safetensors(file) => file.tensor(name),
            WeightFile::Shards(shards) => shards.tensor(name),
            WeightFile::Onnx(file) => file.tensor(name),
        }
    }

    /// The weights by their plain names. If a file has a `state_dict`, or names with one of the
    /// prefixes, only those count, and the others belong to something else. A prefix of a wrapped model
    /// is removed where every name has it.
    pub fn plain_names(&self, prefixes: &[&str]) -> PlainNames {
        let names = self.tensors().into_keys().map(|name| (name.to_owned(), name.to_owned()));
        let mut plain = PlainNames { names: names.collect(), unwrapped: String::new() };
        plain.unwrap();
        for prefix in [&[STATE], prefixes].concat() {
            let chosen = plain.without(prefix);
            if !chosen.is_empty() {
                plain.names = chosen;
                plain.unwrap();
            }
        }
        plain
    }
}

impl PlainNames {
    /// The names with this prefix, without it.
    fn without(&self, prefix: &str) -> BTreeMap<String, String> {
        let stripped = |(name, stored): (&String, &String)| {
            Some((name.strip_prefix(prefix)?.to_owned(), stored.clone()))
        };
        self.names.iter().filter_map(stripped).collect()
    }

    fn unwrap(&mut self) {
        let is_whole = |inner: &BTreeMap<String, String>| {
            !inner.is_empty() && inner.len() == self.names.len() && !inner.contains_key("")
        };
        let found = WRAPPERS.iter().map(|prefix| (prefix, self.without(prefix)));
        if let Some((prefix, inner)) = found.into_iter().find(|(_, inner)| is_whole(inner)) {
            self.unwrapped += prefix;
            self.names = inner;
            self.unwrap();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::safetensors;

    pub fn file(names: &[&str]) -> WeightFile {
        let tensor = Tensor::from_f32([1], &[1.0]).unwrap();
        let tensors = names.iter().map(|name| (*name, &tensor));
        WeightFile::read(safetensors::write(tensors).unwrap()).unwrap()
    }

    fn plain(names: &[&str], prefixes: &[&str]) -> Vec<String> {
        file(names).plain_names(prefixes).names.into_keys().collect()
    }

    #[test]
    fn only_the_weights_of_a_checkpoint_count() {
        let names = ["state_dict.model.a", "state_dict.model.b", "optimizer_states.0.state.0.x"];
        assert_eq!(plain(&names, &["model."]), ["a", "b"]);
        assert_eq!(file(&names).plain_names(&["model."]).names["a"], "state_dict.model.a");
    }

    #[test]
    fn a_prefix_chooses_and_its_absence_changes_nothing() {
        assert_eq!(plain(&["generator.a", "discriminator.b"], &["generator."]), ["a"]);
        assert_eq!(plain(&["a", "b"], &["generator.", "model."]), ["a", "b"]);
    }

    #[test]
    fn prefixes_of_wrapped_models_are_removed_where_every_name_has_them() {
        for (names, prefixes, unwrapped) in [
            (vec!["module.a", "module.b"], vec![], "module."),
            (vec!["_orig_mod.a", "_orig_mod.b"], vec![], "_orig_mod."),
            (vec!["module._orig_mod.a", "module._orig_mod.b"], vec![], "module._orig_mod."),
            (vec!["_orig_mod.module.a", "_orig_mod.module.b"], vec![], "_orig_mod.module."),
            (vec!["module.model.a", "module.model.b"], vec!["model."], "module."),
            (vec!["model.module.a", "model.module.b", "optimizer.x"], vec!["model."], "module."),
            (vec!["state_dict.module.a", "state_dict.module.b", "step"], vec![], "module."),
        ] {
            let found = file(&names).plain_names(&prefixes);
            assert_eq!(found.names.into_keys().collect::<Vec<_>>(), ["a", "b"], "{names:?}");
            assert_eq!(found.unwrapped, unwrapped);
        }
        let mixed = ["module.a", "modules.b", "_orig_mod.c"];
        assert_eq!(plain(&mixed, &[]), ["_orig_mod.c", "module.a", "modules.b"]);
        assert_eq!(file(&mixed).plain_names(&[]).unwrapped, "");
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
