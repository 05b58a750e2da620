//! A layer of the text encoder: attention with relative positions and convolutions. Besides keys and
//! values of the tokens, each relative position within a window has a key and a value of its own
//! (Shaw et al., arXiv 1803.02155).

use tch::{Kind, Tensor};

use super::VitsConfig;
use super::modules::Dropout;
use crate::error::TorchError;
use crate::nn::conv::{Conv, Shape, over_channels};
use crate::nn::layers::{LayerNorm, Linear, Pass};
use crate::nn::weights::Scope;

/// The padding mask and the relative positions of one batch.
#[derive(Debug)]
pub struct RelativePositions {
    /// True for keys that are padding: [B, 1, 1, N].
    padding: Tensor,
    /// The index of the relative position of each query and key, and whether it is in the window:
    /// [N, N].
    relative: (Tensor, Tensor),
    /// The key at each relative position of each query, and whether there is one: [N, W].
    keys: (Tensor, Tensor),
}

impl RelativePositions {
    /// `mask` is 1 for tokens: [B, 1, N].
    pub fn new(mask: &Tensor, window: i64) -> RelativePositions {
        let (length, device) = (mask.size()[2], mask.device());
        let count = |count: i64| Tensor::arange(count, (Kind::Int64, device));
        let relative = count(length).unsqueeze(0) - count(length).unsqueeze(1) + window;
        let keys = count(2 * window + 1).unsqueeze(0) + count(length).unsqueeze(1) - window;
        RelativePositions {
            padding: mask.unsqueeze(1).eq(0.0),
            relative: within(relative, 2 * window),
            keys: within(keys, length - 1),
        }
    }

    /// From relative positions to keys, as `_relative_position_to_absolute_position` of transformers:
    /// [B, H, N, W] to [B, H, N, N].
    fn relative_to_absolute(&self, x: &Tensor) -> Tensor {
        gathered(x, &self.relative)
    }

    /// From keys to relative positions: [B, H, N, N] to [B, H, N, W].
    fn absolute_to_relative(&self, x: &Tensor) -> Tensor {
        gathered(x, &self.keys)
    }
}

/// Numbers clamped from 0 to the largest, and a mask of those that were in range.
fn within(numbers: Tensor, largest: i64) -> (Tensor, Tensor) {
    let inside = numbers.ge(0).logical_and(&numbers.le(largest));
    (numbers.clamp(0, largest), inside.to_kind(Kind::Float))
}

fn gathered(x: &Tensor, (index, inside): &(Tensor, Tensor)) -> Tensor {
    let [rows, columns] = [index.size()[0], index.size()[1]];
    let size = [x.size()[0], x.size()[1], rows, columns];
    x.gather(3, &index.expand(size, false), false) * inside.to_kind(x.kind())
}

#[derive(Debug)]
pub struct RelativeAttention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    out_proj: Linear,
    /// Shared by the heads: [1, W, head width].
    emb_rel_k: Tensor,
    emb_rel_v: Tensor,
    heads: i64,
    dropout: Dropout,
}

impl RelativeAttention {
    pub fn load(
        mut scope: Scope,
        config: &VitsConfig,
        dropout: Dropout,
    ) -> Result<RelativeAttention, TorchError> {
        let (width, heads) = (config.hidden_size, config.num_attention_heads);
        let table = [1, 2 * config.window_size + 1, width / heads];
        let mut linear =
            |name: &str| Linear::load(&mut scope.under(name), width, width, config.use_bias);
        Ok(RelativeAttention {
            q_proj: linear("q_proj")?,
            k_proj: linear("k_proj")?,
            v_proj: linear("v_proj")?,
            out_proj: linear("out_proj")?,
            emb_rel_k: scope.take("emb_rel_k", &table)?,
            emb_rel_v: scope.take("emb_rel_v", &table)?,
            heads,
            dropout,
        })
    }

