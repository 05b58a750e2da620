//! The transformers of the codec: causal attention within a window.

use tch::{Device, Kind, Tensor};

use crate::error::{InTch, TorchError};
use crate::nn::layers::{LayerScale, Linear, Pass, RmsNorm, SwiGlu};
use crate::nn::rope::{Rope, Rotary};
use crate::nn::weights::{Scope, Weights};
use stage_families::dac::Transformer as Config;

#[derive(Debug)]
pub struct Transformer {
    window_size: i64,
    layers: Vec<TransformerLayer>,
    norm: RmsNorm,
    rope: Rope,
}

impl Transformer {
    pub fn new(weights: &Weights, name: &str, config: &Config) -> Result<Transformer, TorchError> {
        let own = weights.iter().filter(|(own, _)| own.starts_with(name));
        let own = own.map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone()));
        let mut own: Weights = own.collect();
        let mut scope = own.under(name);
        let mut layers = Vec::new();
        for at in 0..config.n_layer {
            layers.push(TransformerLayer::load(&mut scope.under(&format!("layers.{at}")), config)?);
        }
        let norm = RmsNorm::load(&mut scope.under("norm"), config.dim, config.norm_eps)?;
        let device = norm.weight.device();
        let rope = Rope::new(config.block_size, config.head_dim, config.rope_base, device);
        Ok(Transformer { window_size: config.window_size, layers, norm, rope })
    }

    /// [B, C, T] to [B, C, T].
    pub fn forward(&self, input: &Tensor) -> Tensor {
        let mut rows = input.transpose(1, 2); // [B, T, C]
        let length = rows.size()[1];
        let rotary = self.rope.range(0, length);
        let band = Band::new(length, self.window_size, rows.device());
        for layer in &self.layers {
            rows = layer.forward(&rows, &rotary, &band);
        }
        self.norm.forward(&rows).transpose(1, 2)
    }
}

/// The attention window. A position attends to the `window` positions up to itself, so a block of
/// that many queries needs the keys of its own block and of the previous one: memory grows with
/// length times window and not with length squared.
struct Band {
    length: i64,
    window: i64,
    blocks: i64,
    /// True where a query attends to a key: [T, T] if one block is enough, else [blocks, 1, window,
    /// 2 window].
    mask: Tensor,
}

impl Band {
    fn new(length: i64, window: i64, device: Device) -> Band {
        let options = (Kind::Int64, device);
        let blocks = (length + window - 1) / window;
        let mask = if blocks <= 2 {
            let places = Tensor::arange(length, options);
            seen(&places.unsqueeze(1), &places.unsqueeze(0), window)
        } else {
            let starts = Tensor::arange(blocks, options) * window;
            let starts = starts.reshape([-1, 1, 1, 1]);
            let queries = Tensor::arange(window, options).reshape([-1, 1]);
            let keys = Tensor::arange(2 * window, options) - window;
            let keys = keys + &starts;
            let real = keys.ge(0);
            seen(&(queries + starts), &keys, window).logical_and(&real)
        };
        Band { length, window, blocks, mask }
    }

    /// [B, H, T, D] each.
    fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Tensor {
        if self.blocks <= 2 {
            return attention(query, key, value, &self.mask);
        }
        let (batch, heads, _, width) = query.size4().in_tch();
        let blocks = self.blocks;
        let behind = blocks * self.window - self.length;
        // The batch is merged into the heads, so that one mask serves all: [blocks, B * H, window,
        // D].
        let query = query.flatten(0, 1).constant_pad_nd([0, 0, 0, behind]);
        let query = query.unflatten(1, [blocks, self.window]).transpose(0, 1);
        let (key, value) = (self.doubled(key, behind), self.doubled(value, behind));
        let output = attention(&query, &key, &value, &self.mask).transpose(0, 1);
        let output = output.reshape([batch, heads, blocks * self.window, width]);
        output.narrow(2, 0, self.length)
    }

    /// Each block with the previous one: [blocks, B * H, 2 window, D].
    fn doubled(&self, keys: &Tensor, behind: i64) -> Tensor {
        let padded = keys.flatten(0, 1).constant_pad_nd([0, 0, self.window, behind]);
        let blocks = padded.unfold(1, 2 * self.window, self.window); // [B * H, n, D, 2 window]
        blocks.permute([1, 0, 3, 2])
    }
}

