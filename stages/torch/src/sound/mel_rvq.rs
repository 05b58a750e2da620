//! The built-in codec `mel-rvq`: residual k-means over log-mel frames, fitted on the corpus.
//!
//! It makes the whole pipeline work on any machine with nothing to download. The nearest entry of
//! the first codebook encodes a frame, that of the second the residual, and so on; decoding adds
//! the entries and computes a wave for the frames (`griffin_lim`).
//!
//! Everything runs on the CPU: codes must not depend on the device, and the model is so small that
//! a GPU would mostly wait.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::error::{InTch, TorchError};
use crate::nn::kmeans::Lookup;
use crate::runtime::threads::{one_thread, spread};
use crate::sound::codec::{Codec, CodecFormat, Codes};
use crate::sound::griffin_lim;
use crate::sound::mel::{Mel, MelShape, TILE};

/// The JSON under `config` in the file of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub model: FormatName,
    pub mel: MelShape,
    pub codebooks: usize,
    pub entries: usize,
}

/// The name of the format; others are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FormatName {
    #[serde(rename = "mel-rvq-1")]
    MelRvq1,
}

impl Config {
    pub fn new(mel: MelShape, codebooks: usize, entries: usize) -> Config {
        Config { model: FormatName::MelRvq1, mel, codebooks, entries }
    }

    pub fn format(&self) -> CodecFormat {
        let entries = vec![self.entries; self.codebooks];
        CodecFormat { rate: self.mel.rate, entries, hop: self.mel.hop }
    }

    pub fn check(&self) -> Result<(), TorchError> {
        self.mel.check()?;
        if !(1..=64).contains(&self.codebooks) {
            let text = format!("{} codebooks, expected 1 to 64", self.codebooks);
            return Err(TorchError::Model(text));
        }
        if !(2..=65_536).contains(&self.entries) {
            let text = format!("{} entries a codebook, expected 2 to 65536", self.entries);
            return Err(TorchError::Model(text));
        }
        Ok(())
    }
}

/// A fitted codec.
#[derive(Clone, Debug, PartialEq)]
pub struct MelRvq {
    pub(crate) config: Config,
    /// The mean frame, which is subtracted first: [bands].
    pub(crate) mean: Vec<f32>,
    /// [codebooks, entries, bands].
    pub(crate) codebooks: Vec<f32>,
    threads: usize,
    rounds: usize,
}

impl MelRvq {
    pub(crate) fn from_parts(config: Config, mean: Vec<f32>, codebooks: Vec<f32>) -> MelRvq {
        let rounds = griffin_lim::ROUNDS;
        MelRvq { config, mean, codebooks, threads: 1, rounds }
    }

    /// The number of clips that are encoded at a time.
    pub fn with_threads(mut self, threads: usize) -> MelRvq {
        self.threads = threads.max(1);
        self
    }

    /// The number of phase iterations of decoding.
    pub fn with_rounds(mut self, rounds: usize) -> MelRvq {
        self.rounds = rounds;
        self
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The model as a file in the safetensors format. The same model gives the same bytes.
    pub fn save(&self) -> Result<Vec<u8>, TorchError> {
        let Config { mel, codebooks, entries, .. } = self.config;
        let bytes =
            |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let (mean, books) = (bytes(&self.mean), bytes(&self.codebooks));
        let shape = vec![codebooks, entries, mel.bands];
        let tensors = [
            ("codebooks", TensorView::new(Dtype::F32, shape, &books).map_err(unusable)?),
            ("mean", TensorView::new(Dtype::F32, vec![mel.bands], &mean).map_err(unusable)?),
        ];
        let config = serde_json::to_string(&self.config).map_err(unusable)?;
        // One entry only: the order of several would vary.
        let metadata = HashMap::from([("config".to_owned(), config)]);
        serialize(tensors, Some(metadata)).map_err(unusable)
    }

    /// Reads what [`MelRvq::save`] wrote; refuses all else.
    pub fn load(bytes: &[u8]) -> Result<MelRvq, TorchError> {
        let config = MelRvq::read_config(bytes)?;
        let file = SafeTensors::deserialize(bytes).map_err(unusable)?;
        let bands = config.mel.bands;
        let mean = floats(&file, "mean", &[bands])?;
        let codebooks = floats(&file, "codebooks", &[config.codebooks, config.entries, bands])?;
        Ok(MelRvq::from_parts(config, mean, codebooks))
    }

    /// The config of such a file; its tables are not read.
    pub fn read_config(bytes: &[u8]) -> Result<Config, TorchError> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(unusable)?;
        let config = header.metadata().as_ref().and_then(|metadata| metadata.get("config"));
        let config = config.ok_or_else(|| TorchError::Model("it has no `config`".into()))?;
        let config: Config = serde_json::from_str(config).map_err(unusable)?;
        config.check()?;
        Ok(config)
    }

