//! A model for training; its tensors are still in the store.

use stage_core::{Context, Fields, NewValue, StageError, Value};
use stage_families::artifact;
use stage_families::import::CONFIG_FILE;
use stage_families::xtts::{Config, GPT_PREFIX, GptConfig, MEL_STATS, SPEAKERS_FILE, Tokenizer};
use tch::{Device, Kind, Tensor};

use crate::arrived::{Arrived, Family};
use crate::error::TorchError;
use crate::lineage::{self, ModelLineage};
use crate::stored;
use crate::weights::Weights;
use crate::xtts::Gpt;
use crate::xtts::mel::usable_stats;

const FAMILY: Family = Family {
    name: artifact::XTTS,
    title: "XTTS model",
    advice: "give it a stage of the kind `model.import`, `xtts.init`, `xtts.finetune` or `xtts.merge`",
};

pub struct Base {
    pub fields: Fields,
    pub config: Config,
    pub tokenizer: Tokenizer,
    pub lineage: ModelLineage,
    /// The divisors of spectrograms: `[mels]`.
    pub mel_stats: Tensor,
}

impl Base {
    pub fn read(
        port: &str,
        fields: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<Base, StageError> {
        let arrived = Arrived::on(port, fields, &FAMILY)?;
        let config = Config::parse(&arrived.file(artifact::CONFIG, context)?)?;
        let tokenizer = Tokenizer::read(&arrived.file(artifact::VOCABULARY, context)?)?;
        let (tokens, rows) = (tokenizer.text_tokens().rows, config.gpt.text_tokens);
        if tokens > rows {
            let why = format!("its vocabulary has {tokens} tokens, and its embedding {rows} rows");
            return Err(arrived.refused(&why));
        }
        let mel_stats = arrived.blob(&artifact::tensor_field(MEL_STATS))?;
        Ok(Base {
            mel_stats: usable_stats(stored::recall(mel_stats, context)?, Device::Cpu)?,
            lineage: ModelLineage::of(arrived.fields),
            fields: arrived.fields.clone(),
            config,
            tokenizer,
        })
    }

    /// The number of parameters of the GPT.
    pub fn parameters(&self) -> i64 {
        let tensors = self.config.gpt.tensors();
        tensors.iter().map(|(_, shape)| shape.iter().product::<i64>()).sum()
    }

    /// The stored type of its largest tensor.
    pub fn kind(&self, context: &mut dyn Context) -> Result<Kind, StageError> {
        let largest = artifact::tensors(&self.fields)
            .filter(|(name, _)| name.starts_with(GPT_PREFIX))
            .max_by_key(|(_, blob)| blob.size);
        let (_, blob) = largest.ok_or_else(|| FAMILY.refusal("base", "it has no GPT"))?;
        Ok(stored::recall(blob, context)?.kind())
    }

    /// The GPT on a device, in a compute type; `config` may differ from its own in dropout.
    pub fn load(
        &self,
        config: &GptConfig,
        device: Device,
        kind: Kind,
        context: &mut dyn Context,
    ) -> Result<Gpt, StageError> {
        let mut weights = Weights::default();
        for (name, blob) in artifact::tensors(&self.fields) {
            if name.starts_with(GPT_PREFIX) {
                let tensor = stored::recall(blob, context)?;
                let tensor = tensor.f_to_device(device).and_then(|tensor| tensor.f_to_kind(kind));
                weights.insert(name, tensor.map_err(TorchError::from)?);
            }
        }
        Ok(Gpt::load(config, weights)?)
    }

    /// The GPT without the values of its weights.
    pub fn shell(&self, context: &mut dyn Context) -> Result<Gpt, StageError> {
        let tensors = artifact::tensors(&self.fields);
        let tensors = tensors.filter(|(name, _)| name.starts_with(GPT_PREFIX));
        Ok(Gpt::load(&self.config.gpt, stored::shapes(tensors, context)?)?)
    }

    /// The fields of a model made of this one, without the tensors that `is_new` names.
    pub fn carried(
        &self,
        lineage: &ModelLineage,
        is_new: impl Fn(&str) -> bool,
    ) -> Vec<(String, NewValue)> {
        let mut values: Vec<(String, NewValue)> = CARRIED
            .iter()
            .filter_map(|field| {
                let value = self.fields.get(field)?;
                Some(((*field).to_owned(), NewValue::Kept(value.clone())))
            })
            .collect();
        for (name, blob) in artifact::tensors(&self.fields).filter(|(name, _)| !is_new(name)) {
            let kept = NewValue::Kept(Value::Blob(blob.clone()));
            values.push((artifact::tensor_field(name), kept));
        }
        let lineage = lineage::to_text(lineage);
        values.push((artifact::LINEAGE.to_owned(), NewValue::Text(lineage)));
        values
    }
}

/// Fields that are passed on unchanged beside the tensors.
const CARRIED: [&str; 6] = [
    artifact::FAMILY,
    artifact::CONFIG,
    CONFIG_FILE,
    artifact::VOCABULARY,
    SPEAKERS_FILE,
    artifact::LICENSE,
];
