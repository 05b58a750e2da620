//! Weights in several files, with an index: `model.safetensors.index.json` or
//! `pytorch_model.bin.index.json`, whose `weight_map` names the file of each tensor.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::error::FormatError;
use crate::json;
use crate::parts::Parts;
use crate::shapes::listed;
use crate::tensor::{Tensor, TensorInfo};
use crate::weights::{ENDINGS, WeightFile};

const FORMAT: &str = "weight index";
/// The end of the name of an index, behind that of the weights.
const SUFFIX: &str = ".index.json";
/// The index of a model with a million tensors has less.
const MAX_INDEX_BYTES: usize = 128 << 20;
const MAX_SHARDS: usize = 4096;

/// Tests if a path is that of an index of weights.
pub fn is_index(path: &str) -> bool {
    let weights = path.strip_suffix(SUFFIX).and_then(|weights| weights.rsplit_once('.'));
    weights.is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending))
}

/// The part of a name before `-00001-of-00002`, if it is that of a shard.
pub fn shard_stem(path: &str) -> Option<&str> {
    let (stem, _) = path.rsplit_once('.')?;
    let (rest, total) = stem.rsplit_once("-of-")?;
    let (name, number) = rest.rsplit_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(number) && is_number(total)).then_some(name)
}

/// The files by tensor.
#[derive(Debug, Deserialize)]
pub struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Index {
    /// # Errors
    ///
    /// If the file is no index, or names a file outside its folder.
    pub fn read(parts: impl Into<Parts>) -> Result<Index, FormatError> {
        let parts = parts.into();
        if parts.len() > MAX_INDEX_BYTES {
            let message = format!("it has more than {MAX_INDEX_BYTES} bytes");
            return Err(FormatError::too_much(FORMAT, message));
        }
        let bytes = parts.up_to(FORMAT, 0, MAX_INDEX_BYTES)?;
        let index: Index = json::from_outside(&bytes).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let message = format!(
                "it is not JSON with a `weight_map` of tensors and files (line {line}, column {column})"
            );
            FormatError::damaged(FORMAT, message)
        })?;
        let files = index.files();
        if let Some(path) = files.iter().find(|path| !is_beside(path)) {
            let message = format!("it names the file `{path}`, which is not beside it");
            return Err(FormatError::damaged(FORMAT, message));
        }
        match files.len() {
            0 => Err(FormatError::damaged(FORMAT, "its `weight_map` is empty")),
            1..=MAX_SHARDS => Ok(index),
            count => Err(FormatError::too_much(
                FORMAT,
                format!("it names {count} files, more than {MAX_SHARDS}"),
            )),
        }
    }

    /// The names of the shards, in the folder of the index.
    pub fn files(&self) -> BTreeSet<&str> {
        self.weight_map.values().map(String::as_str).collect()
    }

    /// The weights, with a function that opens a shard; None if there is no such file.
    ///
    /// # Errors
    ///
    /// If a shard or one of its tensors is missing.
    pub fn open<E: From<FormatError>>(
        &self,
        mut open: impl FnMut(&str) -> Result<Option<WeightFile>, E>,
    ) -> Result<WeightFile, E> {
        let mut shards = Shards { files: Vec::new(), places: BTreeMap::new() };
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut missing = Vec::new();
        for name in self.files() {
            match open(name)? {
                Some(file) => {
                    numbers.insert(name, shards.files.len());
                    shards.files.push(file);
                }
                None => missing.push(name),
            }
        }
        if !missing.is_empty() {
            let names = listed(missing.into_iter());
            return Err(FormatError::MissingShards { names }.into());
        }
        for (tensor, name) in &self.weight_map {
            let number = numbers.get(name.as_str()).copied().unwrap_or_default();
            shards.places.insert(tensor.clone(), number);
        }
        shards.check(self)?;
        Ok(WeightFile::Shards(shards))
    }
}

/// A plain name of a file: an index is beside its shards.
fn is_beside(path: &str) -> bool {
    !matches!(path, "" | "." | "..") && !path.contains(['/', '\\', '\0'])
}

/// Weights in several files.
#[derive(Clone, Debug)]
pub struct Shards {
    files: Vec<WeightFile>,
    /// The number of the file of each tensor.
    places: BTreeMap<String, usize>,
}

