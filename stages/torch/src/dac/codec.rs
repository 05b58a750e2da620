//! The Fish codec behind [`Codec`].

use std::sync::{Mutex, PoisonError};

use safetensors::{SafeTensorError, SafeTensors};
use stage_families::dac::CPU_PIECE;
use tch::{Device, Tensor};

use super::DacConfig;
use super::load;
use super::model::DacModel;
use super::trace::{Trace, TracedTensors};
use crate::error::{InTch, TorchError};
use crate::nn::weights::Weights;
use crate::runtime::budget::MemoryBudget;
use crate::runtime::threads::{one_thread, spread};
use crate::sound::codec::{Codec, CodecFormat, Codes};
use crate::sound::mel_rvq::check_wave;

/// The number of frames that go through the convolutions at a time on a GPU, which needs work for all
/// its cores.
const GPU_PIECE: i64 = 128;

#[derive(Debug)]
pub struct Dac {
    config: DacConfig,
    device: Device,
    threads: usize,
    /// The budget of batches on a GPU, and of clips at a time on the CPU.
    budget: MemoryBudget,
    /// Never written to; the lock is needed because tensors must not be shared by threads, while
    /// their storage may be.
    weights: Mutex<Weights>,
    /// Models that no thread uses now: each is built once for a thread, and not for each batch.
    models: Mutex<Vec<DacModel>>,
}

impl Dac {
    pub fn new(config: DacConfig, weights: Weights, device: Device) -> Result<Dac, TorchError> {
        config.check()?;
        let weights = Mutex::new(load::prepare(&config, weights, device)?);
        let budget = budget(&config, device, None);
        Ok(Dac { config, device, threads: 1, budget, weights, models: Mutex::default() })
    }

    /// From one file in the safetensors format; the config is in its metadata, else that of the
    /// published codec.
    pub fn load(bytes: &[u8], device: Device) -> Result<Dac, TorchError> {
        Dac::new(Dac::read_config(bytes)?, Weights::from_safetensors(bytes)?, device)
    }

