//! What a codec is: waves to codes and back. Models of any kind stand behind it.

use crate::error::TorchError;

/// The figures of a codec that those who use its codes must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecFormat {
    /// Samples a second of the waves.
    pub rate: u32,
    pub codebooks: usize,
    /// Codes are below this.
    pub entries: usize,
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

    /// The codes of each wave, in order. Waves are mono, at the codec's rate.
    fn encode(&self, waves: &[&[f32]]) -> Result<Vec<Codes>, TorchError>;

    /// A wave of `frames * hop` samples. What a codec leaves open is drawn from the seed.
    fn decode(&self, codes: &Codes, seed: u64) -> Result<Vec<f32>, TorchError>;
}

impl Codes {
    /// Refuses codes that this codec cannot have made.
    pub fn check(&self, format: &CodecFormat) -> Result<(), TorchError> {
        if self.codebooks != format.codebooks {
            return Err(TorchError::Input(format!(
                "the tokens have {} codebooks, the codec has {}",
                self.codebooks, format.codebooks
            )));
        }
        if self.values.len() != self.codebooks * self.frames || self.frames == 0 {
            return Err(TorchError::Input(format!("no tokens of {} frames", self.frames)));
        }
        match self.values.iter().find(|code| usize::from(**code) >= format.entries) {
            Some(code) => Err(TorchError::Input(format!(
                "code {code} in the tokens, the codec has codes below {}",
                format.entries
            ))),
            None => Ok(()),
        }
    }
}
