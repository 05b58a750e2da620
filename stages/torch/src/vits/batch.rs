//! Clips of a micro-batch, on the CPU.

use bytes::Bytes;

use super::cached;
use super::model::Vits;
use super::spectrogram::Analysis;
use super::training::{Clips, Sound};
use crate::error::TorchError;

/// A training clip.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Determines its noise, independent of other clips.
    pub key: u64,
    pub tokens: Vec<i64>,
    pub wave: Vec<f32>,
    /// In the format of [`cached`]; computed if it is missing.
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
        let linear = cached::read(bytes, &model.config)?;
        let (own, frames) = (linear.size()[1], self.wave.len() as i64 / model.config.hop());
        match own == frames {
            true => Ok(Sound { wave: &self.wave, linear }),
            false => Err(TorchError::Input(format!(
                "a spectrogram of {own} frames beside a clip of {frames}: it is of other audio"
            ))),
        }
    }
}