    /// The log-mel frames of codes, row by row: [frames, bands].
    pub fn frames_of(&self, codes: &Codes) -> Result<Vec<f32>, TorchError> {
        codes.check(&self.format())?;
        let bands = self.config.mel.bands;
        let mut frames = self.mean.repeat(codes.frames);
        for (at, code) in codes.values.iter().enumerate() {
            let (codebook, frame) = (at / codes.frames, at % codes.frames);
            let entry = (codebook * self.config.entries + usize::from(*code)) * bands;
            let row = &mut frames[frame * bands..(frame + 1) * bands];
            let entry = &self.codebooks[entry..entry + bands];
            row.iter_mut().zip(entry).for_each(|(value, entry)| *value += entry);
        }
        Ok(frames)
    }
}

impl Codec for MelRvq {
    fn format(&self) -> CodecFormat {
        self.config.format()
    }

    fn frames(&self, samples: usize) -> usize {
        self.config.mel.frames(samples)
    }

    fn encode(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError> {
        spread(self.threads, waves.len(), |share| {
            let encoder = MelEncoder::new(self)?;
            share.iter().map(|at| encoder.encode(waves[*at])).collect()
        })
    }

    fn decode(&self, codes: &Codes, seed: u64) -> Result<Vec<f32>, TorchError> {
        let frames = self.frames_of(codes)?;
        one_thread();
        Ok(griffin_lim::wave(&self.config.mel, &frames, self.rounds, seed))
    }
}

/// The tensors that encoding needs, for one thread.
struct MelEncoder {
    mel: Mel,
    mean: Tensor,
    lookups: Vec<Lookup>,
}

impl MelEncoder {
    fn new(model: &MelRvq) -> Result<MelEncoder, TorchError> {
        let Config { mel, codebooks, entries, .. } = model.config;
        let shape = [codebooks as i64, entries as i64, mel.bands as i64];
        let books = Tensor::from_slice(&model.codebooks).reshape(shape);
        let lookups = (0..codebooks as i64).map(|at| Lookup::new(&books.select(0, at)));
        Ok(MelEncoder {
            lookups: lookups.collect(),
            mel: Mel::new(mel)?,
            mean: Tensor::from_slice(&model.mean),
        })
    }

    fn encode(&self, wave: &[f32]) -> Result<Codes, TorchError> {
        check_wave(wave)?;
        let (codebooks, frames) = (self.lookups.len(), self.mel.shape().frames(wave.len()));
        let mut values = vec![0u16; codebooks * frames];
        for tile in 0..self.mel.tiles(wave.len()) {
            let codes = self.encode_tile(&self.mel.tile(wave, tile)); // [codebooks, TILE]
            let first = tile * TILE;
            let count = TILE.min(frames - first);
            for codebook in 0..codebooks {
                let from = &codes[codebook * TILE..codebook * TILE + count];
                let to = &mut values[codebook * frames + first..][..count];
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as u16);
            }
        }
        Ok(Codes { codebooks, frames, values })
    }

    fn encode_tile(&self, frames: &Tensor) -> Vec<i64> {
        let mut left = frames - &self.mean; // [TILE, bands]
        let mut numbers = Vec::with_capacity(self.lookups.len());
        for lookup in &self.lookups {
            let (_, nearest) = lookup.nearest(&left); // [TILE]
            left = &left - lookup.entries(&nearest);
            numbers.push(nearest);
        }
        Vec::try_from(Tensor::cat(&numbers, 0)).in_tch()
    }
}

/// Refuses waves that no codec can encode.
pub(crate) fn check_wave(wave: &[f32]) -> Result<(), TorchError> {
    if wave.is_empty() {
        return Err(TorchError::Input("the audio has no samples".into()));
    }
    match wave.iter().position(|sample| !sample.is_finite()) {
        Some(at) => Err(TorchError::Input(format!("sample {at} of the audio is not a number"))),
        None => Ok(()),
    }
}

fn unusable(error: impl std::fmt::Display) -> TorchError {
    TorchError::Model(error.to_string())
}

fn floats(file: &SafeTensors, name: &str, shape: &[usize]) -> Result<Vec<f32>, TorchError> {
    let tensor = file.tensor(name).map_err(unusable)?;
    if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
        return Err(TorchError::Model(format!(
            "`{name}` is {:?} {:?}, expected F32 {shape:?}",
            tensor.dtype(),
            tensor.shape()
        )));
    }
    let values: Vec<f32> =
        tensor.data().as_chunks::<4>().0.iter().map(|v| f32::from_le_bytes(*v)).collect();
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(TorchError::Model(format!("value {at} of `{name}` is not a number"))),
        None => Ok(values),
    }
}
