//! A recording in memory: sample rate, channels, interleaved samples.

use std::ops::Range;

/// A decoded recording. `samples` has whole frames, channels interleaved.
#[derive(Debug, Clone, PartialEq)]
pub struct Clip {
    pub rate: u32,
    pub channels: u16,
    pub samples: Samples,
}

/// Samples as exact as their source: 16-bit sources stay integers, so that they do not change;
/// finer ones are floats with full scale at 1 until they are rounded.
#[derive(Debug, Clone, PartialEq)]
pub enum Samples {
    Pcm(Vec<i16>),
    Wide(Vec<f32>),
}

impl Samples {
    pub fn len(&self) -> usize {
        match self {
            Self::Pcm(samples) => samples.len(),
            Self::Wide(samples) => samples.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps these existing samples, and drops the others.
    pub fn keep(&mut self, range: Range<usize>) {
        match self {
            Self::Pcm(samples) => cut(samples, range),
            Self::Wide(samples) => cut(samples, range),
        }
    }

    /// Takes the samples from `at` on out.
    pub fn split_off(&mut self, at: usize) -> Samples {
        match self {
            Self::Pcm(samples) => Self::Pcm(samples.split_off(at)),
            Self::Wide(samples) => Self::Wide(samples.split_off(at)),
        }
    }

    /// Adds samples. Integers next to finer ones become floats.
    pub fn append(&mut self, other: Samples) {
        match (&mut *self, other) {
            (Self::Pcm(samples), Self::Pcm(other)) => samples.extend(other),
            (Self::Wide(samples), other) => samples.extend(other.into_wide()),
            (Self::Pcm(samples), other @ Self::Wide(_)) => {
                let mut wide = Self::Pcm(std::mem::take(samples)).into_wide();
                wide.extend(other.into_wide());
                *self = Self::Wide(wide);
            }
        }
    }

    /// The samples as floats. Every integer has an exact one.
    pub fn into_wide(self) -> Vec<f32> {
        match self {
            Self::Pcm(samples) => {
                samples.into_iter().map(|sample| f32::from(sample) / 32_768.0).collect()
            }
            Self::Wide(samples) => samples,
        }
    }

    /// The samples as 16-bit integers, and the number of clipped ones. Finer samples are only
    /// rounded here: to the nearest, without dither.
    pub fn into_pcm(self) -> (Vec<i16>, u64) {
        match self {
            Self::Pcm(samples) => (samples, 0),
            Self::Wide(samples) => {
                let mut clipped = 0;
                let rounded =
                    samples.iter().map(|&sample| round(f64::from(sample), &mut clipped)).collect();
                (rounded, clipped)
            }
        }
    }
}

impl Clip {
    pub fn mono(rate: u32, samples: Vec<i16>) -> Self {
        Self { rate, channels: 1, samples: Samples::Pcm(samples) }
    }

    pub fn frames(&self) -> usize {
        self.samples.len() / usize::from(self.channels.max(1))
    }

    pub fn seconds(&self) -> f64 {
        self.frames() as f64 / f64::from(self.rate.max(1))
    }

    /// Keeps these existing frames, and drops the others.
    pub fn keep(&mut self, frames: Range<usize>) {
        let channels = usize::from(self.channels);
        self.samples.keep(frames.start * channels..frames.end * channels);
    }

    /// The clip as 16-bit samples, and the number of clipped samples.
    pub fn into_pcm(self) -> (Vec<i16>, u64) {
        self.samples.into_pcm()
    }
}

fn cut<T>(samples: &mut Vec<T>, range: Range<usize>) {
    samples.truncate(range.end);
    samples.drain(..range.start);
}

/// One sample to 16 bits, halves away from zero. `clipped` counts samples out of range.
#[inline]
pub(super) fn round(sample: f64, clipped: &mut u64) -> i16 {
    let scaled = sample * 32_768.0;
    // Full scale itself (+1.0) is one step above the largest integer: not a distortion.
    *clipped += u64::from(scaled.abs() > 32_768.5);
    // Truncation after adding a half: `f64::round` is a function call on plain x86-64.
    let rounded = (scaled + 0.5_f64.copysign(scaled)) as i32;
    rounded.clamp(-32_768, 32_767) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(value: f64) -> (i16, u64) {
        let mut clipped = 0;
        (round(value, &mut clipped), clipped)
    }

    #[test]
    fn every_16_bit_value_survives_the_way_through_floats() {
        for sample in i16::MIN..=i16::MAX {
            assert_eq!(rounded(f64::from(sample) / 32_768.0), (sample, 0));
        }
    }

    #[test]
    fn halves_go_away_from_zero_and_the_rest_to_the_nearest() {
        let step = 1.0 / 32_768.0;
        for (value, wanted) in [(0.5, 1), (-0.5, -1), (1.5, 2), (1.4, 1), (-1.6, -2), (0.4, 0)] {
            assert_eq!(rounded(value * step).0, wanted, "{value}");
        }
    }

    #[test]
    fn what_lies_outside_is_clipped_and_counted_but_not_full_scale_itself() {
        assert_eq!(rounded(1.0), (32_767, 0));
        assert_eq!(rounded(-1.0), (-32_768, 0));
        assert_eq!(rounded(1.001), (32_767, 1));
        assert_eq!(rounded(-1e30), (-32_768, 1));
    }
}
