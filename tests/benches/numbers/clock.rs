//! Times and medians.

use std::time::{Duration, Instant};

pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let value = work();
    (started.elapsed(), value)
}

/// The median time of several runs.
pub fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs.max(1)).map(|_| timed(&mut work).0).collect();
    times.sort();
    times[times.len() / 2]
}

/// Two measurements in turn, so that both see the same machine: on a shared machine the speed
/// changes by a tenth from one second to the next. Returns the median time of each.
pub fn medians_in_turn(
    runs: usize,
    mut one: impl FnMut() -> Duration,
    mut other: impl FnMut() -> Duration,
) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..runs.max(1) {
        times.0.push(one());
        times.1.push(other());
    }
    times.0.sort();
    times.1.sort();
    (times.0[times.0.len() / 2], times.1[times.1.len() / 2])
}

/// Waits until files are old enough to be trusted by their stat.
pub fn let_files_age() {
    std::thread::sleep(Duration::from_millis(150));
}
