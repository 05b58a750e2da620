//! The text encoder: from tokens to hidden states and the prior of latents.

use tch::Tensor;

use super::attention::{Attention, RelativePositions};
use super::config::Config;
use super::dropout::Dropout;
use crate::conv::{Conv, Shape, over_channels};
use crate::error::TorchError;
use crate::layers::{Embedding, LayerNorm, Pass};
use crate::weights::Scope;

/// The outputs for a text: columns of tokens.
#[derive(Debug)]
pub struct Prior {
    /// [B, C, N].
    pub hidden: Tensor,
    /// [B, F, N] each; the logarithm is that of the standard deviation.
    pub mean: Tensor,
    pub log_deviation: Tensor,
}

#[derive(Debug)]
struct FeedForward {
    conv_1: Conv,
    conv_2: Conv,
    dropout: Dropout,
}

/// Attention and convolutions, each with a residual connection and a norm after it.
#[derive(Debug)]
struct Layer {
    attention: Attention,
    layer_norm: LayerNorm,
    feed_forward: FeedForward,
    final_layer_norm: LayerNorm,
    dropouts: [Dropout; 2],
}

#[derive(Debug)]
pub struct TextEncoder {
    embed_tokens: Embedding,
    layers: Vec<Layer>,
    project: Conv,
    window: i64,
    width: i64,
}

impl FeedForward {
    fn load(mut scope: Scope, config: &Config, dropout: Dropout) -> Result<Self, TorchError> {
        let (width, inner, kernel) = (config.hidden_size, config.ffn_dim, config.ffn_kernel_size);
        let conv_1 = Conv::load(scope.under("conv_1"), Shape::new(width, inner, kernel))?;
        let conv_2 = Conv::load(scope.under("conv_2"), Shape::new(inner, width, kernel))?;
        Ok(FeedForward { conv_1, conv_2, dropout })
    }

    /// [B, C, N] to [B, C, N].
    fn forward(&self, x: &Tensor, mask: &Tensor, pass: Pass) -> Result<Tensor, TorchError> {
        let inner = self.dropout.forward(&self.conv_1.forward(&(x * mask))?.relu(), pass);
        Ok(self.conv_2.forward(&(inner * mask))? * mask)
    }
}

impl Layer {
    fn load(mut scope: Scope, config: &Config, stream: u64) -> Result<Layer, TorchError> {
        let (width, eps) = (config.hidden_size, config.layer_norm_eps);
        let dropout = |probability: f64, place: u64| Dropout::new(probability, stream + place);
        let attention = dropout(config.attention_dropout, 0);
        let feed_forward = dropout(config.activation_dropout, 1);
        Ok(Layer {
            attention: Attention::load(scope.under("attention"), config, attention)?,
            layer_norm: LayerNorm::load(&mut scope.under("layer_norm"), width, eps)?,
            feed_forward: FeedForward::load(scope.under("feed_forward"), config, feed_forward)?,
            final_layer_norm: LayerNorm::load(&mut scope.under("final_layer_norm"), width, eps)?,
            dropouts: [dropout(config.hidden_dropout, 2), dropout(config.hidden_dropout, 3)],
        })
    }

    /// [B, C, N] to [B, C, N].
    fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        positions: &RelativePositions,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        let attended = self.attention.forward(&x.transpose(1, 2), positions, pass).transpose(1, 2);
        let x = x + self.dropouts[0].forward(&attended, pass);
        let x = over_channels(&self.layer_norm, &x);
        let inner = self.feed_forward.forward(&x, mask, pass)?;
        let x = x + self.dropouts[1].forward(&inner, pass);
        Ok(over_channels(&self.final_layer_norm, &x))
    }
}

impl TextEncoder {
    pub fn load(mut scope: Scope, config: &Config) -> Result<TextEncoder, TorchError> {
        let width = config.hidden_size;
        let embed_tokens =
            Embedding::load(&mut scope.under("embed_tokens"), config.vocab_size, width)?;
        let mut layers = Vec::new();
        for at in 0..config.num_hidden_layers {
            let scope = scope.under(&format!("encoder.layers.{at}"));
            layers.push(Layer::load(scope, config, 8 * at as u64)?);
        }
        let project =
            Conv::load(scope.under("project"), Shape::new(width, 2 * config.flow_size, 1))?;
        Ok(TextEncoder { embed_tokens, layers, project, window: config.window_size, width })
    }

    /// Tokens [B, N], and their mask: [B, 1, N].
    pub fn forward(&self, ids: &Tensor, mask: &Tensor, pass: Pass) -> Result<Prior, TorchError> {
        let embedded = self.embed_tokens.forward(ids) * (self.width as f64).sqrt();
        let mut x = embedded.transpose(1, 2) * mask;
        let positions = RelativePositions::new(mask, self.window);
        for layer in &self.layers {
            x = layer.forward(&x, mask, &positions, pass)?;
        }
        let hidden = x * mask;
        let statistics = self.project.forward(&hidden)? * mask;
        let [mean, log_deviation] = halves(&statistics);
        Ok(Prior { hidden, mean, log_deviation })
    }
}

/// The two halves of the channels.
pub fn halves(x: &Tensor) -> [Tensor; 2] {
    let half = x.size()[1] / 2;
    [x.narrow(1, 0, half), x.narrow(1, half, half)]
}
