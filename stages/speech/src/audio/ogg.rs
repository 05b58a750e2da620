//! Ogg files: Vorbis and FLAC, page by page. A file that starts behind the last page of another is a
//! file of its own: chained streams are joined files.

use super::block::Block;
use super::codec::{self, PacketDecoder};
use super::fault::{Fault, ReadError};
use super::flac;
use super::flac_frame::Info;
use super::input::Input;
use super::note::Note;
use super::ogg_page::{Packets, Page};
use super::part::{self, AudioFile};
use super::pcm::Order;
use super::sniff::AudioContainer;
use symphonia::core::codecs::audio::well_known::CODEC_ID_VORBIS;

pub struct Ogg {
    serial: u32,
    codec: PacketDecoder,
    is_flac: bool,
    rate: u32,
    channels: u16,
    packets: Packets,
    /// Packets of the page with the last head.
    waiting: Option<(Page, Vec<Vec<u8>>)>,
    at: u64,
    /// The number of the next page of the stream.
    sequence: u32,
    frames: u64,
    /// The frames of the stream before its first page.
    first: Option<i64>,
    /// True if pages may be missing since the last known number of frames.
    is_interrupted: bool,
    is_complete: bool,
    skipped: u64,
    allow_truncated: bool,
    notes: Vec<Note>,
}

/// The codecs that Ogg carries, by the first bytes of their first packets.
const CODECS: [(&[u8], &str); 9] = [
    (b"\x01vorbis", "Vorbis"),
    (b"\x7fFLAC", "FLAC"),
    (b"OpusHead", "Opus"),
    (b"Speex   ", "Speex"),
    (b"PCM     ", "PCM"),
    (b"CELT    ", "CELT"),
    (b"\x80theora", "Theora"),
    (b"BBCD", "Dirac"),
    (b"fishead", "Skeleton"),
];
/// Those without sound.
const SILENT: [&str; 3] = ["Theora", "Dirac", "Skeleton"];

/// A stream by its first packet.
struct Head {
    serial: u32,
    codec: Option<&'static str>,
    packet: Vec<u8>,
}

impl Head {
    fn of(page: &Page) -> Head {
        let packet = Packets::default().of(page).into_iter().next().unwrap_or_default();
        let found = CODECS.iter().find(|(mark, _)| packet.starts_with(mark));
        Head { serial: page.serial, codec: found.map(|(_, name)| *name), packet }
    }

    fn is_read(&self) -> bool {
        matches!(self.codec, Some("Vorbis" | "FLAC"))
    }

    fn is_sound(&self) -> bool {
        self.codec.is_some_and(|codec| !SILENT.contains(&codec))
    }

    /// The number of heads behind this one.
    fn further(&self) -> usize {
        match self.packet[..] {
            // 0 stands for an unknown number; a comment must be there.
            [0x7F, _, _, _, _, _, _, high, low, ..] => {
                usize::from(u16::from_be_bytes([high, low])).max(1)
            }
            // A comment and the setup.
            _ => 2,
        }
    }
}

impl Ogg {
    pub fn open(
        input: &mut Input<'_>,
        start: u64,
        allow_truncated: bool,
    ) -> Result<Ogg, ReadError> {
        let mut at = start;
        let mut heads = Vec::new();
        while let Some(page) = Page::at(input, at)?.filter(|page| page.is_first) {
            heads.push(Head::of(&page));
            at = page.end;
        }
        let Some(head) = heads.iter().find(|head| head.is_read()) else {
            return Err(no_sound(input, at, &heads)?.into());
        };
        let Setup { packets, page, last, waiting } = Setup::read(input, at, head)?;
        let (codec, rate, channels) = decoder(&head.packet, &last)?;
        let others = heads.iter().filter(|head| head.is_sound()).count() as u64 - 1;
        let notes = match others {
            0 => Vec::new(),
            count => vec![Note::OtherTracks { count }],
        };
        Ok(Ogg {
            serial: head.serial,
            codec,
            is_flac: head.codec == Some("FLAC"),
            rate,
            channels,
            packets,
            at: page.end,
            sequence: page.sequence.wrapping_add(1),
            waiting: Some((page, waiting)),
            frames: 0,
            first: None,
            is_interrupted: false,
            is_complete: false,
            skipped: 0,
            allow_truncated,
            notes,
        })
    }

