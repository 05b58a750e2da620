//! NVIDIA GPUs by NVML, the library of the driver. It is opened for the first reading of a display.
//! Nothing links it, and a machine without it has no readings.
//!
//! NVML numbers the GPUs of the machine. A worker may see fewer, in another order: a reading has the
//! number that CUDA shows to the worker, found by the UUID of the device.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use stage_core::device::{DeviceId, Devices};

use super::{Gauge, GpuReading};

/// The readings of NVML for one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    pub model: String,
    /// Some virtual GPUs and parts of a GPU do not report it.
    pub busy: Option<f64>,
    pub used_bytes: u64,
    pub total_bytes: u64,
}

/// The library, or a replacement in tests.
pub trait Library: Send {
    /// The number of GPUs of the machine.
    fn count(&self) -> u32;

    /// By the number of NVML.
    fn load(&self, number: u32) -> Option<Load>;

    /// By the UUID that CUDA reports, such as `1b4c...` without a prefix.
    fn load_of(&self, uuid: &str) -> Option<Load>;
}

/// The devices that a worker has found; none before.
pub type DeviceSource = Box<dyn FnMut() -> Option<Devices> + Send>;

/// The GPUs that workers may use.
pub struct Nvml {
    /// None before the first reading; then `Some(None)` on a machine without the library.
    library: Option<Option<Box<dyn Library>>>,
    found: DeviceSource,
    /// The caller has selected GPUs, so the numbers of NVML are not those of the worker.
    is_selected: bool,
}

impl Nvml {
    pub fn new(found: DeviceSource, is_selected: bool) -> Nvml {
        Nvml { library: None, found, is_selected }
    }

    #[cfg(test)]
    fn with(library: Option<Box<dyn Library>>, found: DeviceSource, is_selected: bool) -> Nvml {
        Nvml { library: Some(library), found, is_selected }
    }
}

impl Gauge for Nvml {
    fn read(&mut self) -> Vec<GpuReading> {
        let library = self.library.get_or_insert_with(Driver::open);
        let Some(library) = library else { return Vec::new() };
        let loads: Vec<Option<Load>> = match ((self.found)(), self.is_selected) {
            (Some(devices), _) => {
                devices.gpus.iter().map(|gpu| library.load_of(gpu.uuid.as_deref()?)).collect()
            }
            (None, false) => (0..library.count()).map(|number| library.load(number)).collect(),
            (None, true) => Vec::new(),
        };
        let reading = |(number, load): (usize, Option<Load>)| {
            let Load { model, busy, used_bytes, total_bytes } = load?;
            let name = DeviceId::gpu(number)?.to_string();
            Some(GpuReading { name, model, busy, used_bytes, total_bytes })
        };
        loads.into_iter().enumerate().filter_map(reading).collect()
    }
}

type Device = *mut c_void;
type Start = unsafe extern "C" fn() -> c_int;
type Count = unsafe extern "C" fn(*mut c_uint) -> c_int;
type ByNumber = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type ByUuid = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;
type Name = unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int;
type Utilization = unsafe extern "C" fn(Device, *mut [c_uint; 2]) -> c_int;
type Memory = unsafe extern "C" fn(Device, *mut [u64; 3]) -> c_int;

/// The functions of the library; they may be called from any thread.
struct Driver {
    count: Count,
    by_number: ByNumber,
    by_uuid: ByUuid,
    name: Name,
    utilization: Utilization,
    memory: Memory,
}

