//! Dilated depthwise-separable convolutions, with a dilation that grows with each layer.

use tch::Tensor;

use super::config::Config;
use super::dropout::Dropout;
use crate::conv::{Conv, Shape, over_channels};
use crate::error::TorchError;
use crate::layers::{LayerNorm, Pass};
use crate::weights::Scope;

/// The epsilon of the original's norms, regardless of the configuration.
const EPSILON: f64 = 1e-5;

#[derive(Debug)]
struct Layer {
    dilated: Conv,
    pointwise: Conv,
    norm_1: LayerNorm,
    norm_2: LayerNorm,
    dropout: Dropout,
}

#[derive(Debug)]
pub struct Separable {
    layers: Vec<Layer>,
}

impl Separable {
    pub fn load(
        mut scope: Scope,
        config: &Config,
        dropout: f64,
        stream: u64,
    ) -> Result<Separable, TorchError> {
        let (width, kernel) = (config.hidden_size, config.duration_predictor_kernel_size);
        let mut layers = Vec::new();
        for at in 0..config.depth_separable_num_layers {
            let dilated =
                Shape::new(width, width, kernel).dilated(kernel.pow(at as u32)).grouped(width);
            let pointwise = Shape::new(width, width, 1);
            let norm = |scope: &mut Scope, name: &str| {
                LayerNorm::load(&mut scope.under(&format!("{name}.{at}")), width, EPSILON)
            };
            layers.push(Layer {
                dilated: Conv::load(scope.under(&format!("convs_dilated.{at}")), dilated)?,
                pointwise: Conv::load(scope.under(&format!("convs_pointwise.{at}")), pointwise)?,
                norm_1: norm(&mut scope, "norms_1")?,
                norm_2: norm(&mut scope, "norms_2")?,
                dropout: Dropout::new(dropout, stream + at as u64),
            });
        }
        Ok(Separable { layers })
    }

    /// [B, C, N] to [B, C, N]; the conditioning has the same shape.
    pub fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        cond: Option<&Tensor>,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        let mut x = match cond {
            Some(cond) => x + cond,
            None => x.shallow_clone(),
        };
        for layer in &self.layers {
            let inner = layer.dilated.forward(&(&x * mask))?;
            let inner = over_channels(&layer.norm_1, &inner).gelu("none");
            let inner = layer.pointwise.forward(&inner)?;
            let inner = over_channels(&layer.norm_2, &inner).gelu("none");
            // Not in place: at first it belongs to the caller.
            x = &x + layer.dropout.forward(&inner, pass);
        }
        Ok(x * mask)
    }
}
