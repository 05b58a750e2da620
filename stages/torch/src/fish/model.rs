//! A text model as an artifact.

use stage_core::{Context, Fields, StageError};
use stage_families::artifact;
use stage_families::dual_ar::kinds;

use super::vocabulary::Vocabulary;
use crate::dual_ar::{DualAr, DualArConfig};
use crate::error::TorchError;
use crate::lineage::ModelLineage;
use crate::nn::weights::Weights;
use crate::port_model::{Family, PortModel};
use crate::tune::{Base, Kinds};

const FAMILY: Family = Family {
    name: artifact::DUAL_AR,
    title: "text model of Fish Speech",
    advice: "read from a `model.import`, `fish.init`, `fish.finetune` or `fish.merge` stage",
};

/// A model that arrived on a port; its tensors are still in the store.
#[derive(Debug)]
pub struct FishModel {
    pub fields: Fields,
    pub config: DualArConfig,
    pub config_text: String,
    pub vocabulary: Vocabulary,
    pub lineage: ModelLineage,
}

impl Base for FishModel {
    type Network = DualAr;

    const CARRIED: &'static [&'static str] = &[
        artifact::CONFIG,
        artifact::TOKENIZER,
        artifact::SPECIAL_TOKENS,
        artifact::LICENSE,
        artifact::FAMILY,
    ];

    fn kinds() -> Kinds {
        Kinds {
            finetune: &kinds::FINETUNE,
            lora: &kinds::LORA,
            merge: &kinds::MERGE,
            adapters: artifact::LORA,
            lora_dropout: "dropout",
        }
    }

    fn read(
        port: &str,
        fields: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<FishModel, StageError> {
        let arrived = PortModel::on(port, fields, &FAMILY)?;
        let fields = arrived.fields;
        let bytes = arrived.file(artifact::CONFIG, context)?;
        let config = DualArConfig::parse(&bytes)?;
        let vocabulary = Vocabulary::of(fields, &config, context)?;
        Ok(FishModel {
            lineage: ModelLineage::of(fields),
            fields: fields.clone(),
            config_text: String::from_utf8_lossy(&bytes).into_owned(),
            config,
            vocabulary,
        })
    }

    fn fields(&self) -> &Fields {
        &self.fields
    }

    fn net(&self, weights: Weights) -> Result<DualAr, TorchError> {
        DualAr::load(self.config.clone(), self.vocabulary.tokens(), weights)
    }
}
