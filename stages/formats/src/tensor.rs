//! Tensors as in files: type, shape, and bytes in C order, little-endian.
//!
//! Bytes are shared, so that a tensor of a mapped file is a view of that file.

use std::fmt;

use bytes::Bytes;
use half::{bf16, f16};

use crate::error::FormatError;

/// The type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I16,
    I8,
    U16,
    U8,
    Bool,
}

impl Dtype {
    pub const ALL: [Dtype; 11] = [
        Dtype::F64,
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::I64,
        Dtype::I32,
        Dtype::I16,
        Dtype::I8,
        Dtype::U16,
        Dtype::U8,
        Dtype::Bool,
    ];

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Dtype::F64 | Dtype::I64 => 8,
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F16 | Dtype::Bf16 | Dtype::I16 | Dtype::U16 => 2,
            Dtype::I8 | Dtype::U8 | Dtype::Bool => 1,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16)
    }

    /// The name in manifests and messages.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F64 => "f64",
            Dtype::F32 => "f32",
            Dtype::F16 => "fp16",
            Dtype::Bf16 => "bf16",
            Dtype::I64 => "i64",
            Dtype::I32 => "i32",
            Dtype::I16 => "i16",
            Dtype::I8 => "i8",
            Dtype::U16 => "u16",
            Dtype::U8 => "u8",
            Dtype::Bool => "bool",
        }
    }

    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Type and shape of a tensor, as in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
}

impl TensorInfo {
    pub fn new(dtype: Dtype, shape: impl Into<Vec<usize>>) -> TensorInfo {
        TensorInfo { dtype, shape: shape.into() }
    }

    /// For tensors stacked along the first dimension; None if they do not fit.
    pub fn stack_rows(parts: &[&TensorInfo]) -> Option<TensorInfo> {
        let (first, others) = parts.split_first()?;
        let (rows, columns) = first.shape.split_first()?;
        let mut stacked = TensorInfo::new(first.dtype, first.shape.clone());
        stacked.shape[0] = others.iter().try_fold(*rows, |sum, part| {
            let (rows, own) = part.shape.split_first()?;
            (part.dtype == first.dtype && own == columns).then(|| sum.checked_add(*rows))?
        })?;
        Some(stacked)
    }

    /// The number of elements; None on overflow.
    pub fn elements(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size))
    }

    /// The size in bytes; None on overflow.
    pub fn bytes(&self) -> Option<usize> {
        let bytes = self.elements()?.checked_mul(self.dtype.size())?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.dtype, self.shape)
    }
}

/// A tensor with as many bytes as its shape needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    info: TensorInfo,
    data: Bytes,
}

impl Tensor {
    pub fn new(info: TensorInfo, data: impl Into<Bytes>) -> Result<Tensor, FormatError> {
        let data = data.into();
        if info.bytes() == Some(data.len()) {
            Ok(Tensor { info, data })
        } else {
            Err(FormatError::tensor("data", format!("{} bytes do not fill {info}", data.len())))
        }
    }

    /// A tensor of type f32.
    pub fn from_f32(shape: impl Into<Vec<usize>>, values: &[f32]) -> Result<Tensor, FormatError> {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new(TensorInfo::new(Dtype::F32, shape), data)
    }

    /// Concatenates tensors of one type along the first dimension; the others must agree.
    pub fn stack_rows(parts: &[Tensor]) -> Result<Tensor, FormatError> {
        let infos: Vec<&TensorInfo> = parts.iter().map(Tensor::info).collect();
        let info = TensorInfo::stack_rows(&infos)
            .ok_or_else(|| FormatError::tensor("data", "its parts do not fit together"))?;
        let mut data = Vec::with_capacity(info.bytes().unwrap_or_default());
        parts.iter().for_each(|part| data.extend_from_slice(&part.data));
        Tensor::new(info, data)
    }

    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    pub fn dtype(&self) -> Dtype {
        self.info.dtype
    }

