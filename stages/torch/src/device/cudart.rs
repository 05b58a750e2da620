//! The CUDA runtime that libtorch has brought into this process, by the names of its functions: no
//! header of CUDA is needed to build, and a libtorch for the CPU works too.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use cache::fs::{Fs, RealFs};
use stage_core::device::Gpu;
use tch::Cuda;

use super::fault::DeviceFault;
use super::runtime::{DeviceMemory, Runtime, Versions};
use crate::runtime::shim;

/// The numbers of two attributes of a device.
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;
/// `cudaDeviceProp` begins with the name; then come a UUID of 16 bytes, 12 bytes for Windows, and,
/// aligned, the size of the memory. What follows differs between releases of CUDA, which write less
/// than this number of bytes.
const PROPERTIES: usize = 8192;
const NAME: usize = 256;
const MEMORY: usize = 288;

/// Either exists where the system has given a GPU to this process: of the driver, or of WSL.
const DEVICE_FILES: [&str; 2] = ["/dev/nvidiactl", "/dev/dxg"];
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The runtime of this process.
#[derive(Clone, Copy, Debug)]
pub struct Cudart;

type Ask = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
type GetProperties = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type GetMemory = unsafe extern "C" fn(*mut usize, *mut usize) -> c_int;
type SetDevice = unsafe extern "C" fn(c_int) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;

struct Functions {
    get_device_count: Ask,
    get_attribute: GetAttribute,
    get_properties: GetProperties,
    get_memory: GetMemory,
    get_device: Ask,
    set_device: SetDevice,
    driver_version: Ask,
    runtime_version: Ask,
    error_text: ErrorText,
}

/// None if this process has no CUDA runtime.
fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(find).as_ref()
}

fn find() -> Option<Functions> {
    let address = |name: &CStr| {
        // SAFETY: the name ends in NUL.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    };
    // CUDA 12 has the present layout under the second name, CUDA 13 under the first alone.
    let properties =
        address(c"cudaGetDeviceProperties_v2").or_else(|| address(c"cudaGetDeviceProperties"));
    // SAFETY: functions of the CUDA runtime, with the signatures of its C interface.
    unsafe {
        use std::mem::transmute;
        Some(Functions {
            get_device_count: transmute::<*mut c_void, Ask>(address(c"cudaGetDeviceCount")?),
            get_attribute: transmute::<*mut c_void, GetAttribute>(address(
                c"cudaDeviceGetAttribute",
            )?),
            get_properties: transmute::<*mut c_void, GetProperties>(properties?),
            get_memory: transmute::<*mut c_void, GetMemory>(address(c"cudaMemGetInfo")?),
            get_device: transmute::<*mut c_void, Ask>(address(c"cudaGetDevice")?),
            set_device: transmute::<*mut c_void, SetDevice>(address(c"cudaSetDevice")?),
            driver_version: transmute::<*mut c_void, Ask>(address(c"cudaDriverGetVersion")?),
            runtime_version: transmute::<*mut c_void, Ask>(address(c"cudaRuntimeGetVersion")?),
            error_text: transmute::<*mut c_void, ErrorText>(address(c"cudaGetErrorString")?),
        })
    }
}

impl Functions {
    fn outcome(&self, code: c_int) -> Result<(), DeviceFault> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: takes any number, and returns a constant text or null.
        let text = unsafe {
            let text = (self.error_text)(code);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Err(DeviceFault::Cuda { code, text: text.unwrap_or_default() })
    }

    fn number(&self, ask: impl Fn(&mut c_int) -> c_int) -> Result<u32, DeviceFault> {
        let mut number = 0;
        self.outcome(ask(&mut number))?;
        Ok(u32::try_from(number).unwrap_or(0))
    }

    fn memory_of_current(&self) -> Result<DeviceMemory, DeviceFault> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are to numbers that outlive the call.
        self.outcome(unsafe { (self.get_memory)(&raw mut free, &raw mut total) })?;
        Ok(DeviceMemory { free: free as u64, total: total as u64 })
    }
}

fn in_process() -> Result<&'static Functions, DeviceFault> {
    functions().ok_or(DeviceFault::NoRuntime)
}

