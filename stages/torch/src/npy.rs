//! Tokens as NumPy arrays, codebooks by frames.

pub use stage_formats::npy::Width;
use stage_formats::npy::{self, IntArray, NpyError};

use crate::error::TorchError;
use crate::sound::codec::Codes;

/// The kind of the blobs.
pub const KIND: &str = "tokens/npy";

/// Unsigned integers of 16 bits. The same codes give the same bytes.
pub fn write(codes: &Codes) -> Result<Vec<u8>, TorchError> {
    write_as(codes, Width::U16)
}

/// Integers of another width, for other tools.
pub fn write_as(codes: &Codes, width: Width) -> Result<Vec<u8>, TorchError> {
    let shape = vec![codes.codebooks as u64, codes.frames as u64];
    let values = codes.values.iter().map(|code| i64::from(*code)).collect();
    npy::write(&IntArray { shape, values }, width).map_err(refused)
}

/// Integers of any width, so that tokens of other tools can be used too.
pub fn read(bytes: &[u8]) -> Result<Codes, TorchError> {
    let array = npy::read(bytes).map_err(refused)?;
    let [codebooks, frames] = array.shape[..] else {
        let shape = &array.shape;
        let message = format!("the tokens have the shape {shape:?}, not codebooks by frames");
        return Err(TorchError::Input(message));
    };
    let code = |value: i64| {
        u16::try_from(value)
            .map_err(|_| TorchError::Input(format!("the token {value} is not a valid code")))
    };
    let values: Result<Vec<u16>, TorchError> = array.values.into_iter().map(code).collect();
    Ok(Codes { codebooks: codebooks as usize, frames: frames as usize, values: values? })
}

fn refused(error: NpyError) -> TorchError {
    TorchError::Input(format!("the tokens cannot be used: {error}"))
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
        for (width, size) in [(Width::U16, 2), (Width::I64, 8)] {
            let bytes = write_as(&codes(), width).unwrap();
            assert_eq!(bytes.len(), 128 + 6 * size);
            assert_eq!(read(&bytes).unwrap(), codes());
        }
    }

    #[test]
    fn tokens_of_other_tools_are_read() {
        let array = IntArray { shape: vec![2, 3], values: vec![0, 1, 2, 3, 256, 65_535] };
        assert_eq!(read(&npy::write(&array, Width::I64).unwrap()).unwrap(), codes());
    }

    #[test]
    fn what_is_no_array_of_codes_is_refused() {
        for (shape, values) in
            [(vec![6], vec![0; 6]), (vec![1, 2], vec![0, -1]), (vec![1, 1], vec![65_536])]
        {
            let bytes = npy::write(&IntArray { shape, values }, Width::I64).unwrap();
            assert!(read(&bytes).is_err());
        }
        let bytes = write(&codes()).unwrap();
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
    }
}
