//! The device of a worker, and its number of threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cache::fs::{Fs, RealFs};
use serde::Serialize;
use stage_core::StageError;
use stage_families::training::SHARED_FROM;
use tch::{Cuda, Device};

use crate::shim;
use crate::threads::one_thread;
use crate::train::precision::DeviceFacts;

/// The release of libtorch at build time.
pub const LIBTORCH: &str = env!("THROSTLE_LIBTORCH");

/// The state that the stages of a worker share.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    threads: Arc<AtomicUsize>,
    has_gpu: Arc<AtomicBool>,
}

impl Machine {
    /// Prepares a device: `cpu`, `cuda` or `cuda:1`.
    pub fn prepare(&self, device: &str, threads: u32) -> Result<(), StageError> {
        self.threads.store(threads as usize, Ordering::Relaxed);
        // Independent of the environment, and for the whole process.
        shim::set_tf32(false)?;
        shim::set_deterministic(true)?;
        self.open(device)?;
        one_thread();
        Ok(())
    }

    /// Prepares one more device.
    pub fn open(&self, name: &str) -> Result<Device, StageError> {
        let device = parse_device(name)?;
        if let Device::Cuda(number) = device {
            open_gpu(number)?;
            self.has_gpu.store(true, Ordering::Relaxed);
        }
        Ok(device)
    }

    /// Returns the memory that closed jobs have left to the allocator of the GPUs, for other
    /// processes.
    pub fn release(&self) {
        if self.has_gpu.load(Ordering::Relaxed) {
            // Without it, only this process can use that memory.
            let _ = shim::empty_cache();
        }
    }

    /// The facts that determine the choice of a precision.
    pub fn facts(&self, name: &str) -> DeviceFacts {
        let cpu = DeviceFacts { name: name.to_owned(), compute_capability: None };
        match parse_device(name) {
            Ok(Device::Cuda(number)) => gpu_facts(number).unwrap_or(cpu),
            _ => cpu,
        }
    }

    /// Lets libtorch use all threads, divided among this number of replicas of a model, until the
    /// result is dropped; a small model stays on one.
    pub fn share_threads(&self, parameters: i64, replicas: usize) -> Option<SharedThreads> {
        (parameters >= SHARED_FROM).then(|| {
            tch::set_num_threads((self.threads() / replicas.max(1)).max(1) as i32);
            SharedThreads(())
        })
    }

    /// The number of clips that may be processed at a time.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed).max(1)
    }
}

/// While this lives, libtorch uses several threads.
pub struct SharedThreads(());

impl Drop for SharedThreads {
    fn drop(&mut self) {
        one_thread();
    }
}

/// The device with this name; an empty name means the CPU.
pub fn parse_device(name: &str) -> Result<Device, StageError> {
    let number = match name {
        "" | "cpu" => return Ok(Device::Cpu),
        "cuda" => Some(0),
        _ => name.strip_prefix("cuda:").and_then(|number| number.parse::<u8>().ok()),
    };
    let unknown = || StageError::failed(format!("no device `{name}`: expected `cpu` or `cuda:0`"));
    number.map(|number| Device::Cuda(usize::from(number))).ok_or_else(unknown)
}

/// Prepares a GPU.
pub fn open_gpu(number: usize) -> Result<(), StageError> {
    open_cuda()?;
    check_cuda(number)
}

/// Loads the CUDA part of libtorch, which registers itself. The worker is not linked with it, so
/// that one program serves machines with and without a GPU; it must be loaded before the first use
/// of a GPU.
fn open_cuda() -> Result<(), StageError> {
    let flags = libc::RTLD_NOW | libc::RTLD_GLOBAL;
    // SAFETY: the name is a constant that ends in NUL, and the library's initialisers are those
    // of libtorch itself, which expect to be run by the loader.
    let handle = unsafe { libc::dlopen(c"libtorch_cuda.so".as_ptr(), flags) };
    if !handle.is_null() {
        return Ok(());
    }
    // SAFETY: called right after a failed `dlopen` on this thread; the text, when there is one,
    // ends in NUL and stays until the next call.
    let text = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    Err(StageError::with_help(
        format!("the CUDA part of libtorch cannot be loaded: {}", text.unwrap_or_default()),
        "run `tools/libtorch.sh` on this machine, which installs it whole where there is a GPU; \
         without one, set `device = \"cpu\"`",
    ))
}

fn check_cuda(number: usize) -> Result<(), StageError> {
    let count = Cuda::device_count();
    if !Cuda::is_available() || count == 0 {
        return Err(StageError::with_help(
            "libtorch finds no usable GPU",
            format!(
                "`nvidia-smi` must list it, with a driver for the CUDA of torch {LIBTORCH}; \
                 without a GPU, set `device = \"cpu\"`"
            ),
        ));
    }
    if number as i64 >= count {
        let message = format!("no device `cuda:{number}`: this machine has {count}");
        return Err(StageError::failed(message));
    }
    Ok(())
}

