//! The measures of a recording in one pass over its samples, plus a spectrum of a bounded number of
//! frames. Sums are of integers, so that a measure is the same number on every machine.

use super::clip::{Clip, Samples};
use super::snr;
use super::spectrum;
use std::borrow::Cow;

/// The length of the frames for detecting silence.
const FRAME_SECONDS: f64 = 0.02;

/// Frames quieter than this count as silence.
pub const SILENCE_DBFS: f64 = -50.0;

/// The number of successive samples at full scale that count as clipping: fewer are normal peaks.
const CLIPPED_RUN: u64 = 3;

/// The measures. One is None if the recording is unsuitable for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    pub seconds: f64,
    pub peak_dbfs: f64,
    pub rms_dbfs: f64,
    /// Runs of samples at full scale.
    pub clipped_runs: u64,
    /// The share of samples inside such runs.
    pub clipped_share: f64,
    /// The mean sample, full scale being 1.
    pub dc_offset: f64,
    pub silence_share: f64,
    /// The longest stretch of silent frames.
    pub longest_silence_seconds: f64,
    pub snr_db: Option<f64>,
    /// The highest frequency above the noise floor: see `spectrum`.
    pub bandwidth_hz: Option<f64>,
    /// The frequency below which 99 % of the energy lies.
    pub rolloff_hz: Option<f64>,
    /// From 0 for a tone to 1 for white noise: see `spectrum`.
    pub flatness: Option<f64>,
    pub correlation: Option<f64>,
}

/// Measures a clip. All channels count for levels and clipping; the spectrum is that of the first
/// channel. `correlation` is from decoding, before mixing.
pub fn measure(clip: &Clip, correlation: Option<f64>) -> Measures {
    let samples = pcm(clip);
    let channels = usize::from(clip.channels.max(1));
    let frame = ((f64::from(clip.rate) * FRAME_SECONDS) as usize).max(1) * channels;
    let mut pass = Pass::default();
    for frame in samples.chunks(frame) {
        pass.frame(frame);
    }
    pass.end_run();
    let shape = spectrum::shape(&samples, channels, clip.rate);
    let total = samples.len().max(1) as f64;
    Measures {
        seconds: clip.seconds(),
        peak_dbfs: decibels(f64::from(pass.peak) / 32_768.0),
        rms_dbfs: decibels((pass.energy as f64 / total).sqrt() / 32_768.0),
        clipped_runs: pass.clipped_runs,
        clipped_share: pass.clipped as f64 / total,
        dc_offset: pass.sum as f64 / total / 32_768.0,
        silence_share: pass.silent as f64 / pass.frames.max(1) as f64,
        longest_silence_seconds: (pass.longest_silence as f64 * FRAME_SECONDS).min(clip.seconds()),
        snr_db: pass.amplitudes.snr_db(),
        bandwidth_hz: shape.map(|shape| shape.bandwidth_hz),
        rolloff_hz: shape.map(|shape| shape.rolloff_hz),
        flatness: shape.map(|shape| shape.flatness),
        correlation,
    }
}

/// The highest frequency above the noise floor: see `spectrum`.
pub fn bandwidth_hz(clip: &Clip) -> Option<f64> {
    let shape = spectrum::shape(&pcm(clip), usize::from(clip.channels.max(1)), clip.rate);
    shape.map(|shape| shape.bandwidth_hz)
}

fn pcm(clip: &Clip) -> Cow<'_, [i16]> {
    match &clip.samples {
        Samples::Pcm(samples) => Cow::Borrowed(samples),
        Samples::Wide(_) => Cow::Owned(clip.clone().into_pcm().0),
    }
}

/// Decibels of an amplitude, in steps of 0.0001 dB.
fn decibels(amplitude: f64) -> f64 {
    /// The value for silence: below the last of 16 bits.
    const FLOOR: f64 = -100.0;
    ((20.0 * amplitude.log10()).max(FLOOR) * 10_000.0).round() / 10_000.0
}

/// The sums of one pass.
#[derive(Default)]
struct Pass {
    sum: i64,
    energy: u64,
    peak: u16,
    frames: u64,
    silent: u64,
    /// The number of successive silent frames up to here.
    silence: u64,
    longest_silence: u64,
    run: u64,
    clipped: u64,
    clipped_runs: u64,
    amplitudes: snr::Amplitudes,
}

impl Pass {
    fn frame(&mut self, frame: &[i16]) {
        let sum: i64 = frame.iter().map(|&sample| i64::from(sample)).sum();
        let energy: u64 = frame.iter().map(|&sample| square(sample)).sum();
        let peak = frame.iter().map(|sample| sample.unsigned_abs()).max();
        let peak = peak.unwrap_or(0);
        self.sum += sum;
        self.energy += energy;
        self.peak = self.peak.max(peak);
        self.frames += 1;
        self.silence(energy, frame.len());
        self.amplitudes.add(frame);
        if peak >= 32_767 || self.run > 0 {
            self.clipping(frame);
        }
    }

    fn silence(&mut self, energy: u64, samples: usize) {
        if (energy as f64) < silence_energy() * samples as f64 {
            self.silent += 1;
            self.silence += 1;
            self.longest_silence = self.longest_silence.max(self.silence);
        } else {
            self.silence = 0;
        }
    }

    fn clipping(&mut self, frame: &[i16]) {
        for sample in frame {
            if sample.unsigned_abs() >= 32_767 {
                self.run += 1;
            } else {
                self.end_run();
            }
        }
    }

    fn end_run(&mut self) {
        if self.run >= CLIPPED_RUN {
            self.clipped_runs += 1;
            self.clipped += self.run;
        }
        self.run = 0;
    }
}

fn square(sample: i16) -> u64 {
    let magnitude = u32::from(sample.unsigned_abs());
    u64::from(magnitude * magnitude)
}

/// The energy of a sample at the silence threshold.
fn silence_energy() -> f64 {
    let amplitude = 32_768.0 * 10_f64.powf(SILENCE_DBFS / 20.0);
    amplitude * amplitude
}
