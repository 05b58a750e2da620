//! The generator: text to sound, and what training computes on the way.

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
    /// Whether training changes the text encoder; where it does not, nothing is dropped in it.
    pub learns_text: bool,
}

/// Texts of one batch, as tokens.
#[derive(Debug)]
pub struct Texts {
    /// [B, N], zeros behind the shorter ones.
    pub ids: Tensor,
    /// 1 where there is text: [B, 1, N].
    pub mask: Tensor,
    pub lengths: Vec<i64>,
}

/// How to speak.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manner {
    /// How much the sound varies.
    pub noise_scale: f64,
    /// How much the rhythm varies.
    pub noise_scale_duration: f64,
    pub speaking_rate: f64,
    /// Frames of one text at most; a model that never learned durations may ask for hours.
    pub most_frames: i64,
}

/// What was spoken.
#[derive(Debug)]
pub struct Speech {
    /// The samples of each text between -1 and 1, on the device.
    pub waves: Vec<Tensor>,
    /// Frames of each.
    pub frames: Vec<i64>,
    /// Of each token, before the exponential: [B, 1, N].
    pub log_durations: Tensor,
    /// In frames: [B, N].
    pub durations: Tensor,
    /// What the decoder was given: [B, F, T].
    pub latents: Tensor,
}

impl Manner {
    /// As the configuration says, and a minute at most.
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
    /// Takes the tensors of the generator; all of them, and no others.
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

    /// Tokens as the model takes them; every text must have some, all of them in the vocabulary.
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

    /// The embeddings of the speakers of so many texts by their numbers, [B, E, 1]; none where
    /// the model knows one speaker only. Where it knows several it must be told who speaks.
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

    /// Speaks texts. Noise is drawn for the durations, [B, 2, N], then for the latents,
    /// [B, F, T]; the deterministic predictor of durations takes none.
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

    /// Each text by itself: the decoder has no mask, so that what pads a text would be heard in
    /// its last frames, and it would sound otherwise alone than among others.
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

/// Each column so many times: [B, C, N] and places [B, T] to [B, C, T].
pub fn expand(x: &Tensor, places: &Tensor) -> Tensor {
    let (rows, channels) = (x.size()[0], x.size()[1]);
    let places = places.unsqueeze(1).expand([rows, channels, places.size()[1]], false);
    x.gather(2, &places, false)
}

/// The token of each frame, [B, T] with zeros behind, and the number of frames of each text,
/// one at least.
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
