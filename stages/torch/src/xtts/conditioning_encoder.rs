//! The conditioning encoder: from a mel spectrogram of a reference to one vector per frame, by a
//! projection and attention over all frames.

use tch::{Kind, Tensor};

use crate::error::TorchError;
use crate::nn::layers::LayerNorm;
use crate::nn::weights::Scope;
use stage_families::xtts::GptConfig;

const GROUP_NORM_EPS: f64 = 1e-5;

#[derive(Debug)]
pub struct ConditioningEncoder {
    pub init: Projection,
    pub attn: Vec<AttentionBlock>,
}

/// A convolution of kernel size one.
#[derive(Debug)]
pub struct Projection {
    /// [outputs, inputs, 1].
    pub weight: Tensor,
    pub bias: Tensor,
}

#[derive(Debug)]
pub struct AttentionBlock {
    pub norm: LayerNorm,
    pub qkv: Projection,
    pub proj_out: Projection,
    heads: i64,
}

impl ConditioningEncoder {
    pub fn load(scope: &mut Scope, config: &GptConfig) -> Result<ConditioningEncoder, TorchError> {
        let init = Projection::load(&mut scope.under("init"), config.mels, config.width)?;
        let mut attn = scope.under("attn");
        let block = |at: i64| AttentionBlock::load(&mut attn.under(&at.to_string()), config);
        Ok(ConditioningEncoder {
            init,
            attn: (0..config.conditioning_layers).map(block).collect::<Result<_, _>>()?,
        })
    }

    /// [B, mels, T] to [B, C, T].
    pub fn forward(&self, mel: &Tensor) -> Tensor {
        self.attn.iter().fold(self.init.forward(mel), |x, block| block.forward(&x))
    }
}

impl Projection {
    fn load(scope: &mut Scope, inputs: i64, outputs: i64) -> Result<Projection, TorchError> {
        let weight = scope.take("weight", &[outputs, inputs, 1])?;
        Ok(Projection { weight, bias: scope.take("bias", &[outputs])? })
    }

    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.conv1d(&self.weight, Some(&self.bias), 1, 0, 1, 1)
    }
}

impl AttentionBlock {
    fn load(scope: &mut Scope, config: &GptConfig) -> Result<AttentionBlock, TorchError> {
        let (width, heads) = (config.width, config.conditioning_heads);
        Ok(AttentionBlock {
            norm: LayerNorm::load(&mut scope.under("norm"), width, GROUP_NORM_EPS)?,
            qkv: Projection::load(&mut scope.under("qkv"), width, 3 * width)?,
            proj_out: Projection::load(&mut scope.under("proj_out"), width, width)?,
            heads,
        })
    }

    /// [B, C, T] to the same. The result is added to the normalised input, not to the raw one.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let x = group_norm(&self.norm, x);
        let attended = self.attend(&self.qkv.forward(&x));
        x + self.proj_out.forward(&attended)
    }

    /// [B, 3 C, T] to [B, C, T]. Channels are those of the first head, its queries, keys and
    /// values, then those of the second head. Queries and keys are both scaled, and the softmax is
    /// in single precision.
    fn attend(&self, qkv: &Tensor) -> Tensor {
        let (batch, channels, frames) = (qkv.size()[0], qkv.size()[1], qkv.size()[2]);
        let width = channels / 3 / self.heads;
        let parts = qkv.reshape([batch * self.heads, 3, width, frames]);
        let scale = (width as f64).powf(-0.25);
        let (queries, keys, values) = (parts.select(1, 0), parts.select(1, 1), parts.select(1, 2));
        let scores = (queries * scale).transpose(1, 2).matmul(&(keys * scale));
        let weights = scores.softmax(-1, Kind::Float).to_kind(qkv.kind());
        values.matmul(&weights.transpose(1, 2)).reshape([batch, channels / 3, frames])
    }
}

/// Group norm over all frames, [B, C, T], in single precision.
fn group_norm(norm: &LayerNorm, x: &Tensor) -> Tensor {
    let [weight, bias] = [&norm.weight, &norm.bias].map(|tensor| tensor.to_kind(Kind::Float));
    let groups = groups_of(weight.size()[0]);
    let wide = x.to_kind(Kind::Float);
    wide.group_norm(groups, Some(&weight), Some(&bias), norm.eps, true).to_kind(x.kind())
}

/// The number of groups: 32, fewer for narrow layers, and halved until it divides the width.
fn groups_of(width: i64) -> i64 {
    let mut groups = match width {
        ..=16 => 8,
        17..=64 => 16,
        _ => 32,
    };
    while groups > 1 && width % groups != 0 {
        groups /= 2;
    }
    groups
}
