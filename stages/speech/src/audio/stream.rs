//! A recording that is too long for the memory, read in parts as 16-bit samples.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use stage_core::{Blob, Context, FileParts, Item, Reject, StageError};

use super::clip::{Clip, Samples};
use super::decode::Options;
use super::fault::Fault;
use super::packets::Packets;
use super::pcm::Encoding;
use super::riff::{self, Coding};
use super::sniff::{self, Format};
use super::sound::Census;

/// The bytes at the start of a file in which its format is looked for.
const HEAD: usize = 1 << 20;
/// The bytes that are read at once.
const PART: usize = 1 << 18;

/// The reason why reading ended.
#[derive(Debug)]
pub enum Trouble {
    /// The recording is unusable.
    Fault(Fault),
    /// The file cannot be read at the moment.
    Io(io::Error),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Fault(fault)
    }
}

impl Trouble {
    /// A verdict on the item, or an error of the stage.
    pub fn judge(self) -> Result<Reject, StageError> {
        match self {
            Trouble::Fault(fault) => Ok(fault.into()),
            Trouble::Io(error) => Err(StageError::Transient { message: error.to_string() }),
        }
    }
}

/// A recording from its start to its end.
pub struct Stream {
    pub rate: u32,
    pub channels: u16,
    /// The frames read so far.
    pub frames: u64,
    reader: Reader,
}

enum Reader {
    Plain(Plain),
    Packets(Box<Packets>),
}

impl Stream {
    pub fn open(parts: Arc<dyn FileParts>, options: &Options) -> Result<Stream, Trouble> {
        let head = read_part(&*parts, 0, HEAD)?;
        match sniff::sniff(&head)? {
            Format::Wav => {
                let size = usize::try_from(parts.size()).unwrap_or(usize::MAX);
                let riff = riff::parse_head(&head, size)?;
                let Coding::Plain(encoding) = riff.coding else {
                    return Stream::of_packets(parts, Format::Wav, options);
                };
                options.check_shape(riff.rate, riff.channels)?;
                if riff.missing > 0 {
                    let present = riff.data.len() as u64;
                    let declared = Some(present + riff.missing);
                    return Err(Fault::Truncated { unit: "bytes", declared, present }.into());
                }
                if riff.data.is_empty() {
                    return Err(Fault::Empty { behind: 0 }.into());
                }
                let (rate, channels) = (riff.rate, riff.channels);
                let plain = Plain {
                    parts,
                    at: riff.data.start as u64,
                    end: riff.data.end as u64,
                    encoding,
                    frame: encoding.bytes() * usize::from(channels),
                    census: Census::default(),
                };
                Ok(Stream { rate, channels, frames: 0, reader: Reader::Plain(plain) })
            }
            other => Stream::of_packets(parts, other, options),
        }
    }

    fn of_packets(
        parts: Arc<dyn FileParts>,
        format: Format,
        options: &Options,
    ) -> Result<Stream, Trouble> {
        let packets = Packets::open(parts, format)?;
        let (rate, channels) = packets.shape();
        options.check_shape(rate, channels)?;
        Ok(Stream { rate, channels, frames: 0, reader: Reader::Packets(Box::new(packets)) })
    }

    /// Appends the next samples, channels interleaved. False at the end of the recording.
    pub fn read(&mut self, samples: &mut Vec<i16>) -> Result<bool, Trouble> {
        let before = samples.len();
        let more = match &mut self.reader {
            Reader::Plain(plain) => plain.read(samples)?,
            Reader::Packets(packets) => packets.read(samples)?,
        };
        self.frames += ((samples.len() - before) / usize::from(self.channels.max(1))) as u64;
        Ok(more)
    }
}

/// A WAV file without a codec.
struct Plain {
    parts: Arc<dyn FileParts>,
    at: u64,
    end: u64,
    encoding: Encoding,
    /// The bytes of a frame.
    frame: usize,
    census: Census,
}

impl Plain {
    fn read(&mut self, samples: &mut Vec<i16>) -> Result<bool, Trouble> {
        let most = (PART / self.frame).max(1) * self.frame;
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        if left == 0 {
            self.census.verdict()?;
            return Ok(false);
        }
        let bytes = read_part(&*self.parts, self.at, most.min(left))?;
        if bytes.len() < most.min(left) {
            let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter");
            return Err(Trouble::Io(error));
        }
        self.at += bytes.len() as u64;
        let found = self.encoding.read(&bytes);
        if let Samples::Wide(wide) = &found {
            self.census.count(wide);
        }
        samples.extend(Clip { rate: 1, channels: 1, samples: found }.into_pcm().0);
        Ok(true)
    }
}

