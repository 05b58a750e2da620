//! Finds the GPUs of this process, and opens one.

use stage_core::StageError;
use stage_core::device::{DeviceId, Devices};

use super::runtime::{LIBTORCH, Runtime};

/// The oldest GPUs that libtorch has kernels for, if it is made for this CUDA or a later one.
const KERNELS: (u32, (u32, u32)) = (13_000, (7, 5));

/// The GPUs, without taking memory on them.
pub fn devices(runtime: &dyn Runtime) -> Devices {
    let count = match runtime.count() {
        Ok(count) => count,
        Err(fault) => return Devices { gpus: Vec::new(), problem: fault.problem(runtime) },
    };
    let mut devices = Devices::default();
    for number in 0..count {
        match runtime.gpu(number) {
            Ok(gpu) => devices.gpus.push(gpu),
            Err(fault) => {
                devices.problem = fault.problem(runtime);
                break;
            }
        }
    }
    devices
}

/// Prepares a GPU, or says why it cannot be used.
pub fn open(runtime: &dyn Runtime, device: DeviceId) -> Result<(), StageError> {
    let Some(number) = device.gpu_number() else { return Ok(()) };
    let Devices { gpus, problem } = devices(runtime);
    let Some(gpu) = gpus.get(number) else {
        return Err(match problem {
            Some(problem) => StageError::with_help(problem, "or set `device = \"cpu\"`"),
            None => missing(device, gpus.len(), runtime.visible()),
        });
    };
    let (since, oldest) = KERNELS;
    let is_too_old = gpu.capability < oldest;
    if is_too_old && runtime.versions().is_some_and(|versions| versions.runtime >= since) {
        let ((major, minor), model) = (gpu.capability, &gpu.model);
        return Err(StageError::with_help(
            format!(
                "`{model}` has compute capability {major}.{minor}, but libtorch {LIBTORCH} needs \
                 at least {}.{}",
                oldest.0, oldest.1
            ),
            "choose a newer GPU, such as T4 instead of P100 on Kaggle, or set `device = \"cpu\"`",
        ));
    }
    load(runtime, device, number)
}

fn missing(device: DeviceId, count: usize, visible: Option<String>) -> StageError {
    let shown = match count {
        0 => "this machine has no GPU".to_owned(),
        1 => "this machine has one GPU, `cuda:0`".to_owned(),
        count => format!("this machine has {count} GPUs, `cuda:0` to `cuda:{}`", count - 1),
    };
    let help = match visible.filter(|visible| count > 0 && !visible.is_empty()) {
        Some(visible) => {
            format!("`CUDA_VISIBLE_DEVICES={visible}` selects them, numbered from 0 in that order")
        }
        None => "`throstle doctor` lists the devices; `device = \"cpu\"` needs none".to_owned(),
    };
    StageError::with_help(format!("no device `{device}`: {shown}"), help)
}

fn load(runtime: &dyn Runtime, device: DeviceId, number: usize) -> Result<(), StageError> {
    match runtime.load() {
        Ok(count) if number < count => Ok(()),
        Ok(count) => Err(StageError::with_help(
            format!("CUDA reports `{device}`, but libtorch can use only {count} of the GPUs"),
            "run `throstle doctor`, and install libtorch again with `tools/libtorch.sh`",
        )),
        Err(text) => Err(StageError::with_help(
            format!("the CUDA part of libtorch cannot be loaded: {text}"),
            "run `tools/libtorch.sh` on this machine to install the CUDA version; without a GPU, \
             set `device = \"cpu\"`",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::device::fake::{Fake, T4};

    fn gpu(number: usize) -> DeviceId {
        DeviceId::gpu(number).unwrap()
    }

    #[test]
    fn gpus_are_listed_by_their_numbers_and_none_is_opened_for_it() {
        let mig = ("NVIDIA A100 MIG 1g.10gb", (8, 0), 10 << 30);
        let devices = devices(&Fake::with(&[T4, mig]));
        assert_eq!(devices.ids(), [gpu(0), gpu(1)]);
        let second = &devices.gpus[1];
        assert_eq!((second.model.as_str(), second.capability), ("NVIDIA A100 MIG 1g.10gb", (8, 0)));
        // Of the part, not of the whole card.
        assert_eq!(second.memory_bytes, 10 << 30);
    }

    fn told(fake: &Fake, number: usize) -> (String, String) {
        let error = open(fake, gpu(number)).unwrap_err();
        (error.to_string(), error.help().unwrap_or_default().to_owned())
    }

    #[test]
    fn every_gpu_that_is_there_can_be_opened_and_no_other() {
        let two = Fake::with(&[T4, T4]);
        assert!(open(&two, gpu(0)).is_ok() && open(&two, gpu(1)).is_ok());
        let (message, _) = told(&two, 2);
        assert_eq!(message, "no device `cuda:2`: this machine has 2 GPUs, `cuda:0` to `cuda:1`");
        let (message, _) = told(&Fake::with(&[]), 0);
        assert_eq!(message, "no device `cuda:0`: this machine has no GPU");
    }

    #[test]
    fn a_number_outside_the_selection_of_a_scheduler_is_explained() {
        let (message, help) = told(&Fake { visible: Some("3"), ..Fake::with(&[T4]) }, 3);
        assert_eq!(message, "no device `cuda:3`: this machine has one GPU, `cuda:0`");
        let expected = "`CUDA_VISIBLE_DEVICES=3` selects them, numbered from 0 in that order";
        assert_eq!(help, expected);
    }

    #[test]
    fn a_gpu_without_kernels_is_refused_with_its_name() {
        let p100 = ("Tesla P100-PCIE-16GB", (6, 0), 16 << 30);
        let (message, help) = told(&Fake::with(&[p100]), 0);
        assert!(
            message.starts_with("`Tesla P100-PCIE-16GB` has compute capability 6.0"),
            "{message}"
        );
        assert!(help.contains("T4"), "{help}");
        // A libtorch for an older CUDA has them.
        let older = Fake { versions: Some((13_000, 12_060)), ..Fake::with(&[p100]) };
        assert!(open(&older, gpu(0)).is_ok());
    }

    #[test]
    fn an_unusable_gpu_says_why_when_it_is_opened() {
        let old = Fake { versions: Some((12_020, 13_000)), ..Fake::failing(35) };
        assert!(told(&old, 0).0.contains("CUDA 12.2"));
        let broken = Fake { loads: Err("libcudnn.so.9: not found"), ..Fake::with(&[T4]) };
        let (message, help) = told(&broken, 0);
        assert!(message.ends_with("libcudnn.so.9: not found"), "{message}");
        assert!(help.contains("tools/libtorch.sh"), "{help}");
        let fewer = Fake { loads: Ok(1), ..Fake::with(&[T4, T4]) };
        assert_eq!(
            told(&fewer, 1).0,
            "CUDA reports `cuda:1`, but libtorch can use only 1 of the GPUs"
        );
    }
}
