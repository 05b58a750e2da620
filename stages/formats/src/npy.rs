//! Arrays in NumPy's `.npy` format, integers or floats: readers for hostile files and plain
//! writers.
//!
//! An array of Python objects is a pickle, which is a program: it is refused by name.

use half::f16;
use npyz::{DType, NpyFile, Order, TypeChar};

/// An array of integers in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntArray {
    pub shape: Vec<u64>,
    pub values: Vec<i64>,
}

/// An array of floats of 32 bits in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatArray {
    pub shape: Vec<u64>,
    pub values: Vec<f32>,
}

/// The width of written integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// Tokens as this project stores them.
    U16,
    I32,
    /// The format that the tools of Fish Speech write and read.
    #[default]
    I64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NpyError {
    #[error("the file is not an `.npy` file")]
    NotNpy,
    #[error("the header of the `.npy` file is damaged: {message}")]
    Header { message: String },
    #[error(
        "the `.npy` file holds Python objects, which are not read for security; save an array of \
         integers"
    )]
    Objects,
    #[error("the `.npy` file holds `{found}`, not integers")]
    NotIntegers { found: String },
    #[error("the `.npy` file holds `{found}`, not 32-bit floats in C order")]
    NotFloats { found: String },
    #[error(
        "the array has the unsupported shape {shape:?}, expected one or two dimensions in C order"
    )]
    Shape { shape: Vec<u64> },
    #[error("the `.npy` file has {found} bytes of data instead of {expected}")]
    Length { expected: u64, found: u64 },
    #[error("the value {value} does not fit into a signed 64-bit integer")]
    TooLarge { value: u64 },
    #[error("{values} values do not fill the shape {shape:?}")]
    Mismatch { values: usize, shape: Vec<u64> },
}

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
/// The data begins at a multiple of this.
const ALIGNMENT: usize = 64;
const MAX_HEADER_BYTES: usize = 1 << 16;
/// A header needs a nesting of two; its parser recurses.
const MAX_BRACKETS: usize = 16;

/// Reads an array of integers of any width and byte order.
pub fn read(bytes: &[u8]) -> Result<IntArray, NpyError> {
    let (file, data) = open(bytes)?;
    let (width, is_signed) = integer_width(&file.dtype())?;
    check_length(&file, width, data)?;
    let shape = file.shape().to_vec();
    let order = file.order();
    let values = values(file, width, is_signed)?;
    in_c_order(shape, order, values)
}

/// Reads an array of floats as [`write_floats`] writes it.
pub fn read_floats(bytes: &[u8]) -> Result<FloatArray, NpyError> {
    let (file, data) = open(bytes)?;
    let found = file.dtype().descr();
    if !found.contains("<f4") || file.order() != Order::C {
        return Err(NpyError::NotFloats { found });
    }
    check_length(&file, size_of::<f32>() as u64, data)?;
    let values = data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok(FloatArray { shape: file.shape().to_vec(), values })
}

/// Reads an array of floats of 16 bits as [`write_halves`] writes it.
pub fn read_halves(bytes: &[u8]) -> Result<FloatArray, NpyError> {
    let (file, data) = open(bytes)?;
    let found = file.dtype().descr();
    if !found.contains("<f2") || file.order() != Order::C {
        return Err(NpyError::NotFloats { found });
    }
    check_length(&file, size_of::<f16>() as u64, data)?;
    let values = data.as_chunks::<2>().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32());
    Ok(FloatArray { shape: file.shape().to_vec(), values: values.collect() })
}

/// The header, and the bytes after it.
fn open(bytes: &[u8]) -> Result<(NpyFile<&[u8]>, &[u8]), NpyError> {
    let data_at = check_header(bytes)?;
    let file =
        NpyFile::new(bytes).map_err(|error| NpyError::Header { message: error.to_string() })?;
    if file.uses_pickled_array() { Err(NpyError::Objects) } else { Ok((file, &bytes[data_at..])) }
}

fn check_length(file: &NpyFile<&[u8]>, width: u64, data: &[u8]) -> Result<(), NpyError> {
    let (expected, found) = (file.len().saturating_mul(width), data.len() as u64);
    if expected == found { Ok(()) } else { Err(NpyError::Length { expected, found }) }
}

