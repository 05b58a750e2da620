//! Duration predictors: a stochastic one with a flow between noise and log-durations, and a
//! deterministic one. Their inputs are detached, so that they do not train the text encoder.

use std::f64::consts::TAU;

use tch::Tensor;

use super::VitsConfig;
use super::commons::{halves, speaks_only, summed};
use super::modules::{ConvFlow, DilatedDepthSeparableConv, Dropout, ElementwiseAffine};
use crate::error::TorchError;
use crate::nn::conv::{Conv, Shape, over_channels};
use crate::nn::layers::{LayerNorm, Pass};
use crate::nn::weights::Scope;

/// Dropout streams, separate from those of other modules.
const STREAM: u64 = 3 << 20;

/// The smallest duration before the logarithm.
const LEAST: f64 = 1e-5;

/// The conditioning of durations: text and speaker.
#[derive(Clone, Copy)]
pub struct Conditioning<'a> {
    /// [B, C, N].
    pub hidden: &'a Tensor,
    /// [B, 1, N].
    pub mask: &'a Tensor,
    /// [B, E, 1].
    pub speaker: Option<&'a Tensor>,
}

#[derive(Debug)]
pub enum DurationPredictor {
    Stochastic(Box<Stochastic>),
    Deterministic(Box<Deterministic>),
}

/// Convolutions that compute the conditioning of a flow.
#[derive(Debug)]
struct Condition {
    conv_pre: Conv,
    conv_dds: DilatedDepthSeparableConv,
    conv_proj: Conv,
}

#[derive(Debug)]
pub struct Stochastic {
    text: Condition,
    cond: Option<Conv>,
    flows: Flows,
    /// The posterior of dequantization noise; None in a model that only speaks, or did at first.
    post: Option<(Condition, Flows)>,
}

impl DurationPredictor {
    pub fn load(scope: Scope, config: &VitsConfig) -> Result<DurationPredictor, TorchError> {
        Ok(if config.use_stochastic_duration_prediction {
            DurationPredictor::Stochastic(Box::new(Stochastic::load(scope, config)?))
        } else {
            DurationPredictor::Deterministic(Box::new(Deterministic::load(scope, config)?))
        })
    }

    /// Log-durations in frames, [B, 1, N], from noise [B, 2, N], which the deterministic predictor
    /// ignores.
    pub fn predict(
        &self,
        conditioning: Conditioning,
        noise: Option<&Tensor>,
    ) -> Result<Tensor, TorchError> {
        match (self, noise) {
            (DurationPredictor::Deterministic(plain), _) => {
                Ok(plain.forward(conditioning, Pass::Evaluate))
            }
            (DurationPredictor::Stochastic(flow), Some(noise)) => {
                Ok(flow.predict(conditioning, noise))
            }
            (DurationPredictor::Stochastic(_), None) => {
                Err(TorchError::Input("no noise is given to sample durations".into()))
            }
        }
    }

    /// The negative log-likelihood of durations [B, 1, N], summed over the tokens of each text:
    /// [B]. For the deterministic predictor it is the squared distance of the logarithms.
    pub fn loss(
        &self,
        conditioning: Conditioning,
        durations: &Tensor,
        noise: Option<&Tensor>,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        match (self, noise) {
            (DurationPredictor::Deterministic(plain), _) => {
                let wanted = (durations + 1e-6).log() * conditioning.mask;
                let far = (plain.forward(conditioning, pass) - wanted).square();
                Ok(summed(&far))
            }
            (DurationPredictor::Stochastic(flow), Some(noise)) => {
                flow.loss(conditioning, durations, noise, pass)
            }
            (DurationPredictor::Stochastic(_), None) => {
                Err(TorchError::Input("no noise is given to dequantise durations".into()))
            }
        }
    }

    pub fn takes_noise(&self) -> bool {
        matches!(self, DurationPredictor::Stochastic(_))
    }

    /// False if the parts that only training needs are missing.
    pub fn can_learn(&self) -> bool {
        match self {
            DurationPredictor::Stochastic(flow) => flow.post.is_some(),
            DurationPredictor::Deterministic(_) => true,
        }
    }
}

impl Condition {
    fn load(
        scope: &mut Scope,
        config: &VitsConfig,
        prefix: &str,
        inputs: i64,
        stream: u64,
    ) -> Result<Condition, TorchError> {
        let width = config.hidden_size;
        let mut conv = |name: &str, inputs: i64| {
            Conv::load(scope.under(&format!("{prefix}{name}")), Shape::new(inputs, width, 1))
        };
        let (conv_pre, conv_proj) = (conv("conv_pre", inputs)?, conv("conv_proj", width)?);
        let (dds, dropout) =
            (scope.under(&format!("{prefix}conv_dds")), config.duration_predictor_dropout);
        let conv_dds = DilatedDepthSeparableConv::load(dds, config, dropout, stream)?;
        Ok(Condition { conv_pre, conv_dds, conv_proj })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor, speaker: Option<Tensor>, pass: Pass) -> Tensor {
        let mut x = self.conv_pre.forward(x);
        if let Some(speaker) = speaker {
            x += speaker;
        }
        let x = self.conv_dds.forward(&x, mask, None, pass);
        self.conv_proj.forward(&x) * mask
    }
}

