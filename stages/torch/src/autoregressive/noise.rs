//! The random numbers for drawing frames.

use crate::random::Random;

/// Numbers from the exponential distribution of mean 1, for one row.
pub trait Noise {
    /// One number for each of `count` entries. `places` are their vocabulary ids if these are not
    /// contiguous.
    fn exponentials(&mut self, count: i64, places: Option<&[i64]>) -> Vec<f32>;
}

/// The same noise for the same seed, on every device and in every batch.
#[derive(Clone, Debug)]
pub struct Seeded(Random);

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        Seeded(Random::new(seed))
    }
}

impl Noise for Seeded {
    fn exponentials(&mut self, count: i64, _: Option<&[i64]>) -> Vec<f32> {
        // Never zero, which would always win.
        let draw = |_| (-(1.0 - self.0.fraction()).ln()).max(1e-12) as f32;
        (0..count).map(draw).collect()
    }
}
