//! Ends a run that was asked to stop, even if its workers hang.
//!
//! A worker finishes its batch or saves its training, however long that takes. One that was stopped
//! by a signal is continued for that. One that neither reports anything nor uses the processor for
//! a while hangs, and is killed; so is one that exceeds a final limit. Its work is left for the
//! next run, as after a kill.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stage_core::device::DeviceId;

use crate::engine::StopFlag;
use crate::run::threads::Threads;
use crate::units;

/// The time without a sign of life after which a worker is killed.
const SILENCE: Duration = Duration::from_secs(8);
/// The final limit after a signal asked to stop.
const PATIENCE: Duration = Duration::from_secs(600);

/// The state of the workers since the run was asked to stop.
#[derive(Default)]
pub struct Watchdog {
    /// The time of that signal; None if the run stops for another reason.
    pressed: Option<Instant>,
    lives: HashMap<DeviceId, Liveness>,
}

type Pulse = (u64, Option<u64>);

/// The last sign of life of a worker.
#[derive(Clone, Copy, Debug)]
struct Liveness {
    pulse: Pulse,
    seen: Instant,
    is_abandoned: bool,
}

impl Liveness {
    fn new(pulse: Pulse, now: Instant) -> Liveness {
        Liveness { pulse, seen: now, is_abandoned: false }
    }

    fn see(&mut self, pulse: Pulse, now: Instant) {
        if self.pulse != pulse {
            (self.pulse, self.seen) = (pulse, now);
        }
    }

    /// The reason to stop waiting for it.
    fn verdict(&self, pressed: Option<Instant>, now: Instant) -> Option<String> {
        let silent = now.saturating_duration_since(self.seen);
        let waited = pressed.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let (what, limit) = match (silent >= SILENCE, waited >= PATIENCE) {
            (true, _) => ("has not responded for", SILENCE),
            (false, true) => ("is still busy after", PATIENCE),
            (false, false) => return None,
        };
        Some(format!("{what} {}", units::seconds(limit.as_secs_f64())))
    }
}

impl Watchdog {
    /// Kills workers that would keep a stopping run from ending, and returns a message for each.
    pub fn watch(&mut self, stop: &StopFlag, threads: &Threads) -> Vec<String> {
        let now = Instant::now();
        if stop.is_pressing() {
            self.pressed.get_or_insert(now);
        }
        let mut killed = Vec::new();
        for (device, process) in threads.busy_workers() {
            let pulse = process.pulse();
            let life = self.lives.entry(device).or_insert_with(|| {
                process.wake();
                Liveness::new(pulse, now)
            });
            life.see(pulse, now);
            if let (Some(why), false) = (life.verdict(self.pressed, now), life.is_abandoned) {
                life.is_abandoned = true;
                process.abandon();
                killed.push(format!(
                    "killed the worker for `{device}`, which {why}: the next run does its work"
                ));
            }
        }
        killed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_worker_without_a_sign_of_life_is_not_waited_for() {
        let start = Instant::now();
        let mut life = Liveness::new((1, Some(5)), start);
        life.see((1, Some(5)), after(start, 7));
        assert_eq!(life.verdict(None, after(start, 7)), None);
        assert!(life.verdict(None, after(start, 8)).is_some());
    }

    #[test]
    fn one_that_works_may_go_on_until_patience_is_at_an_end() {
        let start = Instant::now();
        let mut life = Liveness::new((1, Some(5)), start);
        for second in (1..600).step_by(5) {
            life.see((1, Some(5 + second)), after(start, second));
            assert_eq!(life.verdict(Some(start), after(start, second)), None, "{second}");
        }
        life.see((2, None), after(start, 600));
        assert!(life.verdict(Some(start), after(start, 600)).is_some());
        assert_eq!(life.verdict(None, after(start, 600)), None, "nobody waits for it");
    }
}
