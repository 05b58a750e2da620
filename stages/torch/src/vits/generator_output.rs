//! The forward pass of training, and the losses of its outputs.

use std::f64::consts::TAU;

use tch::{Kind, Tensor};

use super::commons::{expand, sliced, speaks_only, spread_out};
use super::data_utils::ClipTensors;
use super::discriminator::Discriminator;
use super::duration_predictors::Conditioning;
use super::losses::{self, KlTerms};
use super::mel_processing::Analysis;
use super::models::{Posterior, Prior, Vits};
use super::monotonic_align::align_all;
use super::noise::NormalNoise;
use crate::error::TorchError;
use crate::nn::cast::computed_in;
use crate::nn::layers::Pass;
use crate::runtime::upload::upload;

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
    /// Sum over the tokens of each text, `[B]`; None if the durations cannot be trained.
    pub duration_loss: Option<Tensor>,
    /// Sum over all frames.
    pub kl_loss: Tensor,
    /// The sound of a segment of each clip, generated and recorded: [B, 1, samples].
    pub wave: Tensor,
    pub recorded: Tensor,
    /// For the recorded segment: [B, bands, frames].
    pub recorded_mel: Tensor,
}

impl Vits {
    /// The forward pass of training. Noise is drawn for the latents, [B, F, T], then for the
    /// durations, [B, 2, N], if these are stochastic and can be trained. `starts` are the first frames of the segments
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
        let conditioning = Conditioning { hidden: &prior.hidden, mask: &texts.mask, speaker };
        let duration_loss = self.duration_loss(conditioning, &durations, noise, pass)?;
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

    /// The loss of durations [B, N], summed over the tokens of each text.
    fn duration_loss(
        &self,
        conditioning: Conditioning,
        durations: &Tensor,
        noise: &mut dyn NormalNoise,
        pass: Pass,
    ) -> Result<Option<Tensor>, TorchError> {
        let predictor = &self.duration_predictor;
        if !predictor.can_learn() {
            return Ok(None);
        }
        let (rows, tokens) = durations.size2()?;
        let drawn = predictor.takes_noise().then(|| noise.draw([rows, 2, tokens], self.device));
        let (drawn, lasting) = (drawn.transpose()?, durations.unsqueeze(1));
        // Splines and log-durations are too steep for half precision.
        let loss = computed_in(Kind::Float, || {
            predictor.loss(conditioning, &lasting, drawn.as_ref(), pass)
        });
        loss.map(Some)
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

    /// The losses of the generator, those against the discriminator only if there is one, which gets
    /// no gradient. Sums over the tokens, the frames or the clips, by name.
    pub fn generator_losses(
        &self,
        judge: Option<&Discriminator>,
        analysis: &Analysis,
    ) -> Result<Vec<(&'static str, Tensor)>, TorchError> {
        let clips = self.wave.size()[0] as f64;
        let mut losses = judge.map(|judge| self.judged(judge)).unwrap_or_default();
        losses.push((losses::MEL, losses::mel(&self.recorded_mel, &self.mel(analysis)?) * clips));
        let durations = self.duration_loss.iter();
        losses.extend(durations.map(|loss| (losses::DURATION, loss.sum(Kind::Float))));
        losses.push((losses::KL, self.kl_loss.shallow_clone()));
        Ok(losses)
    }

    fn judged(&self, judge: &Discriminator) -> Vec<(&'static str, Tensor)> {
        let judge = judge.frozen();
        let real = tch::no_grad(|| judge.forward(&self.recorded));
        let fake = judge.forward(&self.wave);
        let clips = self.wave.size()[0] as f64;
        vec![
            (losses::ADVERSARIAL, losses::adversarial(&fake) * clips),
            (losses::FEATURES, losses::features(&real, &fake) * clips),
        ]
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
