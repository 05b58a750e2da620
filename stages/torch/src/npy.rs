//! Tokens as NumPy arrays of unsigned 16-bit integers, codebooks by frames.
//!
//! The reader takes no other form: an array of objects would be a program to be run.

use crate::codec::Codes;
use crate::error::TorchError;

/// The kind of the blobs.
pub const KIND: &str = "tokens/npy";

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// What stands before the shape, as NumPy writes it.
const HEAD: &str = "{'descr': '<u2', 'fortran_order': False, 'shape': (";

/// The header ends at a multiple of this.
const ALIGNMENT: usize = 64;

pub fn write(codes: &Codes) -> Vec<u8> {
    let mut header = format!("{HEAD}{}, {}), }}", codes.codebooks, codes.frames);
    let before = MAGIC.len() + 2;
    let padding = (before + header.len() + 1).next_multiple_of(ALIGNMENT) - before - header.len();
    header.push_str(&" ".repeat(padding - 1));
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(codes.values.iter().flat_map(|code| code.to_le_bytes()));
    bytes
}

pub fn read(bytes: &[u8]) -> Result<Codes, TorchError> {
    let refused = || {
        let form = "a NumPy array of unsigned 16-bit integers, codebooks by frames";
        TorchError::Input(format!("the tokens are not {form}, as `vq.encode` makes it"))
    };
    let (header, data) = split(bytes).ok_or_else(refused)?;
    let (codebooks, frames) = shape(header).ok_or_else(refused)?;
    let wanted = codebooks.checked_mul(frames).and_then(|count| count.checked_mul(2));
    if wanted != Some(data.len()) {
        return Err(TorchError::Input(format!(
            "the tokens have {} bytes of data, not those of {codebooks} codebooks by {frames} frames",
            data.len()
        )));
    }
    let values = data.as_chunks::<2>().0.iter().map(|code| u16::from_le_bytes(*code)).collect();
    Ok(Codes { codebooks, frames, values })
}

/// Header and data of a file.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (header, data) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((std::str::from_utf8(header).ok()?, data))
}

/// The two numbers of a header's shape.
fn shape(header: &str) -> Option<(usize, usize)> {
    let (numbers, end) = header.strip_prefix(HEAD)?.split_once(')')?;
    let (codebooks, frames) = numbers.split_once(", ")?;
    let is_end = end.trim_end() == ", }";
    is_end.then_some((codebooks.parse().ok()?, frames.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn codes() -> Codes {
        Codes { codebooks: 2, frames: 3, values: vec![0, 1, 2, 3, 256, 65_535] }
    }

    #[test]
    fn what_is_written_is_read_and_the_data_is_aligned() {
        let bytes = write(&codes());
        assert_eq!(bytes.len(), 128 + 12);
        assert_eq!(read(&bytes).unwrap(), codes());
    }

    /// Made by `numpy.save` of NumPy 2.4.6.
    #[test]
    fn it_is_what_numpy_writes() {
        let mut numpy =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }"
                .to_vec();
        numpy.resize(127, b' ');
        numpy.push(b'\n');
        numpy.extend([0, 0, 1, 0, 2, 0, 3, 0, 0, 1, 255, 255]);
        assert_eq!(write(&codes()), numpy);
    }

    #[test]
    fn foreign_and_cut_files_are_refused() {
        let bytes = write(&codes());
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
        let text = String::from_utf8_lossy(&bytes[10..128]).into_owned();
        for (from, to) in
            [("<u2", "|O "), ("False", "True "), ("(2, 3)", "(3, 3)"), ("(2, 3)", "(-1,3)")]
        {
            let mut other = bytes.clone();
            other.splice(10..128, text.replace(from, to).into_bytes());
            assert!(read(&other).is_err(), "{to}");
        }
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, at in 0usize..140, byte: u8) {
            let _ = read(&bytes);
            let mut damaged = write(&codes());
            damaged[at] = byte;
            let _ = read(&damaged);
        }
    }
}
