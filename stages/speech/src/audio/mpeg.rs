//! The headers of the frames of MPEG audio, and the tag that encoders put into the first frame of an
//! MP3 file: its length and the frames that the encoder added.

/// The bytes of a header.
pub const HEADER: usize = 4;

/// The header of a frame of MPEG audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpegFrameHeader {
    /// 1, 2 or 3.
    pub layer: u8,
    version: Version,
    pub rate: u32,
    pub channels: u16,
    has_crc: bool,
    /// The bytes of the frame; None for a free bit rate, which no header states.
    pub length: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
    TwoAndHalf,
}

impl MpegFrameHeader {
    pub fn parse(bytes: &[u8]) -> Option<MpegFrameHeader> {
        const RATES: [u32; 3] = [44_100, 48_000, 32_000];
        let [0xFF, second, third, fourth, ..] = *bytes else { return None };
        let version = match (second >> 3) & 3 {
            0 => Version::TwoAndHalf,
            2 => Version::Two,
            3 => Version::One,
            _ => return None,
        };
        let layer = 4 - ((second >> 1) & 3);
        if second & 0xE0 != 0xE0 || layer == 4 {
            return None;
        }
        let rate = RATES.get(usize::from((third >> 2) & 3))?;
        let rate = match version {
            Version::One => *rate,
            Version::Two => rate / 2,
            Version::TwoAndHalf => rate / 4,
        };
        let channels = if fourth >> 6 == 3 { 1 } else { 2 };
        let padding = usize::from((third >> 1) & 1);
        let length = match bit_rate(version, layer, third >> 4)? {
            0 => None,
            bits => Some(frame_length(version, layer, bits, rate) + padding),
        };
        Some(MpegFrameHeader { layer, version, rate, channels, has_crc: second & 1 == 0, length })
    }

    /// True if both can be frames of one stream.
    pub fn is_like(&self, other: &MpegFrameHeader) -> bool {
        (self.layer, self.version, self.rate, self.channels)
            == (other.layer, other.version, other.rate, other.channels)
    }

    /// The frames of sound in a frame of layer 3.
    pub fn frames(&self) -> u64 {
        if self.version == Version::One { 1_152 } else { 576 }
    }

    /// The offset of the side information of layer 3.
    fn side_offset(&self) -> usize {
        HEADER + if self.has_crc { 2 } else { 0 }
    }

    fn side_length(&self) -> usize {
        match (self.version, self.channels) {
            (Version::One, 1) => 17,
            (Version::One, _) => 32,
            (_, 1) => 9,
            (_, _) => 17,
        }
    }

    /// The bytes of earlier frames that a frame of layer 3 needs, and the bytes that it can give to
    /// later ones.
    pub fn borrowed(&self, frame: &[u8]) -> Option<(usize, usize)> {
        let side = frame.get(self.side_offset()..)?;
        let main = side.len().checked_sub(self.side_length())?;
        let needed = match self.version {
            Version::One => usize::from(side[0]) << 1 | usize::from(side[1] >> 7),
            _ => usize::from(side[0]),
        };
        Some((needed, main))
    }
}

