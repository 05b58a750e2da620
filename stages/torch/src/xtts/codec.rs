//! The discrete VAE behind [`Codec`]: one codebook, a code per 1,024 samples of 22,050 Hz.
//!
//! The last codes of a clip depend on the following samples. In the original that is silence up to
//! the longest clip of the batch; here it is always the same silence, and a clip's codes are a
//! function of the clip.

use std::sync::{Mutex, PoisonError};

use stage_families::xtts::DvaeConfig;
use tch::{Device, Kind, Tensor};

use super::dvae::Dvae;
use super::mel::{HOP, LogMel, usable_stats};
use crate::error::TorchError;
use crate::nn::weights::Weights;
use crate::runtime::threads::{one_thread, spread};
use crate::sound::codec::{Codec, CodecFormat, Codes};
use crate::sound::griffin_lim;
use crate::sound::mel::MelShape;
use crate::sound::mel_rvq::check_wave;

/// Silent samples after a clip while it is encoded. The receptive field of a code is about 7,400
/// samples beyond its own: 27 frames, and half a window.
const SILENCE: usize = 8_192;
/// The longest clip; the memory of its intermediate spectrogram grows with it.
const LONGEST_SECONDS: i64 = 600;
const MEL_STATS: &str = "mel_stats";

#[derive(Debug)]
pub struct DvaeCodec {
    config: DvaeConfig,
    sample_rate: i64,
    mels: i64,
    device: Device,
    threads: usize,
    rounds: usize,
    /// Never written to; the lock is needed because tensors must not be shared by threads, while
    /// their storage may be.
    weights: Mutex<Weights>,
}

/// The model for one thread.
struct Parts {
    mel: LogMel,
    dvae: Dvae,
}

impl DvaeCodec {
    /// `weights` are those of `dvae.pth`, `mel_stats` the content of `mel_stats.pth`.
    pub fn new(
        config: &DvaeConfig,
        sample_rate: i64,
        mel_stats: &Tensor,
        weights: Weights,
        device: Device,
    ) -> Result<DvaeCodec, TorchError> {
        let _guard = tch::no_grad_guard();
        let mut weights = Dvae::prepare(weights, device)?;
        let mel_stats = usable_stats(mel_stats.shallow_clone(), device)?;
        let mels = mel_stats.size1()?;
        weights.insert(MEL_STATS, mel_stats);
        let codec = DvaeCodec {
            config: config.clone(),
            sample_rate,
            mels,
            device,
            threads: 1,
            rounds: griffin_lim::ROUNDS,
            weights: Mutex::new(weights),
        };
        codec.parts()?; // reports all problems of the weights now
        Ok(codec)
    }

    /// The number of clips that are processed at a time on the CPU.
    pub fn with_threads(mut self, threads: usize) -> DvaeCodec {
        self.threads = threads.max(1);
        self
    }

    /// The number of phase iterations of decoding.
    pub fn with_rounds(mut self, rounds: usize) -> DvaeCodec {
        self.rounds = rounds;
        self
    }

    pub fn format_of(config: &DvaeConfig, sample_rate: i64) -> CodecFormat {
        CodecFormat {
            rate: sample_rate as u32,
            entries: vec![config.codes as usize],
            hop: (HOP << config.layers.clamp(0, 32)) as usize,
        }
    }

    /// The log-mel frames of codes [B, N]: [B, mels, N * hop / 256].
    pub fn mel(&self, codes: &Tensor) -> Result<Tensor, TorchError> {
        Ok(self.parts()?.dvae.decode(codes))
    }

    fn parts(&self) -> Result<Parts, TorchError> {
        let weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own: Weights = weights.shared(|_, _| true).into_iter().collect();
        let mel_stats = own.take(MEL_STATS, &[self.mels])?;
        Ok(Parts {
            mel: LogMel::dvae(self.sample_rate, &mel_stats),
            dvae: Dvae::load(&self.config, self.mels, own)?,
        })
    }

    fn encode_one(&self, wave: &[f32], parts: &Parts) -> Result<Codes, TorchError> {
        let _guard = tch::no_grad_guard();
        let mut samples = wave.to_vec();
        samples.resize(wave.len() + SILENCE, 0.0);
        let samples = Tensor::from_slice(&samples).unsqueeze(0).to_device(self.device);
        let codes = parts.dvae.encode(&parts.mel.forward(&samples)?)?;
        let frames = self.frames(wave.len());
        let codes = codes.narrow(1, 0, frames as i64).view(-1).to_device(Device::Cpu);
        let values = Vec::<i64>::try_from(codes)?.into_iter().map(|code| code as u16).collect();
        Ok(Codes { codebooks: 1, frames, values })
    }
}

impl Codec for DvaeCodec {
    fn format(&self) -> CodecFormat {
        DvaeCodec::format_of(&self.config, self.sample_rate)
    }

    fn frames(&self, samples: usize) -> usize {
        samples.div_ceil(self.format().hop)
    }

    fn longest(&self) -> Option<usize> {
        Some((LONGEST_SECONDS * self.sample_rate) as usize)
    }

    fn gains_by_threads(&self) -> bool {
        !self.device.is_cuda()
    }

