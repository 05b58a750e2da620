//! The formats of recordings, and who reads each.

use super::fault::ReadError;
use super::input::Input;
use super::part::AudioFile;
use super::sniff::AudioContainer;
use super::{adpcm, aiff, flac, mp3, mp4, ogg, riff};

/// Opens the file of this `format` that starts at `start`.
pub fn open<'a>(
    input: &mut Input<'a>,
    start: u64,
    format: AudioContainer,
    allow_truncated: bool,
) -> Result<Box<dyn AudioFile + 'a>, ReadError> {
    Ok(match format {
        AudioContainer::Wav => match riff::open(input, start, allow_truncated)? {
            riff::RiffSamples::Plain(part) => Box::new(part),
            riff::RiffSamples::Blocks(header) => Box::new(adpcm::Adpcm::open(header)?),
        },
        AudioContainer::Aiff => Box::new(aiff::open(input, start, allow_truncated)?),
        AudioContainer::Flac => Box::new(flac::Flac::open(input, start, allow_truncated)?),
        AudioContainer::Mp3 => Box::new(mp3::Mp3::open(input, start, allow_truncated)?),
        AudioContainer::Ogg => Box::new(ogg::Ogg::open(input, start, allow_truncated)?),
        AudioContainer::M4a => Box::new(mp4::Mp4::open(input, start, allow_truncated)?),
    })
}
