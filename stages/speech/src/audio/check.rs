//! Whether a recording is good enough to train on: its measures against limits.
//! The measures come from `measure`; what failed is listed with value and limit.

use super::clip::Clip;
use super::measure::{Measures, measure};
use std::fmt;

/// The limits; none means that the measure is not judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub min_seconds: Option<f64>,
    pub max_seconds: Option<f64>,
    /// Quieter recordings than this peak are silence or a dead microphone.
    pub min_peak_dbfs: Option<f64>,
    /// The share of samples inside runs at full scale.
    pub max_clipped_share: Option<f64>,
    /// The mean sample, as a share of full scale, either way.
    pub max_dc_offset: Option<f64>,
    pub max_silence_share: Option<f64>,
    pub min_snr_db: Option<f64>,
    pub min_bandwidth_hz: Option<f64>,
    /// The correlation of the two channels, for clips that kept them.
    pub min_correlation: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_seconds: Some(0.5),
            max_seconds: Some(20.0),
            min_peak_dbfs: Some(-40.0),
            max_clipped_share: Some(0.001),
            max_dc_offset: Some(0.05),
            max_silence_share: Some(0.8),
            min_snr_db: None,
            min_bandwidth_hz: None,
            min_correlation: Some(super::mix::ANTI_PHASE),
        }
    }
}

/// What is measured and found.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub measures: Measures,
    pub failures: Vec<Failure>,
}

/// One limit that a recording does not keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The name of the limit, as in `Limits`.
    pub limit_name: &'static str,
    pub what: &'static str,
    pub unit: &'static str,
    pub value: f64,
    pub limit: f64,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit_name, what, unit, value, limit } = self;
        let relation = if value > limit { "above" } else { "below" };
        let value = Rounded(*value);
        write!(out, "{what} of {value}{unit} is {relation} `{limit_name}` = {limit}")
    }
}

/// Measures `clip` and compares with `limits`.
pub fn check(clip: &Clip, limits: &Limits) -> Report {
    let measures = measure(clip);
    let failures = limits.failures(&measures);
    Report { measures, failures }
}

impl Limits {
    /// Every limit that `measures` does not keep, in the order of the fields.
    pub fn failures(&self, measures: &Measures) -> Vec<Failure> {
        let Self {
            min_seconds,
            max_seconds,
            min_peak_dbfs,
            max_clipped_share,
            max_dc_offset,
            max_silence_share,
            min_snr_db,
            min_bandwidth_hz,
            min_correlation,
        } = *self;
        let seconds = Some(measures.seconds);
        [
            least("min_seconds", "duration", " s", seconds, min_seconds),
            most("max_seconds", "duration", " s", seconds, max_seconds),
            least("min_peak_dbfs", "peak", " dBFS", Some(measures.peak_dbfs), min_peak_dbfs),
            most(
                "max_clipped_share",
                "clipped share",
                "",
                Some(measures.clipped_share),
                max_clipped_share,
            ),
            most("max_dc_offset", "DC offset", "", Some(measures.dc_offset.abs()), max_dc_offset),
            most(
                "max_silence_share",
                "silent share",
                "",
                Some(measures.silence_share),
                max_silence_share,
            ),
            least("min_snr_db", "signal to noise ratio", " dB", measures.snr_db, min_snr_db),
            least("min_bandwidth_hz", "bandwidth", " Hz", measures.bandwidth_hz, min_bandwidth_hz),
            least(
                "min_correlation",
                "correlation of the channels",
                "",
                measures.correlation,
                min_correlation,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

type Judged = Option<Failure>;

fn least(
    limit_name: &'static str,
    what: &'static str,
    unit: &'static str,
    value: Option<f64>,
    limit: Option<f64>,
) -> Judged {
    let (value, limit) = (value?, limit?);
    (value < limit).then_some(Failure { limit_name, what, unit, value, limit })
}

fn most(
    limit_name: &'static str,
    what: &'static str,
    unit: &'static str,
    value: Option<f64>,
    limit: Option<f64>,
) -> Judged {
    let (value, limit) = (value?, limit?);
    (value > limit).then_some(Failure { limit_name, what, unit, value, limit })
}

/// Four digits, and no more of them than the value has.
struct Rounded(f64);

impl fmt::Display for Rounded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() {
            return write!(out, "{}", self.0);
        }
        let digits = 3 - self.0.abs().max(1e-6).log10().floor() as i32;
        let text = format!("{:.*}", digits.clamp(0, 9) as usize, self.0);
        match text.contains('.') {
            true => out.write_str(text.trim_end_matches('0').trim_end_matches('.')),
            false => out.write_str(&text),
        }
    }
}
