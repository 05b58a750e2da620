//! The computation of a training step, from clips to losses. Generator and discriminator alternate:
//! each is trained on its own loss, with the other fixed.

use std::f64::consts::TAU;

use stage_formats::pattern::is_match;
use tch::{Kind, Tensor};

use super::VitsConfig;
use super::commons::{expand, slice_start, sliced, spread_out};
use super::data_utils::ClipTensors;
use super::discriminator::Discriminator;
use super::duration_predictors::Conditioning;
use super::load::NetworkWeights;
use super::losses::{self, DISCRIMINATOR, KlTerms, LossWeights};
use super::mel_processing::Analysis;
use super::models::{Posterior, Prior, Vits};
use super::monotonic_align::align_all;
use super::noise::{NormalNoise, SeededNormal};
use crate::error::TorchError;
use crate::nn::cast::computed_in;
use crate::nn::layers::Pass;
use crate::nn::random::{Random, scramble};
use crate::nn::weights::Weights;
use crate::patterns::{Match, matches};
use crate::runtime::upload::upload;
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
    /// The compute type of convolutions; everything else is f32, and so are the weights.
    pub kind: Kind,
}

/// A model in training. A step is [`Self::make`], [`Self::judge`] and an update of the
/// discriminator, [`Self::speak`] and an update of the generator.
#[derive(Debug)]
pub struct Networks {
    generator: Vits,
    discriminator: Discriminator,
    parameters: [Vec<(String, Tensor)>; 2],
    frozen: Vec<(String, Tensor)>,
    analysis: Analysis,
    options: TrainingOptions,
}

