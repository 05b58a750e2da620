//! FLAC files, frame by frame. A frame is whole if its checksum is right and its samples fill it; so
//! neither damage nor whatever stands behind the file is taken for sound.

use super::block::Block;
use super::codec::{self, Defect, PacketDecoder};
use super::fault::{Fault, ReadError};
use super::flac_frame::{
    self as frame, CHECKSUM, FlacFrameHeader, Info, LONGEST_FRAME, LONGEST_HEADER,
};
use super::input::Input;
use super::note::Note;
use super::part::{self, AudioFile};
use super::sniff::AudioContainer;
use symphonia::core::codecs::audio::well_known::CODEC_ID_FLAC;

/// The bytes in which the end of a frame is first looked for.
const USUAL_FRAME: usize = 1 << 16;
/// By fewer bytes than these a damaged frame is read as too short.
const SHIFT: usize = 8;
/// The most headers without a whole frame behind them. By chance there is one in some megabytes of
/// noise; each costs a search for its end.
const MAX_FALSE_HEADERS: u32 = 64;
/// The bytes of an ID3 version 1 tag.
const ID3_1: usize = 128;

pub struct Flac {
    info: Info,
    codec: PacketDecoder,
    at: u64,
    frames: u64,
    /// The frames of sound in each frame, if all have the same number.
    block: u64,
    /// The number of the first sample: not 0 in a part of a longer stream.
    first: u64,
    /// The frames before a missing part.
    hole: Option<u64>,
    /// Bytes that belong to no frame.
    skipped: u64,
    false_headers: u32,
    is_cut: bool,
    allow_truncated: bool,
    notes: Vec<Note>,
}

/// The parameters of the decoder.
pub fn parameters(
    info: &Info,
    bytes: &[u8],
) -> symphonia::core::codecs::audio::AudioCodecParameters {
    let mut parameters = codec::parameters(CODEC_ID_FLAC, info.rate, info.channels);
    parameters.with_bits_per_sample(info.bits.into()).with_extra_data(bytes.into());
    parameters
}

impl Flac {
    pub fn open(
        input: &mut Input<'_>,
        start: u64,
        allow_truncated: bool,
    ) -> Result<Flac, ReadError> {
        let (info_at, at) = Self::metadata(input, start)?;
        let bytes = input.part(info_at, Info::BYTES)?;
        let Some(info) = Info::parse(bytes) else { return Err(ends_in_head().into()) };
        let codec = PacketDecoder::new("FLAC", AudioContainer::Flac, &parameters(&info, bytes))?;
        let head = input.part(at, LONGEST_HEADER)?;
        // Without a stated length it may be a part of a longer stream.
        let header = FlacFrameHeader::parse(head);
        let block = u64::from(header.map_or(info.block.into(), |header| header.frames));
        let first = match header {
            Some(header) if info.frames == 0 => header.first_sample(block),
            _ => 0,
        };
        Ok(Flac {
            info,
            codec,
            at,
            frames: 0,
            block,
            first,
            hole: None,
            skipped: 0,
            false_headers: 0,
            is_cut: false,
            allow_truncated,
            notes: Vec::new(),
        })
    }

    /// The offsets of `STREAMINFO` and of the first frame.
    fn metadata(input: &mut Input<'_>, start: u64) -> Result<(u64, u64), ReadError> {
        let mut at = start + frame::id3_length(input.part(start, 10)?) + 4;
        let mut info = None;
        loop {
            let header = input.part(at, 4)?;
            let [kind, length @ ..] = header else { return Err(ends_in_head().into()) };
            if length.len() < 3 {
                return Err(ends_in_head().into());
            }
            let is_last = kind & 0x80 != 0;
            let is_info = kind & 0x7F == 0;
            let length = length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
            if is_info && info.is_none() {
                info = Some(at + 4);
            }
            at += 4 + length;
            if is_last {
                let absent = || Fault::Undecodable {
                    format: AudioContainer::Flac,
                    problem: "it has no STREAMINFO block".to_owned(),
                };
                return Ok((info.ok_or_else(absent)?, at));
            }
        }
    }

