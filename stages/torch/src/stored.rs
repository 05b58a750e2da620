//! Tensors between libtorch and the store: each is a separate blob.

use std::sync::Arc;

use bytes::Bytes;
use stage_core::{Blob, Context, Fields, StageError};
use stage_families::artifact;
use stage_formats::{Dtype, FormatError, TensorInfo};
use tch::{Device, Kind, Tensor};

use crate::error::TorchError;
use crate::nn::weights::Weights;

impl From<FormatError> for TorchError {
    fn from(error: FormatError) -> TorchError {
        TorchError::Model(error.to_string())
    }
}

/// The types that both sides have.
const TYPES: [(Kind, Dtype); 10] = [
    (Kind::Double, Dtype::F64),
    (Kind::Float, Dtype::F32),
    (Kind::Half, Dtype::F16),
    (Kind::BFloat16, Dtype::Bf16),
    (Kind::Int64, Dtype::I64),
    (Kind::Int, Dtype::I32),
    (Kind::Int16, Dtype::I16),
    (Kind::Int8, Dtype::I8),
    (Kind::Uint8, Dtype::U8),
    (Kind::Bool, Dtype::Bool),
];

/// The stored bytes of a tensor; the same tensor gives the same bytes.
pub fn encode(tensor: &Tensor) -> Result<Vec<u8>, TorchError> {
    let kind = tensor.kind();
    let dtype = TYPES.iter().find(|(own, _)| *own == kind).map(|(_, dtype)| *dtype);
    let dtype =
        dtype.ok_or_else(|| TorchError::Input(format!("a {kind:?} tensor cannot be stored")))?;
    let tensor = tensor.detach().to_device(Device::Cpu).contiguous();
    let shape: Vec<usize> = tensor.size().iter().map(|size| *size as usize).collect();
    // Without a second copy of the values: embeddings are large.
    let (mut file, start) = artifact::room(TensorInfo::new(dtype, shape))?;
    tensor.copy_data_u8(&mut file[start..], tensor.numel());
    Ok(file)
}

pub fn decode(bytes: Bytes) -> Result<Tensor, TorchError> {
    let stored = artifact::decode(bytes)?;
    let info = stored.info();
    let kind = TYPES.iter().find(|(_, dtype)| *dtype == info.dtype).map(|(kind, _)| *kind);
    let kind = kind
        .ok_or_else(|| TorchError::Model(format!("a tensor of type {} is unknown", info.dtype)))?;
    let shape: Vec<i64> = info.shape.iter().map(|size| *size as i64).collect();
    Ok(Tensor::from_data_size(stored.data(), &shape, kind))
}

pub fn keep(tensor: &Tensor, context: &mut dyn Context) -> Result<Blob, StageError> {
    context.keep(artifact::TENSOR_KIND, encode(tensor)?.into())
}

pub fn recall(blob: &Blob, context: &mut dyn Context) -> Result<Tensor, StageError> {
    Ok(decode(context.read(blob)?)?)
}

/// Stored tensors as shapes alone, in f32: their values are one zero, which takes no memory.
pub fn shapes<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a Arc<Blob>)>,
    context: &mut dyn Context,
) -> Result<Weights, StageError> {
    let mut weights = Weights::default();
    let zero = Tensor::zeros([0i64; 0], (Kind::Float, Device::Cpu));
    for (name, blob) in tensors {
        let stored = artifact::decode(context.read(blob)?).map_err(TorchError::from)?;
        let shape: Vec<i64> = stored.info().shape.iter().map(|size| *size as i64).collect();
        weights.insert(name, zero.expand(&shape, false));
    }
    Ok(weights)
}

/// All tensors of an artifact.
pub fn weights(fields: &Fields, context: &mut dyn Context) -> Result<Weights, StageError> {
    let mut weights = Weights::default();
    for (name, blob) in artifact::tensors(fields) {
        weights.insert(name, recall(blob, context)?);
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_tensor_comes_back_in_every_type_whatever_its_strides() {
        for (kind, _) in TYPES {
            let tensor = Tensor::arange(6, (Kind::Float, Device::Cpu)).view([2, 3]);
            let tensor = tensor.to_kind(kind).transpose(0, 1);
            let back = decode(encode(&tensor).unwrap().into()).unwrap();
            assert_eq!((back.kind(), back.size()), (kind, vec![3, 2]));
            assert!(back.equal(&tensor), "{kind:?}");
        }
        let scalar = decode(encode(&Tensor::from(2.5f32)).unwrap().into()).unwrap();
        assert_eq!((scalar.size(), scalar.double_value(&[])), (vec![], 2.5));
    }

    #[test]
    fn a_tensor_that_requires_gradients_is_stored_as_its_values() {
        let tensor = Tensor::from_slice(&[1f32, 2.0]);
        let leaf = tensor.copy().set_requires_grad(true);
        assert_eq!(encode(&leaf).unwrap(), encode(&tensor).unwrap());
    }

    #[test]
    fn shapes_take_the_memory_of_one_number() {
        let mut bench = crate::testing::Bench::default();
        let tensor = Tensor::arange(6, (Kind::BFloat16, Device::Cpu)).view([2, 3]);
        let blob = Arc::new(keep(&tensor, &mut bench).unwrap());
        let shapes = shapes([("table", &blob)].into_iter(), &mut bench).unwrap();
        let shape = shapes.get("table").unwrap();
        assert_eq!((shape.size(), shape.stride()), (vec![2, 3], vec![0, 0]));
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let bytes = encode(&Tensor::from_slice(&[1f32, 2.0])).unwrap();
        for length in 0..bytes.len() {
            assert!(decode(bytes[..length].to_vec().into()).is_err());
        }
    }
}
