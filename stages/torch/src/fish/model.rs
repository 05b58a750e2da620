//! A text model as an artifact: reading and writing.

use stage_core::{Context, Fields, NewValue, StageError};
use stage_families::artifact;
use tch::{Device, Kind};

use super::vocabulary::Vocabulary;
use crate::arrived::{Arrived, Family};
use crate::dual_ar::{Config, DualAr, Parity};
use crate::error::TorchError;
use crate::lineage::{self, AdapterLineage, ModelLineage};
use crate::lora::{self, LoraSettings};
use crate::stored;
use crate::weights::Weights;

/// Fields that are passed on unchanged to derived models.
const CARRIED: [&str; 4] =
    [artifact::CONFIG, artifact::TOKENIZER, artifact::SPECIAL_TOKENS, artifact::LICENSE];

const FAMILY: Family = Family {
    name: artifact::DUAL_AR,
    title: "text model of Fish Speech",
    advice: "give it a stage of the kind `model.import`, `fish.init`, `fish.finetune` or `fish.merge`",
};

/// A model that arrived on a port; its tensors are still in the store.
#[derive(Debug)]
pub struct Model {
    pub fields: Fields,
    pub config: Config,
    pub config_text: String,
    pub vocabulary: Vocabulary,
    pub lineage: ModelLineage,
}

impl Model {
    pub fn read(
        port: &str,
        fields: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<Model, StageError> {
        let arrived = Arrived::on(port, fields, &FAMILY)?;
        let fields = arrived.fields;
        let bytes = arrived.file(artifact::CONFIG, context)?;
        let config = Config::parse(&bytes)?;
        let vocabulary = Vocabulary::of(fields, &config, context)?;
        Ok(Model {
            lineage: ModelLineage::of(fields),
            fields: fields.clone(),
            config_text: String::from_utf8_lossy(&bytes).into_owned(),
            config,
            vocabulary,
        })
    }

    /// The type of its stored tensors: that of its largest one.
    pub fn kind(&self, context: &mut dyn Context) -> Result<Kind, StageError> {
        let largest = artifact::tensors(&self.fields).max_by_key(|(_, blob)| blob.size);
        let (_, blob) = largest.ok_or_else(|| FAMILY.refusal("base", "it has no tensors"))?;
        Ok(stored::recall(blob, context)?.kind())
    }

    /// The model on a device, in a compute type.
    pub fn load(
        &self,
        device: Device,
        kind: Kind,
        parity: Parity,
        context: &mut dyn Context,
    ) -> Result<DualAr, StageError> {
        let mut weights = Weights::default();
        for (name, blob) in artifact::tensors(&self.fields) {
            let tensor = stored::recall(blob, context)?;
            let tensor = tensor.f_to_device(device).and_then(|tensor| tensor.f_to_kind(kind));
            weights.insert(name, tensor.map_err(TorchError::from)?);
        }
        let model = DualAr::load(self.config.clone(), self.vocabulary.tokens(), weights)?;
        Ok(model.with_parity(parity))
    }

    /// The model without the values of its weights, which would fill the memory.
    pub fn shell(&self, context: &mut dyn Context) -> Result<DualAr, StageError> {
        let weights = stored::shapes(artifact::tensors(&self.fields), context)?;
        Ok(DualAr::load(self.config.clone(), self.vocabulary.tokens(), weights)?)
    }

    /// The fields of a derived model, without its tensors.
    pub fn carried(&self, lineage: &ModelLineage) -> Vec<(String, NewValue)> {
        let carried = CARRIED.iter().filter_map(|name| {
            let value = self.fields.get(name)?;
            Some(((*name).to_owned(), NewValue::Kept(value.clone())))
        });
        let mut fields: Vec<(String, NewValue)> = carried.collect();
        fields.push((artifact::FAMILY.into(), NewValue::Text(artifact::DUAL_AR.into())));
        fields.push((artifact::LINEAGE.into(), NewValue::Text(lineage::to_text(lineage))));
        fields
    }
}

/// Adds adapters to the layers that they were trained for.
pub fn adapted(
    model: &mut DualAr,
    adapters: &Fields,
    context: &mut dyn Context,
) -> Result<(), StageError> {
    let lineage = AdapterLineage::of(adapters)?;
    let settings = LoraSettings {
        rank: lineage.rank,
        alpha: lineage.alpha,
        dropout: 0.0,
        patterns: lineage.modules,
    };
    lora::attach(model, &settings, 0, Kind::Float)?;
    Ok(lora::load(model, stored::weights(adapters, context)?)?)
}
