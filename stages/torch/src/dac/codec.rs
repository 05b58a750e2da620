//! The Fish codec behind [`Codec`].

use std::sync::{Mutex, PoisonError};

use safetensors::{SafeTensorError, SafeTensors};
use tch::{Device, Tensor};

use super::config::Config;
use super::load;
use super::model::Model;
use super::trace::{Seen, Trace};
use crate::codec::{Codec, CodecFormat, Codes};
use crate::error::TorchError;
use crate::mel_rvq::check_wave;
use crate::threads::{one_thread, spread};
use crate::weights::Weights;

/// Frames that go through the convolutions at a time. On the CPU a piece stays in the caches;
/// a GPU wants work for all its cores.
const CPU_PIECE: i64 = 8;
const GPU_PIECE: i64 = 128;

#[derive(Debug)]
pub struct Dac {
    config: Config,
    device: Device,
    threads: usize,
    /// Never written to; the lock is there since a tensor must not be shared by threads, while
    /// its storage may be.
    weights: Mutex<Weights>,
}

impl Dac {
    pub fn new(config: Config, weights: Weights, device: Device) -> Result<Dac, TorchError> {
        config.check()?;
        let weights = load::prepare(&config, weights, device)?;
        Ok(Dac { config, device, threads: 1, weights: Mutex::new(weights) })
    }

