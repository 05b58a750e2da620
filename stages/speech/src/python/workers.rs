//! The processes of a stage: as many as are asked for at the same time, up to a limit.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stage_core::device::DeviceName;
use stage_core::{Context, StageError};

use super::process::Process;

/// The interval at which a thread that waits for a process checks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

pub struct Workers {
    limit: usize,
    state: Mutex<PoolState>,
    returned: Condvar,
}

struct PoolState {
    idle: Vec<Process>,
    /// The devices of further processes; each is used once. None: any number of them on `cpu`.
    devices: Option<Vec<DeviceName>>,
    busy: usize,
}

/// A process, or a place for one.
pub struct ProcessSlot<'a> {
    workers: &'a Workers,
    pub device: DeviceName,
    pub process: Option<Process>,
    is_kept: bool,
}

impl Workers {
    /// A process per GPU, in turns; or any number of processes on the processor.
    pub fn new(limit: usize, devices: &[DeviceName]) -> Workers {
        let has_gpus = devices.iter().any(|device| *device != DeviceName::CPU);
        let limit = match (limit, has_gpus) {
            (0, true) => devices.len(),
            (0, false) => usize::MAX,
            (limit, _) => limit,
        };
        let devices = has_gpus.then(|| {
            let mut all: Vec<DeviceName> = devices.iter().copied().cycle().take(limit).collect();
            all.reverse();
            all
        });
        let state = PoolState { idle: Vec::new(), devices, busy: 0 };
        Workers { limit, state: Mutex::new(state), returned: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle process, or a place to start one; waits while all are busy.
    pub fn take(&self, context: &mut dyn Context) -> Result<ProcessSlot<'_>, StageError> {
        let mut state = self.state();
        let mut since: Option<Instant> = None;
        loop {
            let process = state.idle.pop();
            if process.is_some() || state.busy < self.limit {
                state.busy += 1;
                let device = match &process {
                    Some(process) => Some(process.device),
                    None => state.devices.as_mut().and_then(Vec::pop),
                };
                let device = device.unwrap_or(DeviceName::CPU);
                if let Some(since) = since {
                    context.waited(since.elapsed());
                }
                return Ok(ProcessSlot { workers: self, device, process, is_kept: false });
            }
            since.get_or_insert_with(Instant::now);
            let waited = self.returned.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if context.stopping() {
                return Err(StageError::Stopped);
            }
        }
    }
}

impl ProcessSlot<'_> {
    /// Keeps the process for the next batch.
    pub fn give_back(mut self) {
        if let Some(process) = self.process.take() {
            self.workers.state().idle.push(process);
            self.is_kept = true;
        }
    }
}

impl Drop for ProcessSlot<'_> {
    fn drop(&mut self) {
        // A process that failed is killed before another one takes its device.
        drop(self.process.take());
        let mut state = self.workers.state();
        state.busy -= 1;
        if let Some(devices) = state.devices.as_mut().filter(|_| !self.is_kept) {
            devices.push(self.device);
        }
        drop(state);
        self.workers.returned.notify_one();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut idle = std::mem::take(&mut self.state().idle);
        idle.iter_mut().for_each(Process::ask_to_end);
        let until = Process::parting();
        idle.into_iter().for_each(|process| process.see_off(until));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use std::sync::mpsc::Sender;

    use bytes::Bytes;
    use cache::Digest;
    use stage_core::{Blob, Detached, Fields, Output, Reject};

    use super::*;

    /// Tells that it waits, and counts the time.
    struct Waits {
        detached: Detached,
        begun: Sender<()>,
        waited: Duration,
    }

    impl Context for Waits {
        fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError> {
            self.detached.read(blob)
        }

        fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError> {
            self.detached.recall(key)
        }

        fn remember(&mut self, key: &Digest, output: Output) -> Result<Fields, StageError> {
            self.detached.remember(key, output)
        }

        fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError> {
            self.detached.keep(kind, bytes)
        }

        fn checkpoint(&mut self, state: Output) -> Result<Fields, StageError> {
            self.detached.checkpoint(state)
        }

        fn last_checkpoint(&mut self) -> Result<Option<Fields>, StageError> {
            self.detached.last_checkpoint()
        }

        fn parent(&mut self) -> Result<Option<Fields>, StageError> {
            self.detached.parent()
        }

        fn set_aside(&mut self, _: &str, _: Vec<(usize, Reject)>) -> Result<(), StageError> {
            Ok(())
        }

        fn metrics(&mut self, _: u64, _: &[(&str, f64)]) {}

        fn waited(&mut self, time: Duration) {
            self.waited += time;
        }

        fn progress(&mut self, _: u64, _: u64) {}

        fn stopping(&mut self) -> bool {
            let _ = self.begun.send(());
            false
        }
    }

    #[test]
    fn the_time_of_waiting_for_a_process_is_reported_and_that_of_none_is_not() {
        let workers = Workers::new(1, &[]);
        let (begun, waits) = std::sync::mpsc::channel();
        let context = || {
            let detached = Detached::default();
            Waits { detached, begun: begun.clone(), waited: Duration::ZERO }
        };
        let mut first = context();
        let place = workers.take(&mut first).unwrap();
        assert_eq!(first.waited, Duration::ZERO);
        let mut second = context();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(workers.take(&mut second).unwrap()));
            waits.recv().unwrap();
            drop(place);
        });
        assert!(second.waited > Duration::ZERO);
    }
}
