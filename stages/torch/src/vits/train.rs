//! The computation of a training step, from clips to losses. Generator and discriminator alternate:
//! each is trained on its own loss, with the other fixed.

use stage_formats::pattern::is_match;
use tch::{Kind, Tensor};

use super::VitsConfig;
use super::commons::slice_start;
use super::data_utils::ClipTensors;
use super::discriminator::Discriminator;
use super::generator_output::GeneratorOutput;
use super::load::NetworkWeights;
use super::losses::{self, DISCRIMINATOR, LossWeights};
use super::mel_processing::Analysis;
use super::models::Vits;
use super::noise::{NormalNoise, SeededNormal};
use crate::error::TorchError;
use crate::nn::cast::computed_in;
use crate::nn::layers::Pass;
use crate::nn::random::{Random, scramble};
use crate::nn::weights::Weights;
use crate::patterns::{Match, matches};
use crate::train::{Losses, Totals};

/// One of the two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
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
    /// The steps over which the losses against the discriminator reach their weights.
    pub fade_in: u64,
    /// The compute type of convolutions; everything else is f32, and so are the weights.
    pub kind: Kind,
}

/// A model in training. A step is [`Self::make`], [`Self::judge`] and an update of the
/// discriminator, [`Self::speak`] and an update of the generator.
#[derive(Debug)]
pub struct Networks {
    generator: Vits,
    /// None in a training on spectrograms and latents alone.
    discriminator: Option<Discriminator>,
    parameters: [Vec<(String, Tensor)>; 2],
    frozen: Vec<(String, Tensor)>,
    analysis: Analysis,
    options: TrainingOptions,
}

impl TrainingOptions {
    /// The share of the weights of the losses against the discriminator in a step.
    pub fn faded(&self, step: u64) -> f64 {
        if step < self.fade_in { step as f64 / self.fade_in as f64 } else { 1.0 }
    }
}