    /// From one file in the safetensors format; the config is in its metadata, else that of
    /// the published codec.
    pub fn load(bytes: &[u8], device: Device) -> Result<Dac, TorchError> {
        let unusable = |error: SafeTensorError| TorchError::Model(error.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(unusable)?;
        let config = match header.metadata().as_ref().and_then(|text| text.get("config")) {
            Some(text) => Config::from_json(text.as_bytes())?,
            None => Config::default(),
        };
        Dac::new(config, Weights::from_safetensors(bytes)?, device)
    }

    /// How many clips are worked on at a time on the CPU.
    pub fn with_threads(mut self, threads: usize) -> Dac {
        self.threads = threads.max(1);
        self
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The model for the calling thread; its tensors share their storage with all others.
    fn model(&self) -> Result<Model, TorchError> {
        let weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
        Model::new(&weights, &self.config)
    }

    fn piece(&self) -> i64 {
        if self.device.is_cuda() { GPU_PIECE } else { CPU_PIECE }
    }

    /// The codes of some waves as one batch, padded behind to the longest.
    fn encode_batch(
        &self,
        waves: &[&[f32]],
        piece: i64,
        model: &Model,
        trace: &mut Trace,
    ) -> Result<Vec<Codes>, TorchError> {
        let _guard = tch::no_grad_guard();
        let mut order: Vec<usize> = (0..waves.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(waves[*at].len()));
        let frames: Vec<i64> =
            order.iter().map(|at| self.frames(waves[*at].len()) as i64).collect();
        let longest = frames.first().copied().unwrap_or(0) * self.config.frame();
        let mut padded = vec![0f32; order.len() * longest as usize];
        for (row, at) in padded.chunks_mut(longest.max(1) as usize).zip(&order) {
            row[..waves[*at].len()].copy_from_slice(waves[*at]);
        }
        let padded = Tensor::f_from_slice(&padded)?.f_reshape([order.len() as i64, 1, longest])?;
        let padded = padded.f_to_device(self.device)?;
        let codes = model.encode(&padded, &frames, piece, trace)?;
        let codes = codes.f_to_device(Device::Cpu)?;
        let mut results: Vec<(usize, Codes)> = Vec::with_capacity(order.len());
        for (row, (at, frames)) in order.into_iter().zip(frames).enumerate() {
            let own = codes.f_get(row as i64)?.f_narrow(1, 0, frames)?;
            results.push((at, to_codes(&own)?));
        }
        results.sort_by_key(|(at, _)| *at);
        Ok(results.into_iter().map(|(_, codes)| codes).collect())
    }

    fn decode_pieces(
        &self,
        codes: &Codes,
        piece: i64,
        trace: &mut Trace,
    ) -> Result<Vec<f32>, TorchError> {
        let _guard = tch::no_grad_guard();
        let numbers: Vec<i64> = codes.values.iter().map(|code| i64::from(*code)).collect();
        let shape = [1, codes.codebooks as i64, codes.frames as i64];
        let numbers = Tensor::f_from_slice(&numbers)?.f_reshape(shape)?.f_to_device(self.device)?;
        let mut samples = Vec::with_capacity(codes.frames * self.config.frame() as usize);
        let mut give = |piece: Tensor| -> Result<(), TorchError> {
            samples.extend(floats(&piece)?);
            Ok(())
        };
        self.model()?.decode(&numbers, piece, trace, &mut give)?;
        Ok(samples)
    }

    /// The codes of a wave that goes through in one piece, and all that came by.
    pub(super) fn trace_encode(&self, wave: &[f32]) -> Result<(Seen, Codes), TorchError> {
        one_thread();
        let mut trace = Trace::keeping();
        let codes = self.encode_batch(&[wave], i64::MAX, &self.model()?, &mut trace)?.remove(0);
        Ok((trace.kept(), codes))
    }

    /// The wave of codes that go through in one piece, and all that came by.
    pub(super) fn trace_decode(&self, codes: &Codes) -> Result<(Seen, Vec<f32>), TorchError> {
        codes.check(&self.format())?;
        one_thread();
        let mut trace = Trace::keeping();
        let wave = self.decode_pieces(codes, self.config.longest(), &mut trace)?;
        Ok((trace.kept(), wave))
    }

    fn check_length(&self, samples: usize) -> Result<(), TorchError> {
        match self.longest() {
            Some(longest) if samples > longest => Err(TorchError::Input(format!(
                "the audio has {samples} samples, the codec takes at most {longest}"
            ))),
            _ => Ok(()),
        }
    }
}

impl Codec for Dac {
    fn format(&self) -> CodecFormat {
        let hop = self.config.frame() as usize;
        CodecFormat { rate: self.config.sample_rate, entries: self.config.entries(), hop }
    }

    fn frames(&self, samples: usize) -> usize {
        samples.div_ceil(self.config.frame() as usize)
    }

    fn longest(&self) -> Option<usize> {
        Some((self.config.longest() * self.config.frame()) as usize)
    }

    fn encode(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError> {
        for wave in waves {
            check_wave(wave)?;
            self.check_length(wave.len())?;
        }
        if self.device.is_cuda() {
            let model = self.model()?;
            return self.encode_batch(waves, self.piece(), &model, &mut Trace::default());
        }
        // One clip at a time: a batch gains nothing here, and this way no clip is rounded
        // differently because of its neighbours.
        spread(self.threads, waves.len(), |share| {
            let model = self.model()?;
            let encode = |at: &usize| -> Result<Codes, TorchError> {
                let wave = [waves[*at]];
                let codes = self.encode_batch(&wave, self.piece(), &model, &mut Trace::default());
                Ok(codes?.remove(0))
            };
            share.iter().map(encode).collect()
        })
    }

    fn decode(&self, codes: &Codes, _: u64) -> Result<Vec<f32>, TorchError> {
        codes.check(&self.format())?;
        self.check_length(codes.frames * self.config.frame() as usize)?;
        one_thread();
        self.decode_pieces(codes, self.piece(), &mut Trace::default())
    }
}

/// Codes [codebooks, T] of one clip.
fn to_codes(numbers: &Tensor) -> Result<Codes, TorchError> {
    let (codebooks, frames) = numbers.size2()?;
    let mut values = vec![0i64; numbers.numel()];
    let count = values.len();
    numbers.f_contiguous()?.f_copy_data(&mut values, count)?;
    // A codebook has at most 65,536 entries.
    let values = values.into_iter().map(|code| code as u16).collect();
    Ok(Codes { codebooks: codebooks as usize, frames: frames as usize, values })
}

fn floats(tensor: &Tensor) -> Result<Vec<f32>, TorchError> {
    let tensor = tensor.f_to_device(Device::Cpu)?.f_contiguous()?;
    let mut values = vec![0f32; tensor.numel()];
    let count = values.len();
    tensor.f_copy_data(&mut values, count)?;
    Ok(values)
}