impl Stochastic {
    fn load(mut scope: Scope, config: &VitsConfig) -> Result<Stochastic, TorchError> {
        let width = config.hidden_size;
        Ok(Stochastic {
            text: Condition::load(&mut scope, config, "", width, STREAM + 64)?,
            cond: speaker_conv(&mut scope, config)?,
            flows: Flows::load(scope.under("flows"), config)?,
            post: config
                .learns_durations()
                .then(|| {
                    let post = Condition::load(&mut scope, config, "post_", 1, STREAM + 128)?;
                    let flows = Flows::load(scope.under("post_flows"), config)?;
                    Ok::<_, TorchError>((post, flows))
                })
                .transpose()?,
        })
    }

    fn condition(&self, conditioning: Conditioning, pass: Pass) -> Tensor {
        let speaker = of_speaker(&self.cond, conditioning.speaker);
        self.text.forward(&conditioning.hidden.detach(), conditioning.mask, speaker, pass)
    }

    fn predict(&self, conditioning: Conditioning, noise: &Tensor) -> Tensor {
        let cond = self.condition(conditioning, Pass::Evaluate);
        let [log_durations, _] = halves(&self.flows.reverse(noise, conditioning.mask, &cond));
        log_durations
    }

    /// Variational dequantization: durations are whole numbers. Noise u fills each up to a number
    /// between it and the next lower one; the log-likelihood of the noise is subtracted from that
    /// of the filled durations.
    fn loss(
        &self,
        conditioning: Conditioning,
        durations: &Tensor,
        noise: &Tensor,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        let (post, post_flows) = self.post.as_ref().ok_or_else(speaks_only)?;
        let Conditioning { mask, .. } = conditioning;
        let cond = self.condition(conditioning, pass);
        let seen = post.forward(durations, mask, None, pass);
        let noise = noise * mask;
        let (filling, mut widening) = post_flows.forward(&noise, mask, &(&cond + seen));
        let [share, rest] = halves(&filling);
        widening += summed(&((share.log_sigmoid() + (-&share).log_sigmoid()) * mask));
        let noise_likelihood = -summed(&(energy(&noise) * mask)) - widening;
        let filled = (durations - share.sigmoid()) * mask;
        let logarithm = filled.clamp_min(LEAST).log() * mask;
        let narrowing = -summed(&logarithm);
        let pair = Tensor::cat(&[logarithm, rest], 1);
        let (latents, widening) = self.flows.forward(&pair, mask, &cond);
        Ok(summed(&(energy(&latents) * mask)) - (narrowing + widening) + noise_likelihood)
    }
}

/// The conditioning of durations on the speaker, in models with speakers.
fn speaker_conv(scope: &mut Scope, config: &VitsConfig) -> Result<Option<Conv>, TorchError> {
    let (speaker, width) = (config.speaker_embedding_size, config.hidden_size);
    let shape = Shape::new(speaker, width, 1);
    (speaker > 0).then(|| Conv::load(scope.under("cond"), shape)).transpose()
}

fn of_speaker(cond: &Option<Conv>, speaker: Option<&Tensor>) -> Option<Tensor> {
    match (cond, speaker) {
        (Some(cond), Some(speaker)) => Some(cond.forward(&speaker.detach())),
        _ => None,
    }
}

/// The negative log-density of each value under a standard normal distribution.
fn energy(x: &Tensor) -> Tensor {
    (x.square() + TAU.ln()) * 0.5
}

/// An affine layer, then couplings, each followed by a flip of the channels. So the first coupling
/// transforms the channel that is not a duration.
#[derive(Debug)]
struct Flows {
    affine: ElementwiseAffine,
    /// None where the posterior is missing too.
    first: Option<ConvFlow>,
    others: Vec<ConvFlow>,
}

impl Flows {
    pub fn load(mut scope: Scope, config: &VitsConfig) -> Result<Flows, TorchError> {
        let affine = ElementwiseAffine::load(scope.under("0"), config.depth_separable_channels)?;
        let mut load = |at: i64| ConvFlow::load(scope.under(&at.to_string()), config, STREAM);
        let first = config.learns_durations().then(|| load(1)).transpose()?;
        let others = (2..=config.duration_predictor_num_flows).map(load);
        Ok(Flows { affine, first, others: others.collect::<Result<_, _>>()? })
    }

