//! The losses of VITS.

use tch::{Kind, Tensor};

use super::discriminator::Judgement;
use crate::train::{Means, Totals};

/// By how much each loss counts for the generator; the others count once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossWeights {
    pub mel: f64,
    pub kl: f64,
    pub duration: f64,
    pub adversarial: f64,
    pub features: f64,
}

/// Names of the losses.
pub const MEL: &str = "mel";
pub const KL: &str = "kl";
pub const DURATION: &str = "duration";
pub const ADVERSARIAL: &str = "adversarial";
pub const FEATURES: &str = "features";
pub const DISCRIMINATOR: &str = "discriminator";

impl LossWeights {
    /// By how much the loss of this name counts.
    pub fn of(&self, name: &str) -> f64 {
        match name {
            MEL => self.mel,
            KL => self.kl,
            DURATION => self.duration,
            ADVERSARIAL => self.adversarial,
            FEATURES => self.features,
            _ => 1.0,
        }
    }
}

/// What each loss is a mean over: tokens, frames, or clips, in this order.
pub fn totals([tokens, frames, clips]: [u64; 3]) -> Totals {
    Totals::new(&[
        (DURATION, tokens),
        (KL, frames),
        (MEL, clips),
        (ADVERSARIAL, clips),
        (FEATURES, clips),
        (DISCRIMINATOR, clips),
    ])
}

impl LossWeights {
    /// Of the generator.
    pub fn total(&self, means: &Means) -> f64 {
        let own = means.0.iter().filter(|(name, _)| *name != DISCRIMINATOR);
        own.map(|(name, mean)| mean * self.of(name)).sum()
    }
}

impl Default for LossWeights {
    /// Those of the paper.
    fn default() -> LossWeights {
        LossWeights { mel: 45.0, kl: 1.0, duration: 1.0, adversarial: 1.0, features: 1.0 }
    }
}

/// How badly recordings were taken for made, and the other way round.
pub fn discriminator(real: &Judgement, fake: &Judgement) -> Tensor {
    let wrong = |(real, fake): (&Tensor, &Tensor)| {
        (wide(real) - 1.0).square().mean(Kind::Float) + wide(fake).square().mean(Kind::Float)
    };
    total(real.scores.iter().zip(&fake.scores).map(wrong))
}

/// How easily made sound was found out.
pub fn adversarial(fake: &Judgement) -> Tensor {
    total(fake.scores.iter().map(|fake| (wide(fake) - 1.0).square().mean(Kind::Float)))
}

/// How far apart the discriminator sees the two, over all that it looks at.
pub fn features(real: &Judgement, fake: &Judgement) -> Tensor {
    let pairs = real.features.iter().zip(&fake.features);
    let apart = |(real, fake): (&Tensor, &Tensor)| (wide(&real.detach()) - wide(fake)).abs();
    total(pairs.map(|pair| apart(pair).mean(Kind::Float))) * 2.0
}

pub fn mel(real: &Tensor, fake: &Tensor) -> Tensor {
    (real - fake).abs().mean(Kind::Float)
}

/// What a recording says about latents, beside what its text says about them, both at the same
/// frames: [B, F, T] each.
pub struct Beliefs<'a> {
    /// Logarithm of the standard deviation of what sound says.
    pub log_deviation: &'a Tensor,
    /// Latents drawn from that, through the flow.
    pub flowed: &'a Tensor,
    /// What the text says.
    pub prior_mean: &'a Tensor,
    pub prior_log_deviation: &'a Tensor,
    /// 1 where there are frames: [B, 1, T].
    pub mask: &'a Tensor,
}

/// How far the two are apart (Kullback and Leibler), estimated at the latents that were drawn
/// and summed over all frames.
pub fn kl(beliefs: &Beliefs) -> Tensor {
    let Beliefs { log_deviation, flowed, prior_mean, prior_log_deviation, mask } = beliefs;
    let apart = (*flowed - *prior_mean).square() * (*prior_log_deviation * -2.0).exp() * 0.5;
    ((*prior_log_deviation - *log_deviation - 0.5 + apart) * *mask).sum(Kind::Float)
}

/// Losses are computed in f32, whatever their inputs are.
fn wide(x: &Tensor) -> Tensor {
    x.to_kind(Kind::Float)
}

fn total(losses: impl Iterator<Item = Tensor>) -> Tensor {
    losses.reduce(|sum, loss| sum + loss).unwrap_or_else(|| Tensor::from(0f32))
}
