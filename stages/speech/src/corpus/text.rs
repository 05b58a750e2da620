//! Text files of corpora as bytes: those that are compressed, and those that are no text in UTF-8.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use stage_formats::mark::unmarked;

use super::{CorpusError, MAX_ROW_BYTES};

/// The largest size of a file after it was unpacked.
const MAX_UNPACKED_BYTES: usize = 2 << 30;
/// The longest line that is unpacked: a longer one than [`MAX_ROW_BYTES`] is quarantined, and one that
/// is longer than this ends the reading.
const MAX_UNPACKED_LINE_BYTES: usize = 16 * MAX_ROW_BYTES;
/// The bytes that are unpacked at once.
const PIECE_BYTES: usize = 64 << 10;
/// The bytes in which the encoding is looked for.
const HEAD_BYTES: usize = 4096;

const GZIP: &[u8] = b"\x1F\x8B";

/// The text of a file, unpacked if it is compressed with gzip.
pub fn unpacked(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CorpusError> {
    if !bytes.starts_with(GZIP) {
        return Ok(Cow::Borrowed(bytes));
    }
    let packed = |message: &str| CorpusError::Packed { message: message.to_owned() };
    let mut text = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    let (mut reader, mut row, mut line_bytes) = (MultiGzDecoder::new(bytes), 1u64, 0usize);
    loop {
        let length = match reader.read(&mut piece) {
            Ok(0) => return Ok(Cow::Owned(text)),
            Ok(length) => length,
            Err(_) => return Err(packed("it is cut short or damaged")),
        };
        text.extend_from_slice(&piece[..length]);
        for part in piece[..length].split_inclusive(|byte| *byte == b'\n') {
            line_bytes += part.len();
            // A few kilobytes may become gigabytes of one row.
            if line_bytes > MAX_UNPACKED_LINE_BYTES {
                let limit = MAX_UNPACKED_LINE_BYTES;
                return Err(packed(&format!("its line {row} has more than {limit} bytes")));
            }
            if part.ends_with(b"\n") {
                (row, line_bytes) = (row + 1, 0);
            }
        }
        if text.len() > MAX_UNPACKED_BYTES {
            return Err(packed(&format!("it has more than {MAX_UNPACKED_BYTES} bytes of text")));
        }
    }
}

/// An error for files that are no text in UTF-8. Single rows in another encoding are left to their
/// readers.
pub fn check_text(bytes: &[u8]) -> Result<(), CorpusError> {
    let binary = |what, help| Err(CorpusError::Binary { what, help });
    match bytes {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Err(CorpusError::Utf16),
        [b'P', b'A', b'R', b'1', ..] => binary("Parquet", "use `corpus.parquet` with `path`"),
        [b'P', b'K', 3, 4, ..] => {
            binary("a zip archive or a workbook (xlsx)", "unpack it, or save the sheet as CSV")
        }
        _ if is_utf16(&bytes[..bytes.len().min(HEAD_BYTES)]) => Err(CorpusError::Utf16),
        _ => Ok(()),
    }
}

/// Tests for UTF-16 without a mark: at least a tenth of the even or of the odd bytes is zero, as in
/// letters, digits and separators of ASCII, and hardly any of the others is.
fn is_utf16(head: &[u8]) -> bool {
    let zeros = |from: usize| head.iter().skip(from).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    let (many, few) = (even.max(odd), even.min(odd));
    many * 20 >= head.len() && many > 1 && few * 10 <= many
}

/// Tests if a file has no lines but those that end with a line feed.
pub fn is_in_lines(bytes: &[u8]) -> bool {
    let text = unmarked(bytes).trim_ascii();
    text.contains(&b'\n') || !text.contains(&b'\r')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn utf_16_is_known_without_its_mark() {
        for text in ["a.wav|Hei\n", "wavs/a1.wav|\u{4F60}\u{597D}\u{4E16}\u{754C}\r\n"] {
            for order in [u16::to_le_bytes, u16::to_be_bytes] {
                assert_eq!(check_text(&utf16(text, order)), Err(CorpusError::Utf16), "{text}");
            }
            assert_eq!(check_text(text.as_bytes()), Ok(()));
        }
        assert_eq!(check_text(b"a.wav|Hei\nb.wav|x\0\n"), Ok(()));
        assert_eq!(check_text(b""), Ok(()));
    }

    #[test]
    fn compressed_lines_are_unpacked_and_damage_is_told() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(b"a.wav|Hei\n").unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(*unpacked(&packed).unwrap(), *b"a.wav|Hei\n");
        assert_eq!(*unpacked(b"plain").unwrap(), *b"plain");
        assert!(unpacked(&packed[..packed.len() - 4]).is_err());
    }

    #[test]
    fn a_line_that_would_fill_the_memory_is_refused() {
        let packed = |length: usize| {
            let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
            packer.write_all(b"a.wav|Hei\n").unwrap();
            packer.write_all(&vec![b'x'; length]).unwrap();
            packer.finish().unwrap()
        };
        assert!(unpacked(&packed(MAX_UNPACKED_LINE_BYTES)).is_ok());
        let told = unpacked(&packed(MAX_UNPACKED_LINE_BYTES + 1)).unwrap_err().to_string();
        let expected = "the file cannot be unpacked: its line 2 has more than 16777216 bytes";
        assert_eq!(told, expected);
    }
}
