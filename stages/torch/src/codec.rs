//! What a codec is: waves to codes and back. Models of any kind stand behind it.

use crate::budget::Budget;
use crate::error::TorchError;

/// The figures of a codec that those who use its codes must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecFormat {
    /// Samples a second of the waves.
    pub rate: u32,
    /// For each codebook, what its codes are below.
    pub entries: Vec<usize>,
    /// Samples that one frame of codes stands for.
    pub hop: usize,
}

/// The codes of one clip: `codebooks` rows of `frames` each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    pub codebooks: usize,
    pub frames: usize,
    pub values: Vec<u16>,
}

/// A model that turns waves into codes and codes into waves.
///
/// A clip's codes depend on the clip alone: not on its batch, nor on padding, nor on threads.
pub trait Codec: Send + Sync {
    fn format(&self) -> CodecFormat;

    /// How many frames so many samples become.
    fn frames(&self, samples: usize) -> usize;

    /// The most samples that a wave may have.
    fn longest(&self) -> Option<usize> {
        None
    }

    /// Whether several threads that share it get more done than one.
    fn gains_by_threads(&self) -> bool {
        true
    }

    /// What batches are planned by, where the codec makes some.
    fn budget(&self) -> Option<&Budget> {
        None
    }

    /// The codes of each wave, in order. Waves are mono, at the codec's rate.
    fn encode(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError>;

    /// A wave of `frames * hop` samples. What a codec leaves open is drawn from the seed.
    fn decode(&self, codes: &Codes, seed: u64) -> Result<Vec<f32>, TorchError>;
}

impl Codes {
    /// Refuses codes that this codec cannot have made.
    pub fn check(&self, format: &CodecFormat) -> Result<(), TorchError> {
        let codebooks = format.entries.len();
        if self.codebooks != codebooks {
            return Err(TorchError::Input(format!(
                "the tokens have {} codebooks, the codec has {codebooks}",
                self.codebooks
            )));
        }
        if self.values.len() != self.codebooks * self.frames || self.frames == 0 {
            return Err(TorchError::Input(format!("no tokens of {} frames", self.frames)));
        }
        for (at, (row, entries)) in self.values.chunks(self.frames).zip(&format.entries).enumerate()
        {
            if let Some(code) = row.iter().find(|code| usize::from(**code) >= *entries) {
                return Err(TorchError::Input(format!(
                    "code {code} in the tokens of codebook {at}, where the codec has codes \
                     below {entries}"
                )));
            }
        }
        Ok(())
    }
}
