//! The reasons why a recording is quarantined. Each variant is a situation that its owner can act
//! on; the text is shown in the quarantine list.

use std::io;

use stage_core::{Reject, StageError};

use super::sniff::AudioContainer;

/// The advice for formats without a decoder. `-vn` leaves pictures and videos out.
pub(super) const CONVERT: &str = "convert it: `ffmpeg -i IN -vn OUT.flac`";

/// The reason why bytes were not accepted as a recording.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    #[error("not audio: {what}{}", advice(.help))]
    NotAudio { what: String, help: &'static str },

    #[error("unsupported: {what}; {CONVERT}")]
    Unsupported { what: String },

    #[error("damaged: `{chunk}` chunk at offset {offset}: {problem}")]
    Chunk { chunk: String, offset: u64, problem: String },

    #[error("empty: {}", empty(*.behind))]
    Empty { behind: u64 },

    #[error(
        "truncated: {}; restore the file, or keep what is there by `allow_truncated` in an \
         `audio.decode` before this stage",
        missing(.unit, *.declared, *.present)
    )]
    /// `declared` is None if the container does not state a length.
    Truncated { unit: &'static str, declared: Option<u64>, present: u64 },

    #[error("sample rate of {rate} Hz is outside {} to {} Hz", .lowest, .highest)]
    Rate { rate: u32, lowest: u32, highest: u32 },

    #[error(
        "{count} of {total} samples are invalid: {nan} NaN, {infinite} infinite, {huge} beyond \
         {bound} times full scale; the first is sample {first}"
    )]
    NotSound { count: u64, total: u64, nan: u64, infinite: u64, huge: u64, bound: f32, first: u64 },

    #[error("{found} channels, expected one; choose `mean`, `left` or `right`")]
    Channels { found: u16 },

    #[error("too large: {what} is over the limit of {limit}")]
    TooLarge { what: String, limit: String },

    #[error("damaged {format}: {problem}")]
    Undecodable { format: AudioContainer, problem: String },

    #[error("the {what} changes at {seconds:.2} s, from {from} to {to}; {CONVERT}")]
    Changes { what: &'static str, from: u32, to: u32, seconds: f64 },

    #[error("cannot resample {from} Hz to {to} Hz: {problem}")]
    Resample { from: u32, to: u32, problem: String },

    #[error("no speech found")]
    NoSpeech,
}

impl Fault {
    /// A stable word for counting.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAudio { .. } => "not-audio",
            Self::Unsupported { .. } => "unsupported",
            Self::Chunk { .. } | Self::Undecodable { .. } => "damaged",
            Self::Empty { .. } => "empty",
            Self::Truncated { .. } => "truncated",
            Self::Rate { .. } => "rate",
            Self::NotSound { .. } => "not-sound",
            Self::Channels { .. } => "channels",
            Self::TooLarge { .. } => "too-large",
            Self::Changes { .. } => "changes",
            Self::Resample { .. } => "resample",
            Self::NoSpeech => "no-speech",
        }
    }
}

impl Fault {
    /// The reject in a stage that has `allow_truncated` itself, or has not.
    pub fn reject(self, has_allow_truncated: bool) -> Reject {
        match &self {
            Self::Truncated { unit, declared, present } if has_allow_truncated => {
                let missing = missing(unit, *declared, *present);
                let advice = "restore the file, or set `allow_truncated` to keep what is there";
                Reject::new(self.code(), format!("truncated: {missing}; {advice}"))
            }
            _ => Reject::from(self),
        }
    }
}

fn advice(help: &str) -> String {
    match help {
        "" => String::new(),
        help => format!("; {help}"),
    }
}

fn missing(unit: &str, declared: Option<u64>, present: u64) -> String {
    match declared {
        Some(declared) => format!(
            "{declared} {unit} declared, {present} present, {} missing",
            declared.saturating_sub(present)
        ),
        None => format!("the stream ends after {present} {unit}"),
    }
}

fn empty(behind: u64) -> String {
    match behind {
        0 => "no samples".to_owned(),
        behind => format!("{behind} bytes after an empty `data` chunk"),
    }
}

/// The reason why reading ended.
#[derive(Debug)]
pub enum ReadError {
    /// The recording is unusable.
    Fault(Fault),
    /// The file cannot be read at the moment.
    Io(io::Error),
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> ReadError {
        ReadError::Fault(fault)
    }
}

impl ReadError {
    /// A verdict on the item, or an error of the stage.
    pub fn judge(self) -> Result<Reject, StageError> {
        match self {
            ReadError::Fault(fault) => Ok(fault.into()),
            ReadError::Io(error) => Err(StageError::Transient { message: error.to_string() }),
        }
    }
}
