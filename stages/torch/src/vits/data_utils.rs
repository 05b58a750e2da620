//! Clips of a micro-batch: from recordings on the CPU to tensors on the device of the model.

use bytes::Bytes;
use tch::{Kind, Tensor};

use super::VitsConfig;
use super::mel_processing::{self, Analysis};
use super::models::{Texts, Vits};
use crate::error::TorchError;
use crate::nn::conv::mask;
use crate::runtime::upload::{StagedTensor, upload};

/// A training clip.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Determines its noise, independent of other clips.
    pub key: u64,
    pub tokens: Vec<i64>,
    pub wave: Vec<f32>,
    /// In the format of [`mel_processing::write`]; computed if it is missing.
    pub spectrogram: Option<Bytes>,
    pub speaker: Option<i64>,
}

#[derive(Debug, Default)]
pub struct VitsBatch {
    pub clips: Vec<Recording>,
    /// Samples per frame.
    pub hop: i64,
    /// The sound of the clips, ready for a copy to the device; made when needed if it is missing.
    staged: Option<StagedSound>,
}

/// The samples of all clips, and the given spectrograms.
#[derive(Debug)]
struct StagedSound {
    waves: StagedTensor,
    linears: Vec<Option<StagedTensor>>,
}

impl VitsBatch {
    pub fn new(clips: Vec<Recording>, hop: i64) -> VitsBatch {
        VitsBatch { clips, hop, staged: None }
    }

    /// With its sound in the form for the device: a GPU copies it while it goes on with its work.
    pub fn staged(
        mut self,
        config: &VitsConfig,
        is_for_gpu: bool,
    ) -> Result<VitsBatch, TorchError> {
        self.staged = Some(self.stage(config, is_for_gpu)?);
        Ok(self)
    }

    fn stage(&self, config: &VitsConfig, is_for_gpu: bool) -> Result<StagedSound, TorchError> {
        let waves: Vec<&[f32]> = self.clips.iter().map(|clip| clip.wave.as_slice()).collect();
        let linear = |clip: &Recording| {
            let linear = clip.given_linear(config)?;
            Ok::<_, TorchError>(linear.map(|linear| StagedTensor::new(&linear, is_for_gpu)))
        };
        let linears = self.clips.iter().map(linear).collect::<Result<_, _>>()?;
        Ok(StagedSound { waves: StagedTensor::new(&padded(&waves, config), is_for_gpu), linears })
    }

    /// The number of tokens and frames of all clips.
    pub fn lengths(&self) -> [u64; 2] {
        let tokens = self.clips.iter().map(|clip| clip.tokens.len() as u64).sum();
        let frames = self.clips.iter().map(|clip| clip.wave.len() as u64 / self.hop.max(1) as u64);
        [tokens, frames.sum()]
    }

    /// On the device of the model.
    pub(super) fn place(
        &self,
        model: &Vits,
        analysis: &Analysis,
    ) -> Result<ClipTensors, TorchError> {
        let texts: Vec<Vec<i64>> = self.clips.iter().map(|clip| clip.tokens.clone()).collect();
        let speakers: Option<Vec<i64>> = self.clips.iter().map(|clip| clip.speaker).collect();
        let own;
        let StagedSound { waves, linears } = match &self.staged {
            Some(staged) => staged,
            None => {
                own = self.stage(&model.config, model.device.is_cuda())?;
                &own
            }
        };
        let frames = self.clips.iter().map(|clip| clip.frames(&model.config));
        let sounds = Sounds { frames: frames.collect(), waves: waves.upload(model.device) };
        let linears = linears.iter().enumerate().map(|(row, linear)| match linear {
            Some(linear) => Ok(linear.upload(model.device)),
            None => sounds.linear(row, model, analysis),
        });
        let linears: Vec<Tensor> = linears.collect::<Result<_, TorchError>>()?;
        let clips = ClipTensors::of(model, model.texts(&texts)?, sounds, &linears, speakers)?;
        Ok(ClipTensors { keys: self.clips.iter().map(|clip| clip.key).collect(), ..clips })
    }
}

impl Recording {
    fn frames(&self, config: &VitsConfig) -> i64 {
        self.wave.len() as i64 / config.hop()
    }

