//! The chunks of a WAV file: RIFF with 32-bit lengths, RF64 and BW64 with 64-bit ones. Finds the
//! format and the sample data, and reports defects; `pcm` decodes the samples. No length from a
//! header is ever allocated or trusted.

use super::fault::Fault;
use super::note::Note;
use super::pcm::Encoding;
use std::ops::Range;

/// From here on a 32-bit data length means "unknown": programs that write to a pipe put a number
/// near the largest signed or unsigned one in the header.
const UNKNOWN_LENGTH: u64 = 0x7FFF_0000;

/// A parsed WAV file.
#[derive(Debug)]
pub struct Riff {
    pub coding: Coding,
    pub rate: u32,
    pub channels: u16,
    /// The range of the sample data in the file.
    pub data: Range<usize>,
    /// The frames that the `fact` chunk states.
    pub frames: Option<usize>,
    /// Bytes that the header states and the file lacks.
    pub missing: u64,
    pub notes: Vec<Note>,
}

/// The encoding of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Coding {
    /// Sample by sample: read by `pcm`.
    Plain(Encoding),
    /// A codec inside WAV, by its format tag.
    Codec(u16),
}

/// Parses `bytes`, which start with a RIFF header.
pub fn parse(bytes: &[u8]) -> Result<Riff, Fault> {
    parse_head(bytes, bytes.len())
}

/// The same for a file of `size` bytes that is read in parts: these are its first ones, with all
/// chunks before the samples.
pub fn parse_head(bytes: &[u8], size: usize) -> Result<Riff, Fault> {
    let mut chunks = Chunks { bytes, size, offset: 12 };
    let mut wide_length = None;
    let mut format = None;
    let mut frames = None;
    while let Some(chunk) = chunks.next()? {
        match &chunk.name {
            b"ds64" => wide_length = Some(data_length_64(bytes, &chunk)?),
            b"fact" => frames = chunk.bytes(bytes).get(..4).map(|count| u32_at(count, 0) as usize),
            b"fmt " => format = Some(Header::parse(bytes, &chunk)?),
            b"data" => {
                let Some(header) = format else {
                    return Err(chunk.fault("comes before any `fmt ` chunk"));
                };
                let riff = header.with_data(size, &chunk, wide_length)?;
                return Ok(Riff { frames, ..riff });
            }
            _ => {}
        }
        chunks.skip(&chunk)?;
    }
    let absent = match format {
        Some(_) => "data",
        None => "fmt ",
    };
    Err(Fault::Chunk {
        chunk: absent.to_owned(),
        offset: bytes.len() as u64,
        problem: "the file ends without this chunk".to_owned(),
    })
}

/// Walks chunk headers without trusting their lengths.
struct Chunks<'a> {
    bytes: &'a [u8],
    size: usize,
    offset: usize,
}

struct Chunk {
    name: [u8; 4],
    /// The offset of the chunk's header.
    offset: usize,
    length: u64,
}

impl Chunks<'_> {
    fn next(&mut self) -> Result<Option<Chunk>, Fault> {
        let Some(header) = self.bytes.get(self.offset..self.offset + 8) else {
            return Ok(None);
        };
        let mut name = [0; 4];
        name.copy_from_slice(&header[..4]);
        Ok(Some(Chunk { name, offset: self.offset, length: u64::from(u32_at(header, 4)) }))
    }

    fn skip(&mut self, chunk: &Chunk) -> Result<(), Fault> {
        let rest = self.size.saturating_sub(chunk.body()) as u64;
        if chunk.length > rest {
            return Err(
                chunk.fault(&format!("declares {} bytes, but {rest} are left", chunk.length))
            );
        }
        // Chunks start at even offsets.
        self.offset = chunk.body() + (chunk.length + (chunk.length & 1)) as usize;
        Ok(())
    }
}

impl Chunk {
    fn body(&self) -> usize {
        self.offset + 8
    }

    fn fault(&self, problem: &str) -> Fault {
        Fault::Chunk {
            chunk: String::from_utf8_lossy(&self.name).into_owned(),
            offset: self.offset as u64,
            problem: problem.to_owned(),
        }
    }

