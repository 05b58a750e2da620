//! Duration predictors: a stochastic one with a flow between noise and log-durations, and a
//! deterministic one. Their inputs are detached, so that they do not train the text encoder.

use std::f64::consts::TAU;

use tch::Tensor;

use super::config::Config;
use super::deterministic::Deterministic;
use super::duration_flow::{Flows, summed};
use super::separable::Separable;
use super::text_encoder::halves;
use crate::conv::{Conv, Shape};
use crate::error::TorchError;
use crate::layers::Pass;
use crate::weights::Scope;

/// Dropout streams, separate from those of other modules.
pub const STREAM: u64 = 3 << 20;
/// The smallest duration before the logarithm.
const LEAST: f64 = 1e-5;

/// The conditioning of durations: text and speaker.
#[derive(Clone, Copy)]
pub struct Said<'a> {
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
    conv_dds: Separable,
    conv_proj: Conv,
}

#[derive(Debug)]
pub struct Stochastic {
    text: Condition,
    cond: Option<Conv>,
    flows: Flows,
    /// The posterior of dequantization noise, for training only.
    post: Condition,
    post_flows: Flows,
}

impl DurationPredictor {
    pub fn load(scope: Scope, config: &Config) -> Result<DurationPredictor, TorchError> {
        Ok(match config.use_stochastic_duration_prediction {
            true => DurationPredictor::Stochastic(Box::new(Stochastic::load(scope, config)?)),
            false => {
                DurationPredictor::Deterministic(Box::new(Deterministic::load(scope, config)?))
            }
        })
    }

    /// Log-durations in frames, [B, 1, N], from noise [B, 2, N], which the deterministic predictor
    /// ignores.
    pub fn predict(&self, said: Said, noise: Option<&Tensor>) -> Result<Tensor, TorchError> {
        match (self, noise) {
            (DurationPredictor::Deterministic(plain), _) => plain.forward(said, Pass::Evaluate),
            (DurationPredictor::Stochastic(flow), Some(noise)) => flow.predict(said, noise),
            (DurationPredictor::Stochastic(_), None) => {
                Err(TorchError::Input("durations are drawn, and there is no noise".into()))
            }
        }
    }

    /// The negative log-likelihood of durations [B, 1, N], summed over the tokens of each text:
    /// [B]. For the deterministic predictor it is the squared distance of the logarithms.
    pub fn loss(
        &self,
        said: Said,
        durations: &Tensor,
        noise: Option<&Tensor>,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        match (self, noise) {
            (DurationPredictor::Deterministic(plain), _) => {
                let wanted = (durations + 1e-6).log() * said.mask;
                let far = (plain.forward(said, pass)? - wanted).square();
                Ok(summed(&far))
            }
            (DurationPredictor::Stochastic(flow), Some(noise)) => {
                flow.loss(said, durations, noise, pass)
            }
            (DurationPredictor::Stochastic(_), None) => {
                Err(TorchError::Input("durations are filled up, and there is no noise".into()))
            }
        }
    }

    pub fn takes_noise(&self) -> bool {
        matches!(self, DurationPredictor::Stochastic(_))
    }
}

impl Condition {
    fn load(
        scope: &mut Scope,
        config: &Config,
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
        let conv_dds = Separable::load(dds, config, dropout, stream)?;
        Ok(Condition { conv_pre, conv_dds, conv_proj })
    }

    fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        speaker: Option<Tensor>,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        let mut x = self.conv_pre.forward(x)?;
        if let Some(speaker) = speaker {
            x += speaker;
        }
        let x = self.conv_dds.forward(&x, mask, None, pass)?;
        Ok(self.conv_proj.forward(&x)? * mask)
    }
}

impl Stochastic {
    fn load(mut scope: Scope, config: &Config) -> Result<Stochastic, TorchError> {
        let width = config.hidden_size;
        Ok(Stochastic {
            text: Condition::load(&mut scope, config, "", width, STREAM + 64)?,
            cond: speaker_conv(&mut scope, config)?,
            flows: Flows::load(scope.under("flows"), config)?,
            post: Condition::load(&mut scope, config, "post_", 1, STREAM + 128)?,
            post_flows: Flows::load(scope.under("post_flows"), config)?,
        })
    }

    fn condition(&self, said: Said, pass: Pass) -> Result<Tensor, TorchError> {
        let speaker = of_speaker(&self.cond, said.speaker)?;
        self.text.forward(&said.hidden.detach(), said.mask, speaker, pass)
    }

    fn predict(&self, said: Said, noise: &Tensor) -> Result<Tensor, TorchError> {
        let cond = self.condition(said, Pass::Evaluate)?;
        let [log_durations, _] = halves(&self.flows.reverse(noise, said.mask, &cond)?);
        Ok(log_durations)
    }

    /// Variational dequantization: durations are whole numbers. Noise u fills each up to a number
    /// between it and the next lower one; the log-likelihood of the noise is subtracted from that
    /// of the filled durations.
    fn loss(
        &self,
        said: Said,
        durations: &Tensor,
        noise: &Tensor,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        let Said { mask, .. } = said;
        let cond = self.condition(said, pass)?;
        let seen = self.post.forward(durations, mask, None, pass)?;
        let noise = noise * mask;
        let (filling, mut widening) = self.post_flows.forward(&noise, mask, &(&cond + seen))?;
        let [share, rest] = halves(&filling);
        widening += summed(&((share.log_sigmoid() + (-&share).log_sigmoid()) * mask));
        let noise_likelihood = -summed(&(energy(&noise) * mask)) - widening;
        let filled = (durations - share.sigmoid()) * mask;
        let logarithm = filled.clamp_min(LEAST).log() * mask;
        let narrowing = -summed(&logarithm);
        let pair = Tensor::f_cat(&[logarithm, rest], 1)?;
        let (latents, widening) = self.flows.forward(&pair, mask, &cond)?;
        Ok(summed(&(energy(&latents) * mask)) - (narrowing + widening) + noise_likelihood)
    }
}

/// The conditioning of durations on the speaker, in models with speakers.
pub fn speaker_conv(scope: &mut Scope, config: &Config) -> Result<Option<Conv>, TorchError> {
    let (speaker, width) = (config.speaker_embedding_size, config.hidden_size);
    let shape = Shape::new(speaker, width, 1);
    (speaker > 0).then(|| Conv::load(scope.under("cond"), shape)).transpose()
}

pub fn of_speaker(
    cond: &Option<Conv>,
    speaker: Option<&Tensor>,
) -> Result<Option<Tensor>, TorchError> {
    match (cond, speaker) {
        (Some(cond), Some(speaker)) => Ok(Some(cond.forward(&speaker.detach())?)),
        _ => Ok(None),
    }
}

/// The negative log-density of each value under a standard normal distribution.
fn energy(x: &Tensor) -> Tensor {
    (x.square() + TAU.ln()) * 0.5
}
