//! Everything except plain WAV, decoded by Symphonia packet by packet: limits are checked on the
//! way, and dropped channels are never held in memory.

use super::aiff;
use super::decode::{Decoded, Options, finish};
use super::fault::Fault;
use super::flac;
use super::mix::Mixer;
use super::mp4;
use super::note::Note;
use super::sniff::Format;
use super::sound::Census;
use std::io::{Cursor, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use symphonia::core::audio::GenericAudioBufferRef;
use symphonia::core::codecs::audio::well_known as codec;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, Track, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;
use symphonia::core::packet::Packet;
use symphonia::core::units::{Duration, Timestamp};

/// By fewer bytes than these a damaged frame of FLAC is read as too short.
const SHIFT: usize = 8;

/// Decodes `bytes` in a container of this `format`.
pub fn decode(bytes: &[u8], format: Format, options: &Options) -> Result<Decoded, Fault> {
    // The decoders have no unsafe code, but assertions; a hostile file must only affect its own
    // item, so panics are caught here and nowhere else.
    catch_unwind(AssertUnwindSafe(|| Reading::open(bytes, format, options)?.run())).unwrap_or_else(
        |_| {
            Err(Fault::Undecodable {
                format,
                problem: "the decoder failed on inconsistent data".to_owned(),
            })
        },
    )
}

/// One file being decoded.
struct Reading<'a> {
    bytes: &'a [u8],
    format: Format,
    options: &'a Options,
    container: Box<dyn FormatReader + 'a>,
    decoder: Box<dyn AudioDecoder>,
    track: Track,
    /// Samples of at most 16 bits without loss stay integers.
    integers: bool,
    state: Option<Stream>,
    /// The number of frames in the container's header.
    declared: Option<u64>,
    /// For FLAC, the timestamp of its first packet.
    first: Option<i64>,
    /// For FLAC, the number of frames before a missing part: its reader skips damage.
    hole: Option<u64>,
    skipped: u64,
    /// The reason why the last packet could not be decoded.
    problem: String,
    census: Census,
}

/// The properties of the first decoded packet.
struct Stream {
    rate: u32,
    channels: u16,
    mixer: Mixer,
}

impl<'a> Reading<'a> {
    fn open(bytes: &'a [u8], format: Format, options: &'a Options) -> Result<Self, Fault> {
        let stream = MediaSourceStream::new(Box::new(Cursor::new(bytes)), Default::default());
        let mut hint = Hint::new();
        hint.with_extension(format.extension());
        let container = symphonia::default::get_probe()
            .probe(&hint, stream, FormatOptions::default(), MetadataOptions::default())
            .map_err(|error| broken(format, &error))?;
        let track = container
            .default_track(TrackType::Audio)
            .ok_or_else(|| Fault::Undecodable { format, problem: "no audio track".to_owned() })?
            .clone();
        let parameters = audio_parameters(&track, format)?;
        // FLAC has a digest of its samples; the other formats ignore this option.
        let wishes = AudioDecoderOptions::default().verify(true);
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(parameters, &wishes)
            .map_err(|error| broken(format, &error))?;
        let integers = is_integer(parameters);
        let declared = declared_frames(bytes, &track, format);
        if let (Some(rate), Some(frames)) = (parameters.sample_rate, declared) {
            // A header with a too large length is believed; a too small one is detected while
            // decoding.
            options.check_frames(rate, frames)?;
        }
        Ok(Self {
            bytes,
            format,
            options,
            container,
            decoder,
            track,
            integers,
            state: None,
            declared,
            first: None,
            hole: None,
            skipped: 0,
            problem: String::new(),
            census: Census::default(),
        })
    }