impl Runtime for Cudart {
    fn count(&self) -> Result<usize, DeviceFault> {
        let cuda = in_process()?;
        // SAFETY: the pointer is to a number that outlives the call.
        let count = cuda.number(|count| unsafe { (cuda.get_device_count)(count) })?;
        Ok(count as usize)
    }

    fn gpu(&self, number: usize) -> Result<Gpu, DeviceFault> {
        let cuda = in_process()?;
        let device = number as c_int;
        let attribute = |which| {
            // SAFETY: the pointer is to a number that outlives the call.
            cuda.number(|value| unsafe { (cuda.get_attribute)(value, which, device) })
        };
        let capability = (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?);
        let mut properties = [0u64; PROPERTIES / 8];
        // SAFETY: the memory is aligned and larger than the structure in any release of CUDA.
        let code = unsafe { (cuda.get_properties)(properties.as_mut_ptr().cast(), device) };
        cuda.outcome(code)?;
        let bytes: Vec<u8> = properties.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = bytes[..NAME].split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Gpu {
            model: String::from_utf8_lossy(name).into_owned(),
            capability,
            memory_bytes: properties[MEMORY / 8],
            uuid: uuid(&bytes[NAME..NAME + 16]),
        })
    }

    fn memory(&self, number: usize) -> Result<DeviceMemory, DeviceFault> {
        let cuda = in_process()?;
        let mut before = 0;
        // SAFETY: the pointer is to a number that outlives the call.
        cuda.outcome(unsafe { (cuda.get_device)(&raw mut before) })?;
        // SAFETY: takes any number.
        cuda.outcome(unsafe { (cuda.set_device)(number as c_int) })?;
        let memory = cuda.memory_of_current();
        // SAFETY: the device was current before.
        cuda.outcome(unsafe { (cuda.set_device)(before) })?;
        memory
    }

    fn versions(&self) -> Option<Versions> {
        let cuda = functions()?;
        // SAFETY: the pointers are to numbers that outlive the calls.
        let driver = cuda.number(|number| unsafe { (cuda.driver_version)(number) });
        // SAFETY: as above.
        let runtime = cuda.number(|number| unsafe { (cuda.runtime_version)(number) });
        Some(Versions { driver: driver.unwrap_or(0), runtime: runtime.ok()? })
    }

    fn visible(&self) -> Option<String> {
        std::env::var(VISIBLE).ok()
    }

    fn has_device_files(&self) -> bool {
        DEVICE_FILES.iter().any(|path| RealFs.exists((*path).into()).unwrap_or(false))
    }

    /// The worker is not linked with the CUDA part of libtorch, which registers itself when it is
    /// loaded, so that one program serves machines with and without a GPU.
    fn load(&self) -> Result<usize, String> {
        let flags = libc::RTLD_NOW | libc::RTLD_GLOBAL;
        // SAFETY: the name is a constant that ends in NUL, and the library's initialisers are those
        // of libtorch itself, which expect to be run by the loader.
        let handle = unsafe { libc::dlopen(c"libtorch_cuda.so".as_ptr(), flags) };
        if handle.is_null() {
            return Err(last_error());
        }
        if Cuda::is_available() {
            Ok(usize::try_from(Cuda::device_count()).unwrap_or(0))
        } else {
            Ok(0)
        }
    }

    fn peak(&self, number: usize) -> Option<u64> {
        shim::peak(number).ok()
    }

    fn reset_peak(&self, number: usize) {
        // Without a GPU there is nothing to reset.
        let _ = shim::reset_peak(number);
    }

    fn empty_cache(&self) {
        // Without it, only this process can use that memory.
        let _ = shim::empty_cache();
    }
}

/// None if the runtime does not know it.
fn uuid(bytes: &[u8]) -> Option<String> {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    bytes.iter().any(|byte| *byte != 0).then(|| parts.join("-"))
}

/// Must be called right after a failed `dlopen` on the same thread.
fn last_error() -> String {
    // SAFETY: the text, when there is one, ends in NUL and stays until the next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_the_driver_writes_it() {
        let bytes: Vec<u8> = (0..16).map(|at| at * 17).collect();
        let expected = "00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(uuid(&bytes).as_deref(), Some(expected));
        assert_eq!(uuid(&[0; 16]), None);
    }
}
