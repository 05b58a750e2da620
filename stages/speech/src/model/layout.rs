//! Which tensors of a file make up the model, under which names, and whether these are all.

use std::collections::BTreeMap;

use stage_core::StageError;
use stage_families::vits::{is_projection, plain_name};
use stage_families::wav2vec2;
use stage_formats::shapes::{self, Expected};
use stage_formats::weight_norm::paired;
use stage_formats::{FormatError, Tensor, TensorInfo, WeightFile};

use super::family::Family;

/// What is made anew from the configuration, wherever it stands in a name.
const REMADE: [&str; 3] = ["freqs_cis", "fast_freqs_cis", "causal_mask"];
/// Tensors of another modality in the published file, which the original drops as well.
const OTHER_MODALITY: &str = "audio_";
/// Apart in older files, in the order in which they become one.
const APART: [&str; 3] = [".wq.", ".wk.", ".wv."];
const JOINED: &str = ".wqkv.";

/// The tensors of a model by name.
pub struct Layout {
    tensors: BTreeMap<String, Place>,
    /// Tensors of the file that the model does not have.
    pub dropped: u64,
}

/// What a tensor is made of.
struct Place {
    info: TensorInfo,
    /// Names in the file, whose tensors are stacked where there are several.
    stored: Vec<String>,
}

impl Layout {
    pub fn new(file: &WeightFile, family: Family) -> Result<Layout, StageError> {
        let infos = file.tensors();
        let names = file.plain_names(family.prefixes());
        let mut stored: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, own) in names.iter().filter(|(name, _)| is_kept(name, family)) {
            match joined(name, &names, family) {
                Some((whole, parts)) => drop(stored.insert(whole, parts)),
                None => drop(stored.insert(name.clone(), vec![own.clone()])),
            }
        }
        let used: usize = stored.values().map(Vec::len).sum();
        let dropped = (infos.len() - used) as u64;
        let mut tensors = BTreeMap::new();
        for (name, stored) in stored {
            let parts: Vec<&TensorInfo> =
                stored.iter().filter_map(|name| infos.get(name.as_str()).copied()).collect();
            let info = match parts.as_slice() {
                [one] => (*one).clone(),
                several => TensorInfo::stack_rows(several).ok_or_else(|| {
                    StageError::failed(format!("the parts of `{name}` do not fit on each other"))
                })?,
            };
            tensors.insert(name, Place { info, stored });
        }
        Ok(Layout { tensors, dropped })
    }

    /// Of a VITS model, generator or discriminator, from a file of transformers or of the original;
    /// each weight whole or in the pair that the file has. What durations are predicted by tells
    /// some names apart.
    pub fn of_vits(file: &WeightFile, is_stochastic: bool) -> Result<Layout, StageError> {
        let rename = |name: &str| Some(plain_name(name, is_stochastic));
        let mut layout = Layout::renamed(file, Family::Vits, rename)?;
        for (name, Place { info, .. }) in &mut layout.tensors {
            if is_projection(name) && matches!(info.shape[..], [_, _, 1]) {
                info.shape.pop();
            }
        }
        Ok(layout)
    }

    /// Of a speech recogniser.
    pub fn of_wav2vec2(file: &WeightFile) -> Result<Layout, StageError> {
        Layout::renamed(file, Family::Wav2Vec2, wav2vec2::plain_name)
    }

    /// The tensors of a file under other names, those that get one.
    fn renamed(
        file: &WeightFile,
        family: Family,
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<Layout, StageError> {
        let infos = file.tensors();
        let mut tensors: BTreeMap<String, Place> = BTreeMap::new();
        for (name, stored) in file.plain_names(family.prefixes()) {
            let info = infos.get(stored.as_str()).map(|info| (*info).clone());
            let (Some(name), Some(info)) = (rename(&name), info) else { continue };
            let place = Place { info, stored: vec![stored] };
            if tensors.insert(name.clone(), place).is_some() {
                let message = format!("the file has two tensors for `{name}`");
                return Err(StageError::failed(message));
            }
        }
        let dropped = (infos.len() - tensors.len()) as u64;
        Ok(Layout { tensors, dropped })
    }

    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Names in the file that a tensor is made of.
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

    /// The same for weights that may be stored in pairs.
    pub fn check_paired(&self, expected: Vec<Expected>) -> Result<(), StageError> {
        self.check(&paired(expected, |name| self.tensors.contains_key(name)))
    }

    pub fn check(&self, expected: &[Expected]) -> Result<(), StageError> {
        let sizes = |place: &Place| place.info.shape.iter().map(|size| *size as i64).collect();
        let found = self.tensors.iter().map(|(name, place)| (name.as_str(), sizes(place)));
        shapes::compare(&found.collect(), expected).map_err(|problems| {
            StageError::failed(format!(
                "the weights are not those that `config.json` asks for; {problems}"
            ))
        })
    }
}

fn is_kept(name: &str, family: Family) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_other = family == Family::DualAr && name.contains(OTHER_MODALITY);
    !REMADE.contains(&last) && !is_other
}

/// Where a name is one of three that belong together: the name of the whole, and the stored
/// names of the three.
fn joined(
    name: &str,
    names: &BTreeMap<String, String>,
    family: Family,
) -> Option<(String, Vec<String>)> {
    let own = APART.iter().find(|own| name.contains(*own))?;
    let part = |part: &&str| names.get(&name.replacen(own, part, 1)).cloned();
    let parts: Vec<String> = APART.iter().filter_map(part).collect();
    (family == Family::DualAr && parts.len() == APART.len())
        .then(|| (name.replacen(own, JOINED, 1), parts))
}
