//! Notes on an accepted recording.

use std::fmt;

/// One note; its text is kept with the item.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// `allow_truncated` kept a recording that ends early.
    TruncatedKept { unit: &'static str, missing: Option<u64> },
    /// The header was written by a program that could not know the length.
    UnknownLength,
    /// The sample data ends inside a frame.
    OddBytes { dropped: u64 },
    /// The header's block alignment contradicts its other fields.
    BlockAlign { stated: u16, used: u16 },
    /// Samples beyond full scale were set to full scale.
    Clipped { samples: u64 },
    /// Left and right cancel each other: their mean loses the voice.
    AntiPhase { correlation: f64 },
    /// Frames that an encoder added were removed.
    EncoderDelay { start: u64, end: u64 },
    /// Damaged packets at the start, as in a cut stream, were dropped.
    SkippedPackets { count: u64 },
}

impl Note {
    /// A stable word for counting.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TruncatedKept { .. } => "truncated-kept",
            Self::UnknownLength => "unknown-length",
            Self::OddBytes { .. } => "odd-bytes",
            Self::BlockAlign { .. } => "block-align",
            Self::Clipped { .. } => "clipped",
            Self::AntiPhase { .. } => "anti-phase",
            Self::EncoderDelay { .. } => "encoder-delay",
            Self::SkippedPackets { .. } => "skipped-packets",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TruncatedKept { unit, missing } => match missing {
                Some(missing) => write!(out, "truncated, {missing} {unit} missing, kept"),
                None => write!(out, "breaks off, kept"),
            },
            Self::UnknownLength => write!(out, "the header does not know the length"),
            Self::OddBytes { dropped } => {
                write!(out, "ends inside a frame, {dropped} bytes dropped")
            }
            Self::BlockAlign { stated, used } => {
                write!(out, "block alignment {stated} in the header, {used} used")
            }
            Self::Clipped { samples } => write!(out, "{samples} samples beyond full scale"),
            Self::AntiPhase { correlation } => {
                write!(out, "channels in anti-phase, correlation {correlation:.2}")
            }
            Self::EncoderDelay { start, end } => {
                write!(out, "encoder delay removed, {start} frames before, {end} after")
            }
            Self::SkippedPackets { count } => {
                write!(out, "{count} damaged packets at the start left out")
            }
        }
    }
}