    /// The chunk's bytes, as many as it claims and the file has.
    fn bytes<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let rest = bytes.get(self.body()..).unwrap_or_default();
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        &rest[..length.min(rest.len())]
    }
}

fn data_length_64(bytes: &[u8], chunk: &Chunk) -> Result<u64, Fault> {
    let body = chunk.bytes(bytes);
    match body.get(8..16) {
        Some(length) => Ok(u64::from(u32_at(length, 4)) << 32 | u64::from(u32_at(length, 0))),
        None => Err(chunk.fault("is too short to hold the 64-bit length")),
    }
}

/// The contents of the `fmt ` chunk.
struct Header {
    tag: u16,
    channels: u16,
    rate: u32,
    byte_rate: u32,
    block: u16,
    bits: u16,
    offset: u64,
}

const TAG_EXTENSIBLE: u16 = 0xFFFE;

impl Header {
    fn parse(bytes: &[u8], chunk: &Chunk) -> Result<Self, Fault> {
        let body = chunk.bytes(bytes);
        if body.len() < 16 {
            return Err(chunk.fault(&format!("has {} bytes, needs 16", body.len())));
        }
        let mut header = Self {
            tag: u16_at(body, 0),
            channels: u16_at(body, 2),
            rate: u32_at(body, 4),
            byte_rate: u32_at(body, 8),
            block: u16_at(body, 12),
            bits: u16_at(body, 14),
            offset: chunk.offset as u64,
        };
        if header.tag == TAG_EXTENSIBLE {
            header.tag = extended_tag(body, chunk)?;
        }
        Ok(header)
    }

    fn fault(&self, problem: String) -> Fault {
        Fault::Chunk { chunk: "fmt ".to_owned(), offset: self.offset, problem }
    }

    fn coding(&self) -> Result<Coding, Fault> {
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
            (tag, _) => return Ok(Coding::Codec(tag)),
        };
        Ok(Coding::Plain(encoding))
    }

    /// The bytes of a frame. The alignment field may be wrong if the byte rate agrees with the
    /// sample size; if both contradict it, the encoding is unknown.
    fn frame(&self, encoding: Encoding, notes: &mut Vec<Note>) -> Result<usize, Fault> {
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

    fn with_data(self, size: usize, chunk: &Chunk, wide: Option<u64>) -> Result<Riff, Fault> {
        if self.channels == 0 {
            return Err(self.fault("0 channels".to_owned()));
        }
        let coding = self.coding()?;
        let mut notes = Vec::new();
        let start = chunk.body();
        let present = size.saturating_sub(start) as u64;
        let declared = match wide {
            Some(length) if chunk.length == u64::from(u32::MAX) => length,
            _ => chunk.length,
        };
        if declared == 0 {
            return Err(Fault::Empty { behind: present });
        }
        let unknown = wide.is_none() && declared >= UNKNOWN_LENGTH && declared > present;
        if unknown {
            notes.push(Note::UnknownLength);
        }
        let missing = if unknown { 0 } else { declared.saturating_sub(present) };
        let mut length = declared.min(present) as usize;
        if let Coding::Plain(encoding) = coding {
            let frame = self.frame(encoding, &mut notes)?;
            let dropped = length % frame;
            length -= dropped;
            // The broken frame at the end of a truncated file counts as missing.
            if dropped != 0 && missing == 0 {
                notes.push(Note::OddBytes { dropped: dropped as u64 });
            }
        }
        Ok(Riff {
            coding,
            rate: self.rate,
            channels: self.channels,
            data: start..start + length,
            frames: None,
            missing,
            notes,
        })
    }
}

/// The format tag inside an extensible header: the first two bytes of its GUID.
fn extended_tag(body: &[u8], chunk: &Chunk) -> Result<u16, Fault> {
    /// The common ending of all GUIDs of format tags.
    const TAIL: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71];
    let extra = body.get(16..18).map_or(0, |extra| u16_at(extra, 0));
    if extra != 22 || body.len() < 40 {
        return Err(
            chunk.fault(&format!("extensible format with {extra} bytes of extra, needs 22"))
        );
    }
    if body[26..40] != TAIL {
        return Err(chunk.fault("extensible format of an unknown kind"));
    }
    Ok(u16_at(body, 24))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
