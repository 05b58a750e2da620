//! The memory of a model, from before it is loaded to the peak of its steps.

use stage_torch::{peak_memory, reset_peak_memory};

pub struct Memory {
    gpu: Option<usize>,
    before: u64,
}

impl Memory {
    pub fn new(gpu: Option<usize>) -> Memory {
        let before = match gpu {
            Some(_) => 0,
            None => of_process("VmRSS:"),
        };
        Memory { gpu, before }
    }

    /// Resets the peak, such as that of reading the weights.
    pub fn reset(&self) {
        // SAFETY: gives free memory back to the system and touches nothing else.
        unsafe { libc::malloc_trim(0) };
        if let Some(number) = self.gpu {
            reset_peak_memory(number);
        }
        // If this is not allowed, the peak of the whole process is reported.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }

    pub fn peak(&self) -> u64 {
        let now = match self.gpu {
            Some(number) => peak_memory(number).unwrap_or(0),
            None => of_process("VmHWM:"),
        };
        now.saturating_sub(self.before)
    }
}

fn of_process(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}
