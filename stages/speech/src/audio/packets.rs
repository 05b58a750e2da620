//! Compressed recordings, decoded packet by packet from a file that is read in parts.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use stage_core::FileParts;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::core::meta::MetadataOptions;

use super::clip::{Clip, Samples};
use super::compressed::{Packed, audio_parameters, broken, is_integer, slack};
use super::fault::Fault;
use super::sniff::Format;
use super::sound::Census;
use super::stream::Trouble;

/// The decoder at a place in its file.
pub struct Packets {
    format: Format,
    container: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    integers: bool,
    declared: Option<u64>,
    packed: Packed,
    census: Census,
    shape: (u32, u16),
    /// The samples of the first packet, which was decoded to learn its shape.
    first: Option<Vec<i16>>,
    frames: u64,
    /// Packets at the start that depend on missing ones.
    skipped: u64,
}

impl Packets {
    pub fn open(parts: Arc<dyn FileParts>, format: Format) -> Result<Packets, Trouble> {
        shielded(format, || Packets::open_unshielded(parts, format))
    }

    fn open_unshielded(parts: Arc<dyn FileParts>, format: Format) -> Result<Packets, Trouble> {
        let source = Source { parts, at: 0 };
        let stream = MediaSourceStream::new(Box::new(source), Default::default());
        let mut hint = Hint::new();
        hint.with_extension(format.extension());
        let container = symphonia::default::get_probe()
            .probe(&hint, stream, FormatOptions::default(), MetadataOptions::default())
            .map_err(|error| trouble(format, error))?;
        let track = container
            .default_track(TrackType::Audio)
            .ok_or_else(|| Fault::Undecodable { format, problem: "no audio track".to_owned() })?
            .clone();
        let parameters = audio_parameters(&track, format)?;
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(parameters, &AudioDecoderOptions::default())
            .map_err(|error| trouble(format, error))?;
        let declared = match format {
            Format::Flac | Format::M4a => track.num_frames,
            Format::Mp3 => track.delay.and(track.num_frames),
            _ => None,
        };
        let mut packets = Packets {
            format,
            integers: is_integer(parameters),
            container,
            decoder,
            track: track.id,
            declared,
            packed: Packed::default(),
            census: Census::default(),
            shape: (0, 0),
            first: None,
            frames: 0,
            skipped: 0,
        };
        let mut first = Vec::new();
        match packets.decode(&mut first)? {
            true => packets.first = Some(first),
            false => return Err(Fault::Empty { behind: 0 }.into()),
        }
        Ok(packets)
    }

    pub fn shape(&self) -> (u32, u16) {
        self.shape
    }

    /// Appends the samples of the next packet. False at the end.
    pub fn read(&mut self, samples: &mut Vec<i16>) -> Result<bool, Trouble> {
        if let Some(first) = self.first.take() {
            samples.extend(first);
            return Ok(true);
        }
        let format = self.format;
        shielded(format, || self.decode(samples))
    }

    fn decode(&mut self, samples: &mut Vec<i16>) -> Result<bool, Trouble> {
        loop {
            let packet = match self.container.next_packet() {
                Ok(Some(packet)) if packet.track_id != self.track => continue,
                Ok(Some(packet)) => packet,
                Ok(None) => return self.end(false),
                Err(Error::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    return self.end(true);
                }
                // Any bytes may follow the recording.
                Err(_) if self.is_complete() => return self.end(false),
                Err(error) => return Err(trouble(self.format, error)),
            };
            let decoded = self.decoder.decode(&packet).map(|buffer| {
                self.packed.fill(&buffer, self.integers);
                let channels = buffer.spec().channels().count();
                (buffer.spec().rate(), u16::try_from(channels).unwrap_or(u16::MAX))
            });
            match decoded {
                Ok(shape) => return self.take(shape, samples).map(|()| true),
                Err(_) if self.is_complete() => return self.end(false),
                Err(_) if self.format == Format::Mp3 && self.frames == 0 && self.skipped < 4 => {
                    self.skipped += 1;
                }
                Err(error) => {
                    let problem = format!("{error} after {} frames", self.frames);
                    return Err(Fault::Undecodable { format: self.format, problem }.into());
                }
            }
        }
    }

    fn take(&mut self, shape: (u32, u16), samples: &mut Vec<i16>) -> Result<(), Trouble> {
        if self.frames == 0 {
            self.shape = shape;
        }
        if self.shape != shape {
            let problem = format!(
                "changes from {} Hz and {} channels to {} Hz and {}",
                self.shape.0, self.shape.1, shape.0, shape.1
            );
            return Err(Fault::Undecodable { format: self.format, problem }.into());
        }
        let before = samples.len();
        if self.integers {
            samples.extend_from_slice(&self.packed.integers);
        } else {
            self.census.count(&self.packed.floats);
            let wide = Samples::Wide(std::mem::take(&mut self.packed.floats));
            samples.extend(Clip { rate: 1, channels: 1, samples: wide }.into_pcm().0);
        }
        self.frames += ((samples.len() - before) / usize::from(shape.1.max(1))) as u64;
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.declared.is_some_and(|declared| self.frames >= declared)
    }

    fn end(&mut self, ended_early: bool) -> Result<bool, Trouble> {
        self.census.verdict()?;
        let is_short =
            self.declared.is_some_and(|declared| declared > self.frames + slack(self.format));
        if (ended_early && !self.is_complete()) || is_short {
            let (declared, present) = (self.declared, self.frames);
            return Err(Fault::Truncated { unit: "frames", declared, present }.into());
        }
        Ok(false)
    }
}

/// A hostile file must only affect its own item: the decoders have assertions.
fn shielded<T>(format: Format, work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let problem = "the decoder failed on inconsistent data".to_owned();
        Err(Fault::Undecodable { format, problem }.into())
    })
}

fn trouble(format: Format, error: Error) -> Trouble {
    match error {
        Error::IoError(error) if error.kind() != ErrorKind::UnexpectedEof => Trouble::Io(error),
        other => broken(format, &other).into(),
    }
}

/// A file for the decoder.
struct Source {
    parts: Arc<dyn FileParts>,
    at: u64,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.parts.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.parts.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

impl MediaSource for Source {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.parts.size())
    }
}
