//! XTTS models as files for the original: the model under the key `model`, its DVAE and its
//! spectrogram statistics as separate files.

use stage_core::{Context, Fields, NewValue, StageError};

use super::import::{DVAE_FILE, MEL_STATS_FILE, SPEAKERS_FILE};
use super::tensors::{DVAE_PREFIX, MEL_STATS};
use super::{Config, Xtts};
use crate::artifact::{self, CONFIG, CONFIG_KIND, VOCABULARY};
use crate::export::{Exporter, Format, Recipe, Recipes, copies};
use crate::import::CONFIG_FILE;

const MODEL_FILE: &str = "model.pth";
/// The key of the tensors in the original.
const MODEL_KEY: &str = "model";

impl Exporter for Xtts {
    fn weights(&self, model: &Fields, format: Format) -> Vec<(&'static str, Recipes)> {
        let names = [MODEL_FILE, DVAE_FILE, MEL_STATS_FILE];
        let safe = ["model.safetensors", "dvae.safetensors", "mel_stats.safetensors"];
        let (mut own, mut dvae, mut stats) = (Recipes::new(), Recipes::new(), Recipes::new());
        for (name, _) in artifact::tensors(model) {
            let same = || Recipe::Same(name.to_owned());
            match name.strip_prefix(DVAE_PREFIX) {
                Some(part) => drop(dvae.insert(part.to_owned(), same())),
                None => drop(own.insert(name.to_owned(), same())),
            }
            if name == MEL_STATS {
                // The original reads a tensor without a dictionary.
                let alone = if format == Format::Pth { "" } else { name };
                stats.insert(alone.to_owned(), same());
            }
        }
        let names = if format == Format::Pth { names } else { safe };
        let files = names.into_iter().zip([own, dvae, stats]);
        files.filter(|(_, recipes)| !recipes.is_empty()).collect()
    }

    fn dictionary(&self, file: &str) -> Option<&'static str> {
        (file == MODEL_FILE).then_some(MODEL_KEY)
    }

    fn descriptions(
        &self,
        model: &Fields,
        context: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        let mut values = copies(model, &[(VOCABULARY, VOCABULARY), (SPEAKERS_FILE, SPEAKERS_FILE)]);
        let Some(own) = model.blob(CONFIG) else { return Ok(values) };
        let config = Config::parse(&context.read(own)?)?;
        let given = model.blob(CONFIG_FILE).map(|blob| context.read(blob)).transpose()?;
        let file = config.published_file(given.as_deref())?;
        values.push((CONFIG_FILE.to_owned(), NewValue::bytes(CONFIG_KIND, file)));
        Ok(values)
    }
}
