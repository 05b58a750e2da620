//! The generator: synthesis, and its part of the training pass.

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::config::Config;
use super::decoder;
use super::duration::{DurationPredictor, Said};
use super::flow::{Flow, PosteriorEncoder};
use super::noise::NormalNoise;
use super::text_encoder::{Prior, TextEncoder};
use crate::conv::mask;
use crate::error::TorchError;
use crate::hifi_gan::HifiGan;
use crate::layers::{Embedding, Pass};
use crate::weights::Weights;

#[derive(Debug)]
pub struct Vits {
    pub config: Config,
    pub device: Device,
    pub text_encoder: TextEncoder,
    pub flow: Flow,
    pub decoder: HifiGan,
    pub duration_predictor: DurationPredictor,
    pub posterior_encoder: PosteriorEncoder,
    pub embed_speaker: Option<Embedding>,
    /// True if training changes the text encoder; a frozen one has no dropout.
    pub learns_text: bool,
}

/// Tokenized texts of one batch.
#[derive(Debug)]
pub struct Texts {
    /// [B, N], zeros after the shorter ones.
    pub ids: Tensor,
    /// 1 for tokens: [B, 1, N].
    pub mask: Tensor,
    pub lengths: Vec<i64>,
}

/// The settings of synthesis.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manner {
    /// The scale of the latent noise: the variation of the sound.
    pub noise_scale: f64,
    /// The scale of the duration noise: the variation of the rhythm.
    pub noise_scale_duration: f64,
    pub speaking_rate: f64,
    /// The largest number of frames of one text; a model with untrained durations may ask for
    /// hours.
    pub most_frames: i64,
}

/// The result of synthesis.
#[derive(Debug)]
pub struct Speech {
    /// The samples of each text between -1 and 1, on the device.
    pub waves: Vec<Tensor>,
    /// The number of frames of each.
    pub frames: Vec<i64>,
    /// The log-durations of the tokens: [B, 1, N].
    pub log_durations: Tensor,
    /// In frames: [B, N].
    pub durations: Tensor,
    /// The input of the decoder: [B, F, T].
    pub latents: Tensor,
}

impl Manner {
    /// From the configuration, with a limit of one minute.
    pub fn of(config: &Config) -> Manner {
        Manner {
            noise_scale: config.noise_scale,
            noise_scale_duration: config.noise_scale_duration,
            speaking_rate: config.speaking_rate,
            most_frames: 60 * config.sampling_rate / config.hop(),
        }
    }
}

impl Vits {
    /// Takes the tensors of the generator, which must be complete without extra ones.
    pub fn load(config: Config, mut weights: Weights) -> Result<Vits, TorchError> {
        let device = weights.iter().next().map_or(Device::Cpu, |(_, tensor)| tensor.device());
        let all = &mut weights;
        let (speakers, width) = (config.num_speakers, config.speaker_embedding_size);
        let table = (speakers > 1)
            .then(|| Embedding::load(&mut all.under("embed_speaker"), speakers, width))
            .transpose()?;
        let model = Vits {
            device,
            text_encoder: TextEncoder::load(all.under("text_encoder"), &config)?,
            flow: Flow::load(all.under("flow"), &config)?,
            decoder: decoder::load(all.under("decoder"), &config)?,
            duration_predictor: DurationPredictor::load(all.under("duration_predictor"), &config)?,
            posterior_encoder: PosteriorEncoder::load(all.under("posterior_encoder"), &config)?,
            embed_speaker: table,
            learns_text: true,
            config,
        };
        weights.finish()?;
        Ok(model)
    }

    /// Checks and pads tokens; every text must have some, all of them in the vocabulary.
    pub fn texts(&self, texts: &[Vec<i64>]) -> Result<Texts, TorchError> {
        let lengths: Vec<i64> = texts.iter().map(|text| text.len() as i64).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if lengths.contains(&0) || lengths.is_empty() {
            return Err(TorchError::Input("a text without any known character".into()));
        }
        let rows = self.config.vocab_size;
        if let Some(id) = texts.iter().flatten().find(|id| !(0..rows).contains(*id)) {
            return Err(TorchError::Input(format!("a token {id}, and the model has {rows}")));
        }
        let mut ids = Vec::with_capacity(lengths.len() * longest as usize);
        for text in texts {
            ids.extend_from_slice(text);
            ids.resize(ids.len() + longest as usize - text.len(), 0);
        }
        let ids = Tensor::f_from_slice(&ids)?.f_view([lengths.len() as i64, longest])?;
        let mask = mask(&lengths, self.device);
        Ok(Texts { ids: ids.f_to_device(self.device)?, mask, lengths })
    }