/// Writes an array with the same bytes as NumPy.
pub fn write(array: &IntArray, width: Width) -> Result<Vec<u8>, NpyError> {
    let shape = array.shape.as_slice();
    check_shape(shape, array.values.len())?;
    match width {
        Width::I64 => Ok(file("<i8", shape, i64::to_le_bytes, &array.values)),
        Width::I32 => Ok(file("<i4", shape, i32::to_le_bytes, &narrow(array, "32 bits")?)),
        Width::U16 => Ok(file("<u2", shape, u16::to_le_bytes, &narrow(array, "16 unsigned bits")?)),
    }
}

/// Writes an array of floats with the same bytes as NumPy.
pub fn write_floats(array: &FloatArray) -> Result<Vec<u8>, NpyError> {
    check_shape(&array.shape, array.values.len())?;
    Ok(file("<f4", &array.shape, f32::to_le_bytes, &array.values))
}

/// Writes an array of floats of 16 bits with the same bytes as NumPy. Values are rounded to the
/// nearest, and those out of range to the largest.
pub fn write_halves(array: &FloatArray) -> Result<Vec<u8>, NpyError> {
    check_shape(&array.shape, array.values.len())?;
    const MOST: f32 = 65_504.0;
    let half = |value: f32| f16::from_f32(value.clamp(-MOST, MOST)).to_le_bytes();
    Ok(file("<f2", &array.shape, half, &array.values))
}

fn check_shape(shape: &[u64], values: usize) -> Result<(), NpyError> {
    let size = shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    if size == Some(values as u64) {
        Ok(())
    } else {
        Err(NpyError::Mismatch { values, shape: shape.to_vec() })
    }
}

fn narrow<T: TryFrom<i64>>(array: &IntArray, into: &str) -> Result<Vec<T>, NpyError> {
    let narrow: Result<Vec<T>, _> = array.values.iter().map(|value| T::try_from(*value)).collect();
    narrow.map_err(|_| NpyError::NotIntegers { found: format!("values beyond {into}") })
}

/// The library used for reading writes another header than NumPy, with the same meaning.
fn file<T: Copy, const N: usize>(
    dtype: &str,
    shape: &[u64],
    bytes: fn(T) -> [u8; N],
    values: &[T],
) -> Vec<u8> {
    let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let shape = shape.join(", ");
    let mut header =
        format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
    let before = MAGIC.len() + 2;
    // A line break, preceded by spaces that pad the header.
    let end = (before + header.len() + 1).next_multiple_of(ALIGNMENT);
    header.push_str(&" ".repeat(end - before - header.len() - 1));
    header.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    values.iter().for_each(|value| file.extend_from_slice(&bytes(*value)));
    file
}

/// Bounds the work of the header's parser; returns the offset of the data.
///
/// The parser allocates what the header's length says, recurses into brackets and multiplies the
/// dimensions unchecked, so all three are checked here first.
fn check_header(bytes: &[u8]) -> Result<usize, NpyError> {
    let damaged = |message: &str| NpyError::Header { message: message.to_owned() };
    let (length, start) = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, low, high, ..] => {
            (u16::from_le_bytes([*low, *high]) as usize, 10)
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12)
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => {
            return Err(damaged("it is truncated or has an unknown version"));
        }
        _ => return Err(NpyError::NotNpy),
    };
    if length > MAX_HEADER_BYTES {
        return Err(damaged("it is too long"));
    }
    let header = bytes.get(start..start + length).ok_or_else(|| damaged("it is truncated"))?;
    if header.iter().filter(|byte| b"([{".contains(byte)).count() > MAX_BRACKETS {
        return Err(damaged("it is nested too deeply"));
    }
    let numbers = header.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let product = numbers
        .map(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok())
        .try_fold(1u64, |product, number| product.checked_mul(number?.max(1)));
    match product {
        Some(_) => Ok(start + length),
        None => Err(damaged("its shape is larger than any file")),
    }
}