/// The output of `throstle-torch check`.
#[derive(Debug, Serialize)]
pub struct Report {
    pub program: String,
    pub libtorch: &'static str,
    pub devices: Vec<DeviceReport>,
    /// The reason why a GPU that may be present cannot be used.
    pub cuda_error: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct DeviceReport {
    pub name: String,
    pub model: Option<String>,
    pub memory_total: Option<u64>,
    pub memory_free: Option<u64>,
    pub driver: Option<String>,
}

/// Checks the machine as a run would use it: computes on the CPU and opens the GPU.
pub fn report(program: &str) -> Report {
    let mut devices = vec![cpu_report()];
    let listed = list_gpus();
    let opened = match listed.is_empty() {
        true => Ok(()),
        false => open_cuda().and_then(|()| check_cuda(0)),
    };
    if opened.is_ok() {
        devices.extend(listed);
    }
    Report {
        program: program.to_owned(),
        libtorch: LIBTORCH,
        devices,
        cuda_error: opened.err().map(|error| error.to_string()),
    }
}

fn cpu_report() -> DeviceReport {
    let memory = RealFs.read_system_file("/proc/meminfo".into()).unwrap_or_default();
    let memory = String::from_utf8_lossy(&memory);
    let line = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
    };
    DeviceReport {
        name: "cpu".into(),
        model: None,
        memory_total: line("MemTotal:"),
        memory_free: line("MemAvailable:"),
        driver: None,
    }
}

/// The free memory of a device, if it can be determined.
pub fn free_memory(device: Device) -> Option<u64> {
    let Device::Cuda(number) = device else { return cpu_report().memory_free };
    let name = format!("cuda:{number}");
    list_gpus().into_iter().find(|gpu| gpu.name == name)?.memory_free
}

/// The GPUs listed by `nvidia-smi`.
fn list_gpus() -> Vec<DeviceReport> {
    let text = ask_driver("index,name,memory.total,memory.free,driver_version");
    text.lines().filter_map(parse_gpu).collect()
}

/// A query to `nvidia-smi`, one line per GPU; empty without the program.
fn ask_driver(what: &str) -> String {
    let output = std::process::Command::new("nvidia-smi")
        .args([&format!("--query-gpu={what}"), "--format=csv,noheader,nounits"])
        .output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
}

/// The used memory of a GPU, by all processes.
pub fn gpu_memory_used(number: usize) -> Option<u64> {
    let text = ask_driver("index,memory.used");
    text.lines().filter_map(parse_memory).find(|(index, _)| *index == number).map(|(_, used)| used)
}

fn parse_memory(line: &str) -> Option<(usize, u64)> {
    let (index, used) = line.split_once(',')?;
    Some((index.trim().parse().ok()?, used.trim().parse::<u64>().ok()? << 20))
}

fn gpu_facts(number: usize) -> Option<DeviceFacts> {
    let text = ask_driver("index,name,compute_cap");
    text.lines().filter_map(parse_facts).find(|(index, _)| *index == number).map(|(_, facts)| facts)
}

fn parse_facts(line: &str) -> Option<(usize, DeviceFacts)> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, name, capability] = fields.as_slice() else { return None };
    let (major, minor) = capability.split_once('.')?;
    let compute_capability = Some((major.parse().ok()?, minor.parse().ok()?));
    Some((index.parse().ok()?, DeviceFacts { name: (*name).to_owned(), compute_capability }))
}

fn parse_gpu(line: &str) -> Option<DeviceReport> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, model, total, free, driver] = fields.as_slice() else { return None };
    let bytes = |mebibytes: &str| mebibytes.parse::<u64>().ok().map(|count| count << 20);
    Some(DeviceReport {
        name: format!("cuda:{index}"),
        model: Some((*model).to_owned()),
        memory_total: bytes(total),
        memory_free: bytes(free),
        driver: Some((*driver).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_of_devices_are_read() {
        let device = |name| parse_device(name).map_err(|error| error.to_string());
        assert_eq!(device(""), Ok(Device::Cpu));
        assert_eq!(device("cpu"), Ok(Device::Cpu));
        assert_eq!(device("cuda"), Ok(Device::Cuda(0)));
        assert_eq!(device("cuda:3"), Ok(Device::Cuda(3)));
        let unknown = "no device `gpu`: expected `cpu` or `cuda:0`";
        assert_eq!(device("gpu"), Err(unknown.into()));
        assert!(device("cuda:x").is_err());
    }

    #[test]
    fn the_compute_capability_of_a_gpu_is_read() {
        let (index, facts) = parse_facts("1, Tesla T4, 7.5").unwrap();
        assert_eq!((index, facts.name.as_str()), (1, "Tesla T4"));
        assert_eq!(facts.compute_capability, Some((7, 5)));
        assert!(parse_facts("No devices were found").is_none());
        assert_eq!(Machine::default().facts("cpu").compute_capability, None);
    }

    #[test]
    fn the_memory_that_a_gpu_has_taken_is_read() {
        assert_eq!(parse_memory("1, 14918"), Some((1, 14_918 << 20)));
        assert!(parse_memory("No devices were found").is_none());
        assert!(parse_memory("0, [N/A]").is_none());
    }

    #[test]
    fn a_line_of_the_drivers_program_is_read() {
        let gpu = parse_gpu("1, Tesla T4, 15360, 14918, 580.65.06").unwrap();
        assert_eq!(gpu.name, "cuda:1");
        assert_eq!(gpu.model.as_deref(), Some("Tesla T4"));
        assert_eq!((gpu.memory_total, gpu.memory_free), (Some(15_360 << 20), Some(14_918 << 20)));
        assert!(parse_gpu("No devices were found").is_none());
    }
}
