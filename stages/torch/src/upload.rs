//! Copies between the host and a device.
//!
//! An ordinary copy to a GPU waits until the GPU has done all the work before it. [`upload`] does
//! not wait: the copy comes from pinned memory, in the order of the stream. [`read`] always waits.
//! Both are counted, so a test notices a loop that waits more often than necessary.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use tch::{Device, Tensor, kind};

use crate::error::TorchError;
use crate::shim;

/// The copies of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    pub uploads: u64,
    pub reads: u64,
}

thread_local! {
    static COPIES: Cell<Copies> = const { Cell::new(Copies { uploads: 0, reads: 0 }) };
}

/// The copies of this thread so far, copies within the memory of a CPU included.
pub fn copies() -> Copies {
    COPIES.get()
}

/// A tensor on a device. A copy to a GPU joins the current stream, and the host does not wait.
pub fn upload(tensor: &Tensor, device: Device) -> Result<Tensor, TorchError> {
    COPIES.set(Copies { uploads: COPIES.get().uploads + 1, ..COPIES.get() });
    match device {
        Device::Cuda(gpu) if tensor.device() == Device::Cpu => shim::to_gpu(tensor, gpu),
        _ => Ok(tensor.f_to_device(device)?),
    }
}

/// Numbers on a device.
pub fn upload_all<T: kind::Element>(numbers: &[T], device: Device) -> Result<Tensor, TorchError> {
    upload(&Tensor::f_from_slice(numbers)?, device)
}

/// All numbers of a tensor. Waits for the work of the device.
pub fn read<T: kind::Element + Copy>(tensor: &Tensor) -> Result<Vec<T>, TorchError> {
    COPIES.set(Copies { reads: COPIES.get().reads + 1, ..COPIES.get() });
    Ok(Vec::try_from(tensor.f_reshape(-1)?)?)
}

/// Numbers on the host that a thread prepares and another one uploads: in pinned memory if a GPU
/// will take them.
#[derive(Debug)]
pub struct Staged(Mutex<Tensor>);

impl Staged {
    pub fn new(tensor: &Tensor, is_for_gpu: bool) -> Result<Staged, TorchError> {
        let staged = if is_for_gpu { shim::pinned(tensor)? } else { tensor.shallow_clone() };
        Ok(Staged(Mutex::new(staged)))
    }

    pub fn upload(&self, device: Device) -> Result<Tensor, TorchError> {
        let tensor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match device {
            Device::Cuda(gpu) => shim::to_gpu_aside(&tensor, gpu),
            _ => upload(&tensor, device),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn copies_are_counted_and_keep_their_numbers() {
        let before = copies();
        let tensor = upload_all(&[3i64, 5], Device::Cpu).unwrap();
        assert_eq!(read::<i64>(&tensor.view([2, 1])).unwrap(), [3, 5]);
        let staged = Staged::new(&tensor, false).unwrap();
        assert_eq!(staged.upload(Device::Cpu).unwrap(), tensor);
        let after = copies();
        assert_eq!((after.uploads - before.uploads, after.reads - before.reads), (2, 1));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error_and_no_crash() {
        if tch::Cuda::is_available() {
            return;
        }
        let tensor = Tensor::from_slice(&[1f32]);
        assert!(upload(&tensor, Device::Cuda(0)).is_err());
        assert!(Staged::new(&tensor, true).is_err());
        let staged = Staged::new(&tensor, false).unwrap();
        assert!(staged.upload(Device::Cuda(0)).is_err());
    }
}