impl Networks {
    /// From the tensors of a file, in the form for training.
    pub fn new(
        config: &VitsConfig,
        prepared: NetworkWeights,
        options: TrainingOptions,
    ) -> Result<Networks, TorchError> {
        let NetworkWeights { generator, discriminator } = prepared;
        let judged = discriminator.as_ref().map(learning).unwrap_or_default();
        let parameters = [learning(&generator), judged];
        let generator = Vits::load(config.clone(), generator)?;
        Ok(Networks {
            analysis: Analysis::new(config, options.bands, generator.device)?,
            discriminator: discriminator
                .map(|weights| Discriminator::load(config, weights))
                .transpose()?,
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
    pub fn parameters(&self, net: Network) -> &[(String, Tensor)] {
        match net {
            Network::Generator => &self.parameters[0],
            Network::Discriminator => &self.parameters[1],
        }
    }

    /// The counts for the losses of a micro-batch: tokens, frames, or clips.
    pub fn count(clips: &ClipTensors) -> Totals {
        let number = |lengths: &[i64]| lengths.iter().sum::<i64>() as u64;
        let rows = clips.frames.len() as u64;
        losses::totals([number(&clips.texts.lengths), number(&clips.frames), rows])
    }

    /// The forward pass. All randomness comes from the seed and the keys of the clips, independent
    /// of other clips; dropout masks belong to the batch.
    pub fn make(&self, clips: &ClipTensors, seed: u64) -> Result<GeneratorOutput, TorchError> {
        let (starts, mut noise) = self.drawn(clips, seed);
        self.make_of(clips, &starts, &mut noise, Pass::Train { seed })
    }

    /// The segment starts and the noise of each clip.
    fn drawn(&self, clips: &ClipTensors, seed: u64) -> (Vec<i64>, SeededNormal) {
        let part = self.generator.config.segment_frames();
        let of_clip = |key: &u64| scramble(seed ^ scramble(*key));
        let place = |key: &u64| Random::new(of_clip(key)).fraction();
        let pairs = clips.keys.iter().zip(&clips.frames);
        let starts = pairs.map(|(key, frames)| slice_start(place(key), *frames, part)).collect();
        (starts, SeededNormal::new(clips.keys.iter().map(|key| !of_clip(key)).collect()))
    }

    /// The same with given segments and noise.
    pub fn make_of(
        &self,
        clips: &ClipTensors,
        starts: &[i64],
        noise: &mut dyn NormalNoise,
        pass: Pass,
    ) -> Result<GeneratorOutput, TorchError> {
        let pass = if self.options.dropout { pass } else { Pass::Evaluate };
        computed_in(self.options.kind, || {
            self.generator.learn(clips, &self.analysis, starts, noise, pass)
        })
    }

    /// Tests if the losses include those against a discriminator.
    pub fn has_discriminator(&self) -> bool {
        self.discriminator.is_some()
    }

    /// Adds to the discriminator's gradients, and to no others.
    pub fn judge(&mut self, made: &GeneratorOutput, totals: &Totals) -> Losses {
        let Some(judge) = &self.discriminator else { return Losses::default() };
        let loss = computed_in(self.options.kind, || made.discriminator_loss(judge));
        (&loss * totals.weight(DISCRIMINATOR)).backward();
        Losses::default().with(DISCRIMINATOR, &loss)
    }

    /// Adds to the generator's gradients, and to no others.
    pub fn speak(&mut self, made: &GeneratorOutput, totals: &Totals) -> Result<Losses, TorchError> {
        self.speak_faded(made, totals, 1.0)
    }

    /// The same with a share of the weights of the losses against the discriminator.
    pub fn speak_faded(
        &mut self,
        made: &GeneratorOutput,
        totals: &Totals,
        faded: f64,
    ) -> Result<Losses, TorchError> {
        let mut losses = Losses::default();
        let mut total: Option<Tensor> = None;
        for (name, sum) in self.losses(made)? {
            let share = if losses::is_judged(name) { faded } else { 1.0 };
            let part = &sum * (totals.weight(name) * self.options.weights.of(name) * share);
            total = Some(match total {
                Some(total) => total + part,
                None => part,
            });
            losses = losses.with(name, &sum);
        }
        if let Some(total) = total {
            total.backward();
        }
        Ok(losses)
    }

    /// The losses of the generator alone: no gradients, no dropout. The same seed gives the same
    /// segments and the same noise, so that two moments of a training can be compared.
    pub fn evaluate(&self, clips: &ClipTensors, seed: u64) -> Result<Losses, TorchError> {
        let _guard = tch::no_grad_guard();
        let losses = self.losses(&self.held_out(clips, seed)?)?;
        Ok(losses.iter().fold(Losses::default(), |losses, (name, sum)| losses.with(name, sum)))
    }

    /// The forward pass behind the losses of [`Self::evaluate`].
    pub fn held_out(&self, clips: &ClipTensors, seed: u64) -> Result<GeneratorOutput, TorchError> {
        let _guard = tch::no_grad_guard();
        let (starts, mut noise) = self.drawn(clips, seed);
        self.make_of(clips, &starts, &mut noise, Pass::Evaluate)
    }

    fn losses(&self, made: &GeneratorOutput) -> Result<Vec<(&'static str, Tensor)>, TorchError> {
        let losses = || made.generator_losses(self.discriminator.as_ref(), &self.analysis);
        computed_in(self.options.kind, losses)
    }

    /// Clears the gradients of a network.
    pub fn forget(&mut self, net: Network) {
        for (_, parameter) in self.parameters(net) {
            let mut gradient = parameter.grad();
            if gradient.defined() {
                let _ = gradient.detach_().zero_();
            }
        }
    }
}

fn learning(weights: &Weights) -> Vec<(String, Tensor)> {
    let tensors = weights.iter();
    tensors.map(|(name, tensor)| (name.to_owned(), tensor.set_requires_grad(true))).collect()
}
