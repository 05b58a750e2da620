//! Checks if an array can be the tokens of a recording: its shape, its values and its length.

use stage_formats::npy::IntArray;

/// The sizes of a codec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecSizes {
    /// The sample rate of its input in hertz.
    pub rate: u64,
    /// Samples per frame at that rate.
    pub hop: u64,
    pub codebooks: u64,
    /// The number of entries of the first codebook.
    pub first_entries: u64,
    /// The number of entries of each other codebook.
    pub entries: u64,
}

/// The length of a recording, at its own rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    pub samples: u64,
    pub rate: u64,
}

/// The reason why an array is not accepted as the tokens of a recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("the tokens have the shape {shape:?}, not {codebooks} codebooks by frames")]
    Shape { shape: Vec<u64>, codebooks: u64 },
    #[error(
        "codebook {codebook} has the token {token} in frame {frame}, but the largest of its \
         {entries} tokens is {}",
        entries.saturating_sub(1)
    )]
    Entry { codebook: u64, frame: u64, token: i64, entries: u64 },
    #[error(
        "the tokens have {found} frames, but the recording needs {needed}: they belong to another \
         recording"
    )]
    Frames { found: u64, needed: u64 },
}

impl Mismatch {
    /// A stable word for counting.
    pub fn code(&self) -> &'static str {
        match self {
            Mismatch::Shape { .. } => "token-shape",
            Mismatch::Entry { .. } => "token-range",
            Mismatch::Frames { .. } => "stale-tokens",
        }
    }
}

/// Tools round the length of resampled audio up or down, which moves the end by this much.
const TOLERANCE: u64 = 1;

impl CodecSizes {
    /// The number of frames in `tokens`, if they can be those of a recording of this length.
    pub fn check(&self, tokens: &IntArray, length: Length) -> Result<u64, Mismatch> {
        let shape = || Mismatch::Shape { shape: tokens.shape.clone(), codebooks: self.codebooks };
        let found = match tokens.shape[..] {
            [codebooks, frames] if codebooks == self.codebooks && frames > 0 => frames,
            _ => return Err(shape()),
        };
        let needed = self.frames(length);
        if found.abs_diff(needed) > TOLERANCE {
            return Err(Mismatch::Frames { found, needed });
        }
        self.check_entries(&tokens.values, found)?;
        Ok(found)
    }

    /// The number of frames of a recording of this length, including the last partial one.
    pub fn frames(&self, length: Length) -> u64 {
        let at_codec = u128::from(length.samples) * u128::from(self.rate);
        let frame = u128::from(length.rate.max(1)) * u128::from(self.hop.max(1));
        u64::try_from(at_codec.div_ceil(frame)).unwrap_or(u64::MAX)
    }

    fn check_entries(&self, values: &[i64], frames: u64) -> Result<(), Mismatch> {
        for (at, &token) in (0_u64..).zip(values) {
            let (codebook, frame) = (at / frames, at % frames);
            let entries = if codebook == 0 { self.first_entries } else { self.entries };
            if !u64::try_from(token).is_ok_and(|token| token < entries) {
                return Err(Mismatch::Entry { codebook, frame, token, entries });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The published codec of Fish Speech.
    const FISH: CodecSizes = CodecSizes {
        rate: 44_100,
        hop: 2_048,
        codebooks: 10,
        first_entries: 4_096,
        entries: 1_024,
    };

    fn tokens(frames: u64) -> IntArray {
        IntArray { shape: vec![10, frames], values: vec![0; 10 * frames as usize] }
    }

    fn length(samples: u64) -> Length {
        Length { samples, rate: 24_000 }
    }

    #[test]
    fn a_recording_fills_as_many_frames_as_the_extraction_of_fish_speech_gives_it() {
        // ceil(n * 44100 / 24000 / 2048), by hand for 1 s, and for the last sample of a frame
        // and the first of the next: 256 frames are 256 * 2048 * 24000 / 44100 = 285,326.8.
        for (samples, frames) in [(24_000, 22), (285_326, 256), (285_327, 257), (0, 0)] {
            assert_eq!(FISH.frames(length(samples)), frames, "{samples}");
        }
    }

    /// The published clip_0044 has tokens of 97 frames beside a recording that needs 106: the
    /// extraction had kept existing tokens unchecked.
    #[test]
    fn tokens_of_another_recording_are_found_by_their_length() {
        let recording = length(118_000);
        assert_eq!(FISH.frames(recording), 106);
        let mismatch = FISH.check(&tokens(97), recording).unwrap_err();
        assert_eq!(mismatch, Mismatch::Frames { found: 97, needed: 106 });
        for (frames, is_taken) in
            [(104, false), (105, true), (106, true), (107, true), (108, false)]
        {
            assert_eq!(FISH.check(&tokens(frames), recording).is_ok(), is_taken, "{frames}");
        }
    }

    #[test]
    fn another_shape_is_refused() {
        for shape in [vec![8, 106], vec![106, 10], vec![1_060], vec![10, 0], vec![1, 10, 106]] {
            let values = vec![0; shape.iter().product::<u64>() as usize];
            let array = IntArray { shape, values };
            assert_eq!(FISH.check(&array, length(118_000)).unwrap_err().code(), "token-shape");
        }
    }

    #[test]
    fn a_token_beyond_its_codebook_is_named() {
        for (codebook, token, is_taken) in [
            (0, 4_095, true),
            (0, 4_096, false),
            (9, 1_023, true),
            (9, 1_024, false),
            (3, -1, false),
        ] {
            let mut array = tokens(22);
            array.values[codebook as usize * 22 + 5] = token;
            let entries = if codebook == 0 { 4_096 } else { 1_024 };
            let wanted = if is_taken {
                Ok(22)
            } else {
                Err(Mismatch::Entry { codebook, frame: 5, token, entries })
            };
            assert_eq!(FISH.check(&array, length(24_000)), wanted, "{codebook} {token}");
        }
    }
}
