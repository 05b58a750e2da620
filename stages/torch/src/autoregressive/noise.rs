//! The random numbers for drawing frames.

use tch::{Device, Kind, Tensor};

use super::line::Line;
use crate::nn::counter;
use crate::nn::random::Random;

/// Numbers from the exponential distribution of mean 1, for one row.
pub trait Noise {
    /// One number for each of `count` entries. `places` are their vocabulary ids if these are not
    /// contiguous.
    fn exponentials(&mut self, count: i64, places: Option<&[i64]>) -> Vec<f32>;

    /// The state of the generator before the first number, if the numbers are those of [`Random`],
    /// which a device can compute.
    fn state(&self) -> Option<u64> {
        None
    }
}

/// The same noise for the same seed, on every device and in every batch.
#[derive(Clone, Debug)]
pub struct SeededNoise(Random);

impl SeededNoise {
    pub fn new(seed: u64) -> SeededNoise {
        SeededNoise(Random::new(seed))
    }
}

impl Noise for SeededNoise {
    fn exponentials(&mut self, count: i64, _: Option<&[i64]>) -> Vec<f32> {
        // Never zero, which would always win.
        let draw = |_| (-(1.0 - self.0.fraction()).ln()).max(1e-12) as f32;
        (0..count).map(draw).collect()
    }

    fn state(&self) -> Option<u64> {
        Some(self.0.state())
    }
}

/// The noise of some rows, computed on their device: the numbers that [`SeededNoise`] would draw.
#[derive(Debug)]
pub(super) struct OnDevice {
    /// [B, 1] each: the states, the numbers drawn before this frame, the shortest lengths.
    states: Tensor,
    drawn: Tensor,
    least: Tensor,
    /// The position of each entry among the numbers of a frame, and the count of end tokens before
    /// it, which take no number while they are not allowed: [1, entries].
    places: Tensor,
    ends_before: Tensor,
    ends: i64,
}

impl OnDevice {
    pub fn new(states: &[u64], least: &[usize], lines: &[Line], device: Device) -> OnDevice {
        let mut before = Vec::new();
        let mut ends = 0;
        for line in lines {
            let part = Tensor::full([1, line.entries], ends, (Kind::Int64, device));
            before.push(part);
            ends += i64::from(line.ends);
        }
        let least: Vec<u64> = least.iter().map(|least| *least as u64).collect();
        let states = counter::states(states, device);
        OnDevice {
            drawn: states.zeros_like(),
            states,
            least: counter::states(&least, device),
            places: counter::places(lines.iter().map(|line| line.entries).sum(), device),
            ends_before: Tensor::cat(&before, 1),
            ends,
        }
    }

    /// The noise of a frame, [B, entries], and true for rows that may not end, [B, 1].
    pub fn next(&mut self, frame: usize) -> (Tensor, Tensor) {
        let unending = self.least.gt(frame as i64);
        let missing = unending.to_kind(Kind::Int64);
        let places = &self.places - &self.ends_before * &missing + &self.drawn;
        self.drawn = &self.drawn + self.places.size()[1] - missing * self.ends;
        (counter::exponentials(&self.states, &places), unending)
    }

    /// Keeps only these rows.
    pub fn keep(&mut self, rows: &Tensor) {
        for kept in [&mut self.states, &mut self.drawn, &mut self.least] {
            *kept = kept.index_select(0, rows);
        }
    }
}