    /// [B, 2, N] to [B, 2, N], and the log-determinant: [B].
    pub fn forward(&self, x: &Tensor, mask: &Tensor, cond: &Tensor) -> (Tensor, Tensor) {
        let (mut x, mut widening) = self.affine.forward(x, mask);
        for bend in self.first.iter().chain(&self.others) {
            let (y, more) = bend.forward(&x, mask, cond);
            x = y.flip([1]);
            widening += more;
        }
        (x, widening)
    }

    /// The inverse, without the first coupling: it transforms the channel that is not a duration,
    /// and the original omits it.
    pub fn reverse(&self, y: &Tensor, mask: &Tensor, cond: &Tensor) -> Tensor {
        let mut y = y.shallow_clone();
        for bend in self.others.iter().rev() {
            y = bend.reverse(&y.flip([1]), mask, cond);
        }
        self.affine.reverse(&y.flip([1]), mask)
    }
}

#[derive(Debug)]
pub struct Deterministic {
    conv_1: Conv,
    norm_1: LayerNorm,
    conv_2: Conv,
    norm_2: LayerNorm,
    proj: Conv,
    cond: Option<Conv>,
    dropout: f64,
}

impl Deterministic {
    pub fn load(mut scope: Scope, config: &VitsConfig) -> Result<Deterministic, TorchError> {
        let (width, inner) = (config.hidden_size, config.duration_predictor_filter_channels);
        let (kernel, eps) = (config.duration_predictor_kernel_size, config.layer_norm_eps);
        Ok(Deterministic {
            conv_1: Conv::load(scope.under("conv_1"), Shape::new(width, inner, kernel))?,
            norm_1: LayerNorm::load(&mut scope.under("norm_1"), inner, eps)?,
            conv_2: Conv::load(scope.under("conv_2"), Shape::new(inner, inner, kernel))?,
            norm_2: LayerNorm::load(&mut scope.under("norm_2"), inner, eps)?,
            proj: Conv::load(scope.under("proj"), Shape::new(inner, 1, 1))?,
            cond: speaker_conv(&mut scope, config)?,
            dropout: config.duration_predictor_dropout,
        })
    }

    /// Logarithms of durations: [B, 1, N].
    pub fn forward(&self, conditioning: Conditioning, pass: Pass) -> Tensor {
        let Conditioning { mask, .. } = conditioning;
        let mut x = conditioning.hidden.detach();
        if let Some(speaker) = of_speaker(&self.cond, conditioning.speaker) {
            // Not in place: it belongs to the caller.
            x = &x + speaker;
        }
        let layers = [(&self.conv_1, &self.norm_1), (&self.conv_2, &self.norm_2)];
        for (at, (conv, norm)) in layers.into_iter().enumerate() {
            let inner = over_channels(norm, &conv.forward(&(x * mask)).relu());
            x = Dropout::new(self.dropout, STREAM + at as u64).forward(&inner, pass);
        }
        self.proj.forward(&(x * mask)) * mask
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::{Device, Kind};

    use super::*;
    use crate::nn::random::Random;
    use crate::nn::weights::Weights;

    fn drawn(random: &mut Random, shape: &[i64]) -> Tensor {
        let count = shape.iter().product::<i64>();
        let values: Vec<f32> = (0..count).map(|_| random.fraction() as f32 - 0.5).collect();
        Tensor::from_slice(&values).view(shape)
    }

    #[test]
    fn the_way_back_leads_to_the_durations() {
        let prefix = "duration_predictor.flows";
        let (mut random, tokens) = (Random::new(3), 7);
        for duration_predictor_num_flows in [1, 2, 3, 4] {
            let config = VitsConfig {
                hidden_size: 8,
                duration_predictor_num_flows,
                ..VitsConfig::default()
            };
            let tensors = config.generator().into_iter();
            let own = tensors.filter(|(name, _)| name.starts_with(&format!("{prefix}.")));
            let mut weights: Weights =
                own.map(|(name, shape)| (name, drawn(&mut random, &shape))).collect();
            let flows = Flows::load(weights.under(prefix), &config).unwrap();
            let mask = Tensor::ones([1, 1, tokens], (Kind::Float, Device::Cpu));
            let cond = drawn(&mut random, &[1, 8, tokens]);
            let x = drawn(&mut random, &[1, 2, tokens]) * 4.0;
            let (y, _) = flows.forward(&x, &mask, &cond);
            let back = flows.reverse(&y, &mask, &cond);
            let [[expected, _], [durations, _]] = [halves(&x), halves(&back)];
            let far = (durations - expected).abs().max().double_value(&[]);
            assert!(far < 1e-4, "{duration_predictor_num_flows} flows: off by {far}");
        }
    }
}
