//! The networks of a synthesis: one for all sentences, or a checkpoint that a sentence brings.

use stage_core::{Blob, Context, Fields, Setup, StageError};
use stage_families::artifact;
use tch::{Device, Kind};

use super::Base;
use crate::model_slot::brought;
use crate::nn::lora;
use crate::nn::weights::kind_named;

pub struct NetworkSource {
    /// The model on the port; needed for sentences without weights of their own, or with adapters.
    pub model: Option<Fields>,
    pub adapters: Option<Fields>,
    pub device: Device,
    /// The compute type; None: the stored one.
    pub kind: Option<Kind>,
}

impl NetworkSource {
    /// The ports `model` and `adapters`, and the parameter `precision`.
    pub fn of(setup: &Setup, device: Device) -> Result<NetworkSource, StageError> {
        let port = |name: &str| setup.artifacts.get(name)?.first().cloned();
        let kind = kind_named(setup.parameters.text("precision")?);
        let kind = kind.or((!device.is_cuda()).then_some(Kind::Float));
        Ok(NetworkSource { model: port("model"), adapters: port("adapters"), device, kind })
    }

    /// The model on the port, if there is one, without its tensors; adapters must be its own.
    pub fn base<B: Base>(&self, context: &mut dyn Context) -> Result<Option<B>, StageError> {
        let Some(model) = &self.model else { return Ok(None) };
        let base = B::read("model", Some(model), context)?;
        if let Some(adapters) = &self.adapters {
            B::lineage_of(adapters)?.check_base(model)?;
        }
        Ok(Some(base))
    }

    /// The network that speaks a sentence with these weights, and its model.
    pub fn load<B: Base>(
        &self,
        weights: Option<&Blob>,
        context: &mut dyn Context,
    ) -> Result<(B, B::Network), StageError> {
        let own = brought(weights, context)?;
        let family = own.as_ref().and_then(|own| own.text(artifact::FAMILY));
        let (port, model, adapters) = match &own {
            Some(own) if family == Some(B::kinds().adapters) => {
                ("model", self.model.as_ref(), Some(self.only(own)?))
            }
            Some(own) => ("input", Some(own), self.adapters.as_ref()),
            None => ("model", self.model.as_ref(), self.adapters.as_ref()),
        };
        let model = B::read(port, Some(model.ok_or_else(no_model)?), context)?;
        let kind = match self.kind {
            Some(kind) => kind,
            None => model.kind(context)?,
        };
        let mut net = model.load(self.device, kind, context)?;
        if let Some(adapters) = adapters {
            model.adapt(&mut net, adapters, context)?;
            lora::merge(&mut net, kind);
        }
        Ok((model, net))
    }

    /// The adapters of a sentence, if there are no others.
    fn only<'a>(&self, adapters: &'a Fields) -> Result<&'a Fields, StageError> {
        match self.adapters {
            None => Ok(adapters),
            Some(_) => Err(StageError::with_help(
                "both the sentences and port `adapters` have adapters",
                "leave out `adapters`, or set `input` to sentences without checkpoints",
            )),
        }
    }
}

fn no_model() -> StageError {
    StageError::with_help(
        "no model arrived on port `model`, and the sentences have none or only adapters",
        "set `model` to the base of the adapters, or `input` to a `model.audition` stage with \
         checkpoints of a whole model",
    )
}
