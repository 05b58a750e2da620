//! The text model of Fish Speech (DualAR), from its configuration to sentences, and adapters of
//! such a model.

mod config;
pub mod fresh;
pub mod kinds;
mod training;

use stage_core::Kind;

use crate::artifact;
use crate::family::Family;
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
}

pub struct Lora;

impl Family for Lora {
    fn name(&self) -> &'static str {
        artifact::LORA
    }

    fn title(&self) -> &'static str {
        "adapters of such a model"
    }
}
