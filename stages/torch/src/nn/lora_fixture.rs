//! An adapted embedding followed by an adapted linear layer, as in fixtures of `lora`.

use std::collections::BTreeMap;

use safetensors::tensor::SafeTensors;
use tch::{Kind, Tensor};

use crate::error::TorchError;
use crate::fixture::setup::Setup;
use crate::nn::layers::{Embedding, Linear, Pass};
use crate::nn::lora::{self, Adaptable, AdaptableLayer, LoraSettings};
use crate::nn::weights::Weights;

struct AdaptedLayers {
    embeddings: Embedding,
    linear: Linear,
    weights: Weights,
}

impl Adaptable for AdaptedLayers {
    fn layers(&mut self) -> Vec<(String, AdaptableLayer<'_>)> {
        vec![
            ("embeddings".into(), AdaptableLayer::Embedding(&mut self.embeddings)),
            ("linear".into(), AdaptableLayer::Linear(&mut self.linear)),
        ]
    }

    fn weights(&self) -> &Weights {
        &self.weights
    }

    fn weights_mut(&mut self) -> &mut Weights {
        &mut self.weights
    }
}

/// The outputs for some tokens, the gradients for a given output gradient, and the merged weights.
pub fn outputs(
    file: &[u8],
    tokens: &Tensor,
    slope: &Tensor,
    setup: &Setup,
) -> Result<BTreeMap<String, Tensor>, TorchError> {
    let mut model = load(file, setup)?;
    let (tokens, slope) = (tokens.to_device(setup.device), slope.to_device(setup.device));
    let rows = model.embeddings.forward(&tokens);
    let output = model.linear.forward(&rows, Pass::Evaluate);
    let slope = slope.view(output.size().as_slice());
    let derived = (&output * slope).sum(Kind::Float);
    let mut inputs = vec![("rows".to_owned(), rows.shallow_clone())];
    inputs.extend(lora::adapters(&mut model));
    let tensors: Vec<&Tensor> = inputs.iter().map(|(_, tensor)| tensor).collect();
    let gradients = Tensor::run_backward(&[derived], &tensors, false, false);
    let names = inputs.iter().map(|(name, _)| format!("gradient.{name}"));
    let mut outputs: BTreeMap<String, Tensor> = names.zip(gradients).collect();
    outputs.insert("rows".into(), rows.detach());
    outputs.insert("output".into(), output.detach());
    lora::merge(&mut model, Kind::Float);
    outputs.insert("merged.embeddings.weight".into(), model.embeddings.weight);
    outputs.insert("merged.linear.weight".into(), model.linear.weight);
    Ok(outputs)
}

fn load(file: &[u8], setup: &Setup) -> Result<AdaptedLayers, TorchError> {
    let unusable = |error: &dyn std::fmt::Display| TorchError::Model(error.to_string());
    let (_, header) = SafeTensors::read_metadata(file).map_err(|error| unusable(&error))?;
    let config = header.metadata().as_ref().and_then(|metadata| metadata.get("config"));
    let config = config.ok_or_else(|| TorchError::Model("there is no `config`".into()))?;
    let settings: LoraSettings = serde_json::from_str(config).map_err(|error| unusable(&error))?;

    let (adapters, mut base): (Vec<_>, Weights) = {
        let (adapters, base): (Vec<_>, Vec<_>) = Weights::from_safetensors(file)?
            .into_iter()
            .partition(|(name, _)| name.contains(".lora_"));
        let base: Weights = base.into_iter().collect();
        (adapters, base.moved(setup.device, Some(setup.kind())))
    };
    let size = |name: &str| base.get(name).map(Tensor::size).unwrap_or_default();
    let (table, matrix) = (size("embeddings.weight"), size("linear.weight"));
    let ([entries, width], [outputs, inputs]) = (&table[..], &matrix[..]) else {
        return Err(TorchError::Model("the weights of the layers are not matrices".into()));
    };
    let has_bias = base.contains("linear.bias");
    let mut model = AdaptedLayers {
        embeddings: Embedding::load(&mut base.under("embeddings"), *entries, *width)?,
        linear: Linear::load(&mut base.under("linear"), *inputs, *outputs, has_bias)?,
        weights: Weights::default(),
    };
    base.finish()?;
    lora::attach(&mut model, &settings, 0)?;
    lora::load(&mut model, adapters.into_iter().collect())?;
    Ok(model)
}
