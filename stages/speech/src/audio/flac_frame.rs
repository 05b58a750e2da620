//! The frames of FLAC: their headers, and their ends. A header does not state the length of its
//! frame; a checksum at the end of the frame shows it.

use super::pcm::Order;

/// The largest number of returned ends with a valid checksum: one in 65,536 is valid by chance.
const ENDS: usize = 64;
/// The bytes of the checksum at the end of a frame.
pub const CHECKSUM: usize = 2;
/// The checksum takes two bytes, the header before it at least six.
const SHORTEST_FRAME: usize = 10;
/// More bytes than the longest frame.
pub const LONGEST_FRAME: usize = 16 << 20;
/// The bytes of the longest header.
pub const LONGEST_HEADER: usize = 16;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlacFrameHeader {
    /// The frames of sound in this frame.
    pub frames: u32,
    /// The number of the frame if all are of one length, else the number of its first sample.
    pub number: u64,
    pub is_variable: bool,
    /// None if only the head of the file states it.
    pub rate: Option<u32>,
    pub channels: u16,
    /// The same.
    pub bits: Option<u8>,
}

impl FlacFrameHeader {
    /// The header at the start of these bytes; None if there is none or its checksum is wrong.
    pub fn parse(bytes: &[u8]) -> Option<FlacFrameHeader> {
        const RATES: [u32; 11] = [
            88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000,
        ];
        const BITS: [Option<u8>; 8] =
            [None, Some(8), Some(12), None, Some(16), Some(20), Some(24), Some(32)];
        if !begins_frame(bytes) {
            return None;
        }
        let (lengths, kinds) = (*bytes.get(2)?, *bytes.get(3)?);
        let (number, mut at) = coded_number(bytes, 4)?;
        let mut field = |size: usize| {
            let found = bytes.get(at..at + size)?;
            at += size;
            Some(found.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)))
        };
        let frames = match lengths >> 4 {
            0 => return None,
            1 => 192,
            code @ 2..=5 => 576 << (code - 2),
            6 => field(1)? + 1,
            7 => field(2)? + 1,
            code => 256 << (code - 8),
        };
        let rate = match lengths & 15 {
            0 => None,
            code @ 1..=11 => Some(RATES[usize::from(code) - 1]),
            12 => Some(field(1)? * 1_000),
            13 => Some(field(2)?),
            14 => Some(field(2)? * 10),
            _ => return None,
        };
        let channels = match kinds >> 4 {
            count @ 0..=7 => u16::from(count) + 1,
            8..=10 => 2,
            _ => return None,
        };
        let bits = (kinds >> 1) & 7;
        if bits == 3 || bytes.get(..at + 1)?.iter().fold(0, |sum, byte| step_8(sum, *byte)) != 0 {
            return None;
        }
        let bits = BITS[usize::from(bits)];
        Some(FlacFrameHeader {
            frames,
            number,
            is_variable: bytes[1] & 1 != 0,
            rate,
            channels,
            bits,
        })
    }
}

impl FlacFrameHeader {
    /// The number of its first sample, where frames of one length have `block` frames of sound.
    pub fn first_sample(&self, block: u64) -> u64 {
        if self.is_variable { self.number } else { self.number * block }
    }
}

/// A number in the manner of UTF-8, of at most 36 bits, and the offset behind it.
fn coded_number(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    let ones = first.leading_ones() as usize;
    let further = match ones {
        0 => return Some((u64::from(first), at + 1)),
        2..=7 => ones - 1,
        _ => return None,
    };
    let mut number = u64::from(first) & (0x7F >> ones);
    for byte in bytes.get(at + 1..at + 1 + further)? {
        if byte >> 6 != 2 {
            return None;
        }
        number = number << 6 | u64::from(byte & 0x3F);
    }
    Some((number, at + 1 + further))
}

/// CRC-8 with the polynomial 0x07, most significant bit first.
fn step_8(sum: u8, byte: u8) -> u8 {
    (0..8).fold(sum ^ byte, |sum, _| if sum & 0x80 != 0 { (sum << 1) ^ 0x07 } else { sum << 1 })
}