    /// One clip at a time, so that none is rounded differently because of its neighbours.
    fn encode(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError> {
        waves.iter().try_for_each(|wave| check_wave(wave))?;
        let threads = if self.device.is_cuda() { 1 } else { self.threads };
        spread(threads, waves.len(), |share| {
            let parts = self.parts()?;
            share.iter().map(|at| self.encode_one(waves[*at], &parts)).collect()
        })
    }

    /// The mel spectrogram of the codes, inverted with estimated phases.
    fn decode(&self, codes: &Codes, seed: u64) -> Result<Vec<f32>, TorchError> {
        codes.check(&self.format())?;
        let _guard = tch::no_grad_guard();
        one_thread();
        let numbers: Vec<i64> = codes.values.iter().map(|code| i64::from(*code)).collect();
        let numbers = Tensor::from_slice(&numbers).unsqueeze(0).to_device(self.device);
        let Parts { mel, dvae } = self.parts()?;
        let power = mel.power(&dvae.decode(&numbers)).get(0).t_copy(); // [T, mels]
        let power = power.to_device(Device::Cpu).to_kind(Kind::Float);
        let filters = mel.spectrogram.filters.to_device(Device::Cpu);
        let magnitude = griffin_lim::spectrum_of(&filters, &power).sqrt();
        let shape = MelShape::at_rate(self.sample_rate as u32);
        Ok(griffin_lim::of_magnitude(&shape, &magnitude, shape.window / 2, self.rounds, seed))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_families::xtts::XttsConfig;

    use super::*;
    use crate::nn::random::Random;

    fn config() -> DvaeConfig {
        let published = XttsConfig::published().dvae;
        DvaeConfig { codes: 40, codebook_width: 6, hidden: 8, residual_blocks: 1, ..published }
    }

    /// A model of random weights.
    fn codec() -> DvaeCodec {
        let mut random = Random::new(5);
        let mut weights = Weights::default();
        let mut add = |name: &str, shape: &[i64], deviation: f64| {
            weights.insert(name, random.normal(shape, deviation));
        };
        let mut conv = |name: &str, outputs: i64, inputs: i64, kernel: i64| {
            let deviation = ((inputs * kernel) as f64).powf(-0.5);
            add(&format!("{name}.weight"), &[outputs, inputs, kernel], deviation);
            add(&format!("{name}.bias"), &[outputs], 0.1);
        };
        conv("encoder.0.0", 8, 80, 3);
        conv("encoder.1.0", 16, 8, 3);
        for part in ["encoder.2", "decoder.1"] {
            conv(&format!("{part}.net.0"), 16, 16, 3);
            conv(&format!("{part}.net.2"), 16, 16, 3);
            conv(&format!("{part}.net.4"), 16, 16, 1);
        }
        conv("encoder.3", 6, 16, 1);
        conv("decoder.0", 16, 6, 1);
        conv("decoder.2.0.conv", 16, 16, 3);
        conv("decoder.3.0.conv", 8, 16, 3);
        conv("decoder.4", 80, 8, 1);
        add("codebook.embed", &[6, 40], 1.0);
        add("codebook.cluster_size", &[40], 1.0);
        let stats = Tensor::ones([80], (Kind::Float, Device::Cpu)) * 4.0;
        DvaeCodec::new(&config(), 22_050, &stats, weights, Device::Cpu).unwrap()
    }

    fn clip(samples: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        (0..samples).map(|_| 0.2 * (random.fraction() as f32 - 0.5)).collect()
    }

    #[test]
    fn a_clips_codes_are_those_of_the_clip_whatever_is_encoded_beside_it() {
        let codec = codec();
        let clips = [clip(1, 1), clip(1_024, 2), clip(1_025, 3), clip(22_050, 4)];
        let waves: Vec<&[f32]> = clips.iter().map(Vec::as_slice).collect();
        let all = codec.encode(&waves).unwrap();
        let frames: Vec<usize> = all.iter().map(|codes| codes.frames).collect();
        assert_eq!(frames, [1, 1, 2, 22]);
        for (wave, codes) in waves.iter().zip(&all) {
            assert_eq!(codec.encode(&[wave]).unwrap()[0], *codes);
        }
        assert_eq!(codec.with_threads(3).encode(&waves).unwrap(), all);
        let different = all[3].values.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(different > 2, "{different} different codes say nothing");
    }

    #[test]
    fn silence_behind_a_clip_changes_none_of_its_codes() {
        let codec = codec();
        let wave = clip(20_480, 6);
        let mut longer = wave.clone();
        longer.resize(60_000, 0.0);
        let codes = codec.encode(&[&wave, &longer]).unwrap();
        assert_eq!(codes[0].values[..], codes[1].values[..20]);
    }

    #[test]
    fn codes_become_a_wave_of_their_length_and_foreign_ones_are_refused() {
        let codec = codec().with_rounds(1);
        let codes = Codes { codebooks: 1, frames: 3, values: vec![1, 39, 7] };
        let wave = codec.decode(&codes, 1).unwrap();
        assert_eq!(wave.len(), 3 * 1_024);
        assert!(wave.iter().all(|sample| sample.abs() < 1.0));
        let foreign = Codes { values: vec![1, 40, 7], ..codes };
        assert!(codec.decode(&foreign, 1).is_err());
    }

    #[test]
    fn a_missing_tensor_is_told_before_any_clip() {
        let stats = Tensor::ones([80], (Kind::Float, Device::Cpu));
        let error = DvaeCodec::new(&config(), 22_050, &stats, Weights::default(), Device::Cpu);
        let error = error.err().unwrap().to_string();
        assert!(error.contains("there is no tensor `encoder.0.0.bias`"), "{error}");
    }
}
