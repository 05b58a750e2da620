//! Loudness normalisation: integrated loudness after EBU R128, a cap on the gain so that noise is
//! not raised, and a ceiling for the true peak.

use super::clip::{Clip, Samples, round};
use super::fault::Fault;
use ebur128::{EbuR128, Mode};

/// The target of the normalisation.
#[derive(Debug, Clone, PartialEq)]
pub struct LoudnessTarget {
    pub target_lufs: f64,
    /// The largest gain of a quiet recording.
    pub max_gain_db: f64,
    /// The ceiling of the true peak.
    pub peak_ceiling_dbtp: f64,
}

impl Default for LoudnessTarget {
    fn default() -> Self {
        Self { target_lufs: -23.0, max_gain_db: 20.0, peak_ceiling_dbtp: -1.0 }
    }
}

/// A normalised clip.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelledClip {
    pub clip: Clip,
    /// The loudness before; None for digital silence.
    pub loudness: Option<Loudness>,
    pub gain_db: f64,
    /// The limit that kept the clip from the target.
    pub held_by: Option<Hold>,
}

/// The loudness of a recording, in LUFS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loudness {
    /// After EBU R128.
    Gated(f64),
    /// From the ungated level: the clip is shorter than one gating block of 0.4 s, or no block is
    /// above the gate.
    Level(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Gain,
    Peak,
}

impl Loudness {
    pub fn lufs(self) -> f64 {
        match self {
            Self::Gated(lufs) | Self::Level(lufs) => lufs,
        }
    }
}

/// Normalises `clip`. Digital silence does not change.
pub fn level(clip: Clip, options: &LoudnessTarget) -> Result<LevelledClip, Fault> {
    let (rate, channels) = (clip.rate, clip.channels);
    let (samples, _) = clip.into_pcm();
    let measured = measure(&samples, rate, channels)?;
    let (gain_db, held_by) = match &measured {
        Some(measured) => options.gain(measured),
        None => (0.0, None),
    };
    let samples = if gain_db == 0.0 { samples } else { amplify(&samples, gain_db) };
    Ok(LevelledClip {
        clip: Clip { rate, channels, samples: Samples::Pcm(samples) },
        loudness: measured.map(|measured| measured.loudness),
        gain_db,
        held_by,
    })
}

/// The loudness of a clip; None for digital silence.
pub fn loudness(clip: Clip) -> Result<Option<Loudness>, Fault> {
    let (rate, channels) = (clip.rate, clip.channels);
    let (samples, _) = clip.into_pcm();
    Ok(measure(&samples, rate, channels)?.map(|measured| measured.loudness))
}

struct LoudnessMeasurement {
    loudness: Loudness,
    true_peak_db: f64,
}

impl LoudnessTarget {
    fn gain(&self, measured: &LoudnessMeasurement) -> (f64, Option<Hold>) {
        let wanted = self.target_lufs - measured.loudness.lufs();
        let room = self.peak_ceiling_dbtp - measured.true_peak_db;
        let (gain, held_by) = if room < wanted.min(self.max_gain_db) {
            (room, Some(Hold::Peak))
        } else if self.max_gain_db < wanted {
            (self.max_gain_db, Some(Hold::Gain))
        } else {
            (wanted, None)
        };
        // Rounded down to hundredths: the last bits of the measurement, in which machines may
        // differ, must not affect the samples, nor lift the peak over its ceiling.
        ((gain * 100.0).floor() / 100.0, held_by)
    }
}

fn measure(
    samples: &[i16],
    rate: u32,
    channels: u16,
) -> Result<Option<LoudnessMeasurement>, Fault> {
    let energy: f64 = samples.iter().map(|&sample| f64::from(sample).powi(2)).sum();
    if energy == 0.0 {
        return Ok(None);
    }
    let unfit = |_: ebur128::Error| Fault::Unsupported {
        what: format!("measuring the loudness of {channels} channels at {rate} Hz"),
    };
    let mut meter =
        EbuR128::new(u32::from(channels), rate, Mode::I | Mode::TRUE_PEAK).map_err(unfit)?;
    meter.add_frames_i16(samples).map_err(unfit)?;
    let mut peak = 0.0_f64;
    for channel in 0..u32::from(channels) {
        peak = peak.max(meter.true_peak(channel).map_err(unfit)?);
    }
    let gated = meter.loudness_global().map_err(unfit)?;
    let loudness = if gated.is_finite() {
        Loudness::Gated(gated)
    } else {
        let frames = samples.len() / usize::from(channels);
        Loudness::Level(level_lufs(energy / frames as f64))
    };
    Ok(Some(LoudnessMeasurement { loudness, true_peak_db: 20.0 * peak.log10() }))
}

/// The loudness in the standard of a 997 Hz tone with this mean square, summed over the channels.
fn level_lufs(mean_square: f64) -> f64 {
    10.0 * (mean_square / (32_768.0 * 32_768.0)).log10()
}

fn amplify(samples: &[i16], gain_db: f64) -> Vec<i16> {
    let factor = 10_f64.powf(gain_db / 20.0) / 32_768.0;
    let mut clipped = 0;
    let amplified = samples.iter().map(|&sample| f64::from(sample) * factor);
    amplified.map(|sample| round(sample, &mut clipped)).collect()
}
