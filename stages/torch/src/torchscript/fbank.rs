//! Filter banks as Kaldi computes them by default for speakers: 80 bands, frames of 25 ms each 10 ms,
//! a Hamming window, no dither, and the mean over time removed.

use tch::{Kind, Tensor};

use crate::error::TorchError;

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
pub fn fbank(samples: &[f32], rate: u32) -> Result<Tensor, TorchError> {
    let (frame, shift) = (frame(rate) as i64, (f64::from(rate) * 0.010) as i64);
    let width = (frame as u64).next_power_of_two() as i64;
    let wave = Tensor::f_from_slice(samples)?.f_mul_scalar(FULL_SCALE)?;
    // T frames by samples.
    let frames = wave.f_unfold(0, frame, shift)?;
    let frames = frames.f_sub(&frames.f_mean_dim([1].as_slice(), true, Kind::Float)?)?;
    let before = Tensor::f_cat(&[frames.f_narrow(1, 0, 1)?, frames.f_narrow(1, 0, frame - 1)?], 1)?;
    let frames = frames.f_sub(&before.f_mul_scalar(PREEMPHASIS)?)?;
    let frames = frames.f_mul(&hamming(frame)?)?.f_constant_pad_nd([0, width - frame])?;
    // T frames by frequencies.
    let power = frames.f_fft_rfft(None, -1, "backward")?.f_abs()?.f_square()?;
    let bands = power.f_matmul(&banks(rate, width)?)?;
    let logs = bands.f_clamp_min(f64::from(f32::EPSILON))?.f_log()?;
    let mean = logs.f_mean_dim([0].as_slice(), true, Kind::Float)?;
    Ok(logs.f_sub(&mean)?.f_unsqueeze(0)?)
}

fn hamming(frame: i64) -> Result<Tensor, TorchError> {
    let turn = std::f64::consts::TAU / (frame - 1).max(1) as f64;
    let value = |at: i64| (0.54 - 0.46 * (turn * at as f64).cos()) as f32;
    Ok(Tensor::f_from_slice(&(0..frame).map(value).collect::<Vec<_>>())?)
}

/// Triangles on the mel scale, frequencies by bands.
fn banks(rate: u32, width: i64) -> Result<Tensor, TorchError> {
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
        (0..BANDS).map(move |band| match frequency == width / 2 {
            true => 0.0,
            false => weight(frequency, band),
        })
    };
    let values: Vec<f32> = (0..=width / 2).flat_map(row).collect();
    Ok(Tensor::f_from_slice(&values)?.f_reshape([width / 2 + 1, BANDS as i64])?)
}
