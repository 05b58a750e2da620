//! Decodes bytes to a clip. It goes by the content, names data that is not sound, and rejects
//! defects that other readers ignore: recordings that end early, samples that are not numbers,
//! contradictory headers.

use super::clip::{Clip, Samples};
use super::fault::{Fault, ReadError};
use super::input::Input;
use super::mix::{ANTI_PHASE, Mix, Mixer};
use super::note::Note;
use super::sniff::AudioContainer;
use super::sound;
use super::stream::Stream;

/// The rates of voice recordings; other rates are damage.
pub const LOWEST_RATE: u32 = 4_000;
pub const HIGHEST_RATE: u32 = 384_000;

/// The options for reading a recording.
#[derive(Debug, Clone, Default)]
pub struct DecodeOptions {
    pub mix: Mix,
    /// Keep a recording that ends early, with a note, instead of rejecting it.
    pub allow_truncated: bool,
    /// The stage has the parameter `allow_truncated`.
    pub has_allow_truncated: bool,
    pub limits: DecodeLimits,
}

/// Limits that protect the memory. Checked while decoding: a small file can contain a day of
/// silence, and a header can claim anything.
#[derive(Debug, Clone)]
pub struct DecodeLimits {
    pub bytes: u64,
    pub seconds: f64,
    pub channels: u16,
    /// The largest number of kept frames, at any rate.
    pub frames: u64,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { bytes: 4 << 30, seconds: 600.0, channels: 32, frames: 1 << 27 }
    }
}

/// A decoded recording, with notes.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedClip {
    pub clip: Clip,
    pub format: AudioContainer,
    /// The correlation of left and right before mixing, from -1 to 1, for stereo.
    pub correlation: Option<f64>,
    pub notes: Vec<Note>,
}

/// Reads `bytes` as a recording.
pub fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<DecodedClip, Fault> {
    let limit = options.limits.bytes;
    if bytes.len() as u64 > limit {
        return Err(too_large(
            format!("a file of {} bytes", bytes.len()),
            format!("{limit} bytes"),
        ));
    }
    collect(bytes, options).map_err(|trouble| match trouble {
        ReadError::Fault(fault) => fault,
        // Memory is always readable.
        ReadError::Io(_) => Fault::Empty { behind: 0 },
    })
}

fn collect(bytes: &[u8], options: &DecodeOptions) -> Result<DecodedClip, ReadError> {
    let mut stream = Stream::of(Input::memory(bytes), options)?;
    let (format, rate) = (stream.format, stream.rate);
    let mut mixer = Mixer::new(stream.channels, options.mix)?;
    while let Some(block) = stream.read()? {
        options.check_frames(rate, stream.frames)?;
        mixer.push(block.samples);
    }
    Ok(finish(mixer, rate, format, stream.take_notes()))
}

/// The mixed samples, and notes on them.
fn finish(mixer: Mixer, rate: u32, format: AudioContainer, mut notes: Vec<Note>) -> DecodedClip {
    let channels = mixer.channels_out();
    let (samples, correlation) = mixer.finish();
    if let Some(correlation) = correlation.filter(|correlation| *correlation < ANTI_PHASE) {
        notes.push(Note::AntiPhase { correlation });
    }
    if let Samples::Wide(samples) = &samples {
        let over = sound::beyond_full_scale(samples);
        if over > 0 {
            notes.push(Note::Clipped { samples: over });
        }
    }
    DecodedClip { clip: Clip { rate, channels, samples }, format, correlation, notes }
}

impl DecodeOptions {
    pub(super) fn check_shape(&self, rate: u32, channels: u16) -> Result<(), Fault> {
        if !(LOWEST_RATE..=HIGHEST_RATE).contains(&rate) {
            return Err(Fault::Rate { rate, lowest: LOWEST_RATE, highest: HIGHEST_RATE });
        }
        if channels > self.limits.channels {
            return Err(too_large(
                format!("a recording of {channels} channels"),
                format!("{} channels", self.limits.channels),
            ));
        }
        Ok(())
    }

    fn check_frames(&self, rate: u32, frames: u64) -> Result<(), Fault> {
        let seconds = self.limits.seconds;
        if frames as f64 > seconds * f64::from(rate) {
            return Err(too_large("the length".to_owned(), format!("{seconds} seconds")));
        }
        if frames > self.limits.frames {
            return Err(too_large(
                "the length".to_owned(),
                format!("{} frames", self.limits.frames),
            ));
        }
        Ok(())
    }
}

fn too_large(what: String, limit: String) -> Fault {
    Fault::TooLarge { what, limit }
}