    /// The speaker embeddings of a number of texts by speaker number, [B, E, 1]; None for a model
    /// with one speaker. A model with several needs a speaker.
    pub fn speaker(
        &self,
        numbers: Option<&[i64]>,
        texts: usize,
    ) -> Result<Option<Tensor>, TorchError> {
        let known = self.config.num_speakers;
        let unsaid =
            || TorchError::Input(format!("the model has {known} speakers: say who speaks"));
        let numbers = match (numbers, &self.embed_speaker) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(unsaid()),
            (Some(numbers), _) => numbers,
        };
        if numbers.len() != texts {
            let speakers = numbers.len();
            return Err(TorchError::Input(format!("{speakers} speakers for {texts} texts")));
        }
        if let Some(number) = numbers.iter().find(|number| !(0..known).contains(*number)) {
            return Err(TorchError::Input(format!(
                "a speaker {number}, and the model has {known}"
            )));
        }
        let Some(table) = &self.embed_speaker else { return Ok(None) };
        let numbers = Tensor::f_from_slice(numbers)?.f_to_device(self.device)?;
        Ok(Some(table.forward(&numbers).f_unsqueeze(-1)?))
    }

    pub fn prior(&self, texts: &Texts, pass: Pass) -> Result<Prior, TorchError> {
        let pass = if self.learns_text { pass } else { Pass::Evaluate };
        self.text_encoder.forward(&texts.ids, &texts.mask, pass)
    }

    /// Synthesises texts. Noise is drawn for the durations, [B, 2, N], then for the latents, [B, F,
    /// T]; the deterministic duration predictor needs none.
    pub fn speak(
        &self,
        texts: &Texts,
        speakers: Option<&[i64]>,
        manner: &Manner,
        noise: &mut dyn NormalNoise,
    ) -> Result<Speech, TorchError> {
        let _guard = tch::no_grad_guard();
        let speaker = self.speaker(speakers, texts.lengths.len())?;
        let prior = self.prior(texts, Pass::Evaluate)?;
        let said = Said { hidden: &prior.hidden, mask: &texts.mask, speaker: speaker.as_ref() };
        let rows = texts.lengths.len() as i64;
        let drawn = match self.duration_predictor.takes_noise() {
            true => {
                let drawn = noise.draw([rows, 2, texts.ids.size()[1]])?;
                Some(drawn.f_to_device(self.device)? * manner.noise_scale_duration)
            }
            false => None,
        };
        let log_durations = self.duration_predictor.predict(said, drawn.as_ref())?;
        let durations = log_durations.exp() * &texts.mask * (1.0 / manner.speaking_rate);
        let durations = durations.ceil().squeeze_dim(1);
        let (places, frames) = spread_out(&durations, manner.most_frames)?;
        let places = places.to_device(self.device);
        let mask = mask(&frames, self.device);
        let mean = expand(&prior.mean, &places) * &mask;
        let deviation = (expand(&prior.log_deviation, &places) * &mask).exp();
        let drawn = noise.draw([rows, self.config.flow_size, mask.size()[2]])?;
        let latents = mean + drawn.f_to_device(self.device)? * deviation * manner.noise_scale;
        let latents = self.flow.reverse(&latents, &mask, speaker.as_ref())? * &mask;
        let waves = self.sound(&latents, &frames, speaker.as_ref())?;
        Ok(Speech { waves, frames, log_durations, durations, latents })
    }

    /// Each text by itself: the decoder has no mask, so padding would be audible in the last
    /// frames, and a text would sound different alone than in a batch.
    fn sound(
        &self,
        latents: &Tensor,
        frames: &[i64],
        speaker: Option<&Tensor>,
    ) -> Result<Vec<Tensor>, TorchError> {
        let rows = frames.iter().enumerate().map(|(row, frames)| {
            let row = row as i64;
            let speaker = speaker.map(|speaker| speaker.f_narrow(0, row, 1)).transpose()?;
            let latents = latents.f_narrow(0, row, 1)?.f_narrow(2, 0, *frames)?;
            Ok(self.decoder.forward(&latents, speaker.as_ref())?.f_view(-1)?)
        });
        rows.collect()
    }
}

/// Repeats columns: [B, C, N] and indices [B, T] to [B, C, T].
pub fn expand(x: &Tensor, places: &Tensor) -> Tensor {
    let (rows, channels) = (x.size()[0], x.size()[1]);
    let places = places.unsqueeze(1).expand([rows, channels, places.size()[1]], false);
    x.gather(2, &places, false)
}

/// The token of each frame, [B, T] with zeros after the end, and the number of frames of each text,
/// at least one.
pub fn spread_out(durations: &Tensor, most: i64) -> Result<(Tensor, Vec<i64>), TorchError> {
    let rows = durations.size()[0] as usize;
    let values: Vec<f64> =
        Vec::try_from(durations.f_to_kind(Kind::Double)?.f_contiguous()?.f_view(-1)?)?;
    let columns = values.len() / rows.max(1);
    let mut places: Vec<Vec<i64>> = Vec::with_capacity(rows);
    for row in values.chunks(columns.max(1)) {
        let total: f64 = row.iter().sum();
        if total.is_nan() || total > most as f64 {
            return Err(TorchError::Input(format!(
                "a text would last {total} frames, more than {most}; shorten it, or teach the \
                 model durations"
            )));
        }
        let tokens = row.iter().enumerate();
        places.push(tokens.flat_map(|(at, count)| vec![at as i64; *count as usize]).collect());
    }
    let frames: Vec<i64> = places.iter().map(|row| row.len().max(1) as i64).collect();
    let longest = frames.iter().copied().max().unwrap_or(1) as usize;
    places.iter_mut().for_each(|row| row.resize(longest, 0));
    let places = Tensor::f_from_slice(&places.concat())?.f_view([rows as i64, longest as i64])?;
    Ok((places, frames))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_are_repeated_for_as_long_as_they_last() {
        let durations = Tensor::from_slice(&[1f32, 0.0, 2.0, 0.0, 0.0, 0.0]).view([2, 3]);
        let (places, frames) = spread_out(&durations, 10).unwrap();
        assert_eq!(frames, [3, 1], "no text is without any frame");
        assert_eq!(Vec::<i64>::try_from(places.view(-1)).unwrap(), [0, 2, 2, 0, 0, 0]);
        let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).view([2, 1, 3]);
        let expanded = Vec::<f32>::try_from(expand(&x, &places).view(-1)).unwrap();
        assert_eq!(expanded, [1.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
    }

    #[test]
    fn endless_speech_is_refused() {
        for total in [11.0f32, f32::INFINITY, f32::NAN] {
            let error = spread_out(&Tensor::from_slice(&[total]).view([1, 1]), 10).unwrap_err();
            assert!(error.to_string().contains("more than 10"), "{error}");
        }
    }
}
