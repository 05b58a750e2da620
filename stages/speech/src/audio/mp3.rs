//! MP3 files, frame by frame, from the first to the last that is there: the tag of the encoder tells
//! the added frames, but never where to stop.

use super::block::{Block, PaddingTail};
use super::codec::{self, PacketDecoder};
use super::fault::{Fault, ReadError};
use super::flac_frame::id3_length;
use super::input::Input;
use super::mpeg::{HEADER, MpegFrameHeader, Tag};
use super::note::Note;
use super::part::{self, AudioFile};
use super::sniff::AudioContainer;
use symphonia::core::codecs::audio::well_known::CODEC_ID_MP3;

/// The bytes in which the first frame is looked for.
const MAX_JUNK_BYTES: u64 = 1 << 20;
/// The bytes of the head of an ID3 version 2 tag.
const ID3_HEADER: usize = 10;
/// The bytes that are searched at once.
const SEARCH_BYTES: usize = 1 << 16;
/// More bytes than the longest frame.
const FRAME_BYTES: usize = 8_192;
/// Frames at the start that cannot be decoded, as in a cut stream.
const MAX_BROKEN_FRAMES: u64 = 4;
/// The most bytes of earlier frames that a frame can need.
const MAX_RESERVOIR: usize = 511;
/// Encoders count their own tag, or not.
const TOLERATED_FRAMES: u64 = 2;

pub struct Mp3 {
    codec: PacketDecoder,
    tag: Option<Tag>,
    /// The offset of the tag, or of the first frame.
    start: u64,
    at: u64,
    header: MpegFrameHeader,
    /// The frames of sound, with the added ones.
    frames: u64,
    /// The added frames at the start that are still to be dropped.
    to_drop: u64,
    tail: PaddingTail,
    reservoir: usize,
    broken: u64,
    skipped: u64,
    is_finished: bool,
    allow_truncated: bool,
    notes: Vec<Note>,
}

impl Mp3 {
    pub fn open(
        input: &mut Input<'_>,
        start: u64,
        allow_truncated: bool,
    ) -> Result<Mp3, ReadError> {
        let at = behind_id3(input, start)?;
        let Some((first, header)) = next_frame(input, at, at + MAX_JUNK_BYTES, None)? else {
            return Err(no_frames(input, at)?.into());
        };
        if header.layer != 3 {
            let what = format!("MPEG audio of layer {}", header.layer);
            return Err(Fault::Unsupported { what }.into());
        }
        let frame = input.part(first, header.length.unwrap_or(0))?;
        let tag = Tag::parse(&header, frame);
        let behind = first + frame.len() as u64;
        let parameters = codec::parameters(CODEC_ID_MP3, header.rate, header.channels);
        let (delay, padding) = tag.and_then(|tag| tag.added).unwrap_or((0, 0));
        Ok(Mp3 {
            codec: PacketDecoder::new("MP3", AudioContainer::Mp3, &parameters)?,
            tag,
            start: first,
            at: if tag.is_some() { behind } else { first },
            header,
            frames: 0,
            to_drop: delay.into(),
            tail: PaddingTail::new(padding.into()),
            reservoir: 0,
            broken: 0,
            skipped: first - at,
            is_finished: false,
            allow_truncated,
            notes: Vec::new(),
        })
    }

    /// The length of the frame at the present offset. Another rate or number of channels is believed
    /// if a second frame agrees: it ends this file. A tag ends it too.
    fn frame(&self, input: &mut Input<'_>) -> Result<Next, ReadError> {
        let bytes = input.part(self.at, FRAME_BYTES)?;
        let Some(header) =
            MpegFrameHeader::parse(bytes).filter(|header| header.layer == self.header.layer)
        else {
            return Ok(Next::Other);
        };
        let Some(length) = header.length else { return Ok(Next::Other) };
        if !header.is_like(&self.header) {
            let is_change = is_confirmed(&header, bytes, bytes.len() < FRAME_BYTES);
            return Ok(if is_change { Next::File } else { Next::Other });
        }
        match bytes.get(..length) {
            Some(frame) if Tag::parse(&header, frame).is_some() => Ok(Next::File),
            Some(_) => Ok(Next::Frame(header, length)),
            None => Ok(Next::Cut(bytes.len() as u64)),
        }
    }

