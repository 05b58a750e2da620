//! The generator and the discriminator in training, and their losses.

use stage_formats::pattern::is_match;
use tch::{Kind, Tensor};

use super::config::Config;
use super::discriminator::Discriminator;
use super::load::Prepared;
use super::losses::{self, DISCRIMINATOR, LossWeights};
use super::model::Vits;
use super::noise::{NormalNoise, Seeded};
use super::spectrogram::Analysis;
use super::training::{Clips, Made, slice_start};
use crate::cast::computed_in;
use crate::error::TorchError;
use crate::layers::Pass;
use crate::random::{Random, scramble};
use crate::train::patterns::{Match, matches};
use crate::train::{Losses, Totals};
use crate::weights::Weights;

/// One of the two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    Generator,
    Discriminator,
}

/// Training options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingOptions {
    /// Mel bands of the loss.
    pub bands: usize,
    pub weights: LossWeights,
    /// Dropout as in the paper; the most common recipe has none.
    pub dropout: bool,
    /// The compute type of convolutions; everything else is f32, and so are the weights.
    pub kind: Kind,
}

/// A model in training. A step is [`Self::make`], [`Self::judge`] and an update of the
/// discriminator, [`Self::speak`] and an update of the generator.
#[derive(Debug)]
pub struct Nets {
    generator: Vits,
    discriminator: Discriminator,
    parameters: [Vec<(String, Tensor)>; 2],
    frozen: Vec<(String, Tensor)>,
    analysis: Analysis,
    options: TrainingOptions,
}

impl Nets {
    /// From the tensors of a file, in the form for training and with a discriminator.
    pub fn new(
        config: &Config,
        prepared: Prepared,
        options: TrainingOptions,
    ) -> Result<Nets, TorchError> {
        let Prepared { generator, discriminator } = prepared;
        let discriminator = discriminator.ok_or_else(|| {
            let advice = "take a file that has one, as those for further training do";
            TorchError::Model(format!("it has no discriminator; {advice}"))
        })?;
        let parameters = [learning(&generator), learning(&discriminator)];
        let generator = Vits::load(config.clone(), generator)?;
        Ok(Nets {
            analysis: Analysis::new(config, options.bands, generator.device)?,
            discriminator: Discriminator::load(config, discriminator)?,
            generator,
            parameters,
            frozen: Vec::new(),
            options,
        })
    }

    /// Freezes the tensors of the generator that match a pattern; returns the number of matches of
    /// each. A completely frozen text encoder has no dropout either.
    pub fn freeze(&mut self, patterns: &[String]) -> Result<Vec<Match>, TorchError> {
        let own = &mut self.parameters[0];
        let names: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let matches = matches(patterns, "tensor of the generator", &names)?;
        let is_frozen = |name: &str| patterns.iter().any(|pattern| is_match(pattern, name));
        let (frozen, learning) =
            std::mem::take(own).into_iter().partition(|(name, _)| is_frozen(name));
        (self.frozen, *own) = (frozen, learning);
        for (_, tensor) in &self.frozen {
            let _ = tensor.set_requires_grad(false);
        }
        self.generator.learns_text = own.iter().any(|(name, _)| name.starts_with("text_encoder."));
        Ok(matches)
    }

    /// The frozen tensors, sorted by name.
    pub fn frozen(&self) -> &[(String, Tensor)] {
        &self.frozen
    }

    pub fn options(&self) -> &TrainingOptions {
        &self.options
    }

    pub fn generator(&self) -> &Vits {
        &self.generator
    }

    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// The trained tensors of a network, sorted by name.
    pub fn parameters(&self, net: Net) -> &[(String, Tensor)] {
        match net {
            Net::Generator => &self.parameters[0],
            Net::Discriminator => &self.parameters[1],
        }
    }

    /// The counts for the losses of a micro-batch: tokens, frames, or clips.
    pub fn count(clips: &Clips) -> Totals {
        let number = |lengths: &[i64]| lengths.iter().sum::<i64>() as u64;
        let rows = clips.frames.len() as u64;
        losses::totals([number(&clips.texts.lengths), number(&clips.frames), rows])
    }

