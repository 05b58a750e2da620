//! The peak memory of a training on its GPUs.
//!
//! The driver is queried from time to time. libtorch never returns memory, so the peak of a step is
//! still visible after it.

use tch::Device;

use crate::machine::gpu_memory_used;

/// Seconds between two queries: each starts a program.
const PAUSE: f64 = 10.0;

#[derive(Debug, Default)]
pub struct Vram {
    gpus: Vec<usize>,
    asked: Option<f64>,
    peak: u64,
}

impl Vram {
    pub fn new(devices: &[Device]) -> Vram {
        let number = |device: &Device| match device {
            Device::Cuda(number) => Some(*number),
            _ => None,
        };
        Vram { gpus: devices.iter().filter_map(number).collect(), ..Vram::default() }
    }

    /// The largest used memory of any of the GPUs in bytes, and the second of the measurement.
    pub fn peak(&mut self, now: f64) -> Option<u64> {
        self.peak_by(now, gpu_memory_used)
    }

    fn peak_by(&mut self, now: f64, ask: impl Fn(usize) -> Option<u64>) -> Option<u64> {
        if self.asked.is_none_or(|asked| now - asked >= PAUSE) {
            self.asked = Some(now);
            let used = self.gpus.iter().filter_map(|gpu| ask(*gpu)).max();
            self.peak = self.peak.max(used.unwrap_or(0));
        }
        (self.peak > 0).then_some(self.peak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_stays_and_is_that_of_the_fullest_gpu() {
        let mut vram = Vram::new(&[Device::Cuda(0), Device::Cpu, Device::Cuda(1)]);
        assert_eq!(vram.peak_by(0.0, |gpu| Some(5 + gpu as u64)), Some(6));
        assert_eq!(vram.peak_by(9.0, |_| Some(100)), Some(6), "not asked so soon");
        assert_eq!(vram.peak_by(10.0, |_| Some(3)), Some(6));
        assert_eq!(vram.peak_by(20.0, |_| Some(7)), Some(7));
        assert_eq!(vram.peak_by(30.0, |_| None), Some(7));
    }

    #[test]
    fn a_cpu_has_none() {
        assert_eq!(Vram::new(&[Device::Cpu]).peak_by(0.0, |_| Some(1)), None);
    }
}
