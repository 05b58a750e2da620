//! Random numbers that are the same everywhere, for ever: SplitMix64.
//!
//! libtorch's generator depends on the device and its release; inputs of a key must not.

use std::f64::consts::TAU;

use tch::Tensor;

/// The step from one state to the next.
pub const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The state: all later numbers follow from it (`crate::nn::counter`).
    pub fn state(&self) -> u64 {
        self.0
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        scramble(self.0)
    }

    /// Uniform in [0, 1).
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A normally distributed number with mean 0 and variance 1, by the Box-Muller method.
    pub fn gauss(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
        radius * (TAU * self.fraction()).cos()
    }

    /// A tensor of normally distributed numbers with mean zero, by the Box-Muller method.
    pub fn normal(&mut self, shape: &[i64], deviation: f64) -> Tensor {
        let count = shape.iter().product::<i64>() as usize;
        let mut values = Vec::with_capacity(count + 1);
        while values.len() < count {
            let radius = deviation * (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
            let (sine, cosine) = (TAU * self.fraction()).sin_cos();
            values.extend([(radius * cosine) as f32, (radius * sine) as f32]);
        }
        values.truncate(count);
        Tensor::from_slice(&values).view(shape)
    }
}

/// The output function of SplitMix64; also a good hash of a number.
pub fn scramble(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_comes_out() {
        let mut random = Random::new(1234567);
        let first: Vec<u64> = (0..3).map(|_| random.draw()).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }
}
