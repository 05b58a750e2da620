//! Detects the family of a weight file, and selects the weight file of an asset.

use std::cmp::Reverse;

use cache::fs::{FileKind, Fs, RealFs};
use camino::Utf8Path;
use stage_core::{Fields, StageError, Value};
use stage_families::import::Importer;
use stage_families::vits::{DESCRIPTION_SUFFIX, reads_phonemes};
use stage_families::{FAMILIES, Family};
use stage_formats::shapes::listed;
use stage_formats::shards::{is_index, shard_stem};
use stage_formats::weights::{ENDINGS, GRAPH_ENDING, WeightFile};

/// The usual name of published weight files, without extension.
const USUAL_STEM: &str = "model";

/// A model in a folder of published files.
pub struct PublishedModel {
    pub family: &'static dyn Family,
    /// It reads the phonemes of texts.
    pub reads_phonemes: bool,
}

/// The model in a folder of published files: the one in `file`, or the only one.
///
/// # Errors
///
/// If the folder cannot be read, or has no model that is known here.
pub fn published_model(
    folder: &Utf8Path,
    file: Option<&str>,
) -> Result<PublishedModel, StageError> {
    let entries = RealFs.read_dir(folder).map_err(StageError::of_file)?;
    let files = entries.into_iter().filter(|entry| entry.kind != FileKind::Dir);
    let asset: Fields = files.map(|entry| (entry.name, Value::text(""))).collect();
    let path = weight_file(&asset, file, None)?;
    let file = WeightFile::open(&RealFs, &folder.join(path)).map_err(|error| error.of(path))?;
    let family = family_of(&file, path)?;
    let description = folder.join(format!("{path}{DESCRIPTION_SUFFIX}"));
    // A missing description is an error of the import.
    let described = || RealFs.read(&description).is_ok_and(|text| reads_phonemes(&text));
    let reads_phonemes = matches!(file, WeightFile::Onnx(_)) && described();
    Ok(PublishedModel { family, reads_phonemes })
}

/// The family of a file, by the names of its tensors.
pub fn family_of(file: &WeightFile, path: &str) -> Result<&'static dyn Family, StageError> {
    let fits =
        |family: &&dyn Family| family.importer().is_some_and(|importer| importer.recognises(file));
    FAMILIES.iter().copied().find(fits).ok_or_else(|| {
        let names = listed(file.tensors().keys().copied());
        StageError::failed(format!(
            "the tensors of `{path}`, such as {names}, do not belong to a known model; choose \
             another file with `file`, or set `family`"
        ))
    })
}

/// The weight file: the requested one, the one with the published name, the only one, or the newest
/// state of a trainer.
pub fn weight_file<'a>(
    asset: &'a Fields,
    wanted: Option<&str>,
    family: Option<&dyn Family>,
) -> Result<&'a str, StageError> {
    let names = || asset.iter().map(|(name, _)| &**name);
    if let Some(wanted) = wanted {
        return names().find(|name| *name == wanted).ok_or_else(|| {
            let names = listed(names());
            StageError::failed(format!("the asset has no file `{wanted}`; it has {names}"))
        });
    }
    let stem = family.and_then(Family::importer).map_or(USUAL_STEM, Importer::file_stem);
    let mut files: Vec<&str> = Vec::new();
    for ending in ENDINGS {
        let has_ending = |name: &&str| name.rsplit_once('.').is_some_and(|(_, end)| end == ending);
        files.extend(names().filter(has_ending));
        let suffix = format!(".{ending}.index.json");
        files.extend(names().filter(|name| is_index(name) && name.ends_with(&suffix)));
    }
    if files.is_empty() {
        // Beside weights, a graph is an export of them.
        let is_graph =
            |name: &&str| name.rsplit_once('.').is_some_and(|(_, end)| end == GRAPH_ENDING);
        files.extend(names().filter(is_graph));
    }
    without_shards(&mut files)?;
    let published = |name: &&&str| name.split_once('.').is_some_and(|(own, _)| own == stem);
    if !files.is_empty() && files.iter().all(|path| is_companion(path)) {
        let files = listed(files.iter().copied());
        let message = format!("the asset has {files} without the `{stem}.pth` that they belong to");
        return Err(StageError::failed(message));
    }
    match (files.iter().find(published), files.as_slice()) {
        (Some(file), _) | (None, [file]) => Ok(file),
        (None, []) => {
            let names = listed(names());
            Err(StageError::failed(format!("the asset has no file of weights; it has {names}")))
        }
        (None, several) => newest(several).ok_or_else(|| {
            let several = listed(several.iter().copied());
            StageError::failed(format!(
                "the asset has several files of weights: {several}; choose one with `file`"
            ))
        }),
    }
}

/// Removes the shards that an index stands for. Shards without an index are an error.
fn without_shards(files: &mut Vec<&str>) -> Result<(), StageError> {
    let indices: Vec<&str> = files.iter().copied().filter(|path| is_index(path)).collect();
    let stem_of = |index: &str| -> Option<String> {
        let weights = index.strip_suffix(".index.json")?;
        weights.rsplit_once('.').map(|(stem, _)| stem.to_owned())
    };
    let stems: Vec<String> = indices.iter().filter_map(|index| stem_of(index)).collect();
    let is_indexed = |path: &str| {
        shard_stem(path).is_some_and(|stem| stems.iter().any(|indexed| indexed == stem))
    };
    files.retain(|path| !is_indexed(path));
    let Some((path, stem)) = files.iter().find_map(|path| Some((*path, shard_stem(path)?))) else {
        return Ok(());
    };
    if files.iter().any(|path| shard_stem(path).is_none()) {
        return Ok(());
    }
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let message = format!("the asset has shards of weights such as `{path}`, without their index");
    Err(StageError::with_help(message, format!("add `{stem}.{ending}.index.json` beside them")))
}

/// The best state in the folder of a trainer, or else the one after the most steps. None if there are
/// other files of weights, or several folders.
fn newest<'a>(files: &[&'a str]) -> Option<&'a str> {
    let states = files.iter().filter(|path| !is_companion(path)).map(|path| state(path));
    let states: Vec<TrainerState> = states.collect::<Option<_>>()?;
    let is_one = states.iter().all(|state| state.folder == states[0].folder);
    let newest = states.into_iter().filter(|_| is_one).max_by_key(|state| state.rank)?;
    Some(newest.path)
}

struct TrainerState<'a> {
    path: &'a str,
    folder: &'a str,
    /// The better kind first, then the later step; a file without a step is the last one.
    rank: (Reverse<usize>, u64),
}

/// Tests if a file has the name of a state of a trainer.
pub fn is_state(path: &str) -> bool {
    state(path).is_some()
}

fn state(path: &str) -> Option<TrainerState<'_>> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, _) = name.rsplit_once('.')?;
    importers().find_map(|importer| {
        importer.states().iter().enumerate().find_map(|(at, kind)| {
            let step = match stem.strip_prefix(kind)?.strip_prefix('_') {
                None if stem == *kind => u64::MAX,
                step => step?.parse().ok()?,
            };
            Some(TrainerState { path, folder, rank: (Reverse(at), step) })
        })
    })
}

fn importers() -> impl Iterator<Item = &'static dyn Importer> {
    FAMILIES.iter().filter_map(|family| family.importer())
}

/// Tests if a file belongs beside the weights and is none by itself.
fn is_companion(path: &str) -> bool {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    importers().any(|importer| importer.companions().contains(&name))
}