    /// [B, N, C] to [B, N, C].
    pub fn forward(&self, x: &Tensor, positions: &RelativePositions, pass: Pass) -> Tensor {
        let size = x.size();
        let [batch, length, width] = [size[0], size[1], size[2]];
        let head_width = width / self.heads;
        let split = |linear: &Linear| {
            let y = linear.forward(x, pass).view([batch, length, self.heads, head_width]);
            y.transpose(1, 2) // [B, H, N, head width]
        };
        let queries = split(&self.q_proj) * (head_width as f64).powf(-0.5);
        let scores = queries.matmul(&split(&self.k_proj).transpose(2, 3));
        let relative = queries.matmul(&self.emb_rel_k.transpose(1, 2));
        let scores = scores + positions.relative_to_absolute(&relative);
        let weights = scores.masked_fill(&positions.padding, f64::NEG_INFINITY).softmax(-1, None);
        let weights = self.dropout.forward(&weights, pass);
        let y = weights.matmul(&split(&self.v_proj));
        let y = y + positions.absolute_to_relative(&weights).matmul(&self.emb_rel_v);
        self.out_proj.forward(&y.transpose(1, 2).reshape([batch, length, width]), pass)
    }
}

#[derive(Debug)]
struct FeedForward {
    conv_1: Conv,
    conv_2: Conv,
    dropout: Dropout,
}

/// Attention and convolutions, each with a residual connection and a norm after it.
#[derive(Debug)]
pub struct EncoderLayer {
    attention: RelativeAttention,
    layer_norm: LayerNorm,
    feed_forward: FeedForward,
    final_layer_norm: LayerNorm,
    dropouts: [Dropout; 2],
}

impl FeedForward {
    fn load(mut scope: Scope, config: &VitsConfig, dropout: Dropout) -> Result<Self, TorchError> {
        let (width, inner, kernel) = (config.hidden_size, config.ffn_dim, config.ffn_kernel_size);
        let conv_1 = Conv::load(scope.under("conv_1"), Shape::new(width, inner, kernel))?;
        let conv_2 = Conv::load(scope.under("conv_2"), Shape::new(inner, width, kernel))?;
        Ok(FeedForward { conv_1, conv_2, dropout })
    }

    /// [B, C, N] to [B, C, N].
    fn forward(&self, x: &Tensor, mask: &Tensor, pass: Pass) -> Tensor {
        let inner = self.dropout.forward(&self.conv_1.forward(&(x * mask)).relu(), pass);
        self.conv_2.forward(&(inner * mask)) * mask
    }
}

impl EncoderLayer {
    pub fn load(
        mut scope: Scope,
        config: &VitsConfig,
        stream: u64,
    ) -> Result<EncoderLayer, TorchError> {
        let (width, eps) = (config.hidden_size, config.layer_norm_eps);
        let dropout = |probability: f64, place: u64| Dropout::new(probability, stream + place);
        let attention = dropout(config.attention_dropout, 0);
        let feed_forward = dropout(config.activation_dropout, 1);
        Ok(EncoderLayer {
            attention: RelativeAttention::load(scope.under("attention"), config, attention)?,
            layer_norm: LayerNorm::load(&mut scope.under("layer_norm"), width, eps)?,
            feed_forward: FeedForward::load(scope.under("feed_forward"), config, feed_forward)?,
            final_layer_norm: LayerNorm::load(&mut scope.under("final_layer_norm"), width, eps)?,
            dropouts: [dropout(config.hidden_dropout, 2), dropout(config.hidden_dropout, 3)],
        })
    }

    /// [B, C, N] to [B, C, N].
    pub fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        positions: &RelativePositions,
        pass: Pass,
    ) -> Tensor {
        let attended = self.attention.forward(&x.transpose(1, 2), positions, pass).transpose(1, 2);
        let x = x + self.dropouts[0].forward(&attended, pass);
        let x = over_channels(&self.layer_norm, &x);
        let inner = self.feed_forward.forward(&x, mask, pass);
        let x = x + self.dropouts[1].forward(&inner, pass);
        over_channels(&self.final_layer_norm, &x)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tch::Device;

    #[test]
    fn relative_positions_lead_from_queries_to_keys_within_the_window() {
        let positions =
            RelativePositions::new(&Tensor::ones([1, 1, 4], (Kind::Float, Device::Cpu)), 1);
        // An index for each relative position: before, same, after.
        let relative = Tensor::from_slice(&[1f32, 2.0, 3.0]).view([1, 1, 1, 3]);
        let by_key = positions.relative_to_absolute(&relative.expand([1, 1, 4, 3], false));
        let rows: Vec<f32> = Vec::try_from(by_key.view(-1)).unwrap();
        assert_eq!(rows[..8], [2.0, 3.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0]);
        let back: Vec<f32> =
            Vec::try_from(positions.absolute_to_relative(&by_key).view(-1)).unwrap();
        assert_eq!(back[..6], [0.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(back[9..], [1.0, 2.0, 0.0]);
    }
}