impl Driver {
    /// None on a machine without the library or the driver. The library stays until the process
    /// ends.
    fn open() -> Option<Box<dyn Library>> {
        // SAFETY: the name is a constant that ends in NUL, and the library is that of the driver.
        let library = unsafe { libc::dlopen(c"libnvidia-ml.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let address = |name: &CStr| {
            // SAFETY: the library is open, and the name ends in NUL.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        // SAFETY: functions of NVML, with the signatures of its C interface.
        let (start, driver) = unsafe {
            use std::mem::transmute;
            let start = transmute::<*mut c_void, Start>(address(c"nvmlInit_v2")?);
            let driver = Driver {
                count: transmute::<*mut c_void, Count>(address(c"nvmlDeviceGetCount_v2")?),
                by_number: transmute::<*mut c_void, ByNumber>(address(
                    c"nvmlDeviceGetHandleByIndex_v2",
                )?),
                by_uuid: transmute::<*mut c_void, ByUuid>(address(c"nvmlDeviceGetHandleByUUID")?),
                name: transmute::<*mut c_void, Name>(address(c"nvmlDeviceGetName")?),
                utilization: transmute::<*mut c_void, Utilization>(address(
                    c"nvmlDeviceGetUtilizationRates",
                )?),
                memory: transmute::<*mut c_void, Memory>(address(c"nvmlDeviceGetMemoryInfo")?),
            };
            (start, driver)
        };
        // SAFETY: takes nothing; it is called once.
        (unsafe { start() } == 0).then(|| Box::new(driver) as Box<dyn Library>)
    }

    fn read(&self, device: Device) -> Option<Load> {
        let (mut text, mut rates, mut memory) = ([0 as c_char; 96], [0; 2], [0; 3]);
        // SAFETY: the device is from this library, and the pointers are to values that outlive the
        // calls: a text with its size, two numbers of 32 bits, and three of 64 bits.
        let codes = unsafe {
            [
                (self.name)(device, text.as_mut_ptr(), text.len() as c_uint),
                (self.memory)(device, &raw mut memory),
                (self.utilization)(device, &raw mut rates),
            ]
        };
        let [0, 0, busy] = codes else { return None };
        let bytes: Vec<u8> = text.iter().map(|letter| *letter as u8).collect();
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let [total_bytes, _, used_bytes] = memory;
        Some(Load {
            model: String::from_utf8_lossy(name).into_owned(),
            busy: (busy == 0).then(|| f64::from(rates[0]) / 100.0),
            used_bytes,
            total_bytes,
        })
    }

    fn device(&self, find: impl FnOnce(*mut Device) -> c_int) -> Option<Device> {
        let mut device: Device = std::ptr::null_mut();
        (find(&raw mut device) == 0 && !device.is_null()).then_some(device)
    }
}

impl Library for Driver {
    fn count(&self) -> u32 {
        let mut count = 0;
        // SAFETY: the pointer is to a number that outlives the call.
        match unsafe { (self.count)(&raw mut count) } {
            0 => count,
            _ => 0,
        }
    }

    fn load(&self, number: u32) -> Option<Load> {
        // SAFETY: the pointer is to a place for a handle that outlives the call.
        self.read(self.device(|device| unsafe { (self.by_number)(number, device) })?)
    }

    fn load_of(&self, uuid: &str) -> Option<Load> {
        // A part of a GPU (MIG) has a UUID of its own.
        ["GPU", "MIG"].iter().find_map(|prefix| {
            let name = std::ffi::CString::new(format!("{prefix}-{uuid}")).ok()?;
            // SAFETY: the text ends in NUL, and both pointers are to values that outlive the call.
            let device = |device| unsafe { (self.by_uuid)(name.as_ptr(), device) };
            self.read(self.device(device)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use stage_core::device::Gpu;

    use super::*;

    /// A machine with three GPUs.
    struct Fake;

    const UUIDS: [&str; 3] = ["aaaa", "bbbb", "cccc"];

    impl Library for Fake {
        fn count(&self) -> u32 {
            UUIDS.len() as u32
        }

        fn load(&self, number: u32) -> Option<Load> {
            let busy = (number != 1).then_some(f64::from(number) / 10.0);
            let model = format!("GPU of slot {number}");
            Some(Load { model, busy, used_bytes: 1 << number, total_bytes: 16 })
        }

        fn load_of(&self, uuid: &str) -> Option<Load> {
            self.load(UUIDS.iter().position(|own| *own == uuid)? as u32)
        }
    }

    /// The name and the model of each reading.
    fn read(found: Option<Devices>, is_selected: bool) -> Vec<(String, String)> {
        let found = Box::new(move || found.clone());
        let mut gauge = Nvml::with(Some(Box::new(Fake)), found, is_selected);
        gauge.read().into_iter().map(|reading| (reading.name, reading.model)).collect()
    }

    fn devices(uuids: &[&str]) -> Option<Devices> {
        let gpu = |uuid: &&str| Gpu { uuid: Some((*uuid).to_owned()), ..Gpu::default() };
        Some(Devices { gpus: uuids.iter().map(gpu).collect(), problem: None })
    }

    fn pairs(expected: &[(&str, u32)]) -> Vec<(String, String)> {
        let pair = |(name, slot): &(&str, u32)| ((*name).to_owned(), format!("GPU of slot {slot}"));
        expected.iter().map(pair).collect()
    }

    #[test]
    fn a_gpu_has_the_number_that_the_worker_sees() {
        // As with `CUDA_VISIBLE_DEVICES=2,0`.
        let two = devices(&["cccc", "aaaa"]);
        assert_eq!(read(two.clone(), true), pairs(&[("cuda:0", 2), ("cuda:1", 0)]));
        assert_eq!(read(two, false), pairs(&[("cuda:0", 2), ("cuda:1", 0)]));
        assert_eq!(read(devices(&["unknown", "bbbb"]), true), pairs(&[("cuda:1", 1)]));
        assert_eq!(read(devices(&[]), false), pairs(&[]), "the worker has none");
    }

    #[test]
    fn before_a_worker_was_asked_all_gpus_are_shown_unless_some_were_selected() {
        assert_eq!(read(None, false), pairs(&[("cuda:0", 0), ("cuda:1", 1), ("cuda:2", 2)]));
        assert_eq!(read(None, true), pairs(&[]));
    }

    #[test]
    fn the_load_is_that_of_the_device_and_a_machine_without_the_library_has_none() {
        let found = || -> DeviceSource { Box::new(|| devices(&["cccc", "bbbb"])) };
        let readings = Nvml::with(Some(Box::new(Fake)), found(), true).read();
        let loads: Vec<(Option<f64>, u64)> =
            readings.iter().map(|reading| (reading.busy, reading.used_bytes)).collect();
        assert_eq!(loads, [(Some(0.2), 4), (None, 2)]);
        assert!(Nvml::with(None, found(), true).read().is_empty());
    }
}
