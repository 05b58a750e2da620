//! The options of a run, and its ties to whoever started it: a flag to stop it, a sink of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::event::Event;
use camino::Utf8PathBuf;

use crate::executor::batch::Share;
use crate::pipeline::StageId;

/// The options of a run.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Only these stages and their upstream stages; all if empty.
    pub targets: Vec<StageId>,
    /// Continue with stages that do not depend on a failed one.
    pub keep_going: bool,
    /// The interval at which finished work is made durable; half a second if `None`. With zero,
    /// work waits until it is durable.
    pub commit_every: Option<Duration>,
    /// The time at which the run will be asked to stop; trainings save before it.
    pub deadline: Option<Instant>,
    /// The start of the process, from which time is paid for; the start of the run if `None`.
    pub began: Option<Instant>,
    pub stop: StopFlag,
    /// Also replace exported files that somebody has changed.
    pub overwrite: bool,
    /// The path of this program, for jobs of executors.
    pub program: Option<Utf8PathBuf>,
    pub mode: Mode,
}

/// The purpose of a run.
#[derive(Clone, Default)]
pub enum Mode {
    /// All wanted results.
    #[default]
    Run,
    /// Measures: this number of items of each stage that was never measured here, and the first steps
    /// of trainings. Their results are dropped.
    Probe { items: u64 },
    /// Only this part of the work of one stage, on behalf of the run that has published it.
    Shard(Arc<Share>),
}

impl Mode {
    pub fn is_probe(&self) -> bool {
        self.probed_items().is_some()
    }

    /// The number of items of each stage that a probe runs.
    pub fn probed_items(&self) -> Option<u64> {
        match self {
            Mode::Probe { items } => Some(*items),
            Mode::Run | Mode::Shard(_) => None,
        }
    }

    pub fn is_shard(&self) -> bool {
        matches!(self, Mode::Shard(_))
    }
}

/// Receives events on the thread that runs the schedule.
pub type Sink<'a> = &'a mut dyn FnMut(Event);

/// Asks a run to stop: once for a clean stop, twice for an immediate one. The time limit asks more
/// gently: batches of items may be finished.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<Stop>);

#[derive(Debug, Default)]
struct Stop {
    level: AtomicU8,
    /// The run is only reading, and has no work that must be waited for.
    is_reading: AtomicBool,
}

const AFTER_BATCH: u8 = 1;
const SOON: u8 = 2;
const NOW: u8 = 3;

impl StopFlag {
    pub fn request(&self) {
        let _ = self.0.level.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |level| {
            Some(if level < SOON { SOON } else { NOW })
        });
    }

    /// Starts nothing new, and lets batches finish.
    pub fn request_after_batch(&self) {
        self.0.level.fetch_max(AFTER_BATCH, Ordering::SeqCst);
    }

    pub fn is_requested(&self) -> bool {
        self.0.level.load(Ordering::SeqCst) >= AFTER_BATCH
    }

    /// A person is waiting for the stop.
    pub fn is_pressing(&self) -> bool {
        self.0.level.load(Ordering::SeqCst) >= SOON
    }

    pub fn is_urgent(&self) -> bool {
        self.0.level.load(Ordering::SeqCst) >= NOW
    }

    /// Marks work that only reads: the end of the run need not wait for it.
    pub fn while_reading<T>(&self, read: impl FnOnce() -> T) -> T {
        self.begin_reading();
        let result = read();
        self.0.is_reading.store(false, Ordering::SeqCst);
        result
    }

    pub fn begin_reading(&self) {
        self.0.is_reading.store(true, Ordering::SeqCst);
    }

    pub fn is_reading(&self) -> bool {
        self.0.is_reading.load(Ordering::SeqCst)
    }
}
