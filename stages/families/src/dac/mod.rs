//! The codec of Fish Speech.

mod config;
mod layout;

use std::collections::BTreeMap;

use bytes::Bytes;
use stage_core::{Context, Fields, NewValue, Parameters, StageError};
use stage_formats::shapes::Expected;
use stage_formats::weight_norm;

use crate::artifact::{self, CONFIG, CONFIG_KIND};
use crate::export::{Exporter, Format, Recipes, as_they_are, copies};
use crate::family::Family;
use crate::fish;
use crate::import::{self, ImportedModel, Importer, Part, Request, WeightSource, description};
use crate::kinds::vq;
use crate::model::{AssumedModel, Codec, Model, sizes};
use crate::working::Working;
pub use config::{CPU_PIECE, DacConfig, EncoderTransformer, Quantizer, Transformer};
pub use layout::{DacLayout, codebook_name};

/// The configuration that means the published one.
const AS_PUBLISHED: &[u8] = b"{}\n";
/// The configuration file of a codec other than the published one.
const CONFIG_FILE: &str = "codec.json";

/// Published weights are in f32, and used in f32.
const WEIGHT_BYTES: f64 = 4.0;

pub struct Dac;

impl Model for DacConfig {
    fn parameters(&self) -> i64 {
        DacLayout::of(self).parameters()
    }

    fn bytes(&self, _: &Parameters) -> f64 {
        Model::parameters(self) as f64 * WEIGHT_BYTES
    }

    fn sizes(&self) -> Vec<i64> {
        sizes(&DacLayout::of(self).0)
    }
}

impl Family for Dac {
    fn name(&self) -> &'static str {
        artifact::DAC
    }

    fn title(&self) -> &'static str {
        "the codec of Fish Speech"
    }

    fn assumed(&self) -> Option<AssumedModel> {
        let told =
            "the codec has the size of the published one of Fish Speech: 391 million parameters";
        Some(AssumedModel { model: Box::new(DacConfig::default()), told })
    }

    fn config_file(&self) -> &'static str {
        CONFIG_FILE
    }

    fn read(&self, config: &[u8]) -> Option<Box<dyn Model>> {
        Some(Box::new(DacConfig::from_json(config).ok()?))
    }

    fn codec(&self) -> Option<Codec> {
        let bytes = Model::parameters(&DacConfig::default()) as f64 * WEIGHT_BYTES;
        Some(Codec { share: 1.0, told: None, bytes, working_bytes: encoding_bytes })
    }

    fn importer(&self) -> Option<&dyn Importer> {
        Some(self)
    }

    fn exporter(&self) -> Option<&dyn Exporter> {
        Some(self)
    }
}

/// Each thread of the CPU encodes a clip of its own.
fn encoding_bytes(working: &Working<'_>) -> f64 {
    if working.is_gpu || working.kind.name != vq::ENCODE.name {
        return 0.0;
    }
    let config = DacConfig::default();
    let samples = working.seconds * f64::from(config.sample_rate);
    let frames = (samples / config.frame() as f64).ceil() as i64;
    working.threads.min(working.items) * config.encode_bytes_of_thread(frames) as f64
}

impl Importer for Dac {
    fn prefixes(&self) -> &'static [&'static str] {
        &["generator."]
    }

    fn file_stem(&self) -> &'static str {
        "codec"
    }

    fn marks(&self) -> &'static [&'static [&'static str]] {
        &[&["encoder.", "quantizer.", "decoder."]]
    }

    fn import(
        &self,
        weights: WeightSource,
        request: &Request<'_>,
        context: &mut dyn Context,
    ) -> Result<ImportedModel, StageError> {
        let config = match (request.chosen_config(context)?, request.files.beside(CONFIG_FILE)?) {
            (Some(config), _) => config,
            (None, Some(config)) => description(CONFIG_FILE, &config, context)?,
            (None, None) => Bytes::from_static(AS_PUBLISHED),
        };
        let sizes = DacConfig::from_json(&config).map_err(|error| error.of(CONFIG_FILE))?;
        let mut layout = import::TensorLayout::renamed(&weights.file, self.prefixes(), fish::kept)?;
        layout.fit(&as_stored(DacLayout::of(&sizes).0, layout.names()))?;
        let values = vec![(CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, config))];
        Ok(ImportedModel { parts: vec![Part { weights, layout }], values, notes: Vec::new() })
    }
}

/// The names of a file in place of ours: pairs of weight norm are spelt in two ways.
fn as_stored<'a>(expected: Vec<Expected>, names: impl Iterator<Item = &'a str>) -> Vec<Expected> {
    let stored: BTreeMap<String, &str> =
        names.map(|name| (weight_norm::plain(name), name)).collect();
    let own = |(name, shape): Expected| {
        let stored = stored.get(&name).map(|stored| (*stored).to_owned());
        (stored.unwrap_or(name), shape)
    };
    expected.into_iter().map(own).collect()
}

impl Exporter for Dac {
    fn weights(&self, model: &Fields, format: Format) -> Vec<(&'static str, Recipes)> {
        let name = match format {
            Format::Pth => "codec.pth",
            Format::Safetensors => "codec.safetensors",
        };
        vec![(name, as_they_are(model))]
    }

    fn descriptions(
        &self,
        model: &Fields,
        context: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        match model.blob(CONFIG) {
            Some(config) if *context.read(config)? != *AS_PUBLISHED => {
                Ok(copies(model, &[(CONFIG, CONFIG_FILE)]))
            }
            _ => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::working::tests::written_over_usual;

    use super::*;

    /// A second has 21.5 frames. Of 8 frames, 16,384 samples have 64 channels; each frame has 4 steps,
    /// six times 1,024 wide; the largest convolution has 512 times 1,024 kernels of 16.
    #[test]
    fn each_thread_of_the_cpu_takes_the_memory_of_a_clip() {
        let parameters = written_over_usual(&[]);
        let bytes = |kind, items, threads, is_gpu| {
            let (parameters, seconds) = (&parameters, 64.5 * 2048.0 / 44_100.0);
            let working = Working { kind, parameters, items, seconds, threads, is_gpu };
            (Dac.codec().unwrap().working_bytes)(&working)
        };
        let clip =
            16.0 * (16_384.0 * 64.0 + 65.0 * 4.0 * 6.0 * 1024.0) + 4.0 * 512.0 * 1024.0 * 16.0;
        assert_eq!(bytes(&vq::ENCODE, 32.0, 1.0, false), clip);
        assert_eq!(bytes(&vq::ENCODE, 32.0, 4.0, false), 4.0 * clip);
        assert_eq!(bytes(&vq::ENCODE, 3.0, 4.0, false), 3.0 * clip);
        // Batches on a GPU and chunks of frames that are decoded are counted elsewhere.
        assert_eq!(bytes(&vq::ENCODE, 32.0, 4.0, true), 0.0);
        assert_eq!(bytes(&vq::DECODE, 32.0, 4.0, false), 0.0);
    }
}