    pub fn shape(&self) -> &[usize] {
        &self.info.shape
    }

    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The values as f32, rounded to the nearest.
    pub fn to_f32(&self) -> Vec<f32> {
        let data = &self.data;
        match self.info.dtype {
            Dtype::F64 => each(data, |bytes| f64::from_le_bytes(bytes) as f32),
            Dtype::F32 => each(data, f32::from_le_bytes),
            Dtype::F16 => each(data, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Dtype::Bf16 => each(data, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            Dtype::I64 => each(data, |bytes| i64::from_le_bytes(bytes) as f32),
            Dtype::I32 => each(data, |bytes| i32::from_le_bytes(bytes) as f32),
            Dtype::I16 => each(data, |bytes| f32::from(i16::from_le_bytes(bytes))),
            Dtype::I8 => each(data, |bytes| f32::from(i8::from_le_bytes(bytes))),
            Dtype::U16 => each(data, |bytes| f32::from(u16::from_le_bytes(bytes))),
            Dtype::U8 => each(data, |[byte]: [u8; 1]| f32::from(byte)),
            Dtype::Bool => each(data, |[byte]: [u8; 1]| f32::from(u8::from(byte != 0))),
        }
    }

    /// The same values in another floating-point type, rounded to the nearest, ties to even. A
    /// tensor of that type already is shared, not copied.
    pub fn to_float(&self, dtype: Dtype) -> Result<Tensor, FormatError> {
        if dtype == self.info.dtype {
            return Ok(self.clone());
        }
        let data = match dtype {
            Dtype::F64 => self.to_f64().into_iter().flat_map(f64::to_le_bytes).collect(),
            Dtype::F32 => pack(self.to_f32(), f32::to_le_bytes),
            // Via f32, a double would be rounded twice.
            Dtype::F16 if self.info.dtype == Dtype::F64 => {
                pack(self.to_f64(), |value| f16::from_f64(value).to_le_bytes())
            }
            Dtype::Bf16 if self.info.dtype == Dtype::F64 => {
                pack(self.to_f64(), |value| bf16::from_f64(value).to_le_bytes())
            }
            Dtype::F16 => pack(self.to_f32(), |value| f16::from_f32(value).to_le_bytes()),
            Dtype::Bf16 => pack(self.to_f32(), |value| bf16::from_f32(value).to_le_bytes()),
            other => {
                let message = format!("{other} is not a floating-point type");
                return Err(FormatError::Unsupported { message });
            }
        };
        Tensor::new(TensorInfo::new(dtype, self.info.shape.clone()), data)
    }

    fn to_f64(&self) -> Vec<f64> {
        match self.info.dtype {
            Dtype::F64 => each(&self.data, f64::from_le_bytes),
            Dtype::I64 => each(&self.data, |bytes| i64::from_le_bytes(bytes) as f64),
            Dtype::I32 => each(&self.data, |bytes| f64::from(i32::from_le_bytes(bytes))),
            _ => self.to_f32().into_iter().map(f64::from).collect(),
        }
    }
}

fn each<const N: usize, T>(data: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    data.as_chunks::<N>().0.iter().map(|bytes| value(*bytes)).collect()
}

fn pack<const N: usize, T>(values: Vec<T>, bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut data = Vec::with_capacity(values.len() * N);
    values.into_iter().for_each(|value| data.extend_from_slice(&bytes(value)));
    data
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tensor(dtype: Dtype, data: &[u8]) -> Tensor {
        let shape = vec![data.len() / dtype.size()];
        Tensor::new(TensorInfo::new(dtype, shape), data.to_vec()).unwrap()
    }

    #[test]
    fn every_type_becomes_f32() {
        for (dtype, data, expected) in [
            (Dtype::F64, &(-2.5f64).to_le_bytes()[..], -2.5),
            (Dtype::F32, &0.1f32.to_le_bytes(), 0.1),
            (Dtype::F16, &[0x00, 0x3e], 1.5),
            (Dtype::Bf16, &[0xc0, 0xbf], -1.5),
            (Dtype::I64, &(-7i64).to_le_bytes(), -7.0),
            (Dtype::I32, &70_000i32.to_le_bytes(), 70_000.0),
            (Dtype::I16, &(-300i16).to_le_bytes(), -300.0),
            (Dtype::I8, &[0xff], -1.0),
            (Dtype::U16, &[0xff, 0xff], 65_535.0),
            (Dtype::U8, &[0xff], 255.0),
            (Dtype::Bool, &[1], 1.0),
        ] {
            assert_eq!(tensor(dtype, data).to_f32(), [expected], "{dtype}");
        }
    }

    #[test]
    fn floats_are_rounded_to_the_nearest_and_ties_to_even() {
        // In bf16 the neighbours of one are 1/128 apart.
        let values = [1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 1.004];
        let rounded = Tensor::from_f32([3], &values).unwrap().to_float(Dtype::Bf16).unwrap();
        assert_eq!(rounded.to_f32(), [1.0, 1.0 + 2.0 / 128.0, 1.0 + 1.0 / 128.0]);
        let large = Tensor::from_f32([1], &[1e6]).unwrap().to_float(Dtype::F16).unwrap();
        assert_eq!(large.to_f32(), [f32::INFINITY]);
    }

    #[test]
    fn bytes_that_do_not_fill_the_shape_are_refused() {
        assert!(Tensor::new(TensorInfo::new(Dtype::F32, [2, 3]), vec![0; 23]).is_err());
        let endless = TensorInfo::new(Dtype::F32, [usize::MAX, 2]);
        assert_eq!(endless.bytes(), None);
        assert!(Tensor::new(endless, vec![0; 8]).is_err());
    }

    #[test]
    fn parts_that_fit_are_stacked() {
        let one = Tensor::from_f32([1, 2], &[1.0, 2.0]).unwrap();
        let two = Tensor::from_f32([2, 2], &[3.0, 4.0, 5.0, 6.0]).unwrap();
        let both = Tensor::stack_rows(&[one.clone(), two]).unwrap();
        assert_eq!(
            (both.shape(), both.to_f32()),
            (&[3, 2][..], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        );
        let wide = Tensor::from_f32([1, 3], &[0.0; 3]).unwrap();
        let other = one.to_float(Dtype::Bf16).unwrap();
        let scalar = Tensor::from_f32([], &[0.0]).unwrap();
        for misfit in [wide, other, scalar] {
            assert!(Tensor::stack_rows(&[one.clone(), misfit]).is_err());
        }
    }

    #[test]
    fn an_empty_dimension_and_a_scalar_have_their_sizes() {
        assert_eq!(TensorInfo::new(Dtype::F32, [0, usize::MAX]).bytes(), Some(0));
        assert_eq!(TensorInfo::new(Dtype::I64, []).bytes(), Some(8));
    }

    #[test]
    fn names_come_back() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        }
    }
}