/// As many bytes as asked for, or all up to the end.
fn read_part(parts: &dyn FileParts, from: u64, most: usize) -> Result<Vec<u8>, Trouble> {
    let left = usize::try_from(parts.size().saturating_sub(from)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; most.min(left)];
    let mut filled = 0;
    while filled < bytes.len() {
        match parts.read_at(&mut bytes[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Trouble::Io(error)),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The file of the recording of an item. Its bytes are verified before this returns.
pub fn file_of(
    item: &Item,
    context: &mut dyn Context,
) -> Result<Result<Arc<dyn FileParts>, Reject>, StageError> {
    let Some(blob) = item.fields.blob("audio") else {
        let reason = "the item has no field `audio` that holds a recording";
        return Ok(Err(Reject::new("no-audio", reason)));
    };
    let parts = context.open(&Blob::clone(blob))?;
    let verified = parts.verify();
    verified.map_err(|error| StageError::Transient { message: error.to_string() })?;
    Ok(Ok(parts))
}

/// A recording in memory, for tests and short files.
pub fn in_memory(bytes: Vec<u8>) -> Arc<dyn FileParts> {
    Arc::new(Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{decode, wav};
    use super::*;

    fn streamed(bytes: Vec<u8>) -> (u32, u16, Vec<i16>) {
        let mut stream = Stream::open(in_memory(bytes), &Options::default()).unwrap();
        let mut samples = Vec::new();
        while stream.read(&mut samples).unwrap() {}
        assert_eq!(stream.frames as usize * usize::from(stream.channels), samples.len());
        (stream.rate, stream.channels, samples)
    }

    #[test]
    fn a_recording_in_parts_has_the_samples_of_the_whole() {
        let samples: Vec<i16> = (0..400_000).map(|at| (at * 7 % 30_011) as i16 - 9_000).collect();
        let (bytes, _) = wav::write(Clip::mono(22_050, samples.clone())).unwrap();
        assert_eq!(streamed(bytes), (22_050, 1, samples.clone()));
        let stereo = Clip { rate: 8_000, channels: 2, samples: Samples::Pcm(samples.clone()) };
        assert_eq!(streamed(wav::write(stereo).unwrap().0), (8_000, 2, samples));
    }

    #[test]
    fn a_compressed_recording_has_the_samples_that_decoding_gives() {
        const FILES: [&[u8]; 4] = [
            include_bytes!("../../tests/audio_fixtures/tone.flac"),
            include_bytes!("../../tests/audio_fixtures/tone.mp3"),
            include_bytes!("../../tests/audio_fixtures/tone.ogg"),
            include_bytes!("../../tests/audio_fixtures/adpcm.wav"),
        ];
        for bytes in FILES {
            let whole = decode::decode(bytes, &Options::default()).unwrap();
            let (rate, channels, format) = (whole.clip.rate, whole.clip.channels, whole.format);
            let (expected, _) = whole.clip.into_pcm();
            let got = streamed(bytes.to_vec());
            assert_eq!((got.0, got.1), (rate, channels), "{format}");
            // The padding of the last block of a codec in WAV is cut off after decoding.
            let same = expected.len().min(got.2.len());
            assert!(got.2[..same] == expected[..same] && got.2.len() < same + 4_096, "{format}");
            assert!(same == expected.len(), "{format}");
        }
    }

    #[test]
    fn a_file_that_ends_early_is_told_and_so_is_one_without_sound() {
        let (bytes, _) = wav::write(Clip::mono(16_000, vec![5; 4_000])).unwrap();
        let told = |bytes: Vec<u8>| match Stream::open(in_memory(bytes), &Options::default()) {
            Err(Trouble::Fault(fault)) => fault.code(),
            _ => "",
        };
        assert_eq!(told(bytes[..5_000].to_vec()), "truncated");
        assert_eq!(told(b"no sound at all, only a text".to_vec()), "not-audio");
        assert_eq!(told(wav::write(Clip::mono(16_000, Vec::new())).unwrap().0), "empty");
    }
}
