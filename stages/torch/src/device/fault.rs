//! Errors of the CUDA runtime, in words.

use super::runtime::{LIBTORCH, Runtime, Versions};

/// The driver is missing or older than the runtime.
const INSUFFICIENT_DRIVER: i32 = 35;
/// There is a driver, and it shows no GPU.
const NO_DEVICE: i32 = 100;

/// Values of `CUDA_VISIBLE_DEVICES` that hide all GPUs on purpose; the last ones are those of Slurm
/// and of containers.
const HIDING: [&str; 5] = ["", "-1", "none", "NoDevFiles", "void"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceFault {
    /// This libtorch has no CUDA runtime.
    NoRuntime,
    /// An error of CUDA, with its name.
    Cuda { code: i32, text: String },
}

impl DeviceFault {
    /// The reason why GPUs cannot be used. None if there are none to be used, or they are hidden on
    /// purpose.
    pub fn problem(&self, runtime: &dyn Runtime) -> Option<String> {
        let has_files = runtime.has_device_files();
        match self {
            DeviceFault::NoRuntime => has_files.then(|| {
                format!(
                    "this machine has a GPU, but libtorch {LIBTORCH} is the CPU version: run \
                     `tools/libtorch.sh` to install the CUDA version"
                )
            }),
            DeviceFault::Cuda { code: INSUFFICIENT_DRIVER, .. } => {
                driver(runtime.versions(), has_files)
            }
            DeviceFault::Cuda { code: NO_DEVICE, .. } => {
                let visible = runtime.visible()?;
                (!HIDING.contains(&visible.trim())).then(|| {
                    format!("`CUDA_VISIBLE_DEVICES={visible}` names no GPU of this machine")
                })
            }
            DeviceFault::Cuda { code, text } => {
                Some(format!("CUDA does not start: {text} (error {code})"))
            }
        }
    }
}

fn driver(versions: Option<Versions>, has_files: bool) -> Option<String> {
    match versions {
        Some(Versions { driver, runtime }) if driver > 0 => Some(format!(
            "the NVIDIA driver supports CUDA {}, but libtorch {LIBTORCH} needs CUDA {}: install a \
             newer driver",
            version(driver),
            version(runtime)
        )),
        _ => has_files.then(|| {
            "this machine has a GPU, but the driver library `libcuda.so.1` is missing: start the \
             container with GPUs (`--gpus all`), or install the driver"
                .to_owned()
        }),
    }
}

/// 13000 as 13.0.
pub fn version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fake::Fake;

    fn problem(fake: Fake) -> Option<String> {
        fake.count().err().and_then(|fault| fault.problem(&fake))
    }

    #[test]
    fn a_machine_without_a_gpu_has_no_problem() {
        assert_eq!(problem(Fake::without_runtime()), None);
        let no_driver = Fake { versions: Some((0, 13_000)), ..Fake::failing(INSUFFICIENT_DRIVER) };
        assert_eq!(problem(no_driver), None);
        assert_eq!(problem(Fake::failing(NO_DEVICE)), None);
    }

    #[test]
    fn gpus_that_a_scheduler_hides_are_no_problem() {
        for hidden in ["", "-1", "NoDevFiles"] {
            let fake = Fake { visible: Some(hidden), ..Fake::failing(NO_DEVICE) };
            assert_eq!(problem(fake), None, "{hidden}");
        }
    }

    #[test]
    fn a_selection_that_names_no_gpu_is_told() {
        let fake = Fake { visible: Some("7"), ..Fake::failing(NO_DEVICE) };
        let told = "`CUDA_VISIBLE_DEVICES=7` names no GPU of this machine";
        assert_eq!(problem(fake).as_deref(), Some(told));
    }

    #[test]
    fn a_driver_that_is_too_old_is_told_with_both_versions() {
        let fake = Fake { versions: Some((12_040, 13_000)), ..Fake::failing(INSUFFICIENT_DRIVER) };
        let told = problem(fake).unwrap_or_default();
        assert!(told.contains("CUDA 12.4") && told.contains("CUDA 13.0"), "{told}");
    }

    #[test]
    fn a_gpu_without_the_library_of_its_driver_is_told() {
        let fake = Fake {
            versions: Some((0, 13_000)),
            has_device_files: true,
            ..Fake::failing(INSUFFICIENT_DRIVER)
        };
        assert!(problem(fake).unwrap_or_default().contains("`libcuda.so.1`"));
    }

    #[test]
    fn a_libtorch_for_the_cpu_on_a_machine_with_a_gpu_is_told() {
        let fake = Fake { has_device_files: true, ..Fake::without_runtime() };
        assert!(problem(fake).unwrap_or_default().contains("is the CPU version"));
    }

    #[test]
    fn any_other_error_of_cuda_is_told_in_its_words() {
        let told = problem(Fake::failing(802)).unwrap_or_default();
        assert_eq!(told, "CUDA does not start: fake error 802 (error 802)");
    }
}
