//! A machine with simulated GPUs, for tests.

use std::sync::Mutex;

use stage_core::device::Gpu;

use super::fault::DeviceFault;
use super::runtime::{DeviceMemory, Runtime, Versions};

#[derive(Debug)]
pub struct Fake {
    pub gpus: Vec<Gpu>,
    /// The error of every question; 0 for none.
    pub error: i32,
    pub has_runtime: bool,
    /// Driver and runtime.
    pub versions: Option<(u32, u32)>,
    pub visible: Option<&'static str>,
    pub has_device_files: bool,
    /// The number of GPUs that libtorch can use.
    pub loads: Result<usize, &'static str>,
    /// Bytes that are taken of each GPU.
    pub taken: u64,
    /// The calls that change something.
    pub calls: Mutex<Vec<String>>,
}

pub const T4: (&str, (u32, u32), u64) = ("Tesla T4", (7, 5), 15 << 30);

impl Fake {
    pub fn with(gpus: &[(&str, (u32, u32), u64)]) -> Fake {
        let gpu = |(model, capability, memory_bytes): &(&str, (u32, u32), u64)| Gpu {
            model: (*model).to_owned(),
            capability: *capability,
            memory_bytes: *memory_bytes,
            uuid: None,
        };
        Fake {
            gpus: gpus.iter().map(gpu).collect(),
            error: 0,
            has_runtime: true,
            versions: Some((13_000, 13_000)),
            visible: None,
            has_device_files: false,
            loads: Ok(gpus.len()),
            taken: 1 << 30,
            calls: Mutex::default(),
        }
    }

    pub fn failing(error: i32) -> Fake {
        Fake { error, ..Fake::with(&[]) }
    }

    pub fn without_runtime() -> Fake {
        Fake { has_runtime: false, versions: None, ..Fake::with(&[]) }
    }

    pub fn count(&self) -> Result<usize, DeviceFault> {
        Runtime::count(self)
    }

    fn call(&self, what: String) {
        self.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(what);
    }
}

impl Runtime for Fake {
    fn count(&self) -> Result<usize, DeviceFault> {
        match (self.has_runtime, self.error) {
            (false, _) => Err(DeviceFault::NoRuntime),
            (true, 0) => Ok(self.gpus.len()),
            (true, code) => Err(DeviceFault::Cuda { code, text: format!("fake error {code}") }),
        }
    }

    fn gpu(&self, number: usize) -> Result<Gpu, DeviceFault> {
        self.count()?;
        let invalid = || DeviceFault::Cuda { code: 101, text: "invalid device ordinal".to_owned() };
        self.gpus.get(number).cloned().ok_or_else(invalid)
    }

    fn memory(&self, number: usize) -> Result<DeviceMemory, DeviceFault> {
        let total = self.gpu(number)?.memory_bytes;
        Ok(DeviceMemory { free: total.saturating_sub(self.taken), total })
    }

    fn versions(&self) -> Option<Versions> {
        self.versions.map(|(driver, runtime)| Versions { driver, runtime })
    }

    fn visible(&self) -> Option<String> {
        self.visible.map(str::to_owned)
    }

    fn has_device_files(&self) -> bool {
        self.has_device_files
    }

    fn load(&self) -> Result<usize, String> {
        self.loads.map_err(str::to_owned)
    }

    fn peak(&self, _: usize) -> Option<u64> {
        Some(self.taken)
    }

    fn reset_peak(&self, number: usize) {
        self.call(format!("reset_peak {number}"));
    }

    fn empty_cache(&self) {
        self.call("empty_cache".to_owned());
    }
}