    /// The forward pass. All randomness comes from the seed and the keys of the clips, independent
    /// of other clips; dropout masks belong to the batch.
    pub fn make(&self, clips: &Clips, seed: u64) -> Result<Made, TorchError> {
        let (starts, mut noise) = self.drawn(clips, seed);
        self.make_of(clips, &starts, &mut noise, Pass::Train { seed })
    }

    /// The segment starts and the noise of each clip.
    fn drawn(&self, clips: &Clips, seed: u64) -> (Vec<i64>, Seeded) {
        let part = self.generator.config.segment_frames();
        let of_clip = |key: &u64| scramble(seed ^ scramble(*key));
        let place = |key: &u64| Random::new(of_clip(key)).fraction();
        let pairs = clips.keys.iter().zip(&clips.frames);
        let starts = pairs.map(|(key, frames)| slice_start(place(key), *frames, part)).collect();
        (starts, Seeded::new(clips.keys.iter().map(|key| !of_clip(key)).collect()))
    }

    /// The same with given segments and noise.
    pub fn make_of(
        &self,
        clips: &Clips,
        starts: &[i64],
        noise: &mut dyn NormalNoise,
        pass: Pass,
    ) -> Result<Made, TorchError> {
        let pass = if self.options.dropout { pass } else { Pass::Evaluate };
        computed_in(self.options.kind, || {
            self.generator.learn(clips, &self.analysis, starts, noise, pass)
        })
    }

    /// Adds to the discriminator's gradients, and to no others.
    pub fn judge(&mut self, made: &Made, totals: &Totals) -> Result<Losses, TorchError> {
        let judge = &self.discriminator;
        let loss = computed_in(self.options.kind, || made.discriminator_loss(judge))?;
        (&loss * totals.weight(DISCRIMINATOR)).f_backward()?;
        Ok(Losses::default().with(DISCRIMINATOR, &loss))
    }

    /// Adds to the generator's gradients, and to no others.
    pub fn speak(&mut self, made: &Made, totals: &Totals) -> Result<Losses, TorchError> {
        let mut losses = Losses::default();
        let mut total: Option<Tensor> = None;
        for (name, sum) in self.losses(made)? {
            let part = &sum * (totals.weight(name) * self.options.weights.of(name));
            total = Some(match total {
                Some(total) => total + part,
                None => part,
            });
            losses = losses.with(name, &sum);
        }
        if let Some(total) = total {
            total.f_backward()?;
        }
        Ok(losses)
    }

    /// The losses of the generator alone: no gradients, no dropout. The same seed gives the same
    /// segments and the same noise, so that two moments of a training can be compared.
    pub fn evaluate(&self, clips: &Clips, seed: u64) -> Result<Losses, TorchError> {
        let _guard = tch::no_grad_guard();
        let losses = self.losses(&self.held_out(clips, seed)?)?;
        Ok(losses.iter().fold(Losses::default(), |losses, (name, sum)| losses.with(name, sum)))
    }

    /// The forward pass behind the losses of [`Self::evaluate`].
    pub fn held_out(&self, clips: &Clips, seed: u64) -> Result<Made, TorchError> {
        let _guard = tch::no_grad_guard();
        let (starts, mut noise) = self.drawn(clips, seed);
        self.make_of(clips, &starts, &mut noise, Pass::Evaluate)
    }

    fn losses(&self, made: &Made) -> Result<Vec<(&'static str, Tensor)>, TorchError> {
        let losses = || made.generator_losses(&self.discriminator, &self.analysis);
        computed_in(self.options.kind, losses)
    }

    /// Clears the gradients of a network.
    pub fn forget(&mut self, net: Net) -> Result<(), TorchError> {
        for (_, parameter) in self.parameters(net) {
            let mut gradient = parameter.f_grad()?;
            if gradient.defined() {
                let _ = gradient.f_detach_()?.f_zero_()?;
            }
        }
        Ok(())
    }
}

fn learning(weights: &Weights) -> Vec<(String, Tensor)> {
    let tensors = weights.iter();
    tensors.map(|(name, tensor)| (name.to_owned(), tensor.set_requires_grad(true))).collect()
}
