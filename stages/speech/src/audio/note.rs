//! Notes on an accepted recording.

use std::fmt;

/// One note; its text is kept with the item.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// `allow_truncated` kept a recording that ends early.
    TruncatedKept { unit: &'static str, missing: Option<u64> },
    /// The header was written by a program that could not know the length.
    UnknownLength,
    /// The header states another number of frames than the file has. All that are there were read.
    FalseLength { stated: u64, present: u64 },
    /// The file consists of several files, one behind the other. All of them were read.
    Joined { files: u64 },
    /// Bytes behind the recording that are no part of it, and their frames if they are samples.
    LeftOut { bytes: u64, frames: Option<u64> },
    /// Bytes between the packets of a stream that belong to none.
    SkippedBytes { count: u64 },
    /// Other audio tracks of the same file.
    OtherTracks { count: u64 },
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
    /// Packets that depend on missing ones, as at the start of a cut stream, were dropped or are silent.
    SkippedPackets { count: u64 },
}

impl Note {
    /// A stable word for counting.
    pub fn code(&self) -> &'static str {
        self.tally().0
    }

    /// The stable word, and the number to add to its count: the amount of what was left out, else 1
    /// for the recording.
    pub fn tally(&self) -> (&'static str, u64) {
        match self {
            Self::TruncatedKept { .. } => ("truncated-kept", 1),
            Self::UnknownLength => ("unknown-length", 1),
            Self::FalseLength { .. } => ("false-length", 1),
            Self::Joined { .. } => ("joined-files", 1),
            Self::LeftOut { frames: Some(frames), .. } => ("samples-left-out", *frames),
            Self::LeftOut { bytes, frames: None } => ("bytes-left-out", *bytes),
            Self::SkippedBytes { count } => ("skipped-bytes", *count),
            Self::OtherTracks { count } => ("tracks-left-out", *count),
            Self::OddBytes { .. } => ("odd-bytes", 1),
            Self::BlockAlign { .. } => ("block-align", 1),
            Self::Clipped { .. } => ("clipped", 1),
            Self::AntiPhase { .. } => ("anti-phase", 1),
            Self::EncoderDelay { .. } => ("encoder-delay", 1),
            Self::SkippedPackets { .. } => ("skipped-packets", 1),
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
            Self::UnknownLength => write!(out, "the header does not state the length"),
            Self::FalseLength { stated, present } => {
                write!(out, "the header states {stated} frames, {present} were found and read")
            }
            Self::Joined { files } => write!(out, "{files} joined files, all read"),
            Self::LeftOut { bytes, frames } => {
                write!(out, "{bytes} bytes after the recording left out")?;
                match frames {
                    Some(frames) => write!(out, ", {frames} frames if they are samples"),
                    None => Ok(()),
                }
            }
            Self::SkippedBytes { count } => {
                write!(out, "{count} bytes that belong to no packet left out")
            }
            Self::OtherTracks { count } => write!(out, "{count} other audio tracks left out"),
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
                write!(out, "{count} damaged packets left out or silent")
            }
        }
    }
}
