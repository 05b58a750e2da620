//! The computation of a training step, from clips to losses. Generator and discriminator alternate:
//! each is trained on its own loss, with the other fixed.

use std::f64::consts::TAU;

use tch::{Kind, Tensor};

use super::alignment::align_all;
use super::discriminator::Discriminator;
use super::duration::Said;
use super::flow::Posterior;
use super::losses::{self, KlTerms};
use super::model::{Texts, Vits, expand, spread_out};
use super::noise::NormalNoise;
use super::spectrogram::Analysis;
use super::text_encoder::Prior;
use crate::cast::computed_in;
use crate::conv::mask;
use crate::error::TorchError;
use crate::layers::Pass;

/// Clips of one batch with their texts.
#[derive(Debug)]
pub struct Clips {
    pub texts: Texts,
    /// Linear spectrograms of each clip by itself, zero-padded: [B, bins, T].
    pub spectrograms: Tensor,
    /// 1 for frames: [B, 1, T].
    pub mask: Tensor,
    pub frames: Vec<i64>,
    /// [B, T * hop].
    pub waves: Tensor,
    pub speakers: Option<Vec<i64>>,
    /// The keys of their noise.
    pub keys: Vec<u64>,
}

/// A recording and its linear spectrogram [bins, T].
pub struct Sound<'a> {
    pub wave: &'a [f32],
    pub linear: Tensor,
}

/// The outputs of the generator for clips.
#[derive(Debug)]
pub struct Made {
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

impl Clips {
    /// Clips from their texts and waves, which are cut to whole frames. Each is analysed by itself:
    /// its own end is reflected, not the padding.
    pub fn new(
        model: &Vits,
        analysis: &Analysis,
        texts: Texts,
        waves: &[&[f32]],
        speakers: Option<Vec<i64>>,
    ) -> Result<Clips, TorchError> {
        let sounds = waves.iter().map(|wave| Sound::of(wave, model, analysis));
        let sounds: Vec<Sound> = sounds.collect::<Result<_, _>>()?;
        Clips::of(model, texts, &sounds, speakers)
    }

    /// The same from precomputed spectrograms.
    pub fn of(
        model: &Vits,
        texts: Texts,
        sounds: &[Sound<'_>],
        speakers: Option<Vec<i64>>,
    ) -> Result<Clips, TorchError> {
        let (config, rows) = (&model.config, sounds.len() as i64);
        let hop = config.hop();
        let frames: Vec<i64> = sounds.iter().map(|sound| sound.frames(hop)).collect();
        let of_texts = texts.lengths.len() as i64;
        if rows != of_texts || speakers.as_ref().is_some_and(|known| known.len() as i64 != rows) {
            return Err(TorchError::Input(format!("{rows} waves for {of_texts} texts")));
        }
        let longest = frames.iter().copied().max().unwrap_or(0);
        let zeros = |size: [i64; 3]| Tensor::f_zeros(size, (Kind::Float, model.device));
        let spectrograms = zeros([rows, config.spectrogram_bins, longest])?;
        let waves = zeros([rows, 1, longest * hop])?.f_squeeze_dim(1)?;
        for (row, (sound, count)) in (0..).zip(sounds.iter().zip(&frames)) {
            let wave = Tensor::f_from_slice(sound.wave)?.f_narrow(0, 0, count * hop)?;
            spectrograms.f_select(0, row)?.f_narrow(1, 0, *count)?.f_copy_(&sound.linear)?;
            waves.f_select(0, row)?.f_narrow(0, 0, count * hop)?.f_copy_(&wave)?;
        }
        let mask = mask(&frames, model.device);
        let keys = (0..rows as u64).collect();
        Ok(Clips { texts, spectrograms, mask, frames, waves, speakers, keys })
    }
}

impl<'a> Sound<'a> {
    /// Refuses waves that are shorter than the segment.
    pub fn of(wave: &'a [f32], model: &Vits, analysis: &Analysis) -> Result<Self, TorchError> {
        let (hop, part) = (model.config.hop(), model.config.segment_frames());
        let frames = wave.len() as i64 / hop;
        if frames < part {
            return Err(TorchError::Input(format!(
                "a clip of {frames} frames, and training needs {part} at least"
            )));
        }
        let whole = Tensor::f_from_slice(wave)?.f_to_device(model.device)?;
        let whole = whole.f_narrow(0, 0, frames * hop)?.f_unsqueeze(0)?;
        Ok(Sound { wave, linear: analysis.linear(&whole)?.f_squeeze_dim(0)? })
    }

