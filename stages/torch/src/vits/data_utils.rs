//! Clips of a micro-batch: from recordings on the CPU to tensors on the device of the model.

use bytes::Bytes;
use tch::{Kind, Tensor};

use super::mel_processing::{self, Analysis};
use super::models::{Texts, Vits};
use crate::conv::mask;
use crate::error::TorchError;

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

#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub clips: Vec<Recording>,
    /// Samples per frame.
    pub hop: i64,
}

impl Batch {
    /// The number of tokens and frames of all clips.
    pub fn lengths(&self) -> [u64; 2] {
        let tokens = self.clips.iter().map(|clip| clip.tokens.len() as u64).sum();
        let frames = self.clips.iter().map(|clip| clip.wave.len() as u64 / self.hop.max(1) as u64);
        [tokens, frames.sum()]
    }

    /// On the device of the model.
    pub(super) fn place(&self, model: &Vits, analysis: &Analysis) -> Result<Clips, TorchError> {
        let texts: Vec<Vec<i64>> = self.clips.iter().map(|clip| clip.tokens.clone()).collect();
        let sounds = self.clips.iter().map(|clip| clip.sound(model, analysis));
        let sounds: Vec<Sound<'_>> = sounds.collect::<Result<_, _>>()?;
        let speakers: Option<Vec<i64>> = self.clips.iter().map(|clip| clip.speaker).collect();
        let clips = Clips::of(model, model.texts(&texts)?, &sounds, speakers)?;
        Ok(Clips { keys: self.clips.iter().map(|clip| clip.key).collect(), ..clips })
    }
}

impl Recording {
    fn sound(&self, model: &Vits, analysis: &Analysis) -> Result<Sound<'_>, TorchError> {
        let Some(bytes) = &self.spectrogram else {
            return Sound::of(&self.wave, model, analysis);
        };
        let linear = mel_processing::read(bytes, &model.config)?;
        let (own, frames) = (linear.size()[1], self.wave.len() as i64 / model.config.hop());
        match own == frames {
            true => Ok(Sound { wave: &self.wave, linear }),
            false => Err(TorchError::Input(format!(
                "a spectrogram of {own} frames beside a clip of {frames}: it is of other audio"
            ))),
        }
    }
}

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
