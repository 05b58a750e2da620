//! A tensor as a view of a storage: its position, its storage, and its elements in C order.

use std::ops::Range;

use bytes::Bytes;

use crate::error::FormatError;
use crate::tensor::{Tensor, TensorInfo};

/// The largest number of dimensions of a tensor.
pub(super) const MAX_DIMENSIONS: usize = 16;
/// The largest size of a view with repeated elements, beyond the size of its storage.
const MAX_REPEATED: usize = 16 << 20;

/// Sizes and strides count elements, as the file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub info: TensorInfo,
    /// The entry of the archive that holds the storage.
    pub entry: String,
    pub offset: usize,
    pub strides: Vec<usize>,
}

impl View {
    /// The size of the storage up to the end of the last element; None on overflow.
    fn reach(&self) -> Option<usize> {
        if self.info.elements()? == 0 {
            return Some(0);
        }
        let mut last = self.offset;
        for (size, stride) in self.info.shape.iter().zip(&self.strides) {
            last = last.checked_add((size - 1).checked_mul(*stride)?)?;
        }
        last.checked_add(1)?.checked_mul(self.info.dtype.size())
    }

    /// An error if the view exceeds a storage of this size in bytes, or would become much larger
    /// than that. Returns the size of its elements in bytes.
    pub fn check(&self, name: &str, storage: usize) -> Result<usize, FormatError> {
        if self.info.shape.len() != self.strides.len() || self.strides.len() > MAX_DIMENSIONS {
            return Err(FormatError::tensor(name, "its shape and its strides do not match"));
        }
        match (self.reach(), self.info.bytes()) {
            (Some(reach), Some(bytes)) if reach <= storage => {
                if bytes <= storage.max(MAX_REPEATED) {
                    Ok(bytes)
                } else {
                    Err(FormatError::tensor(
                        name,
                        format!("it expands a storage of {storage} bytes to {bytes} bytes"),
                    ))
                }
            }
            _ => Err(FormatError::tensor(
                name,
                format!("{} exceeds its storage of {storage} bytes", self.info),
            )),
        }
    }

    /// The range of the elements in the storage, which the view has been checked against.
    pub fn extent(&self) -> Range<usize> {
        match self.reach() {
            Some(reach) if reach > 0 => self.offset * self.info.dtype.size()..reach,
            _ => 0..0,
        }
    }

    /// The elements in C order, from the range of the storage that they span: shared with it if the
    /// order fits, else copied.
    pub fn tensor(&self, extent: &Bytes) -> Result<Tensor, FormatError> {
        let bytes = self.info.bytes().unwrap_or_default();
        let data = if bytes == 0 {
            Bytes::new()
        } else if self.is_contiguous() {
            extent.clone()
        } else {
            let mut data = Vec::with_capacity(bytes);
            match self.info.dtype.size() {
                8 => self.gather::<8>(extent, &mut data),
                4 => self.gather::<4>(extent, &mut data),
                2 => self.gather::<2>(extent, &mut data),
                _ => self.gather::<1>(extent, &mut data),
            }
            data.into()
        };
        Tensor::new(self.info.clone(), data)
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1usize;
        self.info.shape.iter().zip(&self.strides).rev().all(|(size, stride)| {
            let fits = *size == 1 || *stride == expected;
            expected = expected.saturating_mul(*size);
            fits
        })
    }

    /// Appends the elements row by row, counting the outer dimensions like an odometer.
    fn gather<const N: usize>(&self, extent: &[u8], data: &mut Vec<u8>) {
        let elements = extent.as_chunks::<N>().0;
        let (shape, strides) = (&self.info.shape, &self.strides);
        let Some((row, outer)) = shape.split_last() else { return };
        let step = strides[outer.len()];
        let mut index = vec![0; outer.len()];
        loop {
            let start: usize = index.iter().zip(strides).map(|(at, stride)| at * stride).sum();
            (0..*row).for_each(|at| data.extend_from_slice(&elements[start + at * step]));
            let Some(turn) = (0..outer.len()).rev().find(|at| index[*at] + 1 < outer[*at]) else {
                return;
            };
            index[turn] += 1;
            index[turn + 1..].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tensor::Dtype;

    fn view(shape: &[usize], strides: &[usize], offset: usize) -> View {
        let info = TensorInfo::new(Dtype::U16, shape);
        View { info, entry: String::new(), offset, strides: strides.to_vec() }
    }

    fn storage(elements: u16) -> Bytes {
        (0..elements).flat_map(u16::to_le_bytes).collect::<Vec<u8>>().into()
    }

    fn values(view: &View, elements: u16) -> Vec<f32> {
        let storage = storage(elements);
        view.check("x", storage.len()).unwrap();
        view.tensor(&storage.slice(view.extent())).unwrap().to_f32()
    }

    #[test]
    fn views_with_offset_stride_and_transpose_give_c_order() {
        assert_eq!(values(&view(&[2, 2], &[2, 1], 1), 5), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(values(&view(&[3, 2], &[1, 3], 0), 6), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(values(&view(&[2], &[3], 1), 5), [1.0, 4.0]);
        assert_eq!(values(&view(&[3], &[0], 4), 5), [4.0, 4.0, 4.0]);
        assert_eq!(values(&view(&[], &[], 2), 3), [2.0]);
        assert!(values(&view(&[0, 9], &[9, 1], 77), 0).is_empty());
        assert_eq!(
            values(&view(&[2, 2, 2], &[1, 4, 2], 0), 8),
            [0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0]
        );
    }

    #[test]
    fn contiguous_views_share_the_storage() {
        let storage = storage(8);
        let view = view(&[2, 1, 3], &[3, 99, 1], 2);
        let tensor = view.tensor(&storage.slice(view.extent())).unwrap();
        assert_eq!(tensor.data().as_ptr(), storage[4..].as_ptr());
    }

    #[test]
    fn what_lies_outside_is_refused() {
        for view in [
            view(&[5], &[1], 0),
            view(&[2], &[4], 0),
            view(&[1], &[1], 4),
            view(&[2, 2], &[usize::MAX, 1], 0),
            view(&[usize::MAX, usize::MAX], &[0, 0], 0),
            view(&[1], &[1], usize::MAX),
            view(&[2], &[1, 1], 0),
            view(&[1; 17], &[1; 17], 0),
        ] {
            assert!(view.check("x", 8).is_err(), "{view:?}");
        }
        let error = view(&[1 << 40], &[0], 0).check("x", 8).unwrap_err().to_string();
        assert!(error.contains("it expands a storage of 8 bytes"), "{error}");
    }
}