    fn decode(
        &mut self,
        input: &mut Input<'_>,
        header: &MpegFrameHeader,
        length: usize,
    ) -> Result<Block, ReadError> {
        let frame = input.part(self.at, length)?;
        let (needed, given) = header.borrowed(frame).unwrap_or((0, 0));
        let decoded = self.codec.decode(frame, 0);
        self.at += length as u64;
        let is_incomplete = needed > self.reservoir;
        self.reservoir = (self.reservoir + given).min(MAX_RESERVOIR);
        match decoded {
            Ok(block) => {
                self.broken += u64::from(is_incomplete);
                self.frames += block.frames();
                Ok(block)
            }
            // A stream cut out of a longer one starts with frames that depend on missing ones; any
            // later damage is a gap in the recording.
            Err(_) if self.frames == 0 && self.broken < MAX_BROKEN_FRAMES => {
                self.broken += 1;
                Ok(self.empty())
            }
            Err(defect) => Err(self.codec.fault(defect, self.frames).into()),
        }
    }

    fn empty(&self) -> Block {
        Block::empty(self.header.rate, self.header.channels)
    }

    /// Drops the added frames at the start, and holds those back that may be added at the end.
    fn pass(&mut self, mut block: Block) -> Block {
        self.to_drop -= block.drop_start(self.to_drop);
        self.tail.pass(block)
    }

    /// Continues behind bytes that are no frame, if more frames follow.
    fn resume(&mut self, input: &mut Input<'_>) -> Result<bool, ReadError> {
        if begins_tag(input, self.at)? || super::sniff::begins_file(input, self.at)? {
            return Ok(false);
        }
        let Some((next, _)) = next_frame(input, self.at, u64::MAX, Some(&self.header))? else {
            return Ok(false);
        };
        self.skipped += next - self.at;
        self.at = next;
        self.reservoir = 0;
        Ok(true)
    }

    /// At the end: compares the tag with the frames, and returns the frames held back without the
    /// added ones.
    fn finish(&mut self) -> Result<Option<Block>, Fault> {
        let mut tail = self.tail.take();
        let (delay, padding) = self.tag.and_then(|tag| tag.added).unwrap_or((0, 0));
        let unit = self.header.frames();
        let mut added_end = 0;
        if let Some(stated) = self.tag.and_then(|tag| tag.frames).map(u64::from) {
            let present = self.frames / unit;
            let sound = |frames: u64| (frames * unit).saturating_sub((delay + padding).into());
            let length = || Note::FalseLength { stated: sound(stated), present: sound(present) };
            if stated == 0 {
                self.notes.push(Note::UnknownLength);
            } else if stated < present {
                self.notes.push(length());
            } else if stated <= present + TOLERATED_FRAMES {
                added_end = u64::from(padding).saturating_sub((stated - present) * unit);
            } else if self.has_all_bytes() {
                self.notes.push(length());
            } else {
                let unit = "frames of the Xing header";
                let stated = Some(sound(stated));
                let note = part::short(self.allow_truncated, unit, stated, sound(present))?;
                self.notes.push(note);
            }
        }
        let end = tail.as_mut().map_or(0, |tail| tail.drop_end(added_end));
        self.note_changes(u64::from(delay) - self.to_drop, end);
        Ok(tail)
    }

    fn note_changes(&mut self, start: u64, end: u64) {
        if self.broken > 0 {
            self.notes.push(Note::SkippedPackets { count: self.broken });
        }
        if self.skipped > 0 {
            self.notes.push(Note::SkippedBytes { count: self.skipped });
        }
        if self.tag.is_some_and(|tag| tag.added.is_some()) {
            self.notes.push(Note::EncoderDelay { start, end });
        }
    }

    /// True if the bytes that the tag states are there: then its number of frames is false.
    fn has_all_bytes(&self) -> bool {
        let stated = self.tag.and_then(|tag| tag.bytes);
        stated.is_some_and(|stated| self.start + u64::from(stated) <= self.at)
    }
}

