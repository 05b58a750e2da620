//! The load of the processor and its memory, from `/proc`.

use cache::fs::{Fs, RealFs};

use super::{Gauge, GpuReading};
use crate::machine::line_of;

#[derive(Default)]
pub struct Processor {
    /// Busy and total time at the last reading, in ticks of the kernel.
    before: Option<(u64, u64)>,
}

impl Gauge for Processor {
    fn read(&mut self) -> Vec<GpuReading> {
        let read = |path: &str| RealFs.read_system_file(path.into()).unwrap_or_default();
        let now = times(&read("/proc/stat"));
        let busy = now.zip(self.before).and_then(|(now, before)| share(before, now));
        self.before = now.or(self.before);
        memory(&read("/proc/meminfo"))
            .map(|(used_bytes, total_bytes)| GpuReading {
                name: "processor".to_owned(),
                model: String::new(),
                busy,
                used_bytes,
                total_bytes,
            })
            .into_iter()
            .collect()
    }
}

/// The sum over all cores since boot: proc_stat(5), user to steal; idle and iowait are not busy.
fn times(stat: &[u8]) -> Option<(u64, u64)> {
    let text = String::from_utf8_lossy(stat);
    let numbers = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = numbers.take(8).map_while(|number| number.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    Some((all - (ticks.get(3)? + ticks.get(4)?), all))
}

fn share(before: (u64, u64), now: (u64, u64)) -> Option<f64> {
    let all = now.1.checked_sub(before.1).filter(|all| *all > 0)?;
    Some(now.0.checked_sub(before.0)? as f64 / all as f64)
}

/// Used and total, in bytes.
fn memory(meminfo: &[u8]) -> Option<(u64, u64)> {
    let bytes = |name| {
        let kilobytes = line_of(meminfo, name)?;
        Some(kilobytes.trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
    };
    let total = bytes("MemTotal")?;
    Some((total.saturating_sub(bytes("MemAvailable")?), total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_work_is_that_since_the_last_look() {
        let first = times(b"cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\n");
        let second = times(b"cpu  180 0 120 780 120 0 0 0 0 0\n");
        assert_eq!((first, second), (Some((200, 1000)), Some((300, 1200))));
        assert_eq!(first.zip(second).and_then(|(first, second)| share(first, second)), Some(0.5));
        assert_eq!(times(b"intr 1"), None);
    }

    #[test]
    fn memory_that_could_be_had_is_not_in_use() {
        let text = b"MemTotal:  16000 kB\nMemFree:  1000 kB\nMemAvailable:  12000 kB\n";
        assert_eq!(memory(text), Some((4000 * 1024, 16_000 * 1024)));
        assert_eq!(memory(b""), None);
    }
}
