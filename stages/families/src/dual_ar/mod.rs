//! The text model of Fish Speech (DualAR), from its configuration to sentences, and its adapters.

mod clip;
mod config;
mod export;
pub mod fresh;
mod import;
pub mod kinds;
mod model;
mod training;

use stage_core::{Kind, Parameters};

use crate::artifact;
use crate::export::Exporter;
use crate::family::Family;
use crate::import::Importer;
use crate::model::{AssumedModel, Model};
use crate::speech::{PublishedFiles, SpeechGap, manifest, quoted};
pub use clip::{CLIP_SALT, clip_identity};
pub use config::{DualArConfig, Stack};

/// The sample rate of the published codec.
const CODEC_RATE: u32 = 44_100;

pub struct DualAr;

impl Family for DualAr {
    fn name(&self) -> &'static str {
        artifact::DUAL_AR
    }

    fn title(&self) -> &'static str {
        "a text model of Fish Speech"
    }

    fn kinds(&self) -> &'static [&'static Kind] {
        kinds::KINDS
    }

    fn read(&self, config: &[u8]) -> Option<Box<dyn Model>> {
        model::read(config)
    }

    fn fresh(
        &self,
        kind: &Kind,
        parameters: &Parameters,
        codec: Option<&Parameters>,
    ) -> Option<Box<dyn Model>> {
        model::fresh(kind, parameters, codec)
    }

    fn assumed(&self) -> Option<AssumedModel> {
        model::assumed()
    }

    fn is_measured_by_size(&self) -> bool {
        true
    }

    fn importer(&self) -> Option<&dyn Importer> {
        Some(self)
    }

    fn exporter(&self) -> Option<&dyn Exporter> {
        Some(self)
    }

    fn library(&self) -> Option<&'static str> {
        Some("fish-speech")
    }

    fn speech(&self, files: &PublishedFiles) -> Result<String, SpeechGap> {
        let codec = quoted(files.codec.as_ref().unwrap_or(&files.folder));
        let mut manifest = manifest(files, artifact::DUAL_AR);
        manifest.push_str(&format!(
            "\n[assets.codec]\npath = {codec}\n\n[stage.codec]\nuse = \"model.import\"\n\
             asset = \"assets.codec\"\nfamily = \"{}\"\n",
            artifact::DAC
        ));
        let mut reference = "";
        if let Some(clip) = &files.reference {
            manifest.push_str(&clip.stages(CODEC_RATE));
            manifest.push_str(
                "\n[stage.tokens]\nuse = \"vq.encode\"\ninput = \"clip\"\ncodec = \"codec\"\n\n\
                 [stage.reference]\nuse = \"dataset.item\"\ninput = \"tokens\"\nid = \"reference\"\n",
            );
            reference = "reference = \"reference\"\n";
        }
        Ok(format!(
            "{manifest}\n[stage.speech]\nuse = \"fish.synthesize\"\ninput = \"sentences\"\n\
             model = \"model\"\ncodec = \"codec\"\n{reference}"
        ))
    }
}

pub struct DualArLora;

impl Family for DualArLora {
    fn name(&self) -> &'static str {
        artifact::LORA
    }

    fn title(&self) -> &'static str {
        "adapters of such a model"
    }

    fn exporter(&self) -> Option<&dyn Exporter> {
        Some(self)
    }
}
