//! A model that arrived on a port, with one network that can be trained, adapted and merged.

use std::sync::Arc;

use stage_core::{Blob, Context, Fields, Kind, NewValue, StageError, Value};
use stage_families::artifact;
use tch::Device;

use crate::error::TorchError;
use crate::lineage::{self, AdapterLineage, ModelLineage};
use crate::nn::lora::{self, Adaptable, LoraSettings};
use crate::nn::weights::Weights;
use crate::stored;

/// The stage kinds of a family, and the words that differ between families.
pub struct Kinds {
    pub finetune: &'static Kind,
    pub lora: &'static Kind,
    pub merge: &'static Kind,
    /// The word in artifacts of adapters.
    pub adapters: &'static str,
    /// The parameter of `lora` for the dropout of adapters.
    pub lora_dropout: &'static str,
}

/// A model on a port; its tensors are still in the store.
pub trait Base: Sized {
    type Network: Adaptable;

    /// The prefix of the tensors of the network. All others stay as they are.
    const PREFIX: &'static str = "";

    /// Fields that are passed on unchanged beside the tensors.
    const CARRIED: &'static [&'static str];

    fn kinds() -> Kinds;

    fn read(
        port: &str,
        fields: Option<&Fields>,
        context: &mut dyn Context,
    ) -> Result<Self, StageError>;

    fn fields(&self) -> &Fields;

    /// The network with these weights.
    fn net(&self, weights: Weights) -> Result<Self::Network, TorchError>;

    fn is_own(name: &str) -> bool {
        name.starts_with(Self::PREFIX)
    }

    /// The stored tensors of the network.
    fn own(&self) -> impl Iterator<Item = (&str, &Arc<Blob>)> {
        artifact::tensors(self.fields()).filter(|(name, _)| Self::is_own(name))
    }

    /// The stored type of the network: that of its largest tensor.
    fn kind(&self, context: &mut dyn Context) -> Result<tch::Kind, StageError> {
        let largest = self.own().max_by_key(|(_, blob)| blob.size);
        let (_, blob) = largest.ok_or_else(|| StageError::failed("the model has no tensors"))?;
        Ok(stored::recall(blob, context)?.kind())
    }

    /// The network on a device, in a compute type.
    fn load(
        &self,
        device: Device,
        kind: tch::Kind,
        context: &mut dyn Context,
    ) -> Result<Self::Network, StageError> {
        let mut weights = Weights::default();
        for (name, blob) in self.own() {
            let tensor = stored::recall(blob, context)?;
            weights.insert(name, tensor.to_device(device).to_kind(kind));
        }
        Ok(self.net(weights)?)
    }

    /// The network without the values of its weights, which would fill the memory.
    fn shell(&self, context: &mut dyn Context) -> Result<Self::Network, StageError> {
        Ok(self.net(stored::shapes(self.own(), context)?)?)
    }

    /// The lineage of adapters of this family.
    fn lineage_of(adapters: &Fields) -> Result<AdapterLineage, StageError> {
        let Kinds { adapters: family, lora, .. } = Self::kinds();
        AdapterLineage::read(adapters, family, lora.name)
    }

    /// Adds adapters to the modules of the network that they were trained for.
    ///
    /// # Errors
    ///
    /// If they were trained on another model.
    fn adapt(
        &self,
        net: &mut Self::Network,
        adapters: &Fields,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let lineage = Self::lineage_of(adapters)?;
        lineage.check_base(self.fields())?;
        let AdapterLineage { rank, alpha, modules: patterns, .. } = lineage;
        let settings = LoraSettings { rank, alpha, dropout: 0.0, patterns };
        lora::attach(net, &settings, 0)?;
        Ok(lora::load(net, stored::weights(adapters, context)?)?)
    }

    /// The fields of a model made of this one, with the tensors that `is_kept` names.
    fn carried(
        &self,
        lineage: &ModelLineage,
        is_kept: impl Fn(&str) -> bool,
    ) -> Vec<(String, NewValue)> {
        let kept = |name: &str, value: &Value| (name.to_owned(), NewValue::Kept(value.clone()));
        let fields =
            Self::CARRIED.iter().filter_map(|name| Some((*name, self.fields().get(name)?)));
        let mut values: Vec<(String, NewValue)> =
            fields.map(|(name, value)| kept(name, value)).collect();
        for (name, blob) in artifact::tensors(self.fields()).filter(|(name, _)| is_kept(name)) {
            values.push(kept(&artifact::tensor_field(name), &Value::Blob(blob.clone())));
        }
        values.push((artifact::LINEAGE.to_owned(), NewValue::Text(lineage::to_text(lineage))));
        values
    }
}