/// Bits a second; 0 for a free bit rate.
fn bit_rate(version: Version, layer: u8, code: u8) -> Option<u32> {
    const ONE: [[u32; 15]; 3] = [
        [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
        [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    ];
    const TWO: [[u32; 15]; 2] = [
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
        [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    ];
    let table = match version {
        Version::One => &ONE[usize::from(layer) - 1],
        _ => &TWO[usize::from(layer > 1)],
    };
    table.get(usize::from(code)).map(|kilobits| kilobits * 1_000)
}

/// The bytes of a frame without padding.
fn frame_length(version: Version, layer: u8, bits: u32, rate: u32) -> usize {
    let slots = match (layer, version) {
        (1, _) => return (12 * bits / rate) as usize * 4,
        (3, Version::Two | Version::TwoAndHalf) => 72,
        _ => 144,
    };
    (slots * bits / rate) as usize
}

/// The tag of an encoder in the first frame: Xing, Info or VBRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tag {
    /// The frames of MPEG audio behind this one.
    pub frames: Option<u32>,
    /// The bytes from this frame on.
    pub bytes: Option<u32>,
    /// The frames of sound that the encoder added before and after.
    pub added: Option<(u32, u32)>,
}

impl Tag {
    /// The tag in this frame; None if it is a frame of sound.
    pub fn parse(header: &MpegFrameHeader, frame: &[u8]) -> Option<Tag> {
        let side = frame.get(header.side_offset()..)?;
        // The checksum does not move the tag.
        let tag = frame.get(HEADER + header.side_length()..)?;
        let is_silent = |until: usize| side.iter().take(until).all(|byte| *byte == 0);
        if matches!(tag.get(..4), Some(b"Xing" | b"Info"))
            && is_silent(header.side_length() - (header.side_offset() - HEADER))
        {
            return Some(Tag::xing(tag));
        }
        let tag = frame.get(HEADER + 32..)?;
        (tag.starts_with(b"VBRI\0\x01") && is_silent(32 - (header.side_offset() - HEADER)))
            .then(|| Tag { frames: number(tag, 14), bytes: number(tag, 10), added: None })
    }

    fn xing(tag: &[u8]) -> Tag {
        let flags = number(tag, 4).unwrap_or(0);
        let mut at = 8;
        let mut field = |flag: u32, size: usize| {
            let found = (flags & flag != 0).then(|| number(tag, at));
            at += if found.is_some() { size } else { 0 };
            found.flatten()
        };
        let (frames, bytes) = (field(1, 4), field(2, 4));
        // The table of contents and the quality.
        let _ = (field(4, 100), field(8, 4));
        let added = tag.get(at..at + 24).and_then(encoder_delay);
        Tag { frames, bytes, added }
    }
}

/// The frames that the encoder added, from its own part of the tag.
fn encoder_delay(tag: &[u8]) -> Option<(u32, u32)> {
    /// The delay of every decoder, which the tag does not include.
    const DECODER: u32 = 528 + 1;
    let is_known = [&b"LAME"[..], b"Lavf", b"Lavc"].iter().any(|name| tag.starts_with(name));
    let bits = u32::from(tag[21]) << 16 | u32::from(tag[22]) << 8 | u32::from(tag[23]);
    is_known.then(|| (DECODER + (bits >> 12), (bits & 0xFFF).saturating_sub(DECODER)))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MP3: &[u8] = include_bytes!("../../tests/audio_fixtures/tone.mp3");

    #[test]
    fn headers_state_the_length_of_their_frames() {
        let stereo = MpegFrameHeader::parse(&[0xFF, 0xFB, 0x90, 0x44]).unwrap();
        assert_eq!((stereo.rate, stereo.channels, stereo.length), (44_100, 2, Some(417)));
        let padded = MpegFrameHeader::parse(&[0xFF, 0xFB, 0x92, 0xC4]).unwrap();
        assert_eq!((padded.channels, padded.length), (1, Some(418)));
        let low = MpegFrameHeader::parse(&[0xFF, 0xF3, 0x84, 0xC4]).unwrap();
        assert_eq!((low.rate, low.length, low.frames()), (24_000, Some(192), 576));
        for no_header in [[0xFF, 0xFF, 0xFF, 0xFF], [0xFF, 0xE9, 0x90, 0], [0xFF, 0xF1, 0x50, 0x80]]
        {
            assert_eq!(MpegFrameHeader::parse(&no_header), None);
        }
        assert_eq!(MpegFrameHeader::parse(&[0xFF, 0xFB, 0x00, 0x44]).unwrap().length, None);
    }

    #[test]
    fn the_tag_of_the_first_frame_is_read() {
        let at = MP3.windows(2).position(|pair| pair == [0xFF, 0xFB]).unwrap();
        let header = MpegFrameHeader::parse(&MP3[at..]).unwrap();
        let tag = Tag::parse(&header, &MP3[at..at + header.length.unwrap()]).unwrap();
        assert_eq!(tag.bytes, Some((MP3.len() - at) as u32));
        // 35,280 frames of sound.
        let (start, end) = tag.added.unwrap();
        assert_eq!(tag.frames.unwrap() * 1_152, 35_280 + start + end);
        let next = &MP3[at + header.length.unwrap()..];
        assert_eq!(Tag::parse(&header, &next[..header.length.unwrap()]), None);
    }
}
