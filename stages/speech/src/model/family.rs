//! Detects the family of a weight file, and selects the weight file of an asset.

use stage_core::{Fields, StageError};
use stage_families::import::Importer;
use stage_families::{FAMILIES, Family};
use stage_formats::shapes::listed;
use stage_formats::weights::{ENDINGS, WeightFile};

/// The usual name of published weight files, without extension.
const USUAL_STEM: &str = "model";

/// The family of a file, by the names of its tensors.
pub fn family_of(file: &WeightFile, path: &str) -> Result<&'static dyn Family, StageError> {
    let fits =
        |family: &&dyn Family| family.importer().is_some_and(|importer| importer.recognises(file));
    FAMILIES.iter().copied().find(fits).ok_or_else(|| {
        let names = listed(file.tensors().keys().copied());
        StageError::failed(format!(
            "the tensors of `{path}` are those of no model that is known here, such as {names}; \
             take another file with `file`, or say what it is with `family`"
        ))
    })
}

/// The weight file: the requested one, the one with the published name, or the only one.
pub fn weight_file<'a>(
    asset: &'a Fields,
    wanted: Option<&str>,
    family: Option<&dyn Family>,
) -> Result<&'a str, StageError> {
    let names = || asset.iter().map(|(name, _)| &**name);
    if let Some(wanted) = wanted {
        return names().find(|name| *name == wanted).ok_or_else(|| {
            let names = listed(names());
            StageError::failed(format!("the asset has no file `{wanted}`, but {names}"))
        });
    }
    let stem = family.and_then(Family::importer).map_or(USUAL_STEM, Importer::file_stem);
    let mut files: Vec<&str> = Vec::new();
    for ending in ENDINGS {
        let has_ending = |name: &&str| name.rsplit_once('.').is_some_and(|(_, end)| end == ending);
        files.extend(names().filter(has_ending));
    }
    let published = |name: &&&str| name.split_once('.').is_some_and(|(own, _)| own == stem);
    let importers = || FAMILIES.iter().filter_map(|family| family.importer());
    let is_companion = |path: &&str| {
        let name = path.rsplit_once('/').map_or(*path, |(_, name)| name);
        importers().any(|importer| importer.companions().contains(&name))
    };
    if !files.is_empty() && files.iter().all(is_companion) {
        let files = listed(files.iter().copied());
        let message = format!("the asset has no `{stem}.pth`, which {files} belong beside");
        return Err(StageError::failed(message));
    }
    match (files.iter().find(published), files.as_slice()) {
        (Some(file), _) | (None, [file]) => Ok(file),
        (None, []) => {
            let names = listed(names());
            Err(StageError::failed(format!("the asset has no file of weights, but {names}")))
        }
        (None, several) => {
            let several = listed(several.iter().copied());
            Err(StageError::failed(format!(
                "the asset has several files of weights, {several}: choose one with `file`"
            )))
        }
    }
}