    /// The whole frame at an offset, if one starts there.
    fn frame_at(&mut self, input: &mut Input<'_>, at: u64) -> Result<Option<Frame>, ReadError> {
        let Some(header) = FlacFrameHeader::parse(input.part(at, LONGEST_HEADER)?) else {
            return Ok(None);
        };
        let mut size = USUAL_FRAME;
        loop {
            let bytes = input.part(at, size)?;
            let is_end = bytes.len() < size;
            if let Some(found) = self.decode(bytes, is_end, header) {
                return Ok(Some(found));
            }
            if is_end || size >= LONGEST_FRAME {
                self.false_headers += 1;
                return Ok(None);
            }
            size *= 8;
        }
    }

    /// The frame at the start of these bytes. An end is right if the samples fill the frame, or if
    /// the next frame follows.
    fn decode(&mut self, bytes: &[u8], is_end: bool, header: FlacFrameHeader) -> Option<Frame> {
        // The next header must be among the bytes.
        let room = if is_end { 0 } else { LONGEST_HEADER };
        let is_alike = header.channels == self.info.channels;
        frame::ends(&bytes[..bytes.len().saturating_sub(room)]).find_map(|length| {
            let (samples, rest) = (&bytes[..length - CHECKSUM], &bytes[length..]);
            let is_followed = rest.is_empty() || FlacFrameHeader::parse(rest).is_some();
            if !is_alike && is_followed {
                let block = Block::empty(self.info.rate, header.channels);
                return Some(Frame { length: length as u64, header, block });
            }
            if !is_followed && self.codec.decode(&samples[..samples.len() - 1], 0).is_ok() {
                return None;
            }
            let block = self.codec.decode(samples, 0).ok()?;
            let is_whole = block.frames() == u64::from(header.frames);
            is_whole.then_some(Frame { length: length as u64, header, block })
        })
    }

    /// Takes the frame at the present offset.
    fn take(&mut self, frame: Frame) -> Result<Block, ReadError> {
        let Frame { length, header, block } = frame;
        if header.first_sample(self.block) != self.first + self.frames {
            self.hole.get_or_insert(self.frames);
        }
        let is_odd = header.bits.is_some_and(|bits| bits != self.info.bits);
        if is_odd && self.info.bits <= 16 {
            let problem = format!("the bits of a sample change after {} frames", self.frames);
            return Err(Fault::Undecodable { format: AudioContainer::Flac, problem }.into());
        }
        self.at += length;
        self.frames += block.frames();
        let rate = header.rate.unwrap_or(self.info.rate);
        Ok(Block { rate, ..block })
    }

    /// The next whole frame behind damaged bytes, with its offset; None if another file or the end
    /// comes before it.
    fn next_frame(&mut self, input: &mut Input<'_>) -> Result<Option<(u64, Frame)>, ReadError> {
        let mut at = self.at + 1;
        while self.false_headers < MAX_FALSE_HEADERS {
            let bytes = input.part(at, USUAL_FRAME)?;
            let starts = |four: &[u8]| frame::begins_frame(four) || four == b"fLaC";
            match bytes.windows(4).position(starts) {
                Some(place) if bytes[place..].starts_with(b"fLaC") => return Ok(None),
                Some(place) => {
                    at += place as u64;
                    if self.fits(input, at)?
                        && let Some(found) = self.frame_at(input, at)?
                    {
                        return Ok(Some((at, found)));
                    }
                    at += 1;
                }
                None if bytes.len() < USUAL_FRAME => return Ok(None),
                None => at += bytes.len() as u64 - 3,
            }
        }
        Ok(None)
    }

