//! The text model of Fish Speech (DualAR), from its configuration to sentences, and its adapters.

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
use crate::model::{Assumed, Model};
pub use config::{Config, Stack};

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

    fn assumed(&self) -> Option<Assumed> {
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
}

pub struct Lora;

impl Family for Lora {
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