    fn run(mut self) -> Result<Decoded, Fault> {
        let mut ended_early = false;
        let mut packed = Packed::default();
        let (mut packets, mut packed_bytes) = (0, 0);
        loop {
            let packet = match self.container.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(Error::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    ended_early = true;
                    break;
                }
                // Any bytes may follow the recording.
                Err(_) if self.is_complete() => break,
                Err(error) => return Err(broken(self.format, &error)),
            };
            // Every valid packet takes space in the file; tables can claim billions.
            packets += 1;
            if packets > self.bytes.len() {
                return Err(Fault::Undecodable {
                    format: self.format,
                    problem: "more packets than bytes".to_owned(),
                });
            }
            if packet.track_id != self.track.id {
                continue;
            }
            packed_bytes += packet.data.len();
            self.look_for_hole(&packet);
            match self.decode(&packet, &mut packed) {
                Some(shape) => self.take(shape, &packed)?,
                None if self.is_complete() => break,
                None => self.damaged()?,
            }
        }
        if self.format == Format::Flac && !self.is_complete() {
            self.take_last_frames(packed_bytes, &mut packed)?;
        }
        self.finish(ended_early)
    }

    /// Packets of FLAC have timestamps.
    fn look_for_hole(&mut self, packet: &Packet) {
        if self.format != Format::Flac || self.hole.is_some() {
            return;
        }
        // Without a stated length it may be a part of a longer stream.
        let begins = if self.declared.is_some() { 0 } else { packet.pts.get() };
        let first = *self.first.get_or_insert(begins);
        let frames = self.frames();
        if packet.pts.get().checked_sub(first) != i64::try_from(frames).ok() {
            self.hole = Some(frames);
        }
    }

    /// Rate and channels of a packet; None if it cannot be decoded.
    fn decode(&mut self, packet: &Packet, packed: &mut Packed) -> Option<(u32, usize)> {
        match self.decoder.decode(packet) {
            Ok(buffer) => {
                packed.fill(&buffer, self.integers);
                let spec = buffer.spec();
                Some((spec.rate(), spec.channels().count()))
            }
            Err(error) => {
                self.problem = error.to_string();
                None
            }
        }
    }

    fn frames(&self) -> u64 {
        self.state.as_ref().map_or(0, |stream| stream.mixer.frames() as u64)
    }

    /// True if all frames of the container's header are there.
    fn is_complete(&self) -> bool {
        self.declared.is_some_and(|declared| self.frames() >= declared)
    }

    /// The last frames of FLAC, which the container drops if other bytes follow them, or if the
    /// last one is damaged.
    fn take_last_frames(&mut self, packed_bytes: usize, packed: &mut Packed) -> Result<(), Fault> {
        let bytes: &'a [u8] = flac::before_tag(self.bytes);
        let Some(first) = flac::first_frame(bytes) else { return Ok(()) };
        let mut start = first + packed_bytes;
        while !self.is_complete() {
            let rest = bytes.get(start..).unwrap_or_default();
            if !flac::begins_frame(rest) {
                break;
            }
            let whole = flac::ends(rest).find_map(|length| {
                let shape = self.decode(&self.packet(&rest[..length]), packed)?;
                Some((length, shape))
            });
            let Some((length, shape)) = whole else { return self.judge_last_frame(rest) };
            self.take(shape, packed)?;
            start += length;
        }
        Ok(())
    }

    fn packet(&self, bytes: &[u8]) -> Packet {
        Packet::new(self.track.id, Timestamp::ZERO, Duration::ZERO, bytes)
    }

    /// A last frame without a matching checksum is cut off or damaged. If the file ends where the
    /// frame does, nothing is missing. Damage that makes the frame read as longer than the file
    /// looks like a cut.
    fn judge_last_frame(&mut self, frame: &[u8]) -> Result<(), Fault> {
        let frames = self.frames();
        let Some(length) = frame.len().checked_sub(flac::CHECKSUM) else { return Ok(()) };
        if self.declared.is_none() || self.hole.is_some() {
            return Ok(());
        }
        let is_damaged = match self.reads(&frame[..length]) {
            // After more bytes than that, the start of a frame may have something else behind it.
            Ok(()) => self.reads(&frame[..length.saturating_sub(SHIFT)]).is_err(),
            Err(Error::IoError(_)) => false,
            Err(_) => true,
        };
        if !is_damaged {
            return Ok(());
        }
        Err(Fault::Undecodable {
            format: self.format,
            problem: format!("the last block is damaged, after {frames} frames"),
        })
    }

    /// True if these bytes contain a frame, whatever its checksum.
    fn reads(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let packet = self.packet(bytes);
        self.decoder.decode(&packet).map(drop)
    }

    fn take(&mut self, shape: (u32, usize), packed: &Packed) -> Result<(), Fault> {
        let (rate, channels) = (shape.0, u16::try_from(shape.1).unwrap_or(u16::MAX));
        let stream = match &mut self.state {
            Some(stream) => stream,
            empty => {
                self.options.check_shape(rate, channels)?;
                empty.insert(Stream {
                    rate,
                    channels,
                    mixer: Mixer::new(channels, self.options.mix)?,
                })
            }
        };
        if (stream.rate, stream.channels) != (rate, channels) {
            return Err(Fault::Undecodable {
                format: self.format,
                problem: format!(
                    "changes from {} Hz and {} channels to {rate} Hz and {channels}",
                    stream.rate, stream.channels
                ),
            });
        }
        if self.integers {
            stream.mixer.push_pcm(&packed.integers);
        } else {
            self.census.count(&packed.floats);
            stream.mixer.push_wide(&packed.floats);
        }
        self.options.check_frames(rate, stream.mixer.frames() as u64)
    }

    /// A stream cut out of a longer one starts with packets that depend on missing ones; any later
    /// damage is a gap in the recording.
    fn damaged(&mut self) -> Result<(), Fault> {
        let frames = self.frames();
        if self.format == Format::Mp3 && frames == 0 && self.skipped < 4 {
            self.skipped += 1;
            return Ok(());
        }
        Err(Fault::Undecodable {
            format: self.format,
            problem: format!("{} after {frames} frames", self.problem),
        })
    }

    fn finish(mut self, ended_early: bool) -> Result<Decoded, Fault> {
        self.census.verdict()?;
        let Some(stream) = self.state else {
            return Err(Fault::Empty { behind: 0 });
        };
        let mut notes = Vec::new();
        if self.skipped > 0 {
            notes.push(Note::SkippedPackets { count: self.skipped });
        }
        let present = stream.mixer.frames() as u64;
        let digest_fits = self.decoder.finalize().verify_ok;
        if let (Some(frames), false) = (self.hole, digest_fits == Some(true)) {
            return Err(Fault::Undecodable {
                format: self.format,
                problem: format!("a part is damaged after {frames} frames"),
            });
        }
        // The digest covers all samples: if it fits, the stated length may be wrong.
        let is_complete =
            digest_fits == Some(true) || self.declared.is_some_and(|declared| present >= declared);
        let declared = self.declared.filter(|declared| *declared > present);
        let short = !is_complete
            && declared.is_some_and(|declared| declared > present + slack(self.format));
        // If all stated frames are there, any bytes may follow.
        if (ended_early && !is_complete) || short {
            if !self.options.allow_truncated {
                return Err(Fault::Truncated { unit: "frames", declared, present });
            }
            notes.push(Note::TruncatedKept {
                unit: "frames",
                missing: declared.map(|declared| declared - present),
            });
        } else if digest_fits == Some(false) {
            return Err(Fault::Undecodable {
                format: self.format,
                problem: "the samples do not match the checksum in the file".to_owned(),
            });
        }
        if let (Some(start), end) = (self.track.delay, self.track.padding.unwrap_or(0)) {
            notes.push(Note::EncoderDelay { start: u64::from(start), end: u64::from(end) });
        }
        let mut decoded = finish(stream.mixer, stream.rate, self.format, notes);
        if self.format == Format::M4a {
            mp4::trim(self.bytes, self.track.num_frames, &mut decoded);
        }
        match decoded.clip.samples.is_empty() {
            true => Err(Fault::Empty { behind: 0 }),
            false => Ok(decoded),
        }
    }
}

