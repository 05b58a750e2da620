//! Finds the end of the last frame of a FLAC file. A reader finds the end of a frame by the start
//! of the next one; after the last frame a tag or any other data may follow, and only the checksum
//! shows the end.

/// The largest number of returned ends with a valid checksum: one in 65,536 is valid by chance.
const ENDS: usize = 64;
/// The bytes of the checksum at the end of a frame.
pub const CHECKSUM: usize = 2;
/// The checksum takes two bytes, the header before it at least six.
const SHORTEST_FRAME: usize = 10;
/// More bytes than the longest frame.
const LONGEST_FRAME: usize = 16 << 20;

/// The start of the first frame.
pub fn first_frame(bytes: &[u8]) -> Option<usize> {
    let mut at = behind_id3(bytes)?;
    if bytes.get(at..at + 4)? != b"fLaC" {
        return None;
    }
    at += 4;
    loop {
        let header = bytes.get(at..at + 4)?;
        let length = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
        at = at.checked_add(4 + length)?;
        if header[0] & 0x80 != 0 {
            return Some(at);
        }
    }
}

/// An ID3 version 2 tag may precede the file.
fn behind_id3(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(b"ID3") {
        return Some(0);
    }
    let size = bytes.get(6..10)?;
    let length = size.iter().fold(0, |length, &byte| length << 7 | usize::from(byte & 0x7F));
    let has_footer = bytes[5] & 0x10 != 0;
    Some(10 + length + if has_footer { 10 } else { 0 })
}

/// Without a tag of ID3 version 1 at the end.
pub fn before_tag(bytes: &[u8]) -> &[u8] {
    const LENGTH: usize = 128;
    let end = bytes.len().saturating_sub(LENGTH);
    if bytes[end..].starts_with(b"TAG") { &bytes[..end] } else { bytes }
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
    fn metadata_cut_anywhere_has_no_first_frame() {
        let streaminfo = [&[0x80, 0, 0, 34][..], &[0; 34]].concat();
        let bytes = [b"ID3\x04\0\0\0\0\0\x02..fLaC", &streaminfo[..], b"\xFF\xF8"].concat();
        assert_eq!(first_frame(&bytes), Some(12 + 4 + 38));
        for length in 0..18 {
            assert_eq!(first_frame(&bytes[..length]), None, "{length}");
        }
    }
}
