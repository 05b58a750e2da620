//! MP4 files: AAC and ALAC, packet by packet. Symphonia's demuxer sees one file, up to the next or to
//! bytes that are no box.

use super::block::Block;
use super::codec::{self, Defect, PacketDecoder};
use super::fault::{Fault, ReadError};
use super::input::{Input, InputFailure};
use super::movie::Track;
use super::note::Note;
use super::part::{self, AudioFile};
use super::pcm::Order;
use super::sniff::AudioContainer;
use std::io::ErrorKind;
use symphonia::core::codecs::audio::AudioCodecParameters;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;

/// The tolerance between stated and decoded frames of correct encoders: two packets.
const SLACK: u64 = 2 * 1_024;
/// The most frames that an encoder adds at the end. A length that cuts more off is false.
const MAX_PADDING: u64 = 4 * 1_024;
/// The most bytes of a movie box that are read.
const MAX_MOVIE_BYTES: u64 = 256 << 20;

pub struct Mp4<'a> {
    container: Box<dyn FormatReader + 'a>,
    failure: InputFailure,
    codec: PacketDecoder,
    track_id: u32,
    /// The frames that the table of packets states.
    stated: Option<u64>,
    packets: Option<u64>,
    packets_read: u64,
    bytes_read: u64,
    bytes: u64,
    frames: u64,
    /// The frames to keep.
    keep: Keep,
    end: u64,
    is_finished: bool,
    allow_truncated: bool,
    notes: Vec<Note>,
}

/// The frames to keep of a track.
struct Keep {
    start: u64,
    end: Option<u64>,
    dropped_start: u64,
    dropped_end: u64,
}

impl<'a> Mp4<'a> {
    pub fn open(
        input: &mut Input<'a>,
        start: u64,
        allow_truncated: bool,
    ) -> Result<Mp4<'a>, ReadError> {
        let boxes = Boxes::walk(input, start)?;
        let (source, failure) = input.source(start, boxes.readable);
        let stream = MediaSourceStream::new(Box::new(source), Default::default());
        let mut hint = Hint::new();
        hint.with_extension("m4a");
        let container = symphonia::default::get_probe()
            .probe(&hint, stream, FormatOptions::default(), MetadataOptions::default())
            .map_err(|error| trouble(&failure, &error))?;
        let Some(track) = container.default_track(TrackType::Audio).cloned() else {
            return Err(undecodable("no audio track").into());
        };
        let ticks = track.num_frames;
        let movie = match &boxes.movie {
            Some(range) => input.part(range.start, (range.end - range.start) as usize)?.to_vec(),
            None => Vec::new(),
        };
        let sound = Track::find(&movie, ticks);
        let name = codec_name(sound.as_ref().and_then(|sound| sound.codec));
        let parameters = track.codec_params.as_ref().and_then(|parameters| parameters.audio());
        let Some(parameters) = parameters else {
            return Err(
                Fault::Unsupported { what: format!("{name} in {}", AudioContainer::M4a) }.into()
            );
        };
        if let Some(edits) = sound.as_ref().map(|sound| sound.edits).filter(|edits| *edits > 1) {
            let what = format!("an edit list of {edits} parts in {}", AudioContainer::M4a);
            return Err(Fault::Unsupported { what }.into());
        }
        let rate = parameters.sample_rate.unwrap_or(0);
        let packets = sound.as_ref().and_then(|sound| sound.packets);
        let present =
            packets.zip(packet_frames(name, parameters)).map(|(count, each)| count * each);
        let mut notes = Vec::new();
        if let Some(sound) = sound.as_ref().filter(|sound| sound.tracks > 1) {
            notes.push(Note::OtherTracks { count: sound.tracks - 1 });
        }
        let keep = Keep::of(sound.as_ref(), present, rate, &mut notes);
        Ok(Mp4 {
            codec: PacketDecoder::new(name, AudioContainer::M4a, parameters)?,
            container,
            failure,
            track_id: track.id,
            stated: ticks,
            packets,
            packets_read: 0,
            bytes_read: 0,
            bytes: boxes.readable - start,
            frames: 0,
            keep,
            end: boxes.end,
            is_finished: false,
            allow_truncated,
            notes,
        })
    }

    /// The samples of the next packet; None at the end.
    fn packet(&mut self) -> Result<Option<Block>, ReadError> {
        loop {
            let packet = match self.container.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => return self.finish(false),
                Err(error) => {
                    if let Some(error) = self.failure.take() {
                        return Err(ReadError::Io(error));
                    }
                    let is_end = matches!(&error, Error::IoError(error)
                        if error.kind() == ErrorKind::UnexpectedEof);
                    return if is_end || self.has_all_packets() {
                        self.finish(true)
                    } else {
                        Err(trouble(&self.failure, &error))
                    };
                }
            };
            // Every valid packet takes space in the file; tables can claim billions.
            self.bytes_read += 1;
            if self.bytes_read > self.bytes {
                return Err(undecodable("more packets than bytes").into());
            }
            if packet.track_id != self.track_id {
                continue;
            }
            self.packets_read += 1;
            let decoded = self.codec.decode(&packet.data, 0);
            let block = decoded.map_err(|defect| self.codec.fault(defect, self.frames))?;
            return Ok(Some(block));
        }
    }

    fn has_all_packets(&self) -> bool {
        self.packets.is_some_and(|packets| self.packets_read >= packets)
    }

    fn finish(&mut self, ended_early: bool) -> Result<Option<Block>, ReadError> {
        self.is_finished = true;
        let stated = self.stated.filter(|stated| *stated > self.frames);
        let is_short = stated.is_some_and(|stated| stated > self.frames + SLACK);
        if (ended_early && !self.has_all_packets()) || is_short {
            let note = part::short(self.allow_truncated, "frames", stated, self.frames)?;
            self.notes.push(note);
        }
        let Keep { dropped_start: start, dropped_end: end, .. } = self.keep;
        if start + end > 0 {
            self.notes.push(Note::EncoderDelay { start, end });
        }
        Ok(None)
    }
}

