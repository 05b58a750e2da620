//! The losses of VITS.

use tch::{Kind, Tensor};

use super::discriminator::DiscriminatorOutput;
use crate::train::{Means, Totals};

/// The weights of the generator's losses; the other losses have weight one.
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

/// Tests if a loss of the generator is against the discriminator.
pub fn is_judged(name: &str) -> bool {
    matches!(name, ADVERSARIAL | FEATURES)
}

impl LossWeights {
    /// The weight of the loss with this name.
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

/// The counts that each loss is a mean over: tokens, frames, or clips, in this order.
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
    /// The weighted sum of the generator's losses.
    pub fn total(&self, means: &Means) -> f64 {
        let own = means.0.iter().filter(|(name, _)| *name != DISCRIMINATOR);
        own.map(|(name, mean)| mean * self.of(name)).sum()
    }
}

impl Default for LossWeights {
    /// The weights of the paper.
    fn default() -> LossWeights {
        LossWeights { mel: 45.0, kl: 1.0, duration: 1.0, adversarial: 1.0, features: 1.0 }
    }
}

/// Least-squares discriminator loss, summed over the sub-discriminators.
pub fn discriminator(real: &DiscriminatorOutput, fake: &DiscriminatorOutput) -> Tensor {
    let wrong = |(real, fake): (&Tensor, &Tensor)| {
        (wide(real) - 1.0).square().mean(Kind::Float) + wide(fake).square().mean(Kind::Float)
    };
    total(real.scores.iter().zip(&fake.scores).map(wrong))
}

/// Least-squares adversarial loss of the generator, summed over the sub-discriminators.
pub fn adversarial(fake: &DiscriminatorOutput) -> Tensor {
    total(fake.scores.iter().map(|fake| (wide(fake) - 1.0).square().mean(Kind::Float)))
}

/// Feature matching loss: the L1 distance of all feature maps.
pub fn features(real: &DiscriminatorOutput, fake: &DiscriminatorOutput) -> Tensor {
    let pairs = real.features.iter().zip(&fake.features);
    let apart = |(real, fake): (&Tensor, &Tensor)| (wide(&real.detach()) - wide(fake)).abs();
    total(pairs.map(|pair| apart(pair).mean(Kind::Float))) * 2.0
}

pub fn mel(real: &Tensor, fake: &Tensor) -> Tensor {
    (real - fake).abs().mean(Kind::Float)
}

/// The posterior of a recording and the prior of its text, at the same frames: [B, F, T] each. Fields
/// are named as in `kl_loss` of the original (jaywalnut310/vits).
pub struct KlTerms<'a> {
    /// Samples of the posterior, through the flow.
    pub z_p: &'a Tensor,
    /// The log standard deviation of the posterior.
    pub logs_q: &'a Tensor,
    /// The mean of the prior.
    pub m_p: &'a Tensor,
    /// The log standard deviation of the prior.
    pub logs_p: &'a Tensor,
    /// 1 for frames: [B, 1, T].
    pub z_mask: &'a Tensor,
}

/// The Kullback-Leibler divergence of posterior and prior, estimated from the samples and summed
/// over all frames.
pub fn kl(terms: &KlTerms) -> Tensor {
    let KlTerms { z_p, logs_q, m_p, logs_p, z_mask } = terms;
    let squared = (*z_p - *m_p).square() * (*logs_p * -2.0).exp() * 0.5;
    ((*logs_p - *logs_q - 0.5 + squared) * *z_mask).sum(Kind::Float)
}

/// Losses are computed in f32, whatever their inputs are.
fn wide(x: &Tensor) -> Tensor {
    x.to_kind(Kind::Float)
}

fn total(losses: impl Iterator<Item = Tensor>) -> Tensor {
    losses.reduce(|sum, loss| sum + loss).unwrap_or_else(|| Tensor::from(0f32))
}
