//! The devices of a worker, by the CUDA runtime of its own process: the same numbers, names, sizes
//! and faults as for libtorch, under any `CUDA_VISIBLE_DEVICES`, container or scheduler.

mod cudart;
#[cfg(test)]
mod fake;
mod fault;
mod machine;
mod name;
mod probe;
mod report;
mod runtime;

use tch::Device;

pub use self::cudart::Cudart;
pub use self::machine::{Machine, SharedThreads};
pub use self::name::place;
pub use self::report::{WorkerDescription, report};
use self::runtime::Runtime;
use stage_core::StageError;
use stage_core::device::DeviceId;

/// The free memory of a device, if it can be determined.
pub fn free_memory(device: Device) -> Option<u64> {
    match device {
        Device::Cuda(number) => Cudart.memory(number).ok().map(|memory| memory.free),
        _ => report::processor().memory_free,
    }
}

/// Major and minor; None for a CPU, and for a GPU that does not answer.
pub fn compute_capability(device: Device) -> Option<(u32, u32)> {
    match device {
        Device::Cuda(number) => Cudart.gpu(number).ok().map(|gpu| gpu.capability),
        _ => None,
    }
}

/// The peak of the memory that libtorch has reserved on a GPU for this process, since the last
/// reset.
pub fn peak_memory(number: usize) -> Option<u64> {
    Cudart.peak(number)
}

pub fn reset_peak_memory(number: usize) {
    Cudart.reset_peak(number);
}

/// Prepares a GPU, with the kernels that a worker uses.
pub fn open_gpu(number: usize) -> Result<(), StageError> {
    machine::set_kernels()?;
    let unknown = || StageError::failed(format!("there is no GPU {number}"));
    probe::open(&Cudart, DeviceId::gpu(number).ok_or_else(unknown)?)
}
