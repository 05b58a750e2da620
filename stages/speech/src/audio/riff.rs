//! WAV files: RIFF with 32-bit lengths, RIFX with swapped bytes, RF64 and BW64 with 64-bit lengths.
//! Finds the format and the sample data, and compares the stated lengths with the file. No length
//! from a header is ever allocated or trusted.

use super::fault::{Fault, ReadError};
use super::input::Input;
use super::note::Note;
use super::part;
use super::pcm::{Encoding, Order};
use super::plain::PlainSamples;
use super::sniff;
use super::wave_format::WaveFormat;
use std::ops::Range;

/// From here on a 32-bit data length means "unknown": programs that write to a pipe put a number
/// near the largest signed or unsigned one in the header.
pub const UNKNOWN_LENGTH: u64 = 0x7FFF_0000;

/// A WAV file up to its samples.
pub enum RiffSamples {
    /// Stored one by one.
    Plain(PlainSamples),
    /// In blocks of a codec.
    Blocks(Blocks),
}

/// The samples of a codec inside WAV.
pub struct Blocks {
    pub tag: u16,
    pub rate: u32,
    pub channels: u16,
    /// The bytes of a block.
    pub block: u16,
    pub data: Range<u64>,
    /// The frames that the `fact` chunk states.
    pub frames: Option<u64>,
    pub end: u64,
    pub notes: Vec<Note>,
}

/// Opens the file that starts at `start` with a RIFF header.
pub fn open(
    input: &mut Input<'_>,
    start: u64,
    allow_truncated: bool,
) -> Result<RiffSamples, ReadError> {
    let head = input.part(start, 12)?;
    let order = if head.starts_with(b"RIFX") { Order::Big } else { Order::Little };
    let length = if head.len() == 12 { order.u32(head, 4) } else { 0 };
    let file_end = match length {
        0 | u32::MAX => None,
        length => Some(start + 8 + u64::from(length)),
    };
    let mut chunks = RiffChunks { at: start + 12, size: input.size(), order };
    let (mut wide, mut header, mut frames) = (None, None, None);
    while let Some(chunk) = chunks.next(input)? {
        match &chunk.name {
            b"ds64" => wide = Some(Wide::parse(chunk.bytes(input)?, &chunk)?),
            b"fact" => {
                let body = chunk.bytes(input)?;
                frames = (body.len() >= 4).then(|| u64::from(order.u32(body, 0)));
            }
            b"fmt " => header = Some(WaveFormat::parse(chunk.bytes(input)?, order, chunk.offset)?),
            b"data" => {
                let Some(header) = header else {
                    return Err(chunk.fault("comes before any `fmt ` chunk").into());
                };
                let file_end = match wide {
                    Some(Wide { file: 0, .. }) => None,
                    Some(Wide { file, .. }) => (start + 8).checked_add(file),
                    None => file_end,
                };
                let stated =
                    RiffLengths { length: chunk.stated(wide), is_wide: wide.is_some(), file_end };
                return with_data(header, input, &chunk, &stated, frames, allow_truncated);
            }
            _ => {}
        }
        chunks.skip(&chunk)?;
    }
    let absent = if header.is_some() { "data" } else { "fmt " };
    Err(Fault::Chunk {
        chunk: absent.to_owned(),
        offset: input.size(),
        problem: "the file ends without this chunk".to_owned(),
    }
    .into())
}

/// Walks chunk headers without trusting their lengths.
struct RiffChunks {
    at: u64,
    size: u64,
    order: Order,
}

struct Chunk {
    name: [u8; 4],
    /// The offset of the chunk's header.
    offset: u64,
    length: u64,
}

impl RiffChunks {
    fn next(&mut self, input: &mut Input<'_>) -> Result<Option<Chunk>, ReadError> {
        let header = input.part(self.at, 8)?;
        if header.len() < 8 {
            return Ok(None);
        }
        let name = [header[0], header[1], header[2], header[3]];
        let length = u64::from(self.order.u32(header, 4));
        Ok(Some(Chunk { name, offset: self.at, length }))
    }

    fn skip(&mut self, chunk: &Chunk) -> Result<(), Fault> {
        let rest = self.size.saturating_sub(chunk.body());
        if chunk.length > rest {
            return Err(
                chunk.fault(&format!("declares {} bytes, but {rest} are left", chunk.length))
            );
        }
        self.at = chunk.end();
        Ok(())
    }
}

impl Chunk {
    /// The chunks of interest are short; this bounds what is read of a false one.
    const MAX_BYTES: u64 = 4_096;

    fn body(&self) -> u64 {
        self.offset + 8
    }

    /// Chunks start at even offsets.
    fn end(&self) -> u64 {
        self.body() + self.length + (self.length & 1)
    }

    fn fault(&self, problem: &str) -> Fault {
        Fault::Chunk {
            chunk: String::from_utf8_lossy(&self.name).into_owned(),
            offset: self.offset,
            problem: problem.to_owned(),
        }
    }

    /// The chunk's bytes, as many as it claims and the file has.
    fn bytes<'a>(&self, input: &'a mut Input<'_>) -> Result<&'a [u8], ReadError> {
        input.part(self.body(), self.length.min(Self::MAX_BYTES) as usize)
    }

    /// The stated length of the samples.
    fn stated(&self, wide: Option<Wide>) -> u64 {
        match wide {
            Some(wide) if self.length == u64::from(u32::MAX) => wide.data,
            _ => self.length,
        }
    }
}

/// The 64-bit lengths of the file and of its samples.
#[derive(Clone, Copy)]
struct Wide {
    file: u64,
    data: u64,
}

