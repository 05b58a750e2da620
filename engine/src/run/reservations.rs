//! The GPUs of tasks on several devices.
//!
//! All GPUs of a task are reserved at once, or none: of two tasks with a common GPU the second
//! reserves nothing, so they never wait for each other. A reserved GPU gets no other work. The work
//! that it already has depends on no reservation, so it becomes idle.

use std::collections::{BTreeMap, BTreeSet};

use stage_core::device::{DeviceId, DeviceName};

use crate::pipeline::{StageId, StageSpec, StageWork};

/// The threads that work through the tasks of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    /// Those of this process.
    Pool,
    /// The thread that talks to the worker of a device.
    Device(DeviceId),
}

/// The devices of the only task of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// The thread that gets the task.
    pub thread: ThreadKind,
    /// All devices that get no other work, with that of the thread.
    pub devices: BTreeSet<DeviceId>,
}

/// By stage, from before its task is handed out until the task returns.
#[derive(Default)]
pub struct Reservations(BTreeMap<StageId, Reservation>);

impl Reservations {
    pub fn of(&self, stage: StageId) -> Option<&Reservation> {
        self.0.get(&stage)
    }

    pub fn has(&self, device: DeviceId) -> bool {
        self.0.values().any(|reserved| reserved.devices.contains(&device))
    }

    /// Tests if nothing has any of these devices.
    pub fn allow(&self, wanted: &Reservation) -> bool {
        !wanted.devices.iter().any(|device| self.has(*device))
    }

    /// False if a device is reserved for another stage; then nothing is reserved.
    pub fn add(&mut self, stage: StageId, wanted: Reservation) -> bool {
        let is_allowed = self.allow(&wanted);
        if is_allowed {
            self.0.insert(stage, wanted);
        }
        is_allowed
    }

    pub fn release(&mut self, stage: StageId) {
        self.0.remove(&stage);
    }
}

/// The GPUs that `devices` names for the only task of a stage.
pub fn named_gpus(spec: &StageSpec) -> BTreeSet<DeviceId> {
    let has_one_task = matches!(spec.work, StageWork::Gather | StageWork::Train);
    if !has_one_task || !spec.parameters.is_set("devices") {
        return BTreeSet::new();
    }
    let names = spec.parameters.devices("devices").unwrap_or_default();
    names.into_iter().map(DeviceName::first).filter(|device| device.is_gpu()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn gpu(number: usize) -> DeviceId {
        DeviceId::gpu(number).unwrap()
    }

    fn on<const N: usize>(gpus: [usize; N]) -> Reservation {
        let devices = gpus.map(gpu).into_iter().collect();
        Reservation { thread: ThreadKind::Device(DeviceId::FIRST_GPU), devices }
    }

    #[test]
    fn a_task_gets_all_its_devices_or_none() {
        let mut reserved = Reservations::default();
        assert!(reserved.add(StageId(1), on([0, 1])));
        assert!(!reserved.add(StageId(2), on([1, 2])));
        assert!(!reserved.has(gpu(2)), "the second task would keep others from this device");
        assert!(reserved.add(StageId(3), on([2, 3])));
        reserved.release(StageId(1));
        assert!(!reserved.add(StageId(2), on([1, 2])), "`cuda:2` is still reserved");
        reserved.release(StageId(3));
        assert!(reserved.add(StageId(2), on([1, 2])));
        assert_eq!(reserved.of(StageId(2)), Some(&on([1, 2])));
    }
}
