//! Text models and adapters as the files of the original project.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use stage_core::{Context, Fields, NewValue, StageError};
use stage_formats::json::{JSON, to_json};

use super::{DualAr, DualArLora};
use crate::artifact::{CONFIG, LINEAGE, SPECIAL_TOKENS, TOKENIZER};
use crate::export::{Exporter, Format, Recipes, as_they_are, copies};
use crate::import::CONFIG_FILE;

const ADAPTER_CONFIG: &str = "adapters.json";

impl Exporter for DualAr {
    fn descriptions(
        &self,
        model: &Fields,
        _: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        let own = [(TOKENIZER, TOKENIZER), (SPECIAL_TOKENS, SPECIAL_TOKENS), (CONFIG, CONFIG_FILE)];
        Ok(copies(model, &own))
    }
}

impl Exporter for DualArLora {
    fn weights(&self, adapters: &Fields, format: Format) -> Vec<(&'static str, Recipes)> {
        let name = match format {
            Format::Pth => "adapters.pth",
            Format::Safetensors => "adapters.safetensors",
        };
        vec![(name, as_they_are(adapters))]
    }

    /// The keys are sorted here: the order of a JSON object depends on how the JSON library was
    /// built.
    fn descriptions(
        &self,
        adapters: &Fields,
        _: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        let text = adapters.text(LINEAGE).unwrap_or_default();
        let lineage: BTreeMap<String, Json> = serde_json::from_str(text).map_err(|error| {
            StageError::failed(format!("the lineage of the adapters cannot be read: {error}"))
        })?;
        Ok(vec![(ADAPTER_CONFIG.to_owned(), NewValue::bytes(JSON, to_json(&lineage)?))])
    }
}