impl Keep {
    /// By the edit list or the gapless tag. `present` is the number of frames in the packets: a
    /// length that cuts more off than an encoder adds is false.
    fn of(sound: Option<&Track>, present: Option<u64>, rate: u32, notes: &mut Vec<Note>) -> Keep {
        let all = Keep { start: 0, end: None, dropped_start: 0, dropped_end: 0 };
        let Some(window) = sound.and_then(|sound| sound.window.as_ref()) else { return all };
        let frames = |ticks: u64| {
            let exact = u128::from(ticks) * u128::from(rate) / u128::from(window.ticks_per_second);
            u64::try_from(exact).unwrap_or(u64::MAX)
        };
        let start = frames(window.delay);
        let end = window.length.map(|length| start.saturating_add(frames(length)));
        match (end, present) {
            (Some(stated), Some(present)) if stated.saturating_add(MAX_PADDING) < present => {
                let present = present.saturating_sub(start);
                notes.push(Note::FalseLength { stated: stated - start, present });
                Keep { start, end: None, ..all }
            }
            _ => Keep { start, end, ..all },
        }
    }

    /// Drops the frames of a block that are not kept; `first` is the number of its first frame.
    fn cut(&mut self, block: &mut Block, first: u64) {
        let last = first + block.frames();
        if let Some(end) = self.end {
            self.dropped_end += block.drop_end(last.saturating_sub(end.max(first)));
        }
        self.dropped_start += block.drop_start(self.start.saturating_sub(first));
    }
}

/// The boxes of one file.
struct Boxes {
    movie: Option<std::ops::Range<u64>>,
    end: u64,
    /// The start of the next file, or the end of all: a false length of a box hides nothing.
    readable: u64,
}

impl Boxes {
    /// Walks the outer boxes up to those of the next file, or to bytes that are none.
    fn walk(input: &mut Input<'_>, start: u64) -> Result<Boxes, ReadError> {
        let size = input.size();
        let mut boxes = Boxes { movie: None, end: start, readable: size };
        loop {
            let at = boxes.end;
            let header = input.part(at, 16)?;
            let is_name = header.len() >= 8 && header[4..8].iter().all(u8::is_ascii_graphic);
            if is_name && at > start && &header[4..8] == b"ftyp" {
                boxes.readable = at;
                return Ok(boxes);
            }
            if !is_name {
                return Ok(boxes);
            }
            let number =
                |at: usize| header[at..at + 4].iter().fold(0, |n, b| n << 8 | u64::from(*b));
            let (body, length) = match number(0) {
                0 => (8, size - at),
                1 if header.len() == 16 => (16, number(8) << 32 | number(12)),
                length => (8, length),
            };
            if length < body {
                return Ok(boxes);
            }
            let end = at.saturating_add(length).min(size);
            if &header[4..8] == b"moov" && boxes.movie.is_none() && length <= MAX_MOVIE_BYTES {
                boxes.movie = Some(at + body..end);
            }
            boxes.end = end;
        }
    }
}

/// The frames in each packet but the last.
fn packet_frames(name: &str, parameters: &AudioCodecParameters) -> Option<u64> {
    match name {
        "AAC" => Some(1_024),
        // The first number of the codec's own header.
        "ALAC" => {
            let cookie = parameters.extra_data.as_deref()?.get(..4)?;
            Some(Order::Big.u32(cookie, 0).into())
        }
        _ => None,
    }
}

/// The name of a codec by that of its samples.
fn codec_name(name: Option<[u8; 4]>) -> &'static str {
    match name.as_ref() {
        Some(b"mp4a") => "AAC",
        Some(b"alac") => "ALAC",
        Some(b"ac-3") => "AC-3",
        Some(b"ec-3") => "E-AC-3",
        Some(b"Opus") => "Opus",
        Some(b"fLaC") => "FLAC",
        Some(b".mp3") => "MP3",
        Some(b"samr" | b"sawb") => "AMR",
        Some(b"enca") => "encrypted sound",
        Some(b"sowt" | b"twos" | b"lpcm" | b"raw " | b"in24" | b"in32" | b"fl32") => "PCM",
        _ => "an unknown codec",
    }
}

fn undecodable(problem: &str) -> Fault {
    Fault::Undecodable { format: AudioContainer::M4a, problem: problem.to_owned() }
}

fn trouble(failure: &InputFailure, error: &Error) -> ReadError {
    if let Some(error) = failure.take() {
        return ReadError::Io(error);
    }
    match codec::defect(error) {
        Defect::Unsupported => {
            undecodable("its boxes do not describe a recording: the file may be cut off").into()
        }
        Defect::Short => undecodable("the file ends early").into(),
        Defect::Inconsistent => undecodable("its boxes contradict each other").into(),
    }
}

impl AudioFile for Mp4<'_> {
    fn read(&mut self, _: &mut Input<'_>) -> Result<Option<Block>, ReadError> {
        if self.is_finished {
            return Ok(None);
        }
        let Some(mut block) = self.packet()? else { return Ok(None) };
        let first = self.frames;
        self.frames += block.frames();
        self.keep.cut(&mut block, first);
        Ok(Some(block))
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }
}
