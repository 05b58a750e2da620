//! The codec of Fish Speech.

use bytes::Bytes;
use stage_core::{Context, Fields, NewValue, Parameters, StageError};

use crate::artifact::{self, CONFIG, CONFIG_KIND};
use crate::export::{Exporter, Format, Recipes, as_they_are, copies};
use crate::family::Family;
use crate::fish;
use crate::import::{Imported, Importer, Layout, Opened, Part, Request, description};
use crate::model::{Assumed, Codec, Model};

/// The configuration that means the published one.
const AS_PUBLISHED: &[u8] = b"{}\n";
/// The configuration file of a codec other than the published one.
const CONFIG_FILE: &str = "codec.json";

/// The size of the published weights, as a file of f32.
const BYTES: f64 = 1.87e9;

pub struct Dac;

impl Model for Dac {
    fn parameters(&self) -> i64 {
        (BYTES / 4.0) as i64
    }

    fn bytes(&self, _: &Parameters) -> f64 {
        BYTES
    }
}

impl Family for Dac {
    fn name(&self) -> &'static str {
        artifact::DAC
    }

    fn title(&self) -> &'static str {
        "the codec of Fish Speech"
    }

    fn assumed(&self) -> Option<Assumed> {
        let told = "a codec is taken for the published one of Fish Speech: 1.87 GB";
        Some(Assumed { model: Box::new(Dac), told })
    }

    fn codec(&self) -> Option<Codec> {
        Some(Codec { share: 1.0, told: None, bytes: BYTES })
    }

    fn importer(&self) -> Option<&dyn Importer> {
        Some(self)
    }

    fn exporter(&self) -> Option<&dyn Exporter> {
        Some(self)
    }
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
        weights: Opened,
        request: &Request<'_>,
        context: &mut dyn Context,
    ) -> Result<Imported, StageError> {
        let config = match (request.chosen_config(context)?, request.files.beside(CONFIG_FILE)?) {
            (Some(config), _) => config,
            (None, Some(config)) => description(CONFIG_FILE, &config, context)?,
            (None, None) => Bytes::from_static(AS_PUBLISHED),
        };
        let layout = Layout::renamed(&weights.file, self.prefixes(), fish::kept)?;
        let values = vec![(CONFIG.to_owned(), NewValue::bytes(CONFIG_KIND, config))];
        Ok(Imported { parts: vec![Part { weights, layout }], values, notes: Vec::new() })
    }
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
