//! The state shared by the stages of a worker: its devices, and its number of threads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use stage_core::StageError;
use stage_core::device::{DeviceId, Devices};
use stage_families::training::SHARED_FROM;
use tch::Device;

use super::cudart::Cudart;
use super::name::place;
use super::probe;
use super::runtime::Runtime;
use crate::error::TorchError;
use crate::runtime::shim;
use crate::runtime::threads::one_thread;
use crate::train::kernels;
use crate::train::precision::DeviceFacts;

#[derive(Clone)]
pub struct Machine {
    threads: Arc<AtomicUsize>,
    has_gpu: Arc<AtomicBool>,
    runtime: Arc<dyn Runtime>,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine::with(Arc::new(Cudart))
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Machine").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Machine {
    fn with(runtime: Arc<dyn Runtime>) -> Machine {
        Machine { threads: Arc::default(), has_gpu: Arc::default(), runtime }
    }

    /// The GPUs, without taking memory on them.
    pub fn devices(&self) -> Devices {
        probe::devices(&*self.runtime)
    }

    /// Prepares a device.
    pub fn prepare(&self, device: DeviceId, threads: u32) -> Result<(), StageError> {
        self.threads.store(threads as usize, Ordering::Relaxed);
        set_kernels()?;
        self.open(device)?;
        one_thread();
        Ok(())
    }

    /// Prepares one more device.
    pub fn open(&self, device: DeviceId) -> Result<Device, StageError> {
        if device.is_gpu() {
            probe::open(&*self.runtime, device)?;
            self.has_gpu.store(true, Ordering::Relaxed);
        }
        Ok(place(device))
    }

    /// Returns the memory that closed jobs have left to the allocator of the GPUs, for other
    /// processes.
    pub fn release(&self) {
        if self.has_gpu.load(Ordering::Relaxed) {
            self.runtime.empty_cache();
        }
    }

    /// The facts that determine the choice of a precision.
    pub fn facts(&self, device: DeviceId) -> DeviceFacts {
        let gpu = device.gpu_number().and_then(|number| self.runtime.gpu(number).ok());
        match gpu {
            Some(gpu) => DeviceFacts { name: gpu.model, compute_capability: Some(gpu.capability) },
            None => DeviceFacts { name: device.to_string(), compute_capability: None },
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

/// Settings of the whole process, whatever the environment says.
pub(super) fn set_kernels() -> Result<(), TorchError> {
    kernels::prepare()?;
    shim::set_deterministic()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::device::fake::{Fake, T4};
    use crate::train::precision::Precision;

    const A100: (&str, (u32, u32), u64) = ("NVIDIA A100-SXM4-40GB", (8, 0), 40 << 30);

    fn machine(gpus: &[(&str, (u32, u32), u64)]) -> (Machine, Arc<Fake>) {
        let fake = Arc::new(Fake::with(gpus));
        (Machine::with(fake.clone()), fake)
    }

    #[test]
    fn the_precision_of_each_gpu_follows_from_its_own_capability() {
        let (machine, _) = machine(&[T4, A100]);
        let best = |device| Precision::best(&machine.facts(device));
        let second = DeviceId::gpu(1).unwrap();
        assert_eq!(best(DeviceId::FIRST_GPU), Precision::Fp16);
        assert_eq!(best(second), Precision::Bf16);
        assert_eq!(best(DeviceId::Cpu), Precision::F32);
        assert_eq!(machine.facts(second).name, "NVIDIA A100-SXM4-40GB");
    }

    #[test]
    fn memory_of_closed_jobs_is_returned_on_a_machine_with_gpus_in_use() {
        let (machine, fake) = machine(&[T4]);
        machine.release();
        assert!(fake.calls.lock().unwrap().is_empty(), "no GPU was opened");
        machine.open(DeviceId::FIRST_GPU).unwrap();
        machine.release();
        assert_eq!(*fake.calls.lock().unwrap(), ["empty_cache"]);
    }
}
