//! The frames of pitch and cepstra: both begin at the same samples, so that frame n of one is frame
//! n of the other.

use crate::audio::resample::resample;
use crate::audio::{Clip, Fault};

/// Recordings of any rate are compared at this one, in hertz.
pub const RATE: u32 = 16_000;

/// Samples from one frame to the next: 10 ms.
pub const HOP: usize = 160;

/// Samples of a frame: 25 ms.
pub const LENGTH: usize = 400;

/// The samples of a clip of one channel at `RATE`, full scale at 1.
pub fn samples(clip: Clip) -> Result<Vec<f64>, Fault> {
    let (samples, _) = resample(clip, RATE)?.clip.into_pcm();
    Ok(samples.into_iter().map(|sample| f64::from(sample) / 32_768.0).collect())
}

/// The number of frames in this number of samples: only complete ones, and at least one.
pub fn count(samples: usize) -> usize {
    samples.saturating_sub(LENGTH) / HOP + 1
}

/// `length` samples from the start of a frame on, padded with zeros.
pub fn read(samples: &[f64], frame: usize, length: usize) -> Vec<f64> {
    let from = (frame * HOP).min(samples.len());
    let to = (from + length).min(samples.len());
    let mut read = samples[from..to].to_vec();
    read.resize(length, 0.0);
    read
}
