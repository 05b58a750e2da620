//! VITS models as files for synthesis with transformers: WaveNets in pairs, everything else without
//! weight norm.

use stage_core::{Context, Fields, NewValue, StageError};
use stage_formats::json::JSON;
use stage_formats::onnx::WeightType;
use stage_formats::weight_norm::{DIRECTION, LENGTH, WHOLE, newer};

use super::{
    DISCRIMINATOR_PREFIX, SPEAKERS_FILE, Vits, VitsConfig, is_normed, is_normed_in_transformers,
    of_original_discriminator,
};
use crate::artifact::{self, CONFIG, SPEAKERS, TOKENIZER_CONFIG, VOCABULARY};
use crate::export::{Exporter, Format, Recipe, Recipes, copies};
use crate::import::CONFIG_FILE;
use crate::onnx::{GraphFiles, Target};

impl Exporter for Vits {
    fn format(&self) -> Format {
        Format::Safetensors
    }

    fn weights(&self, model: &Fields, format: Format) -> Vec<(&'static str, Recipes)> {
        let name = match format {
            Format::Pth => "pytorch_model.bin",
            Format::Safetensors => "model.safetensors",
        };
        let own = artifact::tensors(model).map(|(name, _)| name);
        let own = own.filter(|name| !name.starts_with(DISCRIMINATOR_PREFIX));
        vec![(name, own.flat_map(recipes).collect())]
    }

    fn discriminator(&self, model: &Fields) -> Recipes {
        let recipes = |name: &str| {
            let own = of_original_discriminator(name)?;
            Some(match own.strip_suffix(WHOLE).filter(|_| is_normed(name)) {
                Some(module) => pair(module, name).to_vec(),
                None => vec![(own, Recipe::Same(name.to_owned()))],
            })
        };
        artifact::tensors(model).filter_map(|(name, _)| recipes(name)).flatten().collect()
    }

    fn graph(
        &self,
        model: &Fields,
        target: Target,
        stored: WeightType,
        context: &mut dyn Context,
    ) -> Result<GraphFiles, StageError> {
        super::onnx::export(model, target, stored, context)
    }

    fn descriptions(
        &self,
        model: &Fields,
        context: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        if let Some(config) = model.blob(CONFIG) {
            refuse_voice(&VitsConfig::parse(&context.read(config)?)?)?;
        }
        let own =
            [(VOCABULARY, VOCABULARY), (TOKENIZER_CONFIG, TOKENIZER_CONFIG), (CONFIG, CONFIG_FILE)];
        let mut values = copies(model, &own);
        let speakers = model.text(SPEAKERS).map(|list| NewValue::bytes(JSON, format!("{list}\n")));
        values.extend(speakers.map(|list| (SPEAKERS_FILE.to_owned(), list)));
        Ok(values)
    }
}

/// Refuses the model of a graph, which lacks what such files have.
fn refuse_voice(config: &VitsConfig) -> Result<(), StageError> {
    match config.speaks_only || config.fixed_durations {
        true => Err(StageError::with_help(
            "the model is a voice of Piper, which lacks what only training needs",
            "export it with `format = \"onnx\"` and `target = \"piper\"`",
        )),
        false => Ok(()),
    }
}

/// The exported tensors for a tensor of the model.
fn recipes(name: &str) -> Vec<(String, Recipe)> {
    let same = || vec![(newer(name), Recipe::Same(name.to_owned()))];
    if is_normed_in_transformers(name) {
        return match name.strip_suffix(WHOLE).filter(|_| is_normed(name)) {
            Some(module) => {
                pair(module, name).map(|(name, recipe)| (newer(&name), recipe)).to_vec()
            }
            None => same(),
        };
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

/// The pair of a weight.
fn pair(module: &str, weight: &str) -> [(String, Recipe); 2] {
    [
        (format!("{module}{LENGTH}"), Recipe::LengthOf(weight.to_owned())),
        (format!("{module}{DIRECTION}"), Recipe::DirectionOf(weight.to_owned())),
    ]
}
