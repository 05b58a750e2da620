//! The output of `throstle-torch check`.

use cache::fs::{Fs, RealFs};
use serde::Serialize;
use stage_core::device::{DeviceId, Devices, Gpu};

use super::cudart::Cudart;
use super::fault::version;
use super::probe;
use super::runtime::{LIBTORCH, Runtime};

#[derive(Debug, Serialize)]
pub struct WorkerDescription {
    pub program: String,
    pub libtorch: &'static str,
    pub cuda: Option<CudaReport>,
    pub devices: Vec<DeviceReport>,
    /// The reason why a GPU that may be present cannot be used.
    pub cuda_error: Option<String>,
}

/// The versions of CUDA that the driver supports and libtorch is made for.
#[derive(Debug, Serialize)]
pub struct CudaReport {
    /// None without a driver.
    pub driver: Option<String>,
    pub libtorch: String,
}

#[derive(Debug, Serialize)]
pub struct DeviceReport {
    pub name: DeviceId,
    pub model: Option<String>,
    pub compute_capability: Option<String>,
    pub memory_total: Option<u64>,
    pub memory_free: Option<u64>,
}

/// Checks the machine as a run would use it: computes on the CPU and opens the GPUs.
pub fn report(program: &str) -> WorkerDescription {
    report_by(&Cudart, program)
}

fn report_by(runtime: &dyn Runtime, program: &str) -> WorkerDescription {
    let Devices { gpus, mut problem } = probe::devices(runtime);
    let mut devices = vec![processor()];
    for (device, gpu) in (0..).map_while(DeviceId::gpu).zip(&gpus) {
        match probe::open(runtime, device) {
            Ok(()) => devices.push(describe(runtime, device, gpu)),
            Err(error) => {
                problem.get_or_insert_with(|| error.to_string());
            }
        }
    }
    let cuda = runtime.versions().map(|versions| CudaReport {
        driver: (versions.driver > 0).then(|| version(versions.driver)),
        libtorch: version(versions.runtime),
    });
    WorkerDescription {
        program: program.to_owned(),
        libtorch: LIBTORCH,
        cuda,
        devices,
        cuda_error: problem,
    }
}

fn describe(runtime: &dyn Runtime, device: DeviceId, gpu: &Gpu) -> DeviceReport {
    let (major, minor) = gpu.capability;
    DeviceReport {
        name: device,
        model: Some(gpu.model.clone()),
        compute_capability: Some(format!("{major}.{minor}")),
        memory_total: Some(gpu.memory_bytes),
        memory_free: device
            .gpu_number()
            .and_then(|number| runtime.memory(number).ok())
            .map(|memory| memory.free),
    }
}

/// The processor, with the memory of the machine.
pub fn processor() -> DeviceReport {
    let memory = RealFs.read_system_file("/proc/meminfo".into()).unwrap_or_default();
    let memory = String::from_utf8_lossy(&memory);
    let line = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
    };
    DeviceReport {
        name: DeviceId::Cpu,
        model: None,
        compute_capability: None,
        memory_total: line("MemTotal:"),
        memory_free: line("MemAvailable:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::{Fake, T4};

    #[test]
    fn a_report_has_the_gpus_that_can_be_opened() {
        let report = report_by(&Fake::with(&[T4, T4]), "worker");
        let names: Vec<String> =
            report.devices.iter().map(|device| device.name.to_string()).collect();
        assert_eq!(names, ["cpu", "cuda:0", "cuda:1"]);
        let second = &report.devices[2];
        assert_eq!(second.compute_capability.as_deref(), Some("7.5"));
        assert_eq!((second.memory_total, second.memory_free), (Some(15 << 30), Some(14 << 30)));
        assert_eq!(report.cuda_error, None);
        assert_eq!(report.cuda.and_then(|cuda| cuda.driver).as_deref(), Some("13.0"));
    }

    #[test]
    fn a_gpu_that_cannot_be_opened_is_an_error_of_the_report() {
        let old = ("Tesla P100", (6, 0), 16 << 30);
        let report = report_by(&Fake::with(&[T4, old]), "worker");
        assert_eq!(report.devices.len(), 2);
        assert!(report.cuda_error.unwrap_or_default().starts_with("`Tesla P100`"));
    }
}
