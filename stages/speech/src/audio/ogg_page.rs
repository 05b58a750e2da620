//! The pages of Ogg: their headers and checksums, and the packets in them.

use super::fault::ReadError;
use super::input::Input;

/// The longest page: its header, 255 lengths, and as many times 255 bytes.
const MAX_PAGE_BYTES: usize = 27 + 255 + 255 * 255;
const HEADER_BYTES: usize = 27;
/// The bytes in which a page is looked for at once.
const SEARCH_BYTES: usize = 1 << 17;
/// The most bytes of a packet.
const MAX_PACKET_BYTES: usize = 16 << 20;

pub struct Page {
    pub serial: u32,
    pub sequence: u32,
    pub is_first: bool,
    pub is_last: bool,
    /// True if its first packet began on an earlier page.
    is_continued: bool,
    /// The frames of the stream up to the end of this page; None if no packet ends on it.
    pub granule: Option<i64>,
    /// The offset of the first byte behind it.
    pub end: u64,
    lengths: Vec<u8>,
    body: Vec<u8>,
}

impl Page {
    /// The page at an offset; None if there is none, or if it is damaged.
    pub fn at(input: &mut Input<'_>, at: u64) -> Result<Option<Page>, ReadError> {
        Ok(Page::parse(input.part(at, MAX_PAGE_BYTES)?, at))
    }

    /// The next undamaged page from an offset on, and its offset.
    pub fn next(input: &mut Input<'_>, start: u64) -> Result<Option<(u64, Page)>, ReadError> {
        let mut at = start;
        loop {
            let bytes = input.part(at, SEARCH_BYTES)?;
            match bytes.windows(4).position(|window| window == b"OggS") {
                Some(place) => {
                    at += place as u64;
                    if let Some(page) = Page::at(input, at)? {
                        return Ok(Some((at, page)));
                    }
                    at += 1;
                }
                None if bytes.len() < SEARCH_BYTES => return Ok(None),
                None => at += bytes.len() as u64 - 3,
            }
        }
    }

    fn parse(bytes: &[u8], at: u64) -> Option<Page> {
        let header = bytes.get(..HEADER_BYTES)?;
        if !header.starts_with(b"OggS\0") {
            return None;
        }
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let body_at = HEADER_BYTES + usize::from(header[26]);
        let lengths = bytes.get(HEADER_BYTES..body_at)?;
        let length: usize = lengths.iter().map(|length| usize::from(*length)).sum();
        let page = bytes.get(..body_at + length)?;
        if checksum(page) != word(22) {
            return None;
        }
        let granule = (u64::from(word(10)) << 32 | u64::from(word(6))) as i64;
        Some(Page {
            serial: word(14),
            sequence: word(18),
            is_continued: header[5] & 1 != 0,
            is_first: header[5] & 2 != 0,
            is_last: header[5] & 4 != 0,
            granule: (granule != -1).then_some(granule),
            end: at + page.len() as u64,
            lengths: lengths.to_vec(),
            body: page[body_at..].to_vec(),
        })
    }
}

/// The sum of a page whose own sum counts as zero: the polynomial 0x04C11DB7, most significant bit
/// first.
fn checksum(page: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    page.iter().enumerate().fold(0, |sum: u32, (at, byte)| {
        let byte = if (22..26).contains(&at) { 0 } else { *byte };
        (sum << 8) ^ TABLE[usize::from((sum >> 24) as u8 ^ byte)]
    })
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut sum = (at as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000_0000 != 0 { (sum << 1) ^ 0x04C1_1DB7 } else { sum << 1 };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
}

/// Joins the packets that go over several pages.
#[derive(Default)]
pub struct Packets {
    begun: Vec<u8>,
    is_begun: bool,
}

impl Packets {
    /// The packets that end on a page. A packet without its beginning is left out.
    pub fn of(&mut self, page: &Page) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut is_lost = page.is_continued && !self.is_begun;
        if !page.is_continued {
            self.begun.clear();
        }
        let mut at = 0;
        for length in &page.lengths {
            let length = usize::from(*length);
            if self.begun.len() < MAX_PACKET_BYTES {
                self.begun.extend_from_slice(&page.body[at..at + length]);
            }
            at += length;
            self.is_begun = length == 255;
            if !self.is_begun {
                let packet = std::mem::take(&mut self.begun);
                if !is_lost {
                    found.push(packet);
                }
                is_lost = false;
            }
        }
        self.is_begun &= !is_lost;
        found
    }

    /// Forgets a packet whose rest is lost.
    pub fn interrupt(&mut self) {
        self.begun.clear();
        self.is_begun = false;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const OGG: &[u8] = include_bytes!("../../tests/audio_fixtures/tone.ogg");

    #[test]
    fn a_page_is_found_by_its_checksum_whatever_is_before_it() {
        let junk = [b"OggS and OggS\0", OGG].concat();
        let mut input = Input::memory(&junk);
        let (at, page) = Page::next(&mut input, 0).unwrap().unwrap();
        assert_eq!((at, page.is_first, page.sequence), (14, true, 0));
        assert_eq!(Packets::default().of(&page)[0][..7], *b"\x01vorbis");
        let mut damaged = OGG.to_vec();
        damaged[40] ^= 1;
        assert!(Page::at(&mut Input::memory(&damaged), 0).unwrap().is_none());
    }

    #[test]
    fn packets_over_several_pages_are_joined() {
        let page = |is_continued, lengths: &[u8]| Page {
            serial: 1,
            sequence: 0,
            is_first: false,
            is_last: false,
            is_continued,
            granule: None,
            end: 0,
            lengths: lengths.to_vec(),
            body: vec![7; lengths.iter().map(|length| usize::from(*length)).sum()],
        };
        let lengths = |packets: Vec<Vec<u8>>| packets.iter().map(Vec::len).collect::<Vec<_>>();
        let mut packets = Packets::default();
        assert_eq!(lengths(packets.of(&page(false, &[3, 255]))), [3]);
        assert!(packets.of(&page(true, &[255])).is_empty());
        assert_eq!(lengths(packets.of(&page(true, &[0, 9]))), [510, 9]);
        // The beginning is lost.
        assert_eq!(lengths(packets.of(&page(true, &[255, 4, 8]))), [8]);
    }
}
