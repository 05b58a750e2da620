//! The formats of recordings, and who reads each.

use super::fault::Trouble;
use super::input::Input;
use super::part::Part;
use super::sniff::Format;
use super::{adpcm, aiff, flac, mp3, mp4, ogg, riff};

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
