//! Checks if a recording is good enough for training: its measures against limits. The measures
//! come from `measure`; violations are listed with value and limit.

use super::clip::Clip;
use super::measure::{Measures, measure};
use super::mix::ANTI_PHASE;
use std::fmt;

/// The limits, named as in a manifest; None switches a limit off.
#[derive(Debug, Clone, PartialEq)]
pub struct ClipLimits {
    /// Seconds.
    pub min_duration: Option<f64>,
    pub max_duration: Option<f64>,
    /// In dBFS: quieter recordings are silence or a dead microphone.
    pub min_peak: Option<f64>,
    /// The share of samples inside runs at full scale.
    pub max_clipped: Option<f64>,
    /// The mean sample, positive or negative, as a share of full scale.
    pub max_dc_offset: Option<f64>,
    pub max_silence: Option<f64>,
    /// Decibels.
    pub min_snr: Option<f64>,
    /// Hertz.
    pub min_bandwidth: Option<f64>,
    /// The correlation of the two channels, for stereo recordings.
    pub min_correlation: Option<f64>,
}

impl Default for ClipLimits {
    fn default() -> Self {
        Self {
            min_duration: Some(0.5),
            max_duration: Some(20.0),
            min_peak: Some(-40.0),
            max_clipped: Some(0.001),
            max_dc_offset: Some(0.05),
            max_silence: Some(0.8),
            min_snr: None,
            min_bandwidth: None,
            min_correlation: Some(ANTI_PHASE),
        }
    }
}

/// The measures and the violations.
#[derive(Debug, Clone)]
pub struct CheckReport {
    pub measures: Measures,
    pub failures: Vec<LimitViolation>,
}

/// One violated limit.
#[derive(Debug, Clone)]
pub struct LimitViolation {
    pub rule: &'static LimitRule,
    pub value: f64,
    pub limit: f64,
}

/// One rule.
#[derive(Debug)]
pub struct LimitRule {
    /// A stable word for counting.
    pub code: &'static str,
    /// The name of the limit, as in a manifest.
    pub limit: &'static str,
    pub what: &'static str,
    pub unit: &'static str,
    /// The likely cause, if the figure does not show it.
    advice: Option<&'static str>,
    side: LimitSide,
    of: fn(&Measures) -> Option<f64>,
    bound: fn(&ClipLimits) -> Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LimitSide {
    Least,
    Most,
}

/// All rules, in the order in which violations are listed.
static RULES: [LimitRule; 9] = [
    LimitRule {
        code: "too-short",
        limit: "min_duration",
        what: "duration",
        unit: " s",
        advice: None,
        side: LimitSide::Least,
        of: |measures| Some(measures.seconds),
        bound: |limits| limits.min_duration,
    },
    LimitRule {
        code: "too-long",
        limit: "max_duration",
        what: "duration",
        unit: " s",
        advice: None,
        side: LimitSide::Most,
        of: |measures| Some(measures.seconds),
        bound: |limits| limits.max_duration,
    },
    LimitRule {
        code: "too-quiet",
        limit: "min_peak",
        what: "peak",
        unit: " dBFS",
        advice: None,
        side: LimitSide::Least,
        of: |measures| Some(measures.peak_dbfs),
        bound: |limits| limits.min_peak,
    },
    LimitRule {
        code: "clipped",
        limit: "max_clipped",
        what: "clipped share",
        unit: "",
        advice: None,
        side: LimitSide::Most,
        of: |measures| Some(measures.clipped_share),
        bound: |limits| limits.max_clipped,
    },
    LimitRule {
        code: "dc-offset",
        limit: "max_dc_offset",
        what: "DC offset",
        unit: "",
        advice: None,
        side: LimitSide::Most,
        of: |measures| Some(measures.dc_offset.abs()),
        bound: |limits| limits.max_dc_offset,
    },
    LimitRule {
        code: "silent",
        limit: "max_silence",
        what: "silent share",
        unit: "",
        advice: None,
        side: LimitSide::Most,
        of: |measures| Some(measures.silence_share),
        bound: |limits| limits.max_silence,
    },
    LimitRule {
        code: "noisy",
        limit: "min_snr",
        what: "signal to noise ratio",
        unit: " dB",
        advice: None,
        side: LimitSide::Least,
        of: |measures| measures.snr_db,
        bound: |limits| limits.min_snr,
    },
    LimitRule {
        code: "narrow-band",
        limit: "min_bandwidth",
        what: "bandwidth",
        unit: " Hz",
        advice: Some("as from a telephone; a lower limit accepts it"),
        side: LimitSide::Least,
        of: |measures| measures.bandwidth_hz,
        bound: |limits| limits.min_bandwidth,
    },
    LimitRule {
        code: "anti-phase",
        limit: "min_correlation",
        what: "correlation of the channels",
        unit: "",
        advice: None,
        side: LimitSide::Least,
        of: |measures| measures.correlation,
        bound: |limits| limits.min_correlation,
    },
];

impl LimitRule {
    fn judge(&'static self, measures: &Measures, limits: &ClipLimits) -> Option<LimitViolation> {
        let (value, limit) = ((self.of)(measures)?, (self.bound)(limits)?);
        let broken = match self.side {
            LimitSide::Least => value < limit,
            LimitSide::Most => value > limit,
        };
        broken.then_some(LimitViolation { rule: self, value, limit })
    }
}

impl fmt::Display for LimitViolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitRule { what, unit, limit: name, side, .. } = self.rule;
        let relation = match side {
            LimitSide::Least => "below",
            LimitSide::Most => "above",
        };
        let value = FourDigits(self.value);
        write!(out, "{what} of {value}{unit} is {relation} `{name}` = {}", self.limit)?;
        match self.rule.advice {
            Some(advice) => write!(out, " ({advice})"),
            None => Ok(()),
        }
    }
}

/// Measures `clip`, with the correlation of its channels before mixing, and compares with `limits`.
pub fn check(clip: &Clip, correlation: Option<f64>, limits: &ClipLimits) -> CheckReport {
    let measures = measure(clip, correlation);
    let failures = RULES.iter().filter_map(|rule| rule.judge(&measures, limits)).collect();
    CheckReport { measures, failures }
}

/// Four significant digits.
struct FourDigits(f64);

impl fmt::Display for FourDigits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = 3 - self.0.abs().max(1e-6).log10().floor() as i32;
        let text = format!("{:.*}", digits.clamp(0, 9) as usize, self.0);
        if text.contains('.') {
            out.write_str(text.trim_end_matches('0').trim_end_matches('.'))
        } else {
            out.write_str(&text)
        }
    }
}
