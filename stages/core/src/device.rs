//! The GPUs of a machine as a worker sees them.

mod name;

use serde::{Deserialize, Serialize};

pub use self::name::{DeviceId, DeviceName, GpuNumber, UnknownDevice};

/// The GPUs that a worker can use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// In the order of their numbers: the first is `cuda:0`.
    pub gpus: Vec<Gpu>,
    /// The reason why a GPU that seems to be there cannot be used.
    pub problem: Option<String>,
}

/// One GPU of a machine, as its driver reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// The name by its maker, such as `NVIDIA A100-SXM4-80GB`.
    pub model: String,
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// All of its memory in bytes, whoever uses it.
    pub memory_bytes: u64,
    /// As 8-4-4-4-12 hexadecimal digits: the device, whatever its number.
    pub uuid: Option<String>,
}

impl Devices {
    /// The devices that a stage on `auto` may use. A GPU that cannot be used is named too: to open it
    /// says why, while the CPU would take days without a word.
    pub fn ids(&self) -> Vec<DeviceId> {
        let count = self.gpus.len().max(usize::from(self.problem.is_some()));
        (0..count).map_while(DeviceId::gpu).collect()
    }

    /// The devices that fit a wish. A GPU that was asked for and is not there is one of them: to open
    /// it says why.
    pub fn candidates(&self, wish: DeviceName) -> Vec<DeviceId> {
        let gpus = || Some(self.ids()).filter(|gpus| !gpus.is_empty());
        match wish {
            DeviceName::One(device) => vec![device],
            DeviceName::Auto | DeviceName::AnyGpu => gpus().unwrap_or_else(|| vec![wish.first()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_cannot_be_used_is_not_passed_over() {
        let none = Devices::default();
        assert!(none.ids().is_empty());
        let two = Devices { gpus: vec![Gpu::default(); 2], ..Devices::default() };
        assert_eq!(Some(two.ids()), [0, 1].map(DeviceId::gpu).into_iter().collect());
        let broken = Devices { problem: Some("the driver is too old".into()), ..none };
        assert_eq!(broken.ids(), [DeviceId::FIRST_GPU]);
    }
}
