//! What a file of weights is, and which file of an asset to take.

use stage_core::{Fields, StageError};
use stage_families::artifact::{DAC, DUAL_AR, VITS, WAV2VEC2};
use stage_formats::shapes::listed;
use stage_formats::weights::{ENDINGS, WeightFile};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    DualAr,
    Dac,
    Vits,
    Wav2Vec2,
}

const FAMILIES: [Family; 4] = [Family::DualAr, Family::Dac, Family::Vits, Family::Wav2Vec2];

impl Family {
    /// None for the name that leaves it open.
    pub fn from_name(name: &str) -> Option<Family> {
        FAMILIES.into_iter().find(|family| family.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Family::DualAr => DUAL_AR,
            Family::Dac => DAC,
            Family::Vits => VITS,
            Family::Wav2Vec2 => WAV2VEC2,
        }
    }

    /// What tools of training put before the names.
    pub fn prefixes(self) -> &'static [&'static str] {
        match self {
            Family::DualAr | Family::Vits => &["model."],
            Family::Dac => &["generator."],
            Family::Wav2Vec2 => &[],
        }
    }

    /// How the published file is called, without its ending.
    fn file_stem(self) -> &'static str {
        match self {
            Family::DualAr | Family::Vits | Family::Wav2Vec2 => "model",
            Family::Dac => "codec",
        }
    }

    /// By the names of the tensors.
    pub fn of(file: &WeightFile, path: &str) -> Result<Family, StageError> {
        let has = |family: Family, starts: &[&str]| {
            let names = file.plain_names(family.prefixes());
            starts.iter().all(|start| names.keys().any(|name| name.starts_with(start)))
        };
        if has(Family::DualAr, &["embeddings.weight", "codebook_embeddings.weight"]) {
            Ok(Family::DualAr)
        } else if has(Family::Dac, &["encoder.", "quantizer.", "decoder."]) {
            Ok(Family::Dac)
        } else if has(Family::Vits, &["text_encoder.", "posterior_encoder.", "flow."])
            || has(Family::Vits, &["enc_p.", "enc_q.", "flow."])
        {
            Ok(Family::Vits)
        } else if has(Family::Wav2Vec2, &["wav2vec2.feature_extractor.", "lm_head."]) {
            Ok(Family::Wav2Vec2)
        } else {
            let names = listed(file.tensors().keys().copied());
            Err(StageError::failed(format!(
                "the tensors of `{path}` are those of no model that is known here, such as \
                 {names}; take another file with `file`, or say what it is with `family`"
            )))
        }
    }
}

/// The file of weights: the one that was asked for, the one that is named like the published
/// one, or the only one.
pub fn weight_file<'a>(
    asset: &'a Fields,
    wanted: Option<&str>,
    family: Option<Family>,
) -> Result<&'a str, StageError> {
    let names = || asset.iter().map(|(name, _)| &**name);
    if let Some(wanted) = wanted {
        return names().find(|name| *name == wanted).ok_or_else(|| {
            let names = listed(names());
            StageError::failed(format!("the asset has no file `{wanted}`, but {names}"))
        });
    }
    let stem = family.unwrap_or(Family::DualAr).file_stem();
    let mut files: Vec<&str> = Vec::new();
    for ending in ENDINGS {
        let has_ending = |name: &&str| name.rsplit_once('.').is_some_and(|(_, end)| end == ending);
        files.extend(names().filter(has_ending));
    }
    let published = |name: &&&str| name.split_once('.').is_some_and(|(own, _)| own == stem);
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
