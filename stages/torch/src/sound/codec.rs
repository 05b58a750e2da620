//! The interface of codecs: waves to codes and back, for models of any kind.

use crate::error::TorchError;
use crate::runtime::budget::MemoryBudget;

/// The properties of a codec that users of its codes need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecFormat {
    /// Sample rate of the waves.
    pub rate: u32,
    /// The number of entries of each codebook.
    pub entries: Vec<usize>,
    /// Samples per frame of codes.
    pub hop: usize,
}

/// The codes of one clip: `codebooks` rows of `frames` each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    pub codebooks: usize,
    pub frames: usize,
    pub values: Vec<u16>,
}

/// A model that encodes waves to codes and decodes codes to waves.
///
/// A clip's codes depend on the clip alone: not on its batch, nor on padding, nor on threads.
pub trait Codec: Send + Sync {
    fn format(&self) -> CodecFormat;

    /// The number of frames for this number of samples.
    fn frames(&self, samples: usize) -> usize;

    /// The longest wave in samples.
    fn longest(&self) -> Option<usize> {
        None
    }

    /// Tests if several threads that share it are faster than one.
    fn gains_by_threads(&self) -> bool {
        true
    }

    /// The budget of its batches, if it uses any.
    fn budget(&self) -> Option<&MemoryBudget> {
        None
    }

    /// The codes of each wave, in order. Waves are mono, at the codec's rate.
    fn encode(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError>;

    /// A wave of `frames * hop` samples. Free choices of a codec are drawn from the seed.
    fn decode(&self, codes: &Codes, seed: u64) -> Result<Vec<f32>, TorchError>;
}

impl Codes {
    /// Refuses codes that this codec cannot have made.
    pub fn check(&self, format: &CodecFormat) -> Result<(), TorchError> {
        let codebooks = format.entries.len();
        if self.codebooks != codebooks {
            return Err(TorchError::Input(format!(
                "the tokens have {} codebooks, but the codec has {codebooks}",
                self.codebooks
            )));
        }
        if self.values.len() != self.codebooks * self.frames || self.frames == 0 {
            return Err(TorchError::Input(format!(
                "the tokens do not have {} frames",
                self.frames
            )));
        }
        for (at, (row, entries)) in self.values.chunks(self.frames).zip(&format.entries).enumerate()
        {
            if let Some(code) = row.iter().find(|code| usize::from(**code) >= *entries) {
                return Err(TorchError::Input(format!(
                    "the tokens of codebook {at} have the code {code}, expected less than {entries}"
                )));
            }
        }
        Ok(())
    }
}
