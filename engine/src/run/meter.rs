//! The machine of a run: its devices, its workers, and the measures of a probe.

use std::collections::HashMap;

use crate::event::Event;
use cache::{Cache, CacheError};
use stage_core::device::{DeviceId, Devices};

use crate::machine::{Device, Machine, resident_bytes};
use crate::measure::{self, Measure};
use crate::pipeline::{StageId, StageSpec};

pub struct Meter {
    machine: Machine,
    /// The processes of the workers, by device.
    workers: HashMap<DeviceId, u32>,
    /// The measures of a probe, which writes nothing itself.
    probed: Vec<(StageId, Measure)>,
    has_tidied: bool,
    /// A worker of this run has told its devices.
    has_asked: bool,
    /// Files and processes are those of the machine.
    is_real: bool,
}

impl Meter {
    pub fn new(cache: &Cache) -> Meter {
        Meter {
            machine: Machine::known(cache),
            workers: HashMap::new(),
            probed: Vec::new(),
            has_tidied: false,
            has_asked: false,
            is_real: cache.fs().is_direct(),
        }
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn is_real(&self) -> bool {
        self.is_real
    }

    /// Keeps the measure of a stage. True if it was recorded: that of a probe is only held.
    pub fn keep(
        &mut self,
        cache: &Cache,
        spec: &StageSpec,
        measure: Measure,
    ) -> Result<bool, CacheError> {
        if measure.is_probe {
            self.probed.push((spec.id, measure));
            return Ok(false);
        }
        measure::add(cache, spec, &measure)?;
        if !std::mem::replace(&mut self.has_tidied, true) {
            measure::forget_old(cache)?;
        }
        Ok(true)
    }

    /// The measures of a probe.
    pub fn into_probed(self) -> Vec<(StageId, Measure)> {
        self.probed
    }

    pub fn knows(&self, found: &Devices) -> bool {
        self.has_asked && self.machine.has(found)
    }

    /// The GPUs that a worker has found.
    pub fn learn(&mut self, found: &Devices) {
        self.machine.learn(found);
        self.has_asked = true;
    }

    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::WorkerStarted { device, process } => {
                self.workers.insert(*device, *process);
            }
            Event::WorkerDied { device, .. } => {
                device.one().and_then(|device| self.workers.remove(&device));
            }
            _ => {}
        }
    }

    /// The largest memory of a worker for such a device.
    pub fn worker_memory(&self, device: &Device) -> Option<u64> {
        let is_gpu = matches!(device, Device::Gpu(_));
        let workers = self.workers.iter();
        let of_device = workers.filter(|(id, _)| id.is_gpu() == is_gpu);
        of_device.filter_map(|(_, process)| resident_bytes(Some(*process))).max()
    }
}
