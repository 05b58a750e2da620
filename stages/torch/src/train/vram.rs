//! The peak memory of a training on its GPUs, by the allocator of libtorch.

use tch::Device;

use crate::device::{peak_memory, reset_peak_memory};

#[derive(Debug, Default)]
pub struct Vram {
    gpus: Vec<usize>,
}

impl Vram {
    /// Measures from now on.
    pub fn new(devices: &[Device]) -> Vram {
        let number = |device: &Device| match device {
            Device::Cuda(number) => Some(*number),
            _ => None,
        };
        let gpus: Vec<usize> = devices.iter().filter_map(number).collect();
        gpus.iter().for_each(|gpu| reset_peak_memory(*gpu));
        Vram { gpus }
    }

    /// The largest peak of any of the GPUs, in bytes.
    pub fn peak(&self) -> Option<u64> {
        self.peak_by(peak_memory)
    }

    fn peak_by(&self, ask: impl Fn(usize) -> Option<u64>) -> Option<u64> {
        self.gpus.iter().filter_map(|gpu| ask(*gpu)).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_the_fullest_gpu_and_a_cpu_has_none() {
        let vram = Vram::new(&[Device::Cuda(0), Device::Cpu, Device::Cuda(1)]);
        assert_eq!(vram.peak_by(|gpu| Some(5 + gpu as u64)), Some(6));
        assert_eq!(vram.peak_by(|gpu| (gpu == 0).then_some(7)), Some(7));
        assert_eq!(Vram::new(&[Device::Cpu]).peak_by(|_| Some(1)), None);
    }
}
