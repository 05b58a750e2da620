//! The interface to CUDA and to libtorch's part for it, so that tests can replace both.

use serde::Serialize;
use stage_core::device::Gpu;

use super::fault::DeviceFault;

/// The release of libtorch at build time.
pub const LIBTORCH: &str = env!("THROSTLE_LIBTORCH");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    pub free: u64,
    pub total: u64,
}

/// Versions of CUDA, such as 13000 for 13.0; 0 without a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Versions {
    pub driver: u32,
    pub runtime: u32,
}

pub trait Runtime: Send + Sync {
    /// The number of GPUs that this process sees.
    fn count(&self) -> Result<usize, DeviceFault>;

    /// Does not take memory on the GPU.
    fn gpu(&self, number: usize) -> Result<Gpu, DeviceFault>;

    /// Memory of the whole device, or of its part. Takes some of it for a context.
    fn memory(&self, number: usize) -> Result<DeviceMemory, DeviceFault>;

    fn versions(&self) -> Option<Versions>;

    /// The value of `CUDA_VISIBLE_DEVICES`.
    fn visible(&self) -> Option<String>;

    /// Tests if the system has given GPUs to this process, whatever CUDA says.
    fn has_device_files(&self) -> bool;

    /// Loads libtorch's part for CUDA; returns the number of GPUs that it can use.
    fn load(&self) -> Result<usize, String>;

    /// The peak of the memory that libtorch has reserved.
    fn peak(&self, number: usize) -> Option<u64>;

    fn reset_peak(&self, number: usize);

    /// Returns the memory that libtorch has reserved and does not use.
    fn empty_cache(&self);
}