/// The size of an integer in bytes, and whether it is signed.
fn integer_width(dtype: &DType) -> Result<(u64, bool), NpyError> {
    let refused = || NpyError::NotIntegers { found: dtype.descr() };
    let DType::Plain(kind) = dtype else { return Err(refused()) };
    let is_signed = match kind.type_char() {
        TypeChar::Int => true,
        TypeChar::Uint => false,
        _ => return Err(refused()),
    };
    match kind.size_field() {
        width @ (1 | 2 | 4 | 8) => Ok((width, is_signed)),
        _ => Err(refused()),
    }
}

fn values(file: NpyFile<&[u8]>, width: u64, is_signed: bool) -> Result<Vec<i64>, NpyError> {
    fn all<T: npyz::Deserialize + Into<i64>>(file: NpyFile<&[u8]>) -> std::io::Result<Vec<i64>> {
        Ok(file.into_vec::<T>()?.into_iter().map(Into::into).collect())
    }
    let read = match (width, is_signed) {
        (1, true) => all::<i8>(file),
        (2, true) => all::<i16>(file),
        (4, true) => all::<i32>(file),
        (1, false) => all::<u8>(file),
        (2, false) => all::<u16>(file),
        (4, false) => all::<u32>(file),
        (8, true) => file.into_vec::<i64>(),
        _ => {
            let wide = file
                .into_vec::<u64>()
                .map_err(|error| NpyError::Header { message: error.to_string() })?;
            let narrow = wide
                .into_iter()
                .map(|value| i64::try_from(value).map_err(|_| NpyError::TooLarge { value }));
            return narrow.collect();
        }
    };
    read.map_err(|error| NpyError::Header { message: error.to_string() })
}

