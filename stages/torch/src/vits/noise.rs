//! The model's noise: from a seed for each text, or recorded.
//!
//! A number follows from the seed, the draw and its position. So a GPU computes it by itself, and
//! several threads of a CPU share the work, with the same bits as one thread.

use std::collections::VecDeque;

use tch::{Device, Tensor};

use crate::error::TorchError;
use crate::nn::counter;
use crate::nn::random::{GAMMA, Random, scramble};
use crate::runtime::threads::spread_here;

/// Numbers of a standard normal distribution.
pub trait NormalNoise {
    /// Numbers of shape [B, C, L], f32 on a device. The model draws in a fixed order.
    fn draw(&mut self, shape: [i64; 3], device: Device) -> Result<Tensor, TorchError>;
}

/// A sequence for each row. A row's noise depends on its seed and on the position alone, not on the
/// length of other rows.
#[derive(Debug)]
pub struct SeededNormal {
    seeds: Vec<u64>,
    draws: u64,
}

impl SeededNormal {
    pub fn new(seeds: Vec<u64>) -> SeededNormal {
        SeededNormal { seeds, draws: 0 }
    }

    /// The states of the rows for the next draw.
    fn states(&mut self, rows: i64) -> Result<Vec<u64>, TorchError> {
        if rows != self.seeds.len() as i64 {
            let seeds = self.seeds.len();
            return Err(TorchError::Input(format!("{seeds} seeds for {rows} texts")));
        }
        self.draws += 1;
        let state = |seed: &u64| scramble(seed ^ scramble(self.draws));
        Ok(self.seeds.iter().map(state).collect())
    }
}

impl NormalNoise for SeededNormal {
    fn draw(
        &mut self,
        [rows, channels, length]: [i64; 3],
        device: Device,
    ) -> Result<Tensor, TorchError> {
        let states = self.states(rows)?;
        let flat = match device {
            Device::Cpu => Tensor::from_slice(&drawn_here(&states, channels * length)),
            device => drawn_there(&states, channels * length, device),
        };
        // Column by column, so that longer rows only extend the noise.
        Ok(flat.view([rows, length, channels]).transpose(1, 2).contiguous())
    }
}

/// The next `count` numbers of each state, on the device.
fn drawn_there(states: &[u64], count: i64, device: Device) -> Tensor {
    counter::normals(&counter::states(states, device), &counter::places(count, device))
}

/// The same on the host, by the threads that libtorch may use.
fn drawn_here(states: &[u64], count: i64) -> Vec<f32> {
    let count = count.max(0) as usize;
    let mut values = vec![0f32; states.len() * count];
    spread_here(&mut values, |first, part| {
        for (at, value) in (first..).zip(part) {
            // Each number takes two draws.
            let before = GAMMA.wrapping_mul(2 * (at % count) as u64);
            *value = Random::new(states[at / count].wrapping_add(before)).gauss() as f32;
        }
    });
    values
}

/// Recorded noise, in drawing order.
#[derive(Debug, Default)]
pub struct RecordedNormal(VecDeque<Tensor>);

impl RecordedNormal {
    pub fn new(draws: impl IntoIterator<Item = Tensor>) -> RecordedNormal {
        RecordedNormal(draws.into_iter().collect())
    }
}

impl NormalNoise for RecordedNormal {
    fn draw(&mut self, shape: [i64; 3], device: Device) -> Result<Tensor, TorchError> {
        let noise = self.0.pop_front();
        let noise = noise.ok_or_else(|| TorchError::Input("there is no more noise".into()))?;
        if noise.size() == shape {
            Ok(noise.to_device(device))
        } else {
            Err(TorchError::Input(format!(
                "the noise has the shape {:?}, expected {shape:?}",
                noise.size()
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Kind;

    use super::*;

    const CPU: Device = Device::Cpu;

    #[test]
    fn a_rows_noise_is_its_own() {
        let both = SeededNormal::new(vec![3, 9]).draw([2, 4, 10], CPU).unwrap();
        let alone = SeededNormal::new(vec![9]).draw([1, 4, 6], CPU).unwrap();
        assert_eq!(both.narrow(0, 1, 1).narrow(2, 0, 6).contiguous(), alone);
        assert!(both.get(0) != both.get(1));
    }

    #[test]
    fn each_draw_is_another_one() {
        let mut noise = SeededNormal::new(vec![3]);
        assert!(noise.draw([1, 1, 8], CPU).unwrap() != noise.draw([1, 1, 8], CPU).unwrap());
        assert!(noise.draw([2, 1, 8], CPU).is_err());
    }

    /// One generator for each row, from its first number to its last.
    #[test]
    fn threads_draw_the_numbers_of_one_sequence() {
        let states = [5, u64::MAX];
        for count in [1, 7, 100_000] {
            let drawn = drawn_here(&states, count);
            let in_turn = states.iter().flat_map(|state| {
                let mut random = Random::new(*state);
                (0..count).map(|_| random.gauss() as f32).collect::<Vec<f32>>()
            });
            assert!(drawn.into_iter().eq(in_turn), "{count}");
        }
        assert!(drawn_here(&states, 0).is_empty());
    }

    #[test]
    fn a_device_draws_the_numbers_of_the_host() {
        let states = [5, 1234567, u64::MAX];
        let there = drawn_there(&states, 5_000, CPU).view(-1);
        let here = Tensor::from_slice(&drawn_here(&states, 5_000));
        // The logarithm and the cosine may differ in the last digit of f64.
        let far = (there - here).abs().max().double_value(&[]);
        assert!(far < 1e-6, "{far}");
    }

    #[test]
    fn the_distribution_is_the_standard_one() {
        let noise = SeededNormal::new(vec![1]).draw([1, 100, 1000], CPU).unwrap();
        let moment =
            |power: f64| noise.pow_tensor_scalar(power).mean(Kind::Double).double_value(&[]);
        // Six standard deviations of the means of 100,000 draws.
        assert!(moment(1.0).abs() < 0.02 && (moment(2.0) - 1.0).abs() < 0.03);
        assert!((moment(4.0) - 3.0).abs() < 0.2);
    }
}