impl Shards {
    /// Names with types and shapes.
    pub fn tensors(&self) -> BTreeMap<&str, &TensorInfo> {
        let files = self.files.iter().enumerate();
        let all = files.flat_map(|(at, file)| file.tensors().into_iter().map(move |one| (at, one)));
        let is_listed =
            |(at, (name, _)): &(usize, (&str, &TensorInfo))| self.places.get(*name) == Some(at);
        all.filter(is_listed).map(|(_, tensor)| tensor).collect()
    }

    /// # Errors
    ///
    /// If there is no such tensor, or it cannot be read.
    pub fn tensor(&self, name: &str) -> Result<Tensor, FormatError> {
        let file = self.places.get(name).and_then(|at| self.files.get(*at));
        let missing = || FormatError::Missing {
            name: name.to_owned(),
            hint: " in the weight index".to_owned(),
        };
        file.ok_or_else(missing)?.tensor(name)
    }

    /// Every tensor of the index is in its file.
    fn check(&self, index: &Index) -> Result<(), FormatError> {
        let there = self.tensors();
        let lost: Vec<&str> = self
            .places
            .keys()
            .map(String::as_str)
            .filter(|name| !there.contains_key(name))
            .collect();
        let Some(first) = lost.first() else { return Ok(()) };
        let file = index.weight_map.get(*first).map_or("", String::as_str);
        let names = listed(lost.iter().copied());
        let message = format!("it names tensors that their files lack: {names} in `{file}`");
        Err(FormatError::damaged(FORMAT, message))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::weights::tests::file;

    fn opened(map: &str, shards: &[(&str, &[&str])]) -> Result<WeightFile, FormatError> {
        let text = format!("\u{FEFF}{{\"metadata\": {{}}, \"weight_map\": {map}}}");
        let index = Index::read(text.into_bytes())?;
        index.open(|name| {
            let found = shards.iter().find(|(own, _)| *own == name);
            Ok::<_, FormatError>(found.map(|(_, names)| file(names)))
        })
    }

    fn told(map: &str, shards: &[(&str, &[&str])]) -> String {
        opened(map, shards).unwrap_err().to_string()
    }

    #[test]
    fn tensors_come_from_the_files_that_the_index_names() {
        let map = r#"{"a": "m-1.safetensors", "b": "m-2.safetensors"}"#;
        let shards: &[(&str, &[&str])] =
            &[("m-1.safetensors", &["a", "b"]), ("m-2.safetensors", &["b", "extra"])];
        let file = opened(map, shards).unwrap();
        assert_eq!(file.tensors().into_keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(file.tensor("b").unwrap().info().shape, [1]);
        assert!(file.tensor("extra").is_err());
    }

    #[test]
    fn a_missing_shard_and_a_missing_tensor_are_named() {
        let map = r#"{"a": "m-1.safetensors", "b": "m-2.safetensors"}"#;
        let one = told(map, &[("m-1.safetensors", &["a"])]);
        assert_eq!(one, "the index names files that are missing: `m-2.safetensors`");
        let other = told(map, &[("m-1.safetensors", &["a"]), ("m-2.safetensors", &["c"])]);
        assert!(other.ends_with("that their files lack: `b` in `m-2.safetensors`"), "{other}");
    }

    #[test]
    fn an_index_that_leads_elsewhere_is_refused() {
        for path in
            ["../m.safetensors", "/etc/m.safetensors", "sub/m.safetensors", "..", "", "a\\\\b"]
        {
            let map = format!(r#"{{"a": "{path}"}}"#);
            assert!(told(&map, &[]).contains("not beside it"), "{path}");
        }
        assert!(told("{}", &[]).contains("`weight_map` is empty"));
        assert!(told("[1]", &[]).contains("not JSON with a `weight_map`"));
    }

    #[test]
    fn an_index_and_its_shards_are_known_by_their_names() {
        for (path, expected) in [
            ("model.safetensors.index.json", true),
            ("a/pytorch_model.bin.index.json", true),
            ("index.json", false),
            ("model.index.json", false),
            (".bin.index.json", false),
        ] {
            assert_eq!(is_index(path), expected, "{path}");
        }
        assert_eq!(shard_stem("a/model-00001-of-00002.safetensors"), Some("a/model"));
        assert_eq!(shard_stem("model-1-of-x.bin"), None);
        assert_eq!(shard_stem("model.bin"), None);
    }
}
