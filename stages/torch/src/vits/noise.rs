//! The model's noise: from a seed for each text, or recorded.

use std::collections::VecDeque;
use std::f64::consts::TAU;

use tch::{Device, Tensor};

use crate::error::TorchError;
use crate::random::{Random, scramble};

/// Numbers of a standard normal distribution.
pub trait NormalNoise {
    /// Numbers of shape [B, C, L], f32 on the CPU. The model draws in a fixed order.
    fn draw(&mut self, shape: [i64; 3]) -> Result<Tensor, TorchError>;
}

/// A generator for each row. A row's noise depends on its seed and on the position alone, not on
/// the length of other rows.
#[derive(Debug)]
pub struct Seeded {
    seeds: Vec<u64>,
    draws: u64,
}

impl Seeded {
    pub fn new(seeds: Vec<u64>) -> Seeded {
        Seeded { seeds, draws: 0 }
    }
}

impl NormalNoise for Seeded {
    fn draw(&mut self, [rows, channels, length]: [i64; 3]) -> Result<Tensor, TorchError> {
        if rows != self.seeds.len() as i64 {
            let seeds = self.seeds.len();
            return Err(TorchError::Input(format!("{seeds} seeds for {rows} texts")));
        }
        self.draws += 1;
        let mut values = Vec::with_capacity((rows * channels * length) as usize);
        for seed in &self.seeds {
            let mut random = Random::new(scramble(seed ^ scramble(self.draws)));
            values.extend((0..channels * length).map(|_| normal(&mut random)));
        }
        // Column by column, so that longer rows only extend the noise.
        let columns = Tensor::f_from_slice(&values)?.f_view([rows, length, channels])?;
        Ok(columns.f_transpose(1, 2)?.f_contiguous()?)
    }
}

/// The Box-Muller method.
fn normal(random: &mut Random) -> f32 {
    let radius = (-2.0 * (1.0 - random.fraction()).ln()).sqrt();
    (radius * (TAU * random.fraction()).cos()) as f32
}

/// Recorded noise, in drawing order.
#[derive(Debug, Default)]
pub struct Recorded(VecDeque<Tensor>);

impl Recorded {
    pub fn new(draws: impl IntoIterator<Item = Tensor>) -> Recorded {
        Recorded(draws.into_iter().collect())
    }
}

impl NormalNoise for Recorded {
    fn draw(&mut self, shape: [i64; 3]) -> Result<Tensor, TorchError> {
        let noise = self.0.pop_front();
        let noise = noise.ok_or_else(|| TorchError::Input("there is no more noise".into()))?;
        match noise.size() == shape {
            true => Ok(noise.f_to_device(Device::Cpu)?),
            false => Err(TorchError::Input(format!(
                "the noise is {:?}, and {shape:?} is asked for",
                noise.size()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Kind;

    use super::*;

    #[test]
    fn a_rows_noise_is_its_own() {
        let both = Seeded::new(vec![3, 9]).draw([2, 4, 10]).unwrap();
        let alone = Seeded::new(vec![9]).draw([1, 4, 6]).unwrap();
        assert_eq!(both.narrow(0, 1, 1).narrow(2, 0, 6).contiguous(), alone);
        assert!(both.get(0) != both.get(1));
    }

    #[test]
    fn each_draw_is_another_one() {
        let mut noise = Seeded::new(vec![3]);
        assert!(noise.draw([1, 1, 8]).unwrap() != noise.draw([1, 1, 8]).unwrap());
        assert!(noise.draw([2, 1, 8]).is_err());
    }

    #[test]
    fn the_distribution_is_the_standard_one() {
        let noise = Seeded::new(vec![1]).draw([1, 100, 1000]).unwrap();
        let moment =
            |power: f64| noise.pow_tensor_scalar(power).mean(Kind::Double).double_value(&[]);
        // Six standard deviations of the means of 100,000 draws.
        assert!(moment(1.0).abs() < 0.02 && (moment(2.0) - 1.0).abs() < 0.03);
        assert!((moment(4.0) - 3.0).abs() < 0.2);
    }
}