    /// True if the header at an offset is one of this file.
    fn fits(&self, input: &mut Input<'_>, at: u64) -> Result<bool, ReadError> {
        let Some(header) = FlacFrameHeader::parse(input.part(at, LONGEST_HEADER)?) else {
            return Ok(false);
        };
        let is_later = header.first_sample(self.block) >= self.first + self.frames;
        let is_alike = header.channels == self.info.channels
            && header.rate.is_none_or(|rate| rate == self.info.rate);
        Ok(is_later && is_alike)
    }

    /// The verdict on bytes that are no whole frame, where all frames that are stated should be. A
    /// last frame without a matching checksum is cut off or damaged. If the file ends where the frame
    /// does, nothing is missing. Damage that makes the frame read as longer than the file looks like
    /// a cut.
    fn judge_last_frame(&mut self, input: &mut Input<'_>) -> Result<(), ReadError> {
        let head = input.part(self.at, LONGEST_HEADER)?;
        self.is_cut = FlacFrameHeader::parse(head).is_some();
        if !frame::begins_frame(head) || self.frames >= self.info.frames || self.hole.is_some() {
            return Ok(());
        }
        let frame = input.part(self.at, LONGEST_FRAME)?;
        let tag = frame.len().saturating_sub(ID3_1);
        let frame = if frame[tag..].starts_with(b"TAG") { &frame[..tag] } else { frame };
        let Some(length) = frame.len().checked_sub(CHECKSUM) else { return Ok(()) };
        let is_damaged = match self.codec.decode(&frame[..length], 0) {
            // After more bytes than that, the start of a frame may have something else behind it.
            Ok(_) => self.codec.decode(&frame[..length.saturating_sub(SHIFT)], 0).is_err(),
            Err(defect) => defect != Defect::Short,
        };
        if is_damaged {
            Err(Fault::Undecodable {
                format: AudioContainer::Flac,
                problem: format!("the last block is damaged, after {} frames", self.frames),
            }
            .into())
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let undecodable =
            |problem: String| Fault::Undecodable { format: AudioContainer::Flac, problem };
        let digest_fits = self.codec.digest_fits();
        let (stated, present) = (self.info.frames, self.frames);
        if let (Some(frames), false) = (self.hole, digest_fits == Some(true)) {
            return Err(undecodable(format!("a part is damaged after {frames} frames")));
        }
        // The digest covers all samples: if it fits, the stated length may be wrong.
        if digest_fits != Some(true) && stated > present {
            let note = part::short(self.allow_truncated, "frames", Some(stated), present)?;
            self.notes.push(note);
        } else if digest_fits != Some(true) && self.is_cut {
            self.notes.push(part::short(self.allow_truncated, "frames", None, present)?);
        } else if digest_fits == Some(false) {
            let problem = "the samples do not match the checksum in the file";
            return Err(undecodable(problem.to_owned()));
        } else if stated != 0 && stated != present {
            self.notes.push(Note::FalseLength { stated, present });
        }
        if self.skipped > 0 {
            self.notes.push(Note::SkippedBytes { count: self.skipped });
        }
        Ok(())
    }
}

/// A whole frame.
struct Frame {
    length: u64,
    header: FlacFrameHeader,
    block: Block,
}

fn ends_in_head() -> Fault {
    Fault::Undecodable {
        format: AudioContainer::Flac,
        problem: "the file ends in its header".to_owned(),
    }
}

impl AudioFile for Flac {
    fn read(&mut self, input: &mut Input<'_>) -> Result<Option<Block>, ReadError> {
        if let Some(found) = self.frame_at(input, self.at)? {
            return self.take(found).map(Some);
        }
        match self.next_frame(input)? {
            Some((at, found)) => {
                self.skipped += at - self.at;
                self.at = at;
                self.take(found).map(Some)
            }
            None => {
                self.judge_last_frame(input)?;
                self.finish()?;
                Ok(None)
            }
        }
    }

    fn end(&self) -> u64 {
        self.at
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }
}