/// A packet's samples, interleaved; reused from packet to packet.
#[derive(Default)]
pub(super) struct Packed {
    pub(super) integers: Vec<i16>,
    pub(super) floats: Vec<f32>,
}

impl Packed {
    pub(super) fn fill(&mut self, buffer: &GenericAudioBufferRef<'_>, integers: bool) {
        if integers {
            self.integers.resize(buffer.samples_interleaved(), 0);
            buffer.copy_to_slice_interleaved(&mut self.integers);
        } else {
            self.floats.resize(buffer.samples_interleaved(), 0.0);
            buffer.copy_to_slice_interleaved(&mut self.floats);
        }
    }
}

pub(super) fn audio_parameters(
    track: &Track,
    format: Format,
) -> Result<&AudioCodecParameters, Fault> {
    track.codec_params.as_ref().and_then(|parameters| parameters.audio()).ok_or_else(|| {
        Fault::Undecodable { format, problem: "the audio track does not name its codec".to_owned() }
    })
}

pub(super) fn is_integer(parameters: &AudioCodecParameters) -> bool {
    let lossy = [
        codec::CODEC_ID_MP1,
        codec::CODEC_ID_MP2,
        codec::CODEC_ID_MP3,
        codec::CODEC_ID_AAC,
        codec::CODEC_ID_VORBIS,
        codec::CODEC_ID_PCM_F32BE,
        codec::CODEC_ID_PCM_F32LE,
        codec::CODEC_ID_PCM_F64BE,
        codec::CODEC_ID_PCM_F64LE,
    ];
    let bits = match parameters.codec {
        // The sixth byte of the codec's own header; the container may repeat it with another value.
        codec::CODEC_ID_ALAC => {
            let cookie = parameters.extra_data.as_deref().unwrap_or_default();
            cookie.get(5).map(|bits| u32::from(*bits))
        }
        _ => parameters.bits_per_sample,
    };
    matches!(bits, Some(1..=16)) && !lossy.contains(&parameters.codec)
}

/// The number of frames in the container, if it is exact and not estimated.
fn declared_frames(bytes: &[u8], track: &Track, format: Format) -> Option<u64> {
    match format {
        Format::Flac | Format::M4a => track.num_frames,
        Format::Aiff => aiff::stated_frames(bytes),
        // Without the tag that states the delay, the count is estimated from the bit rate.
        Format::Mp3 => track.delay.and(track.num_frames),
        Format::Wav | Format::Ogg => None,
    }
}

/// The tolerance between stated and decoded frames of correct encoders.
pub(super) fn slack(format: Format) -> u64 {
    match format {
        Format::Mp3 => 2 * 1_152,
        Format::M4a => 2 * 1_024,
        _ => 0,
    }
}

pub(super) fn broken(format: Format, error: &Error) -> Fault {
    match error {
        Error::Unsupported(what) => Fault::Unsupported { what: format!("{format} ({what})") },
        Error::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Fault::Undecodable { format, problem: "the file ends early".to_owned() }
        }
        other => Fault::Undecodable { format, problem: other.to_string() },
    }
}
