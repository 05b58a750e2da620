//! Copies between the host and a device.
//!
//! An ordinary copy to a GPU waits until the GPU has done all the work before it. [`upload`] does
//! not wait: the copy comes from pinned memory, in the order of the stream. [`read`] always waits.
//! Both are counted, so a test notices a loop that waits more often than necessary.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use tch::{Device, Tensor, kind};

use crate::error::InTch;
use crate::runtime::shim;

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
pub fn upload(tensor: &Tensor, device: Device) -> Tensor {
    COPIES.set(Copies { uploads: COPIES.get().uploads + 1, ..COPIES.get() });
    match device {
        Device::Cuda(gpu) if tensor.device() == Device::Cpu => shim::to_gpu(tensor, gpu).in_tch(),
        _ => tensor.to_device(device),
    }
}

/// Numbers on a device.
pub fn upload_all<T: kind::Element>(numbers: &[T], device: Device) -> Tensor {
    upload(&Tensor::from_slice(numbers), device)
}

/// All numbers of a tensor. Waits for the work of the device.
pub fn read<T: kind::Element + Copy>(tensor: &Tensor) -> Vec<T> {
    COPIES.set(Copies { reads: COPIES.get().reads + 1, ..COPIES.get() });
    Vec::try_from(tensor.reshape(-1)).in_tch()
}

/// Numbers on the host that a thread prepares and another one uploads: in pinned memory if a GPU
/// will take them.
#[derive(Debug)]
pub struct StagedTensor(Mutex<Tensor>);

impl StagedTensor {
    pub fn new(tensor: &Tensor, is_for_gpu: bool) -> StagedTensor {
        let staged =
            if is_for_gpu { shim::pinned(tensor).in_tch() } else { tensor.shallow_clone() };
        StagedTensor(Mutex::new(staged))
    }

    pub fn upload(&self, device: Device) -> Tensor {
        let tensor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match device {
            Device::Cuda(gpu) => shim::to_gpu_aside(&tensor, gpu).in_tch(),
            _ => upload(&tensor, device),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::caught;

    #[test]
    fn copies_are_counted_and_keep_their_numbers() {
        let before = copies();
        let tensor = upload_all(&[3i64, 5], Device::Cpu);
        assert_eq!(read::<i64>(&tensor.view([2, 1])), [3, 5]);
        let staged = StagedTensor::new(&tensor, false);
        assert_eq!(staged.upload(Device::Cpu), tensor);
        let after = copies();
        assert_eq!((after.uploads - before.uploads, after.reads - before.reads), (2, 1));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error_and_no_crash() {
        if tch::Cuda::is_available() {
            return;
        }
        let tensor = Tensor::from_slice(&[1f32]);
        let fails = |work: &dyn Fn() -> Tensor| caught(|| Ok(work())).is_err();
        assert!(fails(&|| upload(&tensor, Device::Cuda(0))));
        assert!(caught(|| Ok(StagedTensor::new(&tensor, true))).is_err());
        let staged = StagedTensor::new(&tensor, false);
        assert!(fails(&|| staged.upload(Device::Cuda(0))));
    }
}