    /// Heads may be repeated, and an empty packet stands for nothing.
    fn is_sound(&self, packet: &[u8]) -> bool {
        packet
            .first()
            .is_some_and(|first| if self.is_flac { *first == 0xFF } else { first & 1 == 0 })
    }

    /// The samples of the packets that end on a page.
    fn take(&mut self, page: &Page, packets: Vec<Vec<u8>>) -> Result<Block, ReadError> {
        self.is_complete |= page.is_last;
        let mut all: Option<Block> = None;
        for packet in packets {
            if !self.is_sound(&packet) {
                continue;
            }
            let decoded = self.codec.decode(&packet, 0);
            let block = decoded.map_err(|defect| self.codec.fault(defect, self.frames))?;
            self.frames += block.frames();
            match &mut all {
                Some(all) => all.samples.append(block.samples),
                None => all = Some(block),
            }
        }
        let mut block = all.unwrap_or_else(|| Block::empty(self.rate, self.channels));
        if let Some(granule) = page.granule {
            self.compare(page, granule, &mut block)?;
        }
        Ok(block)
    }

    /// Compares the number of frames that a page states with those that were decoded. The first page
    /// may cut frames off at the start, the last at the end, and no more than their own.
    fn compare(&mut self, page: &Page, granule: i64, block: &mut Block) -> Result<(), ReadError> {
        let Some(first) = self.first else {
            let before = granule.saturating_sub(self.frames as i64);
            // If the first page is also the last, its end is cut.
            self.first = Some(if page.is_last { 0 } else { before });
            if page.is_last {
                self.cut_end(granule, block);
            } else if before < 0 {
                let start = block.drop_start(before.unsigned_abs());
                self.notes.push(Note::EncoderDelay { start, end: 0 });
            }
            return self.not_interrupted(before > 0);
        };
        let stated = granule.saturating_sub(first);
        self.not_interrupted(stated > self.frames as i64)?;
        if page.is_last {
            self.cut_end(stated, block);
        }
        Ok(())
    }

    /// If pages may be missing, the number of frames shows if they are.
    fn not_interrupted(&mut self, is_short: bool) -> Result<(), ReadError> {
        if std::mem::take(&mut self.is_interrupted) && is_short {
            let problem = format!("a part is damaged after {} frames", self.frames);
            return Err(Fault::Undecodable { format: AudioContainer::Ogg, problem }.into());
        }
        Ok(())
    }

    fn cut_end(&mut self, stated: i64, block: &mut Block) {
        let present = self.frames;
        match u64::try_from(stated).ok().map(|stated| (stated, present.checked_sub(stated))) {
            Some((_, Some(padding))) if padding <= block.frames() => {
                self.frames -= block.drop_end(padding);
            }
            stated => {
                let stated = stated.map_or(0, |(stated, _)| stated);
                self.notes.push(Note::FalseLength { stated, present });
            }
        }
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let damaged = |problem: String| Fault::Undecodable { format: AudioContainer::Ogg, problem };
        if self.is_interrupted {
            return Err(damaged(format!("a part is damaged after {} frames", self.frames)));
        }
        if !self.is_complete {
            self.notes.push(part::short(self.allow_truncated, "frames", None, self.frames)?);
        } else if self.codec.digest_fits() == Some(false) {
            return Err(damaged("the samples do not match the checksum in the file".to_owned()));
        }
        if self.skipped > 0 {
            self.notes.push(Note::SkippedBytes { count: self.skipped });
        }
        Ok(())
    }

