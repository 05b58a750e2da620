//! XTTS models as files for the original: the model under the key `model`, its DVAE and its
//! spectrogram statistics as separate files.

use stage_core::{Context, Fields, NewValue, StageError};

use super::import::{DVAE_FILE, MEL_STATS_FILE, SPEAKERS_FILE};
use super::tensors::{DVAE_PREFIX, MEL_STATS};
use super::{DecoderConfig, DvaeConfig, GptConfig, Xtts, XttsConfig};
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

    fn limits(&self, model: &Fields, context: &mut dyn Context) -> Result<Vec<String>, StageError> {
        let Some(own) = model.blob(CONFIG) else { return Ok(Vec::new()) };
        Ok(limits(&XttsConfig::parse(&context.read(own)?)?))
    }

    fn descriptions(
        &self,
        model: &Fields,
        context: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        let mut values = copies(model, &[(VOCABULARY, VOCABULARY), (SPEAKERS_FILE, SPEAKERS_FILE)]);
        let Some(own) = model.blob(CONFIG) else { return Ok(values) };
        let config = XttsConfig::parse(&context.read(own)?)?;
        let given = model.blob(CONFIG_FILE).map(|blob| context.read(blob)).transpose()?;
        let file = config.published_file(given.as_deref())?;
        values.push((CONFIG_FILE.to_owned(), NewValue::bytes(CONFIG_KIND, file)));
        Ok(values)
    }
}

/// The parts with sizes that the code of the original fixes, and other ones here.
fn limits(config: &XttsConfig) -> Vec<String> {
    let own = XttsConfig::published();
    let told = |gpt: &GptConfig| [gpt.latents, gpt.perceiver_layers, gpt.conditioning_layers];
    let (waves, dvae) = (&config.decoder, &config.dvae);
    let fixed = DecoderConfig {
        input_width: waves.input_width,
        speaker_width: waves.speaker_width,
        speaker_in_each_layer: waves.speaker_in_each_layer,
        sample_rate: waves.sample_rate,
        hop: waves.hop,
        ..own.decoder
    };
    let parts = [
        ("the conditioning", told(&config.gpt) == told(&own.gpt)),
        ("the decoder", *waves == fixed),
        ("the speaker encoder", config.speaker_encoder == own.speaker_encoder),
        ("the DVAE", DvaeConfig { codes: dvae.codes, ..own.dvae } == *dvae),
    ];
    let others = parts.iter().filter(|(_, is_same)| !is_same);
    let note = |part: &str| format!("the original project cannot load it: {part} has other sizes");
    others.map(|(part, _)| note(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_the_original_cannot_be_told_are_noted() {
        assert_eq!(limits(&XttsConfig::published()), [""; 0]);
        let mut config = XttsConfig::published();
        (config.gpt.layers, config.gpt.width, config.decoder.input_width) = (2, 64, 64);
        config.dvae.codes = 32;
        assert_eq!(limits(&config), [""; 0], "`config.json` says these");
        let told = limits(&XttsConfig::small(40)).join("; ");
        for part in ["the decoder", "the speaker encoder", "the DVAE"] {
            assert!(told.contains(&format!("cannot load it: {part} has")), "{told}");
        }
    }
}
