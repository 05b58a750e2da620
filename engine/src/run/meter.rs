//! The machine of a run: its devices, its workers, and the measures of a probe.

use std::collections::HashMap;

use stage_core::device::{DeviceId, Devices};
use stage_core::event::Event;

use crate::machine::{Device, Machine, resident_bytes};
use crate::measure::Measure;
use crate::pipeline::StageId;

pub struct Meter {
    pub machine: Machine,
    /// The processes of the workers, by device.
    workers: HashMap<DeviceId, u32>,
    /// The measures of a probe, which writes nothing itself.
    pub probed: Vec<(StageId, Measure)>,
    pub has_tidied: bool,
    /// A worker of this run has told its devices.
    has_asked: bool,
    /// Files and processes are those of the machine.
    pub is_real: bool,
}

impl Meter {
    pub fn new(machine: Machine, is_real: bool) -> Meter {
        Meter {
            machine,
            workers: HashMap::new(),
            probed: Vec::new(),
            has_tidied: false,
            has_asked: false,
            is_real,
        }
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
