//! A model as an artifact; its tensors are still in the store, and each part is read by itself.

use stage_core::{Context, Fields, StageError};
use stage_families::artifact;
use stage_families::import::CONFIG_FILE;
use stage_families::xtts::{
    DVAE_PREFIX, GPT_PREFIX, MEL_STATS, SPEAKERS_FILE, XttsConfig, XttsTokenizer, tune as kinds,
};
use tch::{Device, Tensor};

use super::codec::DvaeCodec;
use super::gpt::Gpt;
use super::mel::usable_stats;
use crate::error::TorchError;
use crate::nn::weights::Weights;
use crate::port_model::{Family, PortModel};
use crate::stored;
use crate::tune::{Base, Kinds};

const FAMILY: Family = Family {
    name: artifact::XTTS,
    title: "XTTS model",
    advice: "read from a `model.import`, `xtts.init`, `xtts.finetune` or `xtts.merge` stage",
};

#[derive(Debug)]
pub struct XttsModel {
    pub fields: Fields,
    pub config: XttsConfig,
}

impl Base for XttsModel {
    type Network = Gpt;

    const PREFIX: &'static str = GPT_PREFIX;
    const CARRIED: &'static [&'static str] = &[
        artifact::FAMILY,
        artifact::CONFIG,
        CONFIG_FILE,
        artifact::VOCABULARY,
        SPEAKERS_FILE,
        artifact::LICENSE,
    ];

    fn kinds() -> Kinds {
        Kinds {
            finetune: &kinds::FINETUNE,
            lora: &kinds::LORA,
            merge: &kinds::MERGE,
            adapters: artifact::XTTS_LORA,
            lora_dropout: "lora_dropout",
        }
    }

    fn read(
        port: &str,
        fields: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<XttsModel, StageError> {
        let arrived = PortModel::on(port, fields, &FAMILY)?;
        let config = XttsConfig::parse(&arrived.file(artifact::CONFIG, context)?)?;
        Ok(XttsModel { fields: arrived.fields.clone(), config })
    }

    fn fields(&self) -> &Fields {
        &self.fields
    }

    fn net(&self, weights: Weights) -> Result<Gpt, TorchError> {
        Gpt::load(&self.config.gpt, weights)
    }
}

impl XttsModel {
    pub fn tokenizer(
        &self,
        port: &str,
        context: &mut dyn Context,
    ) -> Result<XttsTokenizer, StageError> {
        let arrived = PortModel::on(port, Some(&self.fields), &FAMILY)?;
        let tokenizer = XttsTokenizer::read(&arrived.file(artifact::VOCABULARY, context)?)?;
        let (tokens, rows) = (tokenizer.text_tokens().rows, self.config.gpt.text_tokens);
        if tokens > rows {
            let why =
                format!("its vocabulary has {tokens} tokens, but its embedding has {rows} rows");
            Err(arrived.refused(&why))
        } else {
            Ok(tokenizer)
        }
    }

    /// The error for an unusable artifact, with the reason.
    pub fn refused(port: &str, why: &str) -> StageError {
        FAMILY.refusal(port, why)
    }

    /// The tensors with one of these prefixes, under their full names.
    pub fn tensors(
        &self,
        beginnings: &[&str],
        context: &mut dyn Context,
    ) -> Result<Weights, StageError> {
        let mut weights = Weights::default();
        for (name, blob) in artifact::tensors(&self.fields) {
            if beginnings.iter().any(|beginning| name.starts_with(beginning)) {
                weights.insert(name, stored::recall(blob, context)?);
            }
        }
        Ok(weights)
    }

    /// The tensors of a part, under their names within it.
    pub fn part(&self, prefix: &str, context: &mut dyn Context) -> Result<Weights, StageError> {
        Ok(self.tensors(&[prefix], context)?.take_module(prefix.trim_end_matches('.')))
    }

    pub fn has_dvae(&self) -> bool {
        artifact::tensors(&self.fields).any(|(name, _)| name.starts_with(DVAE_PREFIX))
    }

    /// The divisors of both mel spectrograms: `[mels]`.
    pub fn mel_stats(
        &self,
        device: Device,
        context: &mut dyn Context,
    ) -> Result<Tensor, StageError> {
        let stats = self.tensors(&[MEL_STATS], context)?.remove(MEL_STATS);
        let missing = || TorchError::Model(format!("there is no tensor `{MEL_STATS}`"));
        Ok(usable_stats(stats.ok_or_else(missing)?, device)?)
    }

    pub fn codec(
        &self,
        device: Device,
        context: &mut dyn Context,
    ) -> Result<DvaeCodec, StageError> {
        if !self.has_dvae() {
            return Err(StageError::with_help(
                "the model on port `codec` has no DVAE",
                "put `dvae.pth` and `mel_stats.pth` into the folder of the model, then import it \
                 again",
            ));
        }
        let weights = self.part(DVAE_PREFIX, context)?;
        let (rate, stats) = (self.config.gpt.sample_rate, self.mel_stats(device, context)?);
        Ok(DvaeCodec::new(&self.config.dvae, rate, &stats, weights, device)?)
    }
}
