//! The machine: its GPUs, and the names under which measures are stored.

use cache::fs::{Fs, RealFs};
use cache::{Cache, Digest};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::Place;
use stage_core::device::{DeviceId, DeviceName, Devices};

use crate::pipeline::StageSpec;
use crate::record::{DEVICES, decode};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    pub processor: String,
    /// The GPU models, by number.
    pub gpus: Vec<String>,
}

/// The device of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Device {
    /// In the engine's own process.
    Here,
    Cpu,
    /// A GPU of this model; `None`: this machine has no such GPU.
    Gpu(Option<String>),
}

/// The name of this machine in its network.
pub fn host() -> Option<String> {
    let name = RealFs.read_system_file("/proc/sys/kernel/hostname".into()).ok()?;
    let name = String::from_utf8_lossy(&name).trim().to_owned();
    (!name.is_empty()).then_some(name)
}

impl Machine {
    /// Queries the kernel: its GPUs are those of the whole machine.
    pub fn look() -> Machine {
        Machine { processor: processor(), gpus: gpu_models() }
    }

    /// The same, with the GPUs that a worker has found since the machine was started: those that this
    /// process may use, which can be fewer.
    pub fn known(cache: &Cache) -> Machine {
        let mut machine = Machine::look();
        if let Some(found) = found(cache) {
            machine.learn(&found);
        }
        machine
    }

    pub fn learn(&mut self, found: &Devices) {
        self.gpus = models(found);
    }

    pub fn has(&self, found: &Devices) -> bool {
        self.gpus == models(found)
    }

    pub fn device(&self, spec: &StageSpec) -> Device {
        if spec.kind.place == Place::Here {
            return Device::Here;
        }
        if spec.kind.cost.is_on_processor() {
            return Device::Cpu;
        }
        // A training may name its devices instead.
        let named = spec.parameters.devices("devices").unwrap_or_default();
        let gpu = named.into_iter().map(DeviceName::first).find(|device| device.is_gpu());
        let device = match (spec.policy.device, gpu) {
            (DeviceName::Auto, Some(gpu)) => gpu,
            (DeviceName::Auto, None) if !self.gpus.is_empty() => DeviceId::FIRST_GPU,
            (device, _) => device.first(),
        };
        match device.gpu_number() {
            Some(number) => Device::Gpu(self.gpus.get(number).cloned()),
            None => Device::Cpu,
        }
    }

    /// The name under which measures of a device are stored. `None`: nothing can be measured on it.
    pub fn label(&self, device: &Device) -> Option<String> {
        match device {
            Device::Here | Device::Cpu => Some(self.processor.clone()),
            Device::Gpu(model) => model.clone(),
        }
    }
}

/// The GPUs that a worker has found since the machine was started; none if no worker was asked.
pub fn found(cache: &Cache) -> Option<Devices> {
    let found = cache.get(DEVICES, &devices_key()).ok().flatten()?;
    decode(&found)
}

fn models(found: &Devices) -> Vec<String> {
    found.gpus.iter().map(|gpu| gpu.model.clone()).collect()
}

/// The key of the devices that were found since the machine was started. A cache moves between
/// machines.
pub fn devices_key() -> Digest {
    let boot = RealFs.read_system_file(Utf8Path::new("/proc/sys/kernel/random/boot_id"));
    let mut text = boot.unwrap_or_default();
    text.extend(processor().into_bytes());
    Digest::of(&text)
}

fn processor() -> String {
    let bytes = RealFs.read_system_file(Utf8Path::new("/proc/cpuinfo")).unwrap_or_default();
    line_of(&bytes, "model name").unwrap_or_else(|| "processor".to_owned())
}

/// The GPUs of the machine according to its driver: the best that a plan knows before a worker has
/// answered. Nothing runs by this list, and the first answer of a worker replaces it.
fn gpu_models() -> Vec<String> {
    let folder = Utf8Path::new("/proc/driver/nvidia/gpus");
    let mut places: Vec<Utf8PathBuf> = RealFs
        .read_dir(folder)
        .unwrap_or_default()
        .into_iter()
        .map(|entry| folder.join(entry.name).join("information"))
        .collect();
    places.sort();
    let model =
        |path: &Utf8PathBuf| line_of(&RealFs.read_system_file(path).unwrap_or_default(), "Model");
    places.iter().map(|path| model(path).unwrap_or_else(|| "GPU".to_owned())).collect()
}

/// The current memory of a process, in bytes.
pub fn resident_bytes(process: Option<u32>) -> Option<u64> {
    let process = process.map_or_else(|| "self".to_owned(), |number| number.to_string());
    let bytes =
        RealFs.read_system_file(&Utf8PathBuf::from(format!("/proc/{process}/status"))).ok()?;
    let kilobytes: u64 = line_of(&bytes, "VmRSS")?.trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The value after a name and a colon.
pub fn line_of(bytes: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_name() {
        let text = b"VmPeak:\t 9 kB\nVmRSS:\t  1234 kB\n";
        assert_eq!(line_of(text, "VmRSS").as_deref(), Some("1234 kB"));
        assert_eq!(line_of(text, "VmHWM"), None);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident_bytes(None).is_some_and(|bytes| bytes > 1 << 20));
    }
}
