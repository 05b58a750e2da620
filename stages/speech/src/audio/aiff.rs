//! AIFF and AIFC files: the `COMM` chunk describes the samples, the `SSND` chunk holds them, in
//! either order.

use super::fault::{Fault, ReadError};
use super::input::Input;
use super::note::Note;
use super::part;
use super::pcm::{Encoding, Order};
use super::plain::PlainSamples;
use super::riff::UNKNOWN_LENGTH;
use super::sniff;

/// Opens the file that starts at `start`.
pub fn open(
    input: &mut Input<'_>,
    start: u64,
    allow_truncated: bool,
) -> Result<PlainSamples, ReadError> {
    let AiffChunks { common, sound, end } = AiffChunks::walk(input, start)?;
    let has_common = common.is_some();
    let (Some(common), Some(sound)) = (common, sound) else {
        let chunk = if has_common { "SSND" } else { "COMM" };
        return Err(Fault::Chunk {
            chunk: chunk.to_owned(),
            offset: input.size(),
            problem: "the file ends without this chunk".to_owned(),
        }
        .into());
    };
    let frame = common.encoding.bytes() as u64 * u64::from(common.channels);
    let stated = u64::from(common.frames);
    let mut notes = Vec::new();
    let (mut stored, mut end) = (sound.end - sound.start, end);
    if (stored + 1..=input.size() - sound.start).contains(&(stated * frame)) {
        // The file has more samples than the length of their chunk tells.
        notes.push(Note::FalseLength { stated: stored / frame, present: stated });
        (stored, end) = (stated * frame, sound.start + stated * frame);
    }
    let present = stored / frame;
    if sound.is_unknown || common.frames == 0 || stated * frame >= UNKNOWN_LENGTH.max(stored + 1) {
        notes.push(Note::UnknownLength);
    } else if stated > present {
        notes.push(part::short(allow_truncated, "frames", Some(stated), present)?);
    } else if stated < present {
        notes.push(Note::FalseLength { stated, present });
    }
    if stored % frame != 0 && present >= stated {
        notes.push(Note::OddBytes { dropped: stored % frame });
    }
    let Common { rate, channels, encoding, order, .. } = common;
    let data = std::iter::once(sound.start..sound.start + present * frame).collect();
    Ok(PlainSamples { rate, channels, encoding, order, data, end, notes })
}

/// The `COMM` chunk.
struct Common {
    channels: u16,
    frames: u32,
    rate: u32,
    encoding: Encoding,
    order: Order,
}

/// The samples in the `SSND` chunk.
struct Sound {
    start: u64,
    end: u64,
    is_unknown: bool,
}

struct AiffChunks {
    common: Option<Common>,
    sound: Option<Sound>,
    /// The end of the file.
    end: u64,
}

impl AiffChunks {
    fn walk(input: &mut Input<'_>, start: u64) -> Result<AiffChunks, ReadError> {
        let size = input.size();
        let is_compressed = input.part(start + 8, 4)? == b"AIFC";
        let mut chunks = AiffChunks { common: None, sound: None, end: start + 12 };
        loop {
            let at = chunks.end;
            let header = input.part(at, 8)?;
            if header.len() < 8 || !header[..4].iter().all(|letter| (b' '..=b'~').contains(letter))
            {
                return Ok(chunks);
            }
            let name = [header[0], header[1], header[2], header[3]];
            let length = u64::from(Order::Big.u32(header, 4));
            let body = at + 8;
            // Chunks start at even offsets.
            let chunk_end = body + length + (length & 1);
            match &name {
                _ if sniff::begins_file(input, at)? => return Ok(chunks),
                b"COMM" => {
                    let bytes = input.part(body, length.min(64) as usize)?;
                    chunks.common = Some(Common::parse(bytes, is_compressed, at)?);
                }
                b"SSND" if chunks.sound.is_none() => {
                    let offset = input.part(body, 4)?;
                    let offset = if offset.len() == 4 { Order::Big.u32(offset, 0) } else { 0 };
                    let first = (body + 8 + u64::from(offset)).min(size);
                    let is_unknown = length <= 8 || body + length > size;
                    let end = if is_unknown { size } else { (body + length).max(first) };
                    chunks.sound = Some(Sound { start: first, end, is_unknown: length <= 8 });
                }
                _ if body + length > size => return Ok(chunks),
                _ => {}
            }
            chunks.end = match &chunks.sound {
                Some(sound) if name == *b"SSND" && sound.is_unknown => size,
                _ => chunk_end.min(size),
            };
        }
    }
}