impl Wide {
    fn parse(body: &[u8], chunk: &Chunk) -> Result<Wide, Fault> {
        let number = |at: usize| {
            u64::from(Order::Little.u32(body, at + 4)) << 32
                | u64::from(Order::Little.u32(body, at))
        };
        if body.len() >= 16 {
            Ok(Wide { file: number(0), data: number(8) })
        } else {
            Err(chunk.fault("is too short to hold the 64-bit length"))
        }
    }
}

/// The lengths in the headers.
struct RiffLengths {
    length: u64,
    is_wide: bool,
    /// The end of the file.
    file_end: Option<u64>,
}

/// The place of the samples.
struct Extent {
    data: Vec<Range<u64>>,
    missing: u64,
    /// The end of the file.
    end: u64,
    is_unknown: bool,
}

impl Extent {
    /// Compares the lengths in the headers with the file. A length that is not there, or that the
    /// length of the file contradicts, does not limit what is read.
    fn find(
        input: &mut Input<'_>,
        chunk: &Chunk,
        stated: &RiffLengths,
        order: Order,
    ) -> Result<Extent, ReadError> {
        let (from, size) = (chunk.body(), input.size());
        let present = size.saturating_sub(from);
        let whole =
            |is_unknown| Extent { data: alone(from..size), missing: 0, end: size, is_unknown };
        if stated.length == 0 {
            let (end, _) = further_chunks(input, from, order)?;
            return if present == 0 || end > from {
                Err(Fault::Empty { behind: present }.into())
            } else {
                Ok(whole(true))
            };
        }
        if stated.length > present {
            let is_unknown = if stated.is_wide {
                stated.length > u64::MAX / 2
            } else {
                stated.length >= UNKNOWN_LENGTH
            };
            let ends_here = stated.file_end == Some(size) || stated.file_end == Some(size + 1);
            let missing = if is_unknown || ends_here { 0 } else { stated.length - present };
            return Ok(Extent { missing, ..whole(is_unknown) });
        }
        let behind = (from + stated.length + (stated.length & 1)).min(size);
        let (end, further) = further_chunks(input, behind, order)?;
        let file_end = stated.file_end.filter(|file_end| *file_end <= size).unwrap_or(0);
        if end == behind && file_end > behind + 1 && !sniff::begins_file(input, behind)? {
            return Ok(Extent { data: alone(from..file_end), end: file_end, ..whole(false) });
        }
        let data = [alone(from..from + stated.length), further].concat();
        Ok(Extent { data, missing: 0, end, is_unknown: false })
    }
}

/// One range of bytes.
fn alone(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

/// The end of the chunks that start at `at`, and those of them that hold samples.
fn further_chunks(
    input: &mut Input<'_>,
    at: u64,
    order: Order,
) -> Result<(u64, Vec<Range<u64>>), ReadError> {
    let size = input.size();
    let mut chunks = RiffChunks { at, size, order };
    let mut data = Vec::new();
    while let Some(chunk) = chunks.next(input)? {
        let is_name = chunk.name.iter().all(|letter| (b' '..=b'~').contains(letter));
        let is_chunk = is_name && chunk.body() + chunk.length <= size;
        if !is_chunk || sniff::begins_file(input, chunk.offset)? {
            break;
        }
        if &chunk.name == b"data" {
            data.push(chunk.body()..chunk.body() + chunk.length);
        }
        chunks.at = chunk.end().min(size);
    }
    Ok((chunks.at, data))
}

/// The samples in the `data` chunk.
fn with_data(
    header: WaveFormat,
    input: &mut Input<'_>,
    chunk: &Chunk,
    stated: &RiffLengths,
    frames: Option<u64>,
    allow_truncated: bool,
) -> Result<RiffSamples, ReadError> {
    let mut notes = Vec::new();
    let encoding = header.encoding()?;
    let frame = match encoding {
        Some(encoding) => header.frame(encoding, &mut notes)? as u64,
        None => 1,
    };
    let mut extent = Extent::find(input, chunk, stated, header.order)?;
    if extent.is_unknown {
        notes.insert(0, Note::UnknownLength);
    }
    let stored: u64 = extent.data.iter().map(|data| data.end - data.start).sum();
    let mut dropped = 0;
    for data in &mut extent.data {
        let odd = (data.end - data.start) % frame;
        data.end -= odd;
        dropped += odd;
    }
    if extent.missing > 0 {
        // The broken frame at the end counts as missing.
        let present = stored - dropped;
        let all = stored + extent.missing;
        notes.push(part::short(allow_truncated, "bytes", Some(all - dropped), present)?);
    } else if dropped > 0 {
        notes.push(Note::OddBytes { dropped });
    }
    let is_false = stored != stated.length && extent.missing == 0 && !extent.is_unknown;
    if extent.data.len() > 1 {
        notes.push(Note::Joined { files: extent.data.len() as u64 });
    } else if is_false {
        let (stated, present) = (stated.length / frame, stored / frame);
        notes.push(Note::FalseLength { stated, present });
    }
    Ok(with_extent(&header, encoding, extent, frames, notes))
}

fn with_extent(
    header: &WaveFormat,
    encoding: Option<Encoding>,
    extent: Extent,
    frames: Option<u64>,
    notes: Vec<Note>,
) -> RiffSamples {
    let (rate, channels, end) = (header.rate, header.channels, extent.end);
    match encoding {
        Some(encoding) => RiffSamples::Plain(PlainSamples {
            rate,
            channels,
            encoding,
            order: header.order,
            data: extent.data.into(),
            end,
            notes,
        }),
        None => {
            let data = extent.data.into_iter().next().unwrap_or(end..end);
            let (tag, block) = (header.tag, header.block);
            RiffSamples::Blocks(Blocks { tag, rate, channels, block, data, frames, end, notes })
        }
    }
}