fn in_c_order(shape: Vec<u64>, order: Order, values: Vec<i64>) -> Result<IntArray, NpyError> {
    match (order, shape.as_slice()) {
        (Order::C, [_, ..]) | (Order::Fortran, [_]) => Ok(IntArray { shape, values }),
        (Order::Fortran, [rows, columns]) => {
            let (rows, columns) = (*rows as usize, *columns as usize);
            let cell = |index: usize| values[index % columns * rows + index / columns];
            let turned = (0..values.len()).map(cell).collect();
            Ok(IntArray { shape, values: turned })
        }
        _ => Err(NpyError::Shape { shape }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn header(dtype: &str, shape: &str) -> String {
        format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n")
    }

    #[test]
    fn a_file_for_fish_speech_has_the_size_that_its_tools_write() {
        let array = IntArray { shape: vec![10, 97], values: vec![7; 970] };
        let bytes = write(&array, Width::I64).unwrap();
        assert_eq!(bytes.len(), 128 + 80 * 97);
        assert_eq!(read(&bytes).unwrap(), array);
    }

    #[test]
    fn integers_of_any_width_and_byte_order_are_read() {
        for (dtype, data) in [
            ("|i1", &[1, 254][..]),
            ("<i2", &[1, 0, 254, 255]),
            (">i2", &[0, 1, 255, 254]),
            ("<i4", &[1, 0, 0, 0, 254, 255, 255, 255]),
        ] {
            assert_eq!(
                read(&file(&header(dtype, "(2,)"), data)).unwrap().values,
                [1, -2],
                "{dtype}"
            );
        }
        assert_eq!(read(&file(&header("|u1", "(2,)"), &[1, 254])).unwrap().values, [1, 254]);
    }

    /// Made by `numpy.save` of NumPy 2.4.6.
    #[test]
    fn tokens_are_written_as_numpy_writes_them() {
        let mut numpy =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }"
                .to_vec();
        numpy.resize(127, b' ');
        numpy.push(b'\n');
        numpy.extend([0, 0, 1, 0, 2, 0, 3, 0, 0, 1, 255, 255]);
        let array = IntArray { shape: vec![2, 3], values: vec![0, 1, 2, 3, 256, 65_535] };
        assert_eq!(write(&array, Width::U16).unwrap(), numpy);
        assert_eq!(read(&numpy).unwrap(), array);
    }

    #[test]
    fn values_beyond_the_width_are_refused() {
        for (value, width) in [(65_536, Width::U16), (-1, Width::U16), (1 << 31, Width::I32)] {
            let array = IntArray { shape: vec![1], values: vec![value] };
            assert!(matches!(write(&array, width), Err(NpyError::NotIntegers { .. })), "{value}");
        }
    }

    #[test]
    fn fortran_order_is_turned() {
        let header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n";
        let array = read(&file(header, &[1, 4, 2, 5, 3, 6])).unwrap();
        assert_eq!((array.shape, array.values), (vec![2, 3], vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn python_objects_are_refused_and_not_run() {
        let bytes = file(&header("|O", "(1,)"), b"cos\nsystem\n(S'touch canary'\ntR.");
        assert_eq!(read(&bytes).unwrap_err(), NpyError::Objects);
        let record = "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,), }\n";
        assert!(read(&file(record, b"")).is_err());
    }

    #[test]
    fn headers_that_ask_for_too_much_are_refused() {
        let huge = file(&header("|u1", "(4294967296, 4294967296, 4294967296)"), b"");
        assert!(matches!(read(&huge), Err(NpyError::Header { .. })));
        let deep = file(&"(".repeat(60_000), b"");
        assert!(matches!(read(&deep), Err(NpyError::Header { .. })));
        let long = b"\x93NUMPY\x02\x00\xff\xff\xff\xff";
        assert!(matches!(read(long), Err(NpyError::Header { .. })));
    }

    #[test]
    fn floats_and_wrong_lengths_are_refused() {
        let floats = read(&file(&header("<f4", "(1,)"), &[0; 4])).unwrap_err();
        assert_eq!(floats.to_string(), "the `.npy` file holds `'<f4'`, not integers");
        let cut = read(&file(&header("<i4", "(2,)"), &[0; 7])).unwrap_err();
        assert_eq!(cut, NpyError::Length { expected: 8, found: 7 });
    }

    /// The first 128 bytes as `numpy.save` of NumPy 2.2.6 writes them.
    #[test]
    fn floats_are_written_as_numpy_writes_them() {
        let array = FloatArray { shape: vec![3, 2], values: vec![0.0, -1.5, 2.0, 3.0, 4.0, 1e-6] };
        let bytes = write_floats(&array).unwrap();
        let head =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
        assert!(bytes.starts_with(head));
        assert_eq!((bytes.len(), &bytes[127..136]), (152, &b"\n\0\0\0\0\0\0\xc0\xbf"[..]));
        assert_eq!(read_floats(&bytes).unwrap(), array);
    }

    #[test]
    fn halves_are_written_as_numpy_writes_them() {
        let values = vec![0.0, -1.5, f32::NEG_INFINITY, 1e9, -12.34];
        let bytes = write_halves(&FloatArray { shape: vec![5, 1], values }).unwrap();
        let head =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (5, 1), }";
        assert!(bytes.starts_with(head));
        let read = read_halves(&bytes).unwrap();
        assert_eq!(read.values, [0.0, -1.5, -65_504.0, 65_504.0, -12.34375]);
        assert!(matches!(read_floats(&bytes), Err(NpyError::NotFloats { .. })));
    }

    #[test]
    fn other_arrays_are_no_floats() {
        let integers = IntArray { shape: vec![1], values: vec![1] };
        let integers = write(&integers, Width::I32).unwrap();
        assert!(matches!(read_floats(&integers), Err(NpyError::NotFloats { .. })));
        let turned = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }\n";
        let turned = read_floats(&file(turned, &[0; 16]));
        assert!(matches!(turned, Err(NpyError::NotFloats { .. })));
        let cut = read_floats(&file(&header("<f4", "(2,)"), &[0; 7])).unwrap_err();
        assert_eq!(cut, NpyError::Length { expected: 8, found: 7 });
    }

    proptest! {
        #[test]
        fn a_damaged_file_gives_an_array_or_an_error(
            place in 0usize..200, byte: u8, length in 0usize..220,
            dtype in "[<>|][iufOSV][1248]", shape in "\\(([0-9]{1,3}, ?){0,4}\\)",
        ) {
            let array = IntArray { shape: vec![3, 4], values: (0..12).collect() };
            let mut bytes = write(&array, Width::I64).unwrap();
            bytes[place] = byte;
            bytes.truncate(length);
            let _ = (read(&bytes), read_floats(&bytes));
            let other = file(&header(&dtype, &shape), &[0; 16]);
            let _ = (read(&other), read_floats(&other));
        }
    }
}