    fn frames(&self, hop: i64) -> i64 {
        self.wave.len() as i64 / hop
    }
}

/// The start of a segment of a clip, uniform over all positions; `fraction` is drawn from [0, 1).
pub fn slice_start(fraction: f64, frames: i64, part: i64) -> i64 {
    (fraction * (frames - part + 1).max(1) as f64) as i64
}

impl Vits {
    /// The forward pass of training. Noise is drawn for the latents, [B, F, T], then for the
    /// durations, [B, 2, N], if these are stochastic. `starts` are the first frames of the segments
    /// that are decoded.
    pub fn learn(
        &self,
        clips: &Clips,
        analysis: &Analysis,
        starts: &[i64],
        noise: &mut dyn NormalNoise,
        pass: Pass,
    ) -> Result<Made, TorchError> {
        let Clips { texts, mask, frames, .. } = clips;
        self.check_starts(frames, starts)?;
        let speaker = self.speaker(clips.speakers.as_deref(), frames.len())?;
        let speaker = speaker.as_ref();
        let rows = frames.len() as i64;
        let prior = self.prior(texts, pass)?;
        let drawn = noise.draw([rows, self.config.flow_size, mask.size()[2]])?;
        let drawn = drawn.f_to_device(self.device)?;
        let posterior =
            self.posterior_encoder.forward(&clips.spectrograms, mask, speaker, &drawn, pass)?;
        let flowed = self.flow.forward(&posterior.latents, mask, speaker, pass)?;
        let scores = scores(&prior, &flowed);
        let durations = align_all(&scores, frames, &texts.lengths)?;
        let drawn = match self.duration_predictor.takes_noise() {
            true => {
                let drawn = noise.draw([rows, 2, texts.ids.size()[1]])?;
                Some(drawn.f_to_device(self.device)?)
            }
            false => None,
        };
        let said = Said { hidden: &prior.hidden, mask: &texts.mask, speaker };
        let lasting = durations.unsqueeze(1);
        // Splines and log-durations are too steep for half precision.
        let duration_loss = computed_in(Kind::Float, || {
            self.duration_predictor.loss(said, &lasting, drawn.as_ref(), pass)
        })?;
        let kl_loss = kl_loss(&prior, &posterior, &flowed, &durations, mask)?;
        let (hop, part) = (self.config.hop(), self.config.segment_frames());
        let wave = self.decoder.forward(&sliced(&posterior.latents, starts, part)?, speaker)?;
        let wave = wave.f_to_kind(Kind::Float)?;
        let first: Vec<i64> = starts.iter().map(|start| start * hop).collect();
        let recorded = sliced(&clips.waves.f_unsqueeze(1)?, &first, part * hop)?;
        let recorded_mel = analysis.log_mel(&sliced(&clips.spectrograms, starts, part)?)?;
        Ok(Made {
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
        match frames.len() == starts.len() && frames.iter().zip(starts).all(fits) {
            true => Ok(()),
            false => Err(TorchError::Input(format!(
                "parts of {part} frames from {starts:?} do not lie in clips of {frames:?}"
            ))),
        }
    }
}

impl Made {
    /// The loss of the discriminator, summed over the clips; the generator gets no gradient.
    pub fn discriminator_loss(&self, judge: &Discriminator) -> Result<Tensor, TorchError> {
        // In one batch, so that each weight is computed only once.
        let both = Tensor::f_cat(&[&self.recorded, &self.wave.detach()], 0)?;
        let [real, fake] = judge.forward(&both)?.halves()?;
        Ok(losses::discriminator(&real, &fake) * self.wave.size()[0] as f64)
    }

    /// The losses of the generator; the discriminator gets no gradient. Sums over the tokens, the
    /// frames or the clips, by name.
    pub fn generator_losses(
        &self,
        judge: &Discriminator,
        analysis: &Analysis,
    ) -> Result<Vec<(&'static str, Tensor)>, TorchError> {
        let judge = judge.frozen()?;
        let real = tch::no_grad(|| judge.forward(&self.recorded))?;
        let fake = judge.forward(&self.wave)?;
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
        analysis.log_mel(&analysis.linear(&self.wave.squeeze_dim(1))?)
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

fn kl_loss(
    prior: &Prior,
    posterior: &Posterior,
    flowed: &Tensor,
    durations: &Tensor,
    mask: &Tensor,
) -> Result<Tensor, TorchError> {
    let (places, _) = spread_out(durations, i64::MAX >> 8)?;
    let places = places.f_to_device(flowed.device())?;
    Ok(losses::kl(&KlTerms {
        z_p: flowed,
        logs_q: &posterior.log_deviation,
        m_p: &expand(&prior.mean, &places),
        logs_p: &expand(&prior.log_deviation, &places),
        z_mask: mask,
    }))
}

/// A segment of each row: [B, C, L] to [B, C, length].
fn sliced(x: &Tensor, starts: &[i64], length: i64) -> Result<Tensor, TorchError> {
    let rows = starts.iter().enumerate();
    let rows: Vec<Tensor> = rows
        .map(|(row, start)| x.f_select(0, row as i64)?.f_narrow(1, *start, length))
        .collect::<Result<_, _>>()?;
    Ok(Tensor::f_stack(&rows, 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_at_every_place_and_at_no_other() {
        assert_eq!(slice_start(0.0, 40, 32), 0);
        assert_eq!(slice_start(0.999_999, 40, 32), 8);
        assert_eq!(slice_start(0.999_999, 32, 32), 0);
    }
}
