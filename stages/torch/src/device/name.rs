//! Devices as libtorch has them.

use stage_core::device::DeviceId;
use tch::Device;

/// The device of libtorch: its GPUs have the numbers of the CUDA runtime.
pub fn place(device: DeviceId) -> Device {
    device.gpu_number().map_or(Device::Cpu, Device::Cuda)
}
