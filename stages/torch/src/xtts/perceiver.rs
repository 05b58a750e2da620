//! The perceiver resampler: reduces any number of reference vectors to a fixed number of latents,
//! by attention from learned queries to themselves and the reference, and a gated feed-forward
//! layer.

use tch::{Kind, Tensor};

use crate::error::TorchError;
use crate::nn::layers::{Linear, Pass};
use crate::nn::weights::Scope;
use stage_families::xtts::GptConfig;

#[derive(Debug)]
pub struct Perceiver {
    /// [latents, C].
    pub latents: Tensor,
    pub layers: Vec<PerceiverLayer>,
    pub norm: PerceiverNorm,
}

#[derive(Debug)]
pub struct PerceiverLayer {
    pub to_q: Linear,
    pub to_kv: Linear,
    pub to_out: Linear,
    pub proj_in: Linear,
    pub proj_out: Linear,
    heads: i64,
}

/// Divides by the norm of the vector, times the root of the width.
#[derive(Debug)]
pub struct PerceiverNorm {
    pub gamma: Tensor,
}

/// The smallest norm to divide by.
const LEAST_LENGTH: f64 = 1e-12;

impl Perceiver {
    pub fn load(scope: &mut Scope, config: &GptConfig) -> Result<Perceiver, TorchError> {
        let latents = scope.take("latents", &[config.latents, config.width])?;
        let mut layers = scope.under("layers");
        let layer = |at: i64| PerceiverLayer::load(&mut layers.under(&at.to_string()), config);
        Ok(Perceiver {
            latents,
            layers: (0..config.perceiver_layers).map(layer).collect::<Result<_, _>>()?,
            norm: PerceiverNorm { gamma: scope.take("norm.gamma", &[config.width])? },
        })
    }

    /// [B, C, T] to [B, latents, C].
    pub fn forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        let x = x.transpose(1, 2);
        let (batch, width) = (x.size()[0], x.size()[2]);
        let latents = self.latents.unsqueeze(0).expand([batch, -1, width], false);
        // libtorch multiplies an expanded tensor by another kernel without a graph.
        let latents = latents.contiguous();
        let layer = |latents: Tensor, layer: &PerceiverLayer| layer.forward(&latents, &x, pass);
        self.norm.forward(&self.layers.iter().fold(latents, layer))
    }
}

impl PerceiverLayer {
    fn load(scope: &mut Scope, config: &GptConfig) -> Result<PerceiverLayer, TorchError> {
        let (width, heads) = (config.width, config.perceiver_heads);
        let inner = heads * config.perceiver_head_width;
        let fed = config.perceiver_inner_width();
        let mut linear = |name: &str, inputs, outputs, bias| {
            Linear::load(&mut scope.under(name), inputs, outputs, bias)
        };
        Ok(PerceiverLayer {
            to_q: linear("0.to_q", width, inner, false)?,
            to_kv: linear("0.to_kv", width, 2 * inner, false)?,
            to_out: linear("0.to_out", inner, width, false)?,
            proj_in: linear("1.0", width, 2 * fed, true)?,
            proj_out: linear("1.2", fed, width, true)?,
            heads,
        })
    }

    pub fn layers(&mut self) -> [(&'static str, &mut Linear); 5] {
        [
            ("0.to_q", &mut self.to_q),
            ("0.to_kv", &mut self.to_kv),
            ("0.to_out", &mut self.to_out),
            ("1.0", &mut self.proj_in),
            ("1.2", &mut self.proj_out),
        ]
    }

    fn forward(&self, latents: &Tensor, x: &Tensor, pass: Pass) -> Tensor {
        let latents = latents + self.attend(latents, x, pass);
        let fed = self.feed_forward(&latents, pass);
        latents + fed
    }

    /// [B, latents, C] and [B, T, C]; the latents come before the reference among the keys.
    fn attend(&self, latents: &Tensor, x: &Tensor, pass: Pass) -> Tensor {
        let context = Tensor::cat(&[latents, x], 1);
        let heads = |x: &Tensor| x.unflatten(-1, [self.heads, -1]).transpose(1, 2);
        let queries = heads(&self.to_q.forward(latents, pass));
        let keys_values = self.to_kv.forward(&context, pass).chunk(2, -1);
        let (keys, values) = (heads(&keys_values[0]), heads(&keys_values[1]));
        let none = None::<&Tensor>;
        let attended = Tensor::scaled_dot_product_attention(
            &queries, &keys, &values, none, 0.0, false, None, false,
        );
        self.to_out.forward(&attended.transpose(1, 2).flatten(2, 3), pass)
    }

    /// GEGLU: half of the inner channels, through GELU, gate the other half.
    fn feed_forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        let parts = self.proj_in.forward(x, pass).chunk(2, -1);
        self.proj_out.forward(&(parts[1].gelu("none") * &parts[0]), pass)
    }
}

impl PerceiverNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        let wide = x.to_kind(Kind::Float);
        let length = wide.square().sum_dim_intlist([-1i64].as_slice(), true, Kind::Float).sqrt();
        let root = (x.size().last().copied().unwrap_or(1) as f64).sqrt();
        let normal = wide / length.clamp_min(LEAST_LENGTH) * root;
        normal.to_kind(x.kind()) * &self.gamma
    }
}
