//! The transformer encoder.

use stage_families::wav2vec2::Wav2Vec2Config;
use stage_formats::weight_norm::{DIRECTION, LENGTH};
use tch::Tensor;

use crate::error::{InTch, TorchError};
use crate::nn::convolution::Geometry;
use crate::nn::layers::{LayerNorm, Linear, Pass};
use crate::nn::weights::Scope;

#[derive(Debug)]
pub struct Wav2Vec2Encoder {
    pos_conv_embed: PositionalConv,
    layer_norm: LayerNorm,
    layers: Vec<Wav2Vec2Layer>,
    /// Pre-norm: norms before the sublayers and after the last layer, instead of after the
    /// sublayers and before the first layer.
    is_stable: bool,
}

/// The positional convolution over many frames.
#[derive(Debug)]
struct PositionalConv {
    weight: Tensor,
    bias: Tensor,
    geometry: Geometry,
}

#[derive(Debug)]
struct Wav2Vec2Layer {
    attention: Wav2Vec2Attention,
    layer_norm: LayerNorm,
    intermediate_dense: Linear,
    output_dense: Linear,
    final_layer_norm: LayerNorm,
}

#[derive(Debug)]
struct Wav2Vec2Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    out_proj: Linear,
    heads: i64,
}

impl Wav2Vec2Encoder {
    pub fn load(mut scope: Scope, config: &Wav2Vec2Config) -> Result<Wav2Vec2Encoder, TorchError> {
        let layer = |at: i64, scope: &mut Scope| {
            Wav2Vec2Layer::load(scope.under(&format!("layers.{at}")), config)
        };
        Ok(Wav2Vec2Encoder {
            pos_conv_embed: PositionalConv::load(scope.under("pos_conv_embed.conv"), config)?,
            layer_norm: norm(&mut scope, "layer_norm", config)?,
            layers: (0..config.num_hidden_layers)
                .map(|at| layer(at, &mut scope))
                .collect::<Result<_, _>>()?,
            is_stable: config.do_stable_layer_norm,
        })
    }

    /// [B, T, C] to [B, T, C].
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x + self.pos_conv_embed.forward(x);
        if !self.is_stable {
            x = self.layer_norm.forward(&x);
        }
        for layer in &self.layers {
            x = layer.forward(&x, self.is_stable);
        }
        if self.is_stable { self.layer_norm.forward(&x) } else { x }
    }
}

impl PositionalConv {
    fn load(mut scope: Scope, config: &Wav2Vec2Config) -> Result<PositionalConv, TorchError> {
        let (width, kernel) = (config.hidden_size, config.num_conv_pos_embeddings);
        let groups = config.num_conv_pos_embedding_groups;
        let length = scope.take(LENGTH, &[1, 1, kernel])?;
        let direction = scope.take(DIRECTION, &[width, width / groups, kernel])?;
        Ok(PositionalConv {
            weight: Tensor::internal_weight_norm(&direction, &length, 2),
            bias: scope.take("bias", &[width])?,
            geometry: Geometry { padding: kernel / 2, groups, ..Geometry::default() },
        })
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let positions = self.geometry.convolve(&x.transpose(1, 2), &self.weight, Some(&self.bias));
        // An even kernel gives one frame too many.
        let positions = positions.narrow(2, 0, x.size()[1]);
        positions.gelu("none").transpose(1, 2)
    }
}

impl Wav2Vec2Layer {
    fn load(mut scope: Scope, config: &Wav2Vec2Config) -> Result<Wav2Vec2Layer, TorchError> {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let mut dense = |name: &str, inputs: i64, outputs: i64| {
            Linear::load(&mut scope.under(&format!("feed_forward.{name}")), inputs, outputs, true)
        };
        Ok(Wav2Vec2Layer {
            intermediate_dense: dense("intermediate_dense", width, inner)?,
            output_dense: dense("output_dense", inner, width)?,
            attention: Wav2Vec2Attention::load(scope.under("attention"), config)?,
            layer_norm: norm(&mut scope, "layer_norm", config)?,
            final_layer_norm: norm(&mut scope, "final_layer_norm", config)?,
        })
    }

    fn forward(&self, x: &Tensor, is_stable: bool) -> Tensor {
        if is_stable {
            let x = x + self.attention.forward(&self.layer_norm.forward(x));
            let changed = self.feed_forward(&self.final_layer_norm.forward(&x));
            return x + changed;
        }
        let x = self.layer_norm.forward(&(x + self.attention.forward(x)));
        self.final_layer_norm.forward(&(&x + self.feed_forward(&x)))
    }

    fn feed_forward(&self, x: &Tensor) -> Tensor {
        let inner = self.intermediate_dense.forward(x, Pass::Evaluate).gelu("none");
        self.output_dense.forward(&inner, Pass::Evaluate)
    }
}

impl Wav2Vec2Attention {
    fn load(mut scope: Scope, config: &Wav2Vec2Config) -> Result<Wav2Vec2Attention, TorchError> {
        let width = config.hidden_size;
        let mut linear = |name: &str| Linear::load(&mut scope.under(name), width, width, true);
        Ok(Wav2Vec2Attention {
            q_proj: linear("q_proj")?,
            k_proj: linear("k_proj")?,
            v_proj: linear("v_proj")?,
            out_proj: linear("out_proj")?,
            heads: config.num_attention_heads,
        })
    }

    /// [B, T, C] to [B, T, C]; each frame attends to all.
    fn forward(&self, x: &Tensor) -> Tensor {
        let (batch, length, width) = x.size3().in_tch();
        let split = |linear: &Linear| {
            let y = linear.forward(x, Pass::Evaluate);
            y.view([batch, length, self.heads, width / self.heads]).transpose(1, 2)
        };
        let (queries, keys, values) =
            (split(&self.q_proj), split(&self.k_proj), split(&self.v_proj));
        let y = Tensor::scaled_dot_product_attention(
            &queries,
            &keys,
            &values,
            None::<&Tensor>,
            0.0,
            false,
            None,
            false,
        );
        let y = y.transpose(1, 2).reshape([batch, length, width]);
        self.out_proj.forward(&y, Pass::Evaluate)
    }
}

fn norm(scope: &mut Scope, name: &str, config: &Wav2Vec2Config) -> Result<LayerNorm, TorchError> {
    LayerNorm::load(&mut scope.under(name), config.hidden_size, config.layer_norm_eps)
}
