//! Filter banks as Kaldi computes them by default for speakers: 80 bands, frames of 25 ms each 10 ms,
//! a Hamming window, no dither, and the mean over time removed.

use tch::{Kind, Tensor};

const BANDS: usize = 80;
/// The lowest band, in hertz; the highest one ends at half the sample rate.
const LOWEST: f64 = 20.0;
const PREEMPHASIS: f64 = 0.97;
/// Kaldi's samples are 16-bit integers.
const FULL_SCALE: f64 = 32_768.0;

/// The samples of one frame.
pub fn frame(rate: u32) -> usize {
    (f64::from(rate) * 0.025) as usize
}

/// `[1, frames, 80]` of at least one frame of samples.
pub fn fbank(samples: &[f32], rate: u32) -> Tensor {
    let (frame, shift) = (frame(rate) as i64, (f64::from(rate) * 0.010) as i64);
    let width = (frame as u64).next_power_of_two() as i64;
    let wave = Tensor::from_slice(samples) * FULL_SCALE;
    // T frames by samples.
    let frames = wave.unfold(0, frame, shift);
    let frames = &frames - frames.mean_dim([1].as_slice(), true, Kind::Float);
    let before = Tensor::cat(&[frames.narrow(1, 0, 1), frames.narrow(1, 0, frame - 1)], 1);
    let frames = frames - before * PREEMPHASIS;
    let frames = (frames * hamming(frame)).constant_pad_nd([0, width - frame]);
    // T frames by frequencies.
    let power = frames.fft_rfft(None, -1, "backward").abs().square();
    let bands = power.matmul(&banks(rate, width));
    let logs = bands.clamp_min(f64::from(f32::EPSILON)).log();
    let mean = logs.mean_dim([0].as_slice(), true, Kind::Float);
    (logs - mean).unsqueeze(0)
}

fn hamming(frame: i64) -> Tensor {
    let turn = std::f64::consts::TAU / (frame - 1).max(1) as f64;
    let value = |at: i64| (0.54 - 0.46 * (turn * at as f64).cos()) as f32;
    Tensor::from_slice(&(0..frame).map(value).collect::<Vec<_>>())
}

/// Triangles on the mel scale, frequencies by bands.
fn banks(rate: u32, width: i64) -> Tensor {
    let mel = |hertz: f64| 1127.0 * (1.0 + hertz / 700.0).ln();
    let (low, high) = (mel(LOWEST), mel(f64::from(rate) / 2.0));
    let step = (high - low) / (BANDS + 1) as f64;
    let weight = |frequency: i64, band: usize| {
        let at = (mel(frequency as f64 * f64::from(rate) / width as f64) - low) / step;
        let (rising, falling) = (at - band as f64, band as f64 + 2.0 - at);
        rising.min(falling).max(0.0) as f32
    };
    // The last frequency is that of no band.
    let row = |frequency: i64| {
        (0..BANDS)
            .map(move |band| if frequency == width / 2 { 0.0 } else { weight(frequency, band) })
    };
    let values: Vec<f32> = (0..=width / 2).flat_map(row).collect();
    Tensor::from_slice(&values).reshape([width / 2 + 1, BANDS as i64])
}