    /// The next page of this file. None if another file or the end comes before it.
    fn next_page(&mut self, input: &mut Input<'_>) -> Result<Option<Page>, ReadError> {
        let found = match Page::at(input, self.at)? {
            Some(page) => Some((self.at, page)),
            // Any bytes may stand behind the last page.
            None if self.is_complete => None,
            None => Page::next(input, self.at)?,
        };
        let Some((at, page)) = found else { return Ok(None) };
        if at > self.at {
            self.skipped += at - self.at;
            self.is_interrupted = true;
            self.packets.interrupt();
        }
        self.at = at;
        if page.is_first {
            // Not every stream marks its last page.
            self.is_complete |= !self.is_interrupted;
            return Ok(None);
        }
        self.at = page.end;
        Ok(Some(page))
    }
}

/// The heads behind the first.
struct Setup {
    packets: Packets,
    /// The page on which the last head ends, and the packets behind it.
    page: Page,
    waiting: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Setup {
    fn read(input: &mut Input<'_>, start: u64, head: &Head) -> Result<Setup, ReadError> {
        let mut packets = Packets::default();
        let mut left = head.further();
        let mut at = start;
        loop {
            let page = Page::at(input, at)?.filter(|page| !page.is_first);
            let page = page.ok_or_else(damaged_head)?;
            at = page.end;
            if page.serial != head.serial {
                continue;
            }
            let mut found = packets.of(&page).into_iter();
            for packet in found.by_ref() {
                left -= 1;
                if left == 0 {
                    let waiting = found.collect();
                    return Ok(Setup { packets, page, waiting, last: packet });
                }
            }
        }
    }
}

fn damaged_head() -> Fault {
    let problem = "the header of the stream is damaged or cut off".to_owned();
    Fault::Undecodable { format: AudioContainer::Ogg, problem }
}

/// The decoder by the first and the last head, with rate and channels.
fn decoder(head: &[u8], setup: &[u8]) -> Result<(PacketDecoder, u32, u16), Fault> {
    if head.starts_with(b"\x7fFLAC") {
        let info = head.get(17..17 + Info::BYTES).ok_or_else(damaged_head)?;
        let parsed = Info::parse(info).ok_or_else(damaged_head)?;
        let codec =
            PacketDecoder::new("FLAC", AudioContainer::Ogg, &flac::parameters(&parsed, info))?;
        return Ok((codec, parsed.rate, parsed.channels));
    }
    if head.len() < 16 {
        return Err(damaged_head());
    }
    let (rate, channels) = (Order::Little.u32(head, 12), head[11].into());
    let mut parameters = codec::parameters(CODEC_ID_VORBIS, rate, channels);
    parameters.with_extra_data([head, setup].concat().into());
    Ok((PacketDecoder::new("Vorbis", AudioContainer::Ogg, &parameters)?, rate, channels))
}

/// The fault if no stream can be decoded; `at` is the offset after their headers.
fn no_sound(input: &mut Input<'_>, mut at: u64, heads: &[Head]) -> Result<Fault, ReadError> {
    if heads.is_empty() {
        return Ok(damaged_head());
    }
    let sound = heads.iter().find(|head| head.is_sound()).or(heads.first());
    let what = match sound.and_then(|head| head.codec) {
        Some(codec) => format!("{codec} in Ogg"),
        None => "an Ogg file of an unknown codec".to_owned(),
    };
    while let Some((_, page)) = Page::next(input, at)? {
        if page.is_first {
            return Ok(Fault::Unsupported { what: format!("{what}, several streams in a chain") });
        }
        at = page.end;
    }
    Ok(Fault::Unsupported { what })
}

impl AudioFile for Ogg {
    fn read(&mut self, input: &mut Input<'_>) -> Result<Option<Block>, ReadError> {
        if let Some((page, packets)) = self.waiting.take() {
            return self.take(&page, packets).map(Some);
        }
        loop {
            let Some(page) = self.next_page(input)? else {
                self.finish()?;
                return Ok(None);
            };
            if page.serial != self.serial {
                continue;
            }
            if page.sequence != self.sequence {
                self.is_interrupted = true;
                self.packets.interrupt();
            }
            self.sequence = page.sequence.wrapping_add(1);
            let packets = self.packets.of(&page);
            return self.take(&page, packets).map(Some);
        }
    }

    fn end(&self) -> u64 {
        self.at
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }
}