impl Networks {
    /// From the tensors of a file, in the form for training and with a discriminator.
    pub fn new(
        config: &VitsConfig,
        prepared: NetworkWeights,
        options: TrainingOptions,
    ) -> Result<Networks, TorchError> {
        let NetworkWeights { generator, discriminator } = prepared;
        let discriminator = discriminator.ok_or_else(|| {
            let advice = "use a file that has one, such as a training checkpoint";
            TorchError::Model(format!("it has no discriminator; {advice}"))
        })?;
        let parameters = [learning(&generator), learning(&discriminator)];
        let generator = Vits::load(config.clone(), generator)?;
        Ok(Networks {
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

    /// Adds to the discriminator's gradients, and to no others.
    pub fn judge(&mut self, made: &GeneratorOutput, totals: &Totals) -> Losses {
        let judge = &self.discriminator;
        let loss = computed_in(self.options.kind, || made.discriminator_loss(judge));
        (&loss * totals.weight(DISCRIMINATOR)).backward();
        Losses::default().with(DISCRIMINATOR, &loss)
    }

    /// Adds to the generator's gradients, and to no others.
    pub fn speak(&mut self, made: &GeneratorOutput, totals: &Totals) -> Result<Losses, TorchError> {
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
        let losses = || made.generator_losses(&self.discriminator, &self.analysis);
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

/// The outputs of the generator for clips.
#[derive(Debug)]
pub struct GeneratorOutput {
    pub prior: Prior,
    pub posterior: Posterior,
    /// The latents of sound through the flow: [B, F, T].
    pub flowed: Tensor,
    /// The log-likelihood of each frame at each token: [B, T, N].
    pub scores: Tensor,
    /// Frames of each token: [B, N].
    pub durations: Tensor,
    /// Sum over the tokens of each text: `[B]`.
    pub duration_loss: Tensor,
    /// Sum over all frames.
    pub kl_loss: Tensor,
    /// The sound of a segment of each clip, generated and recorded: [B, 1, samples].
    pub wave: Tensor,
    pub recorded: Tensor,
    /// For the recorded segment: [B, bands, frames].
    pub recorded_mel: Tensor,
}

/// The error of a model without the parts that only training needs.
pub fn speaks_only() -> TorchError {
    TorchError::Model("it only speaks: the parts that training needs are not in its file".into())
}

impl Vits {
    /// The forward pass of training. Noise is drawn for the latents, [B, F, T], then for the
    /// durations, [B, 2, N], if these are stochastic. `starts` are the first frames of the segments
    /// that are decoded.
    pub fn learn(
        &self,
        clips: &ClipTensors,
        analysis: &Analysis,
        starts: &[i64],
        noise: &mut dyn NormalNoise,
        pass: Pass,
    ) -> Result<GeneratorOutput, TorchError> {
        let ClipTensors { texts, mask, frames, .. } = clips;
        self.check_starts(frames, starts)?;
        let speaker = self.speaker(clips.speakers.as_deref(), frames.len())?;
        let speaker = speaker.as_ref();
        let rows = frames.len() as i64;
        let prior = self.prior(texts, pass);
        let drawn = noise.draw([rows, self.config.flow_size, mask.size()[2]], self.device)?;
        let encoder = self.posterior_encoder.as_ref().ok_or_else(speaks_only)?;
        let posterior = encoder.forward(&clips.spectrograms, mask, speaker, &drawn, pass);
        let flowed = self.flow.forward(&posterior.latents, mask, speaker, pass);
        let scores = scores(&prior, &flowed);
        let aligned = align_all(&scores, frames, &texts.lengths)?;
        let durations = upload(&aligned, self.device);
        let drawn = if self.duration_predictor.takes_noise() {
            Some(noise.draw([rows, 2, texts.ids.size()[1]], self.device)?)
        } else {
            None
        };
        let conditioning = Conditioning { hidden: &prior.hidden, mask: &texts.mask, speaker };
        let lasting = durations.unsqueeze(1);
        // Splines and log-durations are too steep for half precision.
        let duration_loss = computed_in(Kind::Float, || {
            self.duration_predictor.loss(conditioning, &lasting, drawn.as_ref(), pass)
        })?;
        let kl_loss = kl_loss(&prior, &posterior, &flowed, &aligned, mask)?;
        let (hop, part) = (self.config.hop(), self.config.segment_frames());
        let wave = self.decoder.forward(&sliced(&posterior.latents, starts, part), speaker);
        let wave = wave.to_kind(Kind::Float);
        let first: Vec<i64> = starts.iter().map(|start| start * hop).collect();
        let recorded = sliced(&clips.waves.unsqueeze(1), &first, part * hop);
        let recorded_mel = analysis.log_mel(&sliced(&clips.spectrograms, starts, part));
        Ok(GeneratorOutput {
            prior,
            posterior,
            flowed,
            scores,
            durations,
            duration_loss,
            kl_loss,
            wave,
            recorded,
            recorded_mel,
        })
    }

    fn check_starts(&self, frames: &[i64], starts: &[i64]) -> Result<(), TorchError> {
        let part = self.config.segment_frames();
        let fits = |(frames, start): (&i64, &i64)| *start >= 0 && start + part <= *frames;
        if frames.len() == starts.len() && frames.iter().zip(starts).all(fits) {
            Ok(())
        } else {
            Err(TorchError::Input(format!(
                "parts of {part} frames from {starts:?} exceed clips of {frames:?}"
            )))
        }
    }
}

impl GeneratorOutput {
    /// The loss of the discriminator, summed over the clips; the generator gets no gradient.
    pub fn discriminator_loss(&self, judge: &Discriminator) -> Tensor {
        // In one batch, so that each weight is computed only once.
        let both = Tensor::cat(&[&self.recorded, &self.wave.detach()], 0);
        let [real, fake] = judge.forward(&both).halves();
        losses::discriminator(&real, &fake) * self.wave.size()[0] as f64
    }

    /// The losses of the generator; the discriminator gets no gradient. Sums over the tokens, the
    /// frames or the clips, by name.
    pub fn generator_losses(
        &self,
        judge: &Discriminator,
        analysis: &Analysis,
    ) -> Result<Vec<(&'static str, Tensor)>, TorchError> {
        let judge = judge.frozen();
        let real = tch::no_grad(|| judge.forward(&self.recorded));
        let fake = judge.forward(&self.wave);
        let clips = self.wave.size()[0] as f64;
        Ok(vec![
            (losses::ADVERSARIAL, losses::adversarial(&fake) * clips),
            (losses::FEATURES, losses::features(&real, &fake) * clips),
            (losses::MEL, losses::mel(&self.recorded_mel, &self.mel(analysis)?) * clips),
            (losses::DURATION, self.duration_loss.sum(Kind::Float)),
            (losses::KL, self.kl_loss.shallow_clone()),
        ])
    }

    /// For the generated segment: [B, bands, frames].
    pub fn mel(&self, analysis: &Analysis) -> Result<Tensor, TorchError> {
        Ok(analysis.log_mel(&analysis.linear(&self.wave.squeeze_dim(1))?))
    }
}

/// The log-likelihood of each frame's latents at each token: [B, T, N]. Without gradients.
fn scores(prior: &Prior, flowed: &Tensor) -> Tensor {
    let _guard = tch::no_grad_guard();
    let (mean, log_deviation) = (prior.mean.detach(), prior.log_deviation.detach());
    let flowed = flowed.detach().transpose(1, 2); // [B, T, F]
    let precision = (&log_deviation * -2.0).exp(); // [B, F, N]
    let summed = |x: Tensor| x.sum_dim_intlist([1i64].as_slice(), true, Kind::Float);
    let spread = summed(-log_deviation - TAU.ln() * 0.5);
    spread - flowed.square().matmul(&precision) * 0.5 + flowed.matmul(&(&mean * &precision))
        - summed(mean.square() * precision) * 0.5
}

/// `durations` are on the host.
fn kl_loss(
    prior: &Prior,
    posterior: &Posterior,
    flowed: &Tensor,
    durations: &Tensor,
    mask: &Tensor,
) -> Result<Tensor, TorchError> {
    let (places, _) = spread_out(durations, i64::MAX >> 8)?;
    let places = upload(&places, flowed.device());
    Ok(losses::kl(&KlTerms {
        z_p: flowed,
        logs_q: &posterior.log_deviation,
        m_p: &expand(&prior.mean, &places),
        logs_p: &expand(&prior.log_deviation, &places),
        z_mask: mask,
    }))
}

fn learning(weights: &Weights) -> Vec<(String, Tensor)> {
    let tensors = weights.iter();
    tensors.map(|(name, tensor)| (name.to_owned(), tensor.set_requires_grad(true))).collect()
}
