//! Bandwidth and flatness of the spectrum of a recording. Telephone speech that was resampled to a
//! high rate has an empty upper half, and a model trained on it sounds dull.

use stage_signal::Transform;
use std::cell::RefCell;

/// Samples of one transform.
const SIZE: usize = 1_024;

/// The largest number of analysed frames, evenly spread over the recording.
const FRAMES: usize = 64;

/// Frequencies at most this far below the strongest one count.
const BURIED_DB: f64 = 60.0;

/// The bandwidth of a spectrum, and its flatness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// The highest frequency within 60 dB of the strongest one.
    pub bandwidth_hz: f64,
    /// The frequency below which 99 % of the energy lies.
    pub rolloff_hz: f64,
    /// The geometric mean of the power by frequency over the arithmetic one: 1 if all frequencies
    /// are equally strong, as in white noise, and near 0 for a tone.
    pub flatness: f64,
}

/// The spectrum of the first channel; None for digital silence and for clips shorter than one
/// transform.
pub fn shape(interleaved: &[i16], channels: usize, rate: u32) -> Option<Shape> {
    let frames = interleaved.len() / channels;
    if frames < SIZE {
        return None;
    }
    let power = PLAN.with_borrow_mut(|plan| plan.power(interleaved, channels));
    let total: f64 = power.iter().sum();
    if total <= 0.0 {
        return None;
    }
    let bin_hz = f64::from(rate) / SIZE as f64;
    Some(Shape {
        bandwidth_hz: bandwidth(&power) as f64 * bin_hz,
        rolloff_hz: rolloff(&power, total) as f64 * bin_hz,
        flatness: flatness(&power[1..], total),
    })
}

fn bandwidth(power: &[f64]) -> usize {
    let strongest = power.iter().copied().fold(0.0, f64::max);
    let floor = strongest * 10_f64.powf(-BURIED_DB / 10.0);
    power.iter().rposition(|power| *power >= floor).unwrap_or(0)
}

fn flatness(power: &[f64], total: f64) -> f64 {
    /// Frequencies further below the mean count as this far below: the rounding to 16 bits
    /// dominates them.
    const LEAST: f64 = 1e-9;
    let mean = total / power.len() as f64;
    let logarithms: f64 = power.iter().map(|power| (power / mean).max(LEAST).ln()).sum();
    (logarithms / power.len() as f64).exp()
}

fn rolloff(power: &[f64], total: f64) -> usize {
    let mut below = 0.0;
    power
        .iter()
        .position(|power| {
            below += power;
            below >= 0.99 * total
        })
        .unwrap_or(power.len() - 1)
}

thread_local! {
    static PLAN: RefCell<FftPlan> = RefCell::new(FftPlan::new());
}

/// The transform and its window, one per thread.
struct FftPlan {
    transform: Transform,
    window: Vec<f64>,
}

impl FftPlan {
    fn new() -> Self {
        let turn = 2.0 * std::f64::consts::PI / SIZE as f64;
        Self {
            window: (0..SIZE).map(|at| 0.5 - 0.5 * (turn * at as f64).cos()).collect(),
            transform: Transform::new(SIZE),
        }
    }

    /// The summed power of the frames, by bin. Bin 0 is left out: an offset is not sound.
    fn power(&mut self, interleaved: &[i16], channels: usize) -> Vec<f64> {
        let mut power = vec![0.0; SIZE / 2 + 1];
        let frames = interleaved.len() / channels;
        let count = (frames / SIZE).min(FRAMES);
        for index in 0..count {
            let start = index * (frames / count);
            let samples = interleaved[start * channels..].iter().step_by(channels);
            let input = self.transform.input().iter_mut();
            for ((place, sample), weight) in input.zip(samples).zip(&self.window) {
                *place = f64::from(*sample) * weight;
            }
            for (sum, bin) in power.iter_mut().zip(self.transform.run()) {
                *sum += bin.norm_sqr();
            }
        }
        power[0] = 0.0;
        power
    }
}