fn seen(queries: &Tensor, keys: &Tensor, window: i64) -> Tensor {
    let distance = queries - keys;
    distance.ge(0).logical_and(&distance.lt(window))
}

fn attention(query: &Tensor, key: &Tensor, value: &Tensor, mask: &Tensor) -> Tensor {
    Tensor::scaled_dot_product_attention(query, key, value, Some(mask), 0.0, false, None, false)
}

#[derive(Debug)]
struct TransformerLayer {
    heads: [i64; 2],
    attention_norm: RmsNorm,
    wqkv: Linear,
    wo: Linear,
    attention_layer_scale: LayerScale,
    ffn_norm: RmsNorm,
    feed_forward: SwiGlu,
    ffn_layer_scale: LayerScale,
}

impl TransformerLayer {
    fn load(scope: &mut Scope, config: &Config) -> Result<TransformerLayer, TorchError> {
        let Config { n_head, head_dim, dim, intermediate_size, norm_eps, .. } = *config;
        let inner = n_head * head_dim;
        Ok(TransformerLayer {
            heads: [n_head, head_dim],
            attention_norm: RmsNorm::load(&mut scope.under("attention_norm"), dim, norm_eps)?,
            wqkv: Linear::load(&mut scope.under("attention.wqkv"), dim, 3 * inner, false)?,
            wo: Linear::load(&mut scope.under("attention.wo"), inner, dim, false)?,
            attention_layer_scale: LayerScale::load(
                &mut scope.under("attention_layer_scale"),
                dim,
            )?,
            ffn_norm: RmsNorm::load(&mut scope.under("ffn_norm"), dim, norm_eps)?,
            feed_forward: SwiGlu::load(&mut scope.under("feed_forward"), dim, intermediate_size)?,
            ffn_layer_scale: LayerScale::load(&mut scope.under("ffn_layer_scale"), dim)?,
        })
    }

    /// [B, T, C] to [B, T, C].
    fn forward(&self, rows: &Tensor, rotary: &Rotary, band: &Band) -> Tensor {
        let attended = self.attend(&self.attention_norm.forward(rows), rotary, band);
        let rows = rows + self.attention_layer_scale.forward(&attended);
        let inner = self.feed_forward.forward(&self.ffn_norm.forward(&rows), Pass::Evaluate);
        rows + self.ffn_layer_scale.forward(&inner)
    }

    fn attend(&self, rows: &Tensor, rotary: &Rotary, band: &Band) -> Tensor {
        let [heads, width] = self.heads;
        let joined = self.wqkv.forward(rows, Pass::Evaluate).unflatten(2, [3, heads, width]);
        let part = |at| joined.select(2, at); // [B, T, H, D]
        let query = rotary.apply(&part(0)).transpose(1, 2);
        let key = rotary.apply(&part(1)).transpose(1, 2);
        let output = band.attend(&query, &key, &part(2).transpose(1, 2));
        let output = output.transpose(1, 2).flatten(2, 3);
        self.wo.forward(&output, Pass::Evaluate)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The attention of all positions at once, with the mask of the whole square.
    fn dense(query: &Tensor, key: &Tensor, value: &Tensor, window: i64) -> Tensor {
        let places = Tensor::arange(query.size()[2], (Kind::Int64, Device::Cpu));
        let mask = seen(&places.unsqueeze(1), &places.unsqueeze(0), window);
        attention(query, key, value, &mask)
    }

    #[test]
    fn a_band_sees_what_the_whole_square_sees() {
        for window in [1, 3, 8] {
            for length in [1, 2, 7, 16, 17, 24, 25, 50] {
                let tensor = || Tensor::randn([2, 3, length, 4], (Kind::Float, Device::Cpu));
                let (query, key, value) = (tensor(), tensor(), tensor());
                let band = Band::new(length, window, Device::Cpu);
                let output = band.attend(&query, &key, &value);
                let far = (output - dense(&query, &key, &value, window)).abs().max();
                assert!(far.double_value(&[]) < 1e-5, "window {window}, length {length}");
            }
        }
    }
}