impl Common {
    fn parse(body: &[u8], is_compressed: bool, offset: u64) -> Result<Common, Fault> {
        let fault = |problem: String| Fault::Chunk { chunk: "COMM".to_owned(), offset, problem };
        if body.len() < 18 {
            return Err(fault(format!("has {} bytes, needs 18", body.len())));
        }
        let channels = Order::Big.u16(body, 0);
        let bits = Order::Big.u16(body, 6);
        if channels == 0 {
            return Err(fault("0 channels".to_owned()));
        }
        let rate =
            rate(&body[8..18]).ok_or_else(|| fault("the sample rate is no number".to_owned()))?;
        let kind = if is_compressed { body.get(18..22).unwrap_or(b"NONE") } else { b"NONE" };
        let (encoding, order) = match encoding(kind, bits) {
            Some(found) => found,
            None if matches!(kind, b"NONE" | b"sowt" | b"twos") => {
                return Err(fault(format!("{bits} bits a sample")));
            }
            None => {
                let name = String::from_utf8_lossy(kind);
                return Err(Fault::Unsupported { what: format!("`{}` in AIFF", name.trim()) });
            }
        };
        Ok(Common { channels, frames: Order::Big.u32(body, 2), rate, encoding, order })
    }
}

/// The encoding by its name and the bits of a sample.
fn encoding(kind: &[u8], bits: u16) -> Option<(Encoding, Order)> {
    let integers = match bits {
        1..=8 => Some(Encoding::I8),
        9..=16 => Some(Encoding::I16),
        17..=24 => Some(Encoding::I24),
        25..=32 => Some(Encoding::I32),
        _ => None,
    };
    let found = match kind {
        b"NONE" | b"twos" => (integers?, Order::Big),
        b"in24" => (Encoding::I24, Order::Big),
        b"in32" => (Encoding::I32, Order::Big),
        b"sowt" => (integers?, Order::Little),
        b"42ni" => (Encoding::I24, Order::Little),
        b"23ni" => (Encoding::I32, Order::Little),
        b"raw " => (Encoding::U8, Order::Big),
        b"fl32" | b"FL32" => (Encoding::F32, Order::Big),
        b"fl64" | b"FL64" => (Encoding::F64, Order::Big),
        b"alaw" | b"ALAW" => (Encoding::Alaw, Order::Big),
        b"ulaw" | b"ULAW" => (Encoding::Mulaw, Order::Big),
        _ => return None,
    };
    Some(found)
}

/// A positive whole number as an 80-bit float: sign, 15 bits of exponent, 64 of mantissa. Too large
/// ones become the largest number.
fn rate(float: &[u8]) -> Option<u32> {
    let exponent = Order::Big.u16(float, 0);
    let mantissa = u64::from(Order::Big.u32(float, 2)) << 32 | u64::from(Order::Big.u32(float, 6));
    // The exponent of the mantissa's lowest bit is lower by 63 than that of the highest.
    let shift = i32::from(exponent) - 16_383 - 63;
    match shift {
        -63..=0 => Some(u32::try_from(mantissa >> -shift).unwrap_or(u32::MAX)),
        1.. if exponent & 0x8000 == 0 => Some(u32::MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_their_80_bits() {
        assert_eq!(rate(&[0x40, 0x0C, 0xFA, 0, 0, 0, 0, 0, 0, 0]), Some(16_000));
        assert_eq!(rate(&[0x40, 0x0E, 0xAC, 0x44, 0, 0, 0, 0, 0, 0]), Some(44_100));
        assert_eq!(rate(&[0x40, 0x0E, 0xBB, 0x80, 0, 0, 0, 0, 0, 0]), Some(48_000));
        assert_eq!(rate(&[0; 10]), None);
        assert_eq!(rate(&[0x7F, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0]), Some(u32::MAX));
    }
}
