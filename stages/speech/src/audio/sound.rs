//! Checks that floating-point samples are plausible.

use super::clip::Samples;
use super::fault::Fault;

/// Beyond this many times full scale a sample is damage, or integers stored as floats.
pub const BOUND: f32 = 16.0;

/// Counts implausible samples, packet by packet.
#[derive(Debug, Default)]
pub struct Census {
    total: u64,
    nan: u64,
    infinite: u64,
    huge: u64,
    first: Option<u64>,
}

impl Census {
    pub fn count(&mut self, samples: &Samples) {
        let Samples::Wide(samples) = samples else {
            self.total += samples.len() as u64;
            return;
        };
        // The common case is one comparison per sample, which the compiler vectorises; NaN fails it
        // too.
        let sound = |sample: &f32| sample.abs() <= BOUND;
        if samples.iter().filter(|sample| sound(sample)).count() != samples.len() {
            self.inspect(samples);
        }
        self.total += samples.len() as u64;
    }

    fn inspect(&mut self, samples: &[f32]) {
        for (index, sample) in samples.iter().enumerate() {
            if sample.is_nan() {
                self.nan += 1;
            } else if sample.is_infinite() {
                self.infinite += 1;
            } else if sample.abs() > BOUND {
                self.huge += 1;
            } else {
                continue;
            }
            self.first.get_or_insert(self.total + index as u64);
        }
    }

    pub fn verdict(&self) -> Result<(), Fault> {
        let Some(first) = self.first else {
            return Ok(());
        };
        Err(Fault::NotSound {
            count: self.nan + self.infinite + self.huge,
            total: self.total,
            nan: self.nan,
            infinite: self.infinite,
            huge: self.huge,
            bound: BOUND,
            first,
        })
    }
}

/// The number of samples that 16 bits will clip.
pub fn beyond_full_scale(samples: &[f32]) -> u64 {
    samples.iter().filter(|sample| sample.abs() > 1.0).count() as u64
}
