//! How long each token lasts: a flow between noise and logarithms of durations, or a plain
//! estimate. Nothing is learned through them by what comes before: their inputs are detached.

use std::f64::consts::TAU;

use tch::{Kind, Tensor};

use super::config::Config;
use super::conv::{Conv, Shape, over_channels};
use super::dropout::Dropout;
use super::separable::Separable;
use super::spline::{Spline, from_numbers};
use super::text_encoder::halves;
use crate::error::TorchError;
use crate::layers::{LayerNorm, Pass};
use crate::weights::Scope;

const STREAM: u64 = 3 << 20;
/// Durations below this are taken for it before the logarithm.
const LEAST: f64 = 1e-5;

/// What the text and the speaker say about durations.
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

/// Scales and shifts both channels.
#[derive(Debug)]
struct Affine {
    translate: Tensor,
    log_scale: Tensor,
}

/// Bends one channel as the other says.
#[derive(Debug)]
struct ConvFlow {
    conv_pre: Conv,
    conv_dds: Separable,
    conv_proj: Conv,
    bins: i64,
    divisor: f64,
    bound: f64,
}

/// An affine step, then bends, with the channels turned around behind each.
#[derive(Debug)]
struct Flows {
    affine: Affine,
    bends: Vec<ConvFlow>,
}

/// Convolutions that prepare what conditions a flow.
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
    /// What is only learned from: noise that fills durations up to any number.
    post: Condition,
    post_flows: Flows,
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

impl DurationPredictor {
    pub fn load(scope: Scope, config: &Config) -> Result<DurationPredictor, TorchError> {
        Ok(match config.use_stochastic_duration_prediction {
            true => DurationPredictor::Stochastic(Box::new(Stochastic::load(scope, config)?)),
            false => {
                DurationPredictor::Deterministic(Box::new(Deterministic::load(scope, config)?))
            }
        })
    }

    /// Logarithms of durations in frames, [B, 1, N], from noise [B, 2, N], of which the
    /// deterministic predictor takes none.
    pub fn predict(&self, said: Said, noise: Option<&Tensor>) -> Result<Tensor, TorchError> {
        match (self, noise) {
            (DurationPredictor::Deterministic(plain), _) => plain.forward(said, Pass::Evaluate),
            (DurationPredictor::Stochastic(flow), Some(noise)) => flow.predict(said, noise),
            (DurationPredictor::Stochastic(_), None) => {
                Err(TorchError::Input("durations are drawn, and there is no noise".into()))
            }
        }
    }

    /// How unlikely durations [B, 1, N] are, summed over the tokens of each text: [B]. For the
    /// deterministic predictor it is the squared distance of the logarithms.
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

impl Affine {
    fn load(mut scope: Scope, channels: i64) -> Result<Affine, TorchError> {
        let mut vector = |name: &str| scope.take(name, &[channels, 1]);
        Ok(Affine { translate: vector("translate")?, log_scale: vector("log_scale")? })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> (Tensor, Tensor) {
        let y = (&self.translate + self.log_scale.exp() * x) * mask;
        (y, summed(&(&self.log_scale * mask)))
    }

    fn reverse(&self, y: &Tensor, mask: &Tensor) -> Tensor {
        (y - &self.translate) * (-&self.log_scale).exp() * mask
    }
}

impl ConvFlow {
    fn load(mut scope: Scope, config: &Config, stream: u64) -> Result<ConvFlow, TorchError> {
        let (width, bins) = (config.hidden_size, config.duration_predictor_flow_bins);
        Ok(ConvFlow {
            conv_pre: Conv::load(scope.under("conv_pre"), Shape::new(1, width, 1))?,
            conv_dds: Separable::load(scope.under("conv_dds"), config, 0.0, stream)?,
            conv_proj: Conv::load(scope.under("conv_proj"), Shape::new(width, 3 * bins - 1, 1))?,
            bins,
            divisor: (width as f64).sqrt(),
            bound: config.duration_predictor_tail_bound,
        })
    }

    /// The curve of each token, as one channel and the text say.
    fn spline(&self, first: &Tensor, mask: &Tensor, cond: &Tensor) -> Result<Spline, TorchError> {
        let x = self.conv_pre.forward(first)?;
        let x = self.conv_dds.forward(&x, mask, Some(cond), Pass::Evaluate)?;
        let numbers = self.conv_proj.forward(&x)? * mask; // [B, 3 K - 1, N]
        from_numbers(&numbers.transpose(1, 2).unsqueeze(1), self.bins, self.divisor, self.bound)
    }

    fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        cond: &Tensor,
    ) -> Result<(Tensor, Tensor), TorchError> {
        let [first, second] = halves(x);
        let (second, slope) = self.spline(&first, mask, cond)?.forward(&second);
        Ok((Tensor::f_cat(&[first, second], 1)? * mask, summed(&(slope * mask))))
    }

    fn reverse(&self, y: &Tensor, mask: &Tensor, cond: &Tensor) -> Result<Tensor, TorchError> {
        let [first, second] = halves(y);
        let second = self.spline(&first, mask, cond)?.reverse(&second);
        Ok(Tensor::f_cat(&[first, second], 1)? * mask)
    }
}

impl Flows {
    fn load(mut scope: Scope, config: &Config) -> Result<Flows, TorchError> {
        let affine = Affine::load(scope.under("0"), config.depth_separable_channels)?;
        let bends = (1..=config.duration_predictor_num_flows)
            .map(|at| ConvFlow::load(scope.under(&at.to_string()), config, STREAM));
        Ok(Flows { affine, bends: bends.collect::<Result<_, _>>()? })
    }

    /// [B, 2, N] to [B, 2, N], and the logarithm of how much it widens: [B].
    fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        cond: &Tensor,
    ) -> Result<(Tensor, Tensor), TorchError> {
        let (x, mut widening) = self.affine.forward(x, mask);
        let mut x = x.f_flip([1])?;
        for bend in &self.bends {
            let (y, more) = bend.forward(&x, mask, cond)?;
            x = y.f_flip([1])?;
            widening += more;
        }
        Ok((x, widening))
    }

    /// The way back, without the first bend: it acts on the channel that is no duration, and
    /// the original leaves it out.
    fn reverse(&self, y: &Tensor, mask: &Tensor, cond: &Tensor) -> Result<Tensor, TorchError> {
        let mut y = y.shallow_clone();
        for bend in self.bends.iter().skip(1).rev() {
            y = bend.reverse(&y.f_flip([1])?, mask, cond)?;
        }
        Ok(self.affine.reverse(&y.f_flip([1])?, mask))
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

    /// Durations are whole numbers. Noise u fills each up to a number between it and the one
    /// below; how likely the noise is counts against how likely the filled durations are.
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

impl Deterministic {
    fn load(mut scope: Scope, config: &Config) -> Result<Deterministic, TorchError> {
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

    fn forward(&self, said: Said, pass: Pass) -> Result<Tensor, TorchError> {
        let Said { mask, .. } = said;
        let mut x = said.hidden.detach();
        if let Some(speaker) = of_speaker(&self.cond, said.speaker)? {
            x = x + speaker;
        }
        let layers = [(&self.conv_1, &self.norm_1), (&self.conv_2, &self.norm_2)];
        for (at, (conv, norm)) in layers.into_iter().enumerate() {
            let inner = over_channels(norm, &conv.forward(&(x * mask))?.relu());
            x = Dropout::new(self.dropout, STREAM + at as u64).forward(&inner, pass);
        }
        Ok(self.proj.forward(&(x * mask))? * mask)
    }
}

fn speaker_conv(scope: &mut Scope, config: &Config) -> Result<Option<Conv>, TorchError> {
    let (speaker, width) = (config.speaker_embedding_size, config.hidden_size);
    let shape = Shape::new(speaker, width, 1);
    (speaker > 0).then(|| Conv::load(scope.under("cond"), shape)).transpose()
}

fn of_speaker(cond: &Option<Conv>, speaker: Option<&Tensor>) -> Result<Option<Tensor>, TorchError> {
    match (cond, speaker) {
        (Some(cond), Some(speaker)) => Ok(Some(cond.forward(&speaker.detach())?)),
        _ => Ok(None),
    }
}

/// Over channels and columns: [B, C, N] to [B].
fn summed(x: &Tensor) -> Tensor {
    x.sum_dim_intlist([1i64, 2].as_slice(), false, Kind::Float)
}

/// How unlikely each value is in a standard normal distribution.
fn energy(x: &Tensor) -> Tensor {
    (x.square() + TAU.ln()) * 0.5
}
