//! The `fmt ` chunk of a WAV file: the format of its samples.

use super::fault::Fault;
use super::note::Note;
use super::pcm::{Encoding, Order};

/// The contents of the `fmt ` chunk.
pub struct WaveFormat {
    pub order: Order,
    pub tag: u16,
    pub channels: u16,
    pub rate: u32,
    byte_rate: u32,
    /// The bytes of a block of a codec, or of a frame.
    pub block: u16,
    bits: u16,
    offset: u64,
}

const TAG_EXTENSIBLE: u16 = 0xFFFE;

impl WaveFormat {
    /// Of the chunk at `offset`.
    pub fn parse(body: &[u8], order: Order, offset: u64) -> Result<Self, Fault> {
        if body.len() < 16 {
            return Err(fault(offset, format!("has {} bytes, needs 16", body.len())));
        }
        let mut header = Self {
            order,
            tag: order.u16(body, 0),
            channels: order.u16(body, 2),
            rate: order.u32(body, 4),
            byte_rate: order.u32(body, 8),
            block: order.u16(body, 12),
            bits: order.u16(body, 14),
            offset,
        };
        if header.channels == 0 {
            return Err(header.fault("0 channels".to_owned()));
        }
        if header.tag == TAG_EXTENSIBLE {
            header.tag = extended_tag(body, order, offset)?;
        }
        Ok(header)
    }

    fn fault(&self, problem: String) -> Fault {
        fault(self.offset, problem)
    }

    /// The encoding of samples that are stored one by one; None for a codec.
    pub fn encoding(&self) -> Result<Option<Encoding>, Fault> {
        let encoding = match (self.tag, self.bits) {
            (1, 8) => Encoding::U8,
            (1, 9..=16) => Encoding::I16,
            (1, 17..=24) => Encoding::I24,
            (1, 25..=32) => Encoding::I32,
            (3, 32) => Encoding::F32,
            (3, 64) => Encoding::F64,
            (6, 8) => Encoding::Alaw,
            (7, 8) => Encoding::Mulaw,
            (1 | 3 | 6 | 7, bits) => return Err(self.fault(format!("{bits} bits a sample"))),
            _ => return Ok(None),
        };
        Ok(Some(encoding))
    }

    /// The bytes of a frame. The alignment field may be wrong if the byte rate agrees with the
    /// sample size; if both contradict it, the encoding is unknown.
    pub fn frame(&self, encoding: Encoding, notes: &mut Vec<Note>) -> Result<usize, Fault> {
        let frame = usize::from(self.channels) * encoding.bytes();
        if frame == usize::from(self.block) {
            return Ok(frame);
        }
        let by_rate = u64::from(self.byte_rate);
        if by_rate == u64::from(self.rate) * u64::from(self.block) {
            return Err(self.fault(format!(
                "{} channels of {} bits do not fill blocks of {} bytes",
                self.channels, self.bits, self.block
            )));
        }
        notes.push(Note::BlockAlign { stated: self.block, used: frame as u16 });
        Ok(frame)
    }
}

fn fault(offset: u64, problem: String) -> Fault {
    Fault::Chunk { chunk: "fmt ".to_owned(), offset, problem }
}

/// The format tag inside an extensible header: the first two bytes of its GUID. More than the
/// needed bytes of extra are valid.
fn extended_tag(body: &[u8], order: Order, offset: u64) -> Result<u16, Fault> {
    /// The common endings of all GUIDs of format tags: those of plain and of Ambisonic channels.
    const TAILS: [[u8; 14]; 2] = [
        [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71],
        [0, 0, 0x21, 0x07, 0xD3, 0x11, 0x86, 0x44, 0xC8, 0xC1, 0xCA, 0, 0, 0],
    ];
    const NEEDED: u16 = 22;
    let extra = if body.len() >= 18 { order.u16(body, 16) } else { 0 };
    if extra < NEEDED || body.len() < 18 + usize::from(NEEDED) {
        let problem = format!("extensible format with {extra} bytes of extra, needs {NEEDED}");
        return Err(fault(offset, problem));
    }
    if order == Order::Little && !TAILS.iter().any(|tail| body[26..40] == *tail) {
        return Err(Fault::Unsupported { what: "WAV of an unknown extensible format".to_owned() });
    }
    Ok(order.u16(body, 24))
}