    /// The spectrogram that came with the clip, on the host.
    fn given_linear(&self, config: &VitsConfig) -> Result<Option<Tensor>, TorchError> {
        let Some(bytes) = &self.spectrogram else { return Ok(None) };
        let linear = mel_processing::read(bytes, config)?;
        let (own, frames) = (linear.size()[1], self.frames(config));
        if own == frames {
            Ok(Some(linear))
        } else {
            Err(TorchError::Input(format!(
                "the spectrogram has {own} frames, but the clip has {frames}: it belongs to other \
                 audio"
            )))
        }
    }
}

/// Waves cut to whole frames, with zeros after the shorter ones: [B, T * hop], on the host.
fn padded(waves: &[&[f32]], config: &VitsConfig) -> Tensor {
    let hop = config.hop() as usize;
    let whole = |wave: &&[f32]| wave.len() / hop * hop;
    let longest = waves.iter().map(whole).max().unwrap_or(0);
    let mut samples = Vec::with_capacity(waves.len() * longest);
    for wave in waves {
        samples.extend_from_slice(&wave[..whole(wave)]);
        samples.resize(samples.len() + longest - whole(wave), 0.0);
    }
    Tensor::from_slice(&samples).view([waves.len() as i64, longest as i64])
}

/// Clips of one batch with their texts.
#[derive(Debug)]
pub struct ClipTensors {
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

/// The sound of some clips on the device of the model.
struct Sounds {
    frames: Vec<i64>,
    /// [B, T * hop].
    waves: Tensor,
}

impl ClipTensors {
    /// Clips from their texts and waves, which are cut to whole frames. Each is analysed by itself:
    /// its own end is reflected, not the padding.
    pub fn new(
        model: &Vits,
        analysis: &Analysis,
        texts: Texts,
        waves: &[&[f32]],
        speakers: Option<Vec<i64>>,
    ) -> Result<ClipTensors, TorchError> {
        let hop = model.config.hop();
        let frames = waves.iter().map(|wave| wave.len() as i64 / hop).collect();
        let waves = upload(&padded(waves, &model.config), model.device);
        let sounds = Sounds { frames, waves };
        let linears = (0..sounds.frames.len()).map(|row| sounds.linear(row, model, analysis));
        let linears: Vec<Tensor> = linears.collect::<Result<_, TorchError>>()?;
        ClipTensors::of(model, texts, sounds, &linears, speakers)
    }

    /// The same from linear spectrograms [bins, T].
    fn of(
        model: &Vits,
        texts: Texts,
        sounds: Sounds,
        linears: &[Tensor],
        speakers: Option<Vec<i64>>,
    ) -> Result<ClipTensors, TorchError> {
        let Sounds { frames, waves } = sounds;
        let (rows, of_texts) = (frames.len() as i64, texts.lengths.len() as i64);
        if rows != of_texts || speakers.as_ref().is_some_and(|known| known.len() as i64 != rows) {
            return Err(TorchError::Input(format!("{rows} waves for {of_texts} texts")));
        }
        let longest = frames.iter().copied().max().unwrap_or(0);
        let size = [rows, model.config.spectrogram_bins, longest];
        let spectrograms = Tensor::zeros(size, (Kind::Float, model.device));
        for (row, (linear, count)) in (0..).zip(linears.iter().zip(&frames)) {
            spectrograms.select(0, row).narrow(1, 0, *count).copy_(linear);
        }
        let mask = mask(&frames, model.device);
        let keys = (0..rows as u64).collect();
        Ok(ClipTensors { texts, spectrograms, mask, frames, waves, speakers, keys })
    }
}

impl Sounds {
    /// The linear spectrogram of a clip: [bins, T]. Refuses waves that are shorter than the segment.
    fn linear(&self, row: usize, model: &Vits, analysis: &Analysis) -> Result<Tensor, TorchError> {
        let (frames, part) = (self.frames[row], model.config.segment_frames());
        if frames < part {
            return Err(TorchError::Input(format!(
                "the clip has {frames} frames, but training needs at least {part}"
            )));
        }
        let whole = self.waves.narrow(0, row as i64, 1);
        let whole = whole.narrow(1, 0, frames * model.config.hop());
        Ok(analysis.linear(&whole)?.squeeze_dim(0))
    }
}