/// The `STREAMINFO` block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    pub block: u16,
    pub rate: u32,
    pub channels: u16,
    pub bits: u8,
    /// The frames of the file; 0 if they were unknown.
    pub frames: u64,
}

impl Info {
    pub const BYTES: usize = 34;

    pub fn parse(bytes: &[u8]) -> Option<Info> {
        if bytes.len() < Self::BYTES {
            return None;
        }
        let word =
            u64::from(Order::Big.u32(bytes, 10)) << 32 | u64::from(Order::Big.u32(bytes, 14));
        Some(Info {
            block: Order::Big.u16(bytes, 2),
            rate: (word >> 44) as u32,
            channels: (word >> 41 & 7) as u16 + 1,
            bits: (word >> 36 & 31) as u8 + 1,
            frames: word & 0xF_FFFF_FFFF,
        })
    }
}

/// The bytes of an ID3 version 2 tag, which may precede the file; 0 if there is none. `head` has at
/// least ten bytes of a file that is not shorter.
pub fn id3_length(head: &[u8]) -> u64 {
    if !head.starts_with(b"ID3") || head.len() < 10 {
        return 0;
    }
    let length = head[6..10].iter().fold(0, |length, &byte| length << 7 | u64::from(byte & 0x7F));
    let has_footer = head[5] & 0x10 != 0;
    10 + length + if has_footer { 10 } else { 0 }
}

/// True if a frame may start here.
pub fn begins_frame(bytes: &[u8]) -> bool {
    matches!(bytes, [0xFF, 0xF8 | 0xF9, ..])
}

/// The possible lengths of the frame at the start of these bytes, by its checksum; the shortest
/// first. The true length is among them if the frame is complete.
pub fn ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let mut sum: u16 = 0;
    let lengths = bytes.iter().take(LONGEST_FRAME).enumerate().filter_map(move |(at, byte)| {
        sum = step(sum, *byte);
        // With its own checksum appended, the checksum of the bytes is zero.
        (sum == 0 && at + 1 >= SHORTEST_FRAME).then_some(at + 1)
    });
    lengths.take(ENDS)
}

/// CRC-16 with the polynomial 0x8005, most significant bit first.
fn step(sum: u16, byte: u8) -> u16 {
    const TABLE: [u16; 256] = table();
    (sum << 8) ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)]
}

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut sum = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 != 0 { (sum << 1) ^ 0x8005 } else { sum << 1 };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_where_its_checksum_is_right() {
        let frame: Vec<u8> = (0..40).collect();
        let sum = frame.iter().fold(0, |sum, byte| step(sum, *byte));
        // The check value of CRC-16/UMTS, which has this polynomial and starts at zero.
        assert_eq!(b"123456789".iter().fold(0, |sum, byte| step(sum, *byte)), 0xFEE8);
        let behind = b"TAG and anything else";
        let bytes = [&frame[..], &sum.to_be_bytes(), behind].concat();
        assert_eq!(ends(&bytes).next(), Some(42));
        assert_eq!(ends(&bytes[..41]).next(), None);
    }

    #[test]
    fn a_header_is_read_and_its_checksum_guards_it() {
        // 4,096 frames of 44,100 Hz, mono, 16 bits, the fourth of its kind.
        let mut bytes = vec![0xFF, 0xF8, 0xC9, 0x08, 0x03];
        bytes.push(bytes.iter().fold(0, |sum, byte| step_8(sum, *byte)));
        let header = FlacFrameHeader {
            frames: 4_096,
            number: 3,
            is_variable: false,
            rate: Some(44_100),
            channels: 1,
            bits: Some(16),
        };
        assert_eq!(FlacFrameHeader::parse(&bytes), Some(header));
        for bit in 0..48 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FlacFrameHeader::parse(&flipped), None, "{bit}");
        }
        assert_eq!(coded_number(&[0xF0, 0x90, 0x80, 0x81], 0), Some((0x1_0001, 4)));
        assert_eq!(coded_number(&[0xFF, 0x80], 0), None);
    }
}