/// The offset behind the tags of ID3 version 2. If no frame is there, the length of a tag is false, and
/// the first frame is looked for from its beginning on.
fn behind_id3(input: &mut Input<'_>, start: u64) -> Result<u64, ReadError> {
    let mut at = start;
    loop {
        let head = input.part(at, ID3_HEADER)?;
        match id3_length(head) {
            0 if at == start => return Ok(at),
            0 => break,
            length => at += length,
        }
    }
    // Tags can be padded.
    let padding = input.part(at, SEARCH_BYTES)?.iter().take_while(|byte| **byte == 0).count();
    let bytes = input.part(at + padding as u64, FRAME_BYTES)?;
    let is_right = MpegFrameHeader::parse(bytes)
        .is_some_and(|header| is_confirmed(&header, bytes, bytes.len() < FRAME_BYTES));
    Ok(if is_right { at } else { start + ID3_HEADER as u64 })
}

/// Finds of a search for the next frame.
enum Next {
    /// A frame of this file with its length.
    Frame(MpegFrameHeader, usize),
    /// A frame of this file that the end of the file cuts off after this number of bytes.
    Cut(u64),
    /// The first frame of another file.
    File,
    /// No frame.
    Other,
}

/// True if a frame like this one, a tag or the end follows the frame at the start of these bytes.
fn is_confirmed(header: &MpegFrameHeader, bytes: &[u8], is_end: bool) -> bool {
    let Some(rest) = header.length.and_then(|length| bytes.get(length..)) else { return false };
    match MpegFrameHeader::parse(rest) {
        Some(next) => next.is_like(header),
        None => is_tag(rest) || (is_end && rest.is_empty()),
    }
}

/// The first offset below `limit` with a frame that another one like it follows, and like `wanted`.
fn next_frame(
    input: &mut Input<'_>,
    start: u64,
    limit: u64,
    wanted: Option<&MpegFrameHeader>,
) -> Result<Option<(u64, MpegFrameHeader)>, ReadError> {
    let mut at = start;
    while at < limit {
        let bytes = input.part(at, SEARCH_BYTES)?;
        let is_end = bytes.len() < SEARCH_BYTES;
        let last = if is_end { bytes.len() } else { bytes.len() - FRAME_BYTES };
        for place in 0..last {
            let rest = &bytes[place..];
            let Some(header) = MpegFrameHeader::parse(rest) else { continue };
            let is_wanted = wanted.is_none_or(|wanted| wanted.is_like(&header));
            if is_wanted && is_confirmed(&header, rest, is_end) {
                return Ok(Some((at + place as u64, header)));
            }
        }
        if is_end {
            return Ok(None);
        }
        at += last as u64;
    }
    Ok(None)
}

/// True if a tag starts at an offset.
fn begins_tag(input: &mut Input<'_>, at: u64) -> Result<bool, ReadError> {
    Ok(is_tag(input.part(at, 11)?))
}

fn is_tag(bytes: &[u8]) -> bool {
    let tags: [&[u8]; 4] = [b"ID3", b"TAG", b"APETAGEX", b"LYRICSBEGIN"];
    tags.iter().any(|tag| bytes.starts_with(tag))
}

/// The fault of bytes that look like MP3 and have no two frames in a row.
fn no_frames(input: &mut Input<'_>, at: u64) -> Result<Fault, ReadError> {
    let header = MpegFrameHeader::parse(input.part(at, HEADER)?);
    Ok(match header {
        Some(MpegFrameHeader { length: None, .. }) => {
            Fault::Unsupported { what: "MP3 of a free bit rate".to_owned() }
        }
        _ => Fault::Undecodable {
            format: AudioContainer::Mp3,
            problem: "no two frames follow each other".to_owned(),
        },
    })
}

impl AudioFile for Mp3 {
    fn read(&mut self, input: &mut Input<'_>) -> Result<Option<Block>, ReadError> {
        if self.is_finished {
            return Ok(None);
        }
        match self.frame(input)? {
            Next::Frame(header, length) => {
                let block = self.decode(input, &header, length)?;
                return Ok(Some(self.pass(block)));
            }
            Next::Cut(bytes) if self.at + bytes >= input.size() => {
                self.at += bytes;
                self.notes.push(Note::OddBytes { dropped: bytes });
            }
            Next::Other | Next::Cut(_) if self.resume(input)? => return Ok(Some(self.empty())),
            Next::File | Next::Other | Next::Cut(_) => {}
        }
        self.is_finished = true;
        Ok(self.finish()?)
    }

    fn end(&self) -> u64 {
        self.at
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }
}
