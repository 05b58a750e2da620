//! One file of a recording. A recording usually is one file; several can stand one behind the other.

use super::block::Block;
use super::fault::{Fault, Trouble};
use super::input::Input;
use super::note::Note;
use super::sniff::Format;
use super::{adpcm, aiff, flac, mp3, mp4, ogg, riff};

/// A file that is decoded from its start to its end.
pub trait Part {
    /// The next samples; None at the end of the file. Blocks can be empty.
    fn read(&mut self, input: &mut Input<'_>) -> Result<Option<Block>, Trouble>;

    /// At the end, the offset of the first byte behind the file.
    fn end(&self) -> u64;

    /// At the end, the notes on the file.
    fn notes(&mut self) -> Vec<Note>;

    /// Rate and channels, if they are known before the first samples.
    fn shape(&self) -> Option<(u32, u16)> {
        None
    }

    /// The bytes of a frame, if samples are stored one by one.
    fn frame_bytes(&self) -> Option<u64> {
        None
    }
}

/// Opens the file of this `format` that starts at `start`.
pub fn open<'a>(
    input: &mut Input<'a>,
    start: u64,
    format: Format,
    allow_truncated: bool,
) -> Result<Box<dyn Part + 'a>, Trouble> {
    Ok(match format {
        Format::Wav => match riff::open(input, start, allow_truncated)? {
            riff::Samples::Plain(part) => Box::new(part),
            riff::Samples::Blocks(header) => Box::new(adpcm::Adpcm::open(header)?),
        },
        Format::Aiff => Box::new(aiff::open(input, start, allow_truncated)?),
        Format::Flac => Box::new(flac::Flac::open(input, start, allow_truncated)?),
        Format::Mp3 => Box::new(mp3::Mp3::open(input, start, allow_truncated)?),
        Format::Ogg => Box::new(ogg::Ogg::open(input, start, allow_truncated)?),
        Format::M4a => Box::new(mp4::Mp4::open(input, start, allow_truncated)?),
    })
}

/// The verdict on a file that has fewer units than it states, or than it began with.
pub fn short(
    allow_truncated: bool,
    unit: &'static str,
    stated: Option<u64>,
    present: u64,
) -> Result<Note, Fault> {
    match allow_truncated {
        true => {
            let missing = stated.map(|stated| stated.saturating_sub(present));
            Ok(Note::TruncatedKept { unit, missing })
        }
        false => Err(Fault::Truncated { unit, declared: stated, present }),
    }
}