    /// The config of such a file; its weights are not read.
    pub fn read_config(bytes: &[u8]) -> Result<DacConfig, TorchError> {
        let unusable = |error: SafeTensorError| TorchError::Model(error.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(unusable)?;
        match header.metadata().as_ref().and_then(|text| text.get("config")) {
            Some(text) => Ok(DacConfig::from_json(text.as_bytes())?),
            None => Ok(DacConfig::default()),
        }
    }

    /// Tests if a file in the safetensors format is such a codec.
    pub fn is_in(bytes: &[u8]) -> bool {
        let header = SafeTensors::read_metadata(bytes).map(|(_, header)| header);
        header.is_ok_and(|header| {
            header.tensors().keys().any(|name| name.contains("quantizer.semantic_quantizer."))
        })
    }

    /// The number of clips that are processed at a time on the CPU.
    pub fn with_threads(mut self, threads: usize) -> Dac {
        self.threads = threads.max(1);
        self
    }

    /// The memory for all tensors that are computed at a time, in bytes; None means any amount.
    pub fn with_memory(mut self, memory: Option<u64>) -> Dac {
        self.budget = budget(&self.config, self.device, memory);
        self
    }

    pub fn format_of(config: &DacConfig) -> CodecFormat {
        let hop = config.frame() as usize;
        CodecFormat { rate: config.sample_rate, entries: config.entries(), hop }
    }

    pub fn config(&self) -> &DacConfig {
        &self.config
    }

    /// Works with a model of the calling thread alone; its tensors share their storage with all
    /// others.
    fn with_model<R>(
        &self,
        work: impl FnOnce(&DacModel) -> Result<R, TorchError>,
    ) -> Result<R, TorchError> {
        let models = || self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = models().pop();
        let model = match idle {
            Some(model) => model,
            None => {
                let weights = self.weights.lock().unwrap_or_else(PoisonError::into_inner);
                DacModel::new(&weights, &self.config)?
            }
        };
        let result = work(&model);
        models().push(model);
        result
    }

    fn piece(&self) -> i64 {
        piece(self.device)
    }

    /// Batches of clips of similar length that fit into memory.
    fn encode_batches(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError> {
        let order = longest_first(waves);
        let codes = self.with_model(|model| {
            self.budget.in_batches(&self.all_frames(waves, &order), |range| {
                let waves: Vec<&[f32]> = order[range].iter().map(|at| waves[*at]).collect();
                self.encode_batch(&waves, self.piece(), model, &mut Trace::default())
            })
        })?;
        let mut codes: Vec<(usize, Codes)> = order.into_iter().zip(codes).collect();
        codes.sort_by_key(|(at, _)| *at);
        Ok(codes.into_iter().map(|(_, codes)| codes).collect())
    }

    fn all_frames(&self, waves: &[&[f32]], order: &[usize]) -> Vec<usize> {
        order.iter().map(|at| self.frames(waves[*at].len())).collect()
    }

    /// The codes of some waves, the longest first, padded on the right to its length.
    fn encode_batch(
        &self,
        waves: &[&[f32]],
        piece: i64,
        model: &DacModel,
        trace: &mut Trace,
    ) -> Result<Vec<Codes>, TorchError> {
        let _guard = tch::no_grad_guard();
        let frames: Vec<i64> = waves.iter().map(|wave| self.frames(wave.len()) as i64).collect();
        let longest = frames.first().copied().unwrap_or(0) * self.config.frame();
        let mut padded = vec![0f32; waves.len() * longest as usize];
        for (row, wave) in padded.chunks_mut(longest.max(1) as usize).zip(waves) {
            row[..wave.len()].copy_from_slice(wave);
        }
        let padded = Tensor::from_slice(&padded).reshape([waves.len() as i64, 1, longest]);
        let padded = padded.to_device(self.device);
        let codes = model.encode(&padded, &frames, piece, trace)?.to_device(Device::Cpu);
        let own =
            |(row, frames): (usize, i64)| to_codes(&codes.get(row as i64).narrow(1, 0, frames));
        Ok(frames.into_iter().enumerate().map(own).collect())
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
        let numbers = Tensor::from_slice(&numbers).reshape(shape).to_device(self.device);
        let mut samples = Vec::with_capacity(codes.frames * self.config.frame() as usize);
        let mut give = |piece: Tensor| samples.extend(floats(&piece));
        self.with_model(|model| {
            model.decode(&numbers, piece, trace, &mut give);
            Ok(())
        })?;
        Ok(samples)
    }

    /// The codes of a wave that goes through in one chunk, with all recorded tensors.
    pub(super) fn trace_encode(&self, wave: &[f32]) -> Result<(TracedTensors, Codes), TorchError> {
        one_thread();
        let mut trace = Trace::keeping();
        let codes =
            self.with_model(|model| self.encode_batch(&[wave], i64::MAX, model, &mut trace))?;
        let codes = codes.into_iter().next().ok_or_else(|| TorchError::Input("no codes".into()))?;
        Ok((trace.kept(), codes))
    }

    /// The wave of codes that go through in one chunk, with all recorded tensors.
    pub(super) fn trace_decode(
        &self,
        codes: &Codes,
    ) -> Result<(TracedTensors, Vec<f32>), TorchError> {
        codes.check(&self.format())?;
        one_thread();
        let mut trace = Trace::keeping();
        let wave = self.decode_pieces(codes, self.config.longest(), &mut trace)?;
        Ok((trace.kept(), wave))
    }

    fn check_length(&self, samples: usize) -> Result<(), TorchError> {
        match self.longest() {
            Some(longest) if samples > longest => Err(TorchError::Input(format!(
                "the audio has {samples} samples, expected at most {longest}"
            ))),
            _ => Ok(()),
        }
    }
}

impl Codec for Dac {
    fn format(&self) -> CodecFormat {
        Dac::format_of(&self.config)
    }

    fn frames(&self, samples: usize) -> usize {
        samples.div_ceil(self.config.frame() as usize)
    }

    fn longest(&self) -> Option<usize> {
        Some((self.config.longest() * self.config.frame()) as usize)
    }

    fn gains_by_threads(&self) -> bool {
        !self.device.is_cuda()
    }

    fn budget(&self) -> Option<&MemoryBudget> {
        Some(&self.budget)
    }

    fn encode(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError> {
        for wave in waves {
            check_wave(wave)?;
            self.check_length(wave.len())?;
        }
        if self.device.is_cuda() {
            return self.encode_batches(waves);
        }
        // One clip at a time: a batch is not faster here, and this way no clip is rounded
        // differently because of its neighbours. As many threads as memory allows.
        let fitting = self.budget.fitting(&self.all_frames(waves, &longest_first(waves)));
        spread(self.threads.min(fitting), waves.len(), |share| {
            self.with_model(|model| {
                let encode = |at: &usize| -> Result<Codes, TorchError> {
                    let (wave, piece) = ([waves[*at]], self.piece());
                    let codes = self.encode_batch(&wave, piece, model, &mut Trace::default());
                    Ok(codes?.remove(0))
                };
                share.iter().map(encode).collect()
            })
        })
    }

    fn decode(&self, codes: &Codes, _: u64) -> Result<Vec<f32>, TorchError> {
        codes.check(&self.format())?;
        self.check_length(codes.frames * self.config.frame() as usize)?;
        one_thread();
        self.decode_pieces(codes, self.piece(), &mut Trace::default())
    }
}

/// The indices of the waves from the longest to the shortest.
fn longest_first(waves: &[&[f32]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..waves.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(waves[*at].len()));
    order
}

fn piece(device: Device) -> i64 {
    if device.is_cuda() { GPU_PIECE } else { CPU_PIECE }
}

fn budget(config: &DacConfig, device: Device, memory: Option<u64>) -> MemoryBudget {
    let (config, is_gpu) = (config.clone(), device.is_cuda());
    MemoryBudget::new(memory, move |frames| {
        if is_gpu {
            config.encode_bytes(frames as i64, GPU_PIECE)
        } else {
            config.encode_bytes_of_thread(frames as i64)
        }
    })
}

/// Codes [codebooks, T] of one clip.
fn to_codes(numbers: &Tensor) -> Codes {
    let (codebooks, frames) = numbers.size2().in_tch();
    let mut values = vec![0i64; numbers.numel()];
    let count = values.len();
    numbers.contiguous().copy_data(&mut values, count);
    // A codebook has at most 65,536 entries.
    let values = values.into_iter().map(|code| code as u16).collect();
    Codes { codebooks: codebooks as usize, frames: frames as usize, values }
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    let tensor = tensor.to_device(Device::Cpu).contiguous();
    let mut values = vec![0f32; tensor.numel()];
    let count = values.len();
    tensor.copy_data(&mut values, count);
    values
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Kind;

    use super::*;

    /// The codec of the committed fixture: four codebooks, 16 samples per frame, 64 frames long.
    fn weights() -> (DacConfig, Weights) {
        let bytes = include_bytes!("../../fixtures/fish_dac/model.safetensors");
        let (_, header) = SafeTensors::read_metadata(bytes).unwrap();
        let config = header.metadata().as_ref().unwrap()["config"].as_bytes();
        (DacConfig::from_json(config).unwrap(), Weights::from_safetensors(bytes).unwrap())
    }

    type Change<'a> = &'a dyn Fn(&mut Weights);

    fn codec() -> Dac {
        let (config, weights) = weights();
        Dac::new(config, weights, Device::Cpu).unwrap()
    }

    #[test]
    fn layers_are_built_once_for_a_thread_and_not_for_each_batch() {
        let codec = codec();
        let built = || codec.models.lock().unwrap().len();
        let wave = wave(100);
        let codes = codec.encode(&[&wave]).unwrap().remove(0);
        assert_eq!(built(), 1);
        // Without the weights no layers can be built.
        *codec.weights.lock().unwrap() = Weights::default();
        assert_eq!(codec.encode(&[&wave, &wave]).unwrap()[1].values, codes.values);
        codec.decode(&codes, 0).unwrap();
        assert_eq!(built(), 1);
    }

    fn wave(samples: usize) -> Vec<f32> {
        let sample = |at: usize| (at as f32 * 0.7).sin() * 0.5 + (at as f32 * 0.113).sin() * 0.3;
        (0..samples).map(sample).collect()
    }

    fn slices(waves: &[Vec<f32>]) -> Vec<&[f32]> {
        waves.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn a_clip_has_as_many_frames_as_it_begins() {
        let codec = codec();
        let waves: Vec<Vec<f32>> = [1, 15, 16, 17, 1_024].map(wave).into();
        let codes = codec.encode(&slices(&waves)).unwrap();
        let frames: Vec<usize> = codes.iter().map(|codes| codes.frames).collect();
        assert_eq!(frames, [1, 1, 1, 2, 64]);
        for codes in &codes {
            codes.check(&codec.format()).unwrap();
            assert_eq!(codec.decode(codes, 0).unwrap().len(), codes.frames * 16);
        }
    }

    #[test]
    fn codes_do_not_depend_on_threads_or_company_to_the_bit() {
        let waves: Vec<Vec<f32>> = [300, 17, 1_000, 16, 640, 5].map(wave).into();
        let alone: Vec<Codes> =
            waves.iter().map(|wave| codec().encode(&[wave]).unwrap().remove(0)).collect();
        for threads in [1, 2, 5] {
            assert_eq!(codec().with_threads(threads).encode(&slices(&waves)).unwrap(), alone);
        }
    }

    #[test]
    fn codes_do_not_depend_on_the_batch_nor_on_the_padding_nor_on_the_pieces() {
        let codec = codec();
        let waves: Vec<Vec<f32>> = [300, 17, 1_000, 16, 640, 5].map(wave).into();
        let alone = codec.encode(&slices(&waves)).unwrap();
        let order = longest_first(&slices(&waves));
        let batch: Vec<&[f32]> = order.iter().map(|at| waves[*at].as_slice()).collect();
        for piece in [1, 3, 8, i64::MAX] {
            let encode =
                |model: &DacModel| codec.encode_batch(&batch, piece, model, &mut Trace::default());
            let codes = codec.with_model(encode).unwrap();
            for (codes, at) in codes.iter().zip(&order) {
                assert_eq!(*codes, alone[*at], "clip {at} in pieces of {piece}");
            }
        }
        let narrow = self::codec().with_memory(Some(codec.config.encode_bytes_of_thread(20)));
        assert_eq!(narrow.encode_batches(&slices(&waves)).unwrap(), alone);
    }

    #[test]
    fn what_comes_later_changes_nothing() {
        let codec = codec();
        let whole = codec.encode(&[&wave(1_000)]).unwrap().remove(0);
        let start = codec.encode(&[&wave(320)]).unwrap().remove(0);
        for (whole, start) in whole.values.chunks(63).zip(start.values.chunks(20)) {
            assert_eq!(whole[..20], *start);
        }
    }

    #[test]
    fn a_clip_beyond_the_position_tables_is_refused() {
        let codec = codec();
        assert_eq!(codec.longest(), Some(1_024));
        let error = codec.encode(&[&wave(1_025)]).unwrap_err().to_string();
        assert_eq!(error, "the audio has 1025 samples, expected at most 1024");
        let long = Codes { codebooks: 4, frames: 65, values: vec![0; 4 * 65] };
        assert!(codec.decode(&long, 0).is_err());
        assert!(codec.encode(&[&[0.0, f32::NAN]]).is_err());
    }

    #[test]
    fn the_files_of_all_releases_are_read() {
        let wave = wave(500);
        let expected = codec().encode(&[&wave]).unwrap();
        let renamed = |rename: &dyn Fn(&str) -> String| {
            let (config, weights) = weights();
            let mut renamed: Weights =
                weights.into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect();
            renamed.insert(rename("quantizer.pre_module.freqs_cis"), Tensor::from(1f32));
            renamed.insert(rename("quantizer.pre_module.causal_mask"), Tensor::from(true));
            Dac::new(config, renamed, Device::Cpu)
        };
        let older = |name: &str| {
            let name = name.replace("parametrizations.weight.original0", "weight_g");
            name.replace("parametrizations.weight.original1", "weight_v")
        };
        let wrapped = |name: &str| format!("generator.{name}");
        let kept = |name: &str| name.to_owned();
        for rename in [&kept as &dyn Fn(&str) -> String, &older, &wrapped] {
            assert_eq!(renamed(rename).unwrap().encode(&[&wave]).unwrap(), expected);
        }
    }

    #[test]
    fn weights_that_do_not_fit_are_refused_by_name() {
        let refused = |change: &dyn Fn(&mut Weights)| {
            let (config, mut weights) = weights();
            change(&mut weights);
            Dac::new(config, weights, Device::Cpu).unwrap_err().to_string()
        };
        let name = "encoder.block.0.conv.bias";
        let zeros = |size: i64| Tensor::zeros([size], (Kind::Float, Device::Cpu));
        let cases: [(Change, &str); 5] = [
            (&|w: &mut Weights| drop(w.remove(name)), "missing: `encoder.block.0.conv.bias`"),
            (&|w: &mut Weights| w.insert("encoder.extra", zeros(1)), "unexpected: `encoder.extra`"),
            (
                &|w: &mut Weights| w.insert(name, zeros(3)),
                "wrong shape: `encoder.block.0.conv.bias` [3] instead of [16]",
            ),
            (
                &|w: &mut Weights| w.insert(name, zeros(16) / 0.0),
                "`encoder.block.0.conv.bias` has values that are not finite",
            ),
            (
                &|w: &mut Weights| w.insert(name, zeros(16).to_kind(Kind::Int64)),
                "`encoder.block.0.conv.bias` is Int64, expected floats",
            ),
        ];
        for (change, expected) in cases {
            assert_eq!(refused(change), format!("the model cannot be used: {expected}"));
        }
    }
}
