//! The canonical stored form of a recording: 16-bit PCM WAV with a plain header, so that the same
//! samples under another name, container or tag are the same bytes.

use super::clip::Clip;
use super::fault::Fault;
use std::io::Cursor;

/// The media type of the output of `write`.
pub const KIND: &str = "audio/wav";

/// The clip as a canonical WAV file, and the number of clipped samples.
pub fn write(clip: Clip) -> Result<(Vec<u8>, u64), Fault> {
    let spec = hound::WavSpec {
        channels: clip.channels,
        sample_rate: clip.rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let (samples, clipped) = clip.into_pcm();
    let count = u32::try_from(samples.len())
        .ok()
        .filter(|count| *count < u32::MAX / 2 - 64)
        .ok_or_else(too_large)?;
    let mut bytes = Cursor::new(Vec::with_capacity(samples.len() * 2 + 64));
    let mut writer = hound::WavWriter::new(&mut bytes, spec).map_err(unwritable)?;
    let mut bulk = writer.get_i16_writer(count);
    for sample in samples {
        bulk.write_sample(sample);
    }
    bulk.flush().map_err(unwritable)?;
    writer.finalize().map_err(unwritable)?;
    Ok((bytes.into_inner(), clipped))
}

fn too_large() -> Fault {
    Fault::TooLarge { what: "the recording as WAV".to_owned(), limit: "4 GB".to_owned() }
}

fn unwritable(_: hound::Error) -> Fault {
    Fault::Unsupported { what: "this number of channels in WAV".to_owned() }
}
