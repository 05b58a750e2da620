//! NVIDIA GPUs by `nvidia-smi`, which is started once and reports every other second: starting it
//! for each reading would take longer than a reading is worth.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use super::{Gauge, Reading};

const PROGRAM: &str = "nvidia-smi";
/// Number, model, utilisation in percent, memory in MiB.
const QUERY: &str = "--query-gpu=index,name,utilization.gpu,memory.used,memory.total";
const EVERY_MILLISECONDS: &str = "2000";

#[derive(Default)]
pub struct Smi {
    /// True on a machine without the program, or after it has exited.
    has_tried: bool,
    child: Option<Child>,
    latest: Arc<Mutex<BTreeMap<u32, Reading>>>,
}

impl Smi {
    fn start(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.args([QUERY, "--format=csv,noheader,nounits", "-lms", EVERY_MILLISECONDS]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C in the terminal must not reach it. It ends with this object, or, if this process
        // is killed, with the next line that nobody reads.
        let Ok(mut child) = command.process_group(0).spawn() else { return };
        if let Some(output) = child.stdout.take() {
            let latest = self.latest.clone();
            // Without a thread there are no readings.
            let _ = Builder::new().name("smi".into()).spawn(move || follow(output, &latest));
        }
        self.child = Some(child);
    }
}

impl Gauge for Smi {
    fn read(&mut self) -> Vec<Reading> {
        if !std::mem::replace(&mut self.has_tried, true) {
            self.start();
        }
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.values().cloned().collect()
    }
}

impl Drop for Smi {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn follow(output: ChildStdout, latest: &Mutex<BTreeMap<u32, Reading>>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some((number, reading)) = reading(&line) {
            latest.lock().unwrap_or_else(PoisonError::into_inner).insert(number, reading);
        }
    }
    // Old readings are not shown.
    latest.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn reading(line: &str) -> Option<(u32, Reading)> {
    let parts: Vec<&str> = line.split(", ").collect();
    let [number, model, busy, used, total] = parts.try_into().ok()?;
    let bytes = |mebibytes: &str| Some(mebibytes.trim().parse::<u64>().ok()? << 20);
    let number = number.trim().parse().ok()?;
    let reading = Reading {
        name: format!("cuda:{number}"),
        model: model.to_owned(),
        // Some virtual GPUs do not report it.
        busy: busy.parse::<f64>().ok().map(|percent| percent / 100.0),
        used_bytes: bytes(used)?,
        total_bytes: bytes(total)?,
    };
    Some((number, reading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_program_is_a_reading() {
        let (number, told) = reading("1, Tesla T4, 97, 11264, 15360").unwrap_or_default();
        assert_eq!((number, told.name.as_str(), told.model.as_str()), (1, "cuda:1", "Tesla T4"));
        assert_eq!(
            (told.busy, told.used_bytes >> 20, told.total_bytes >> 20),
            (Some(0.97), 11_264, 15_360)
        );
        let virtual_gpu = reading("0, GRID, [N/A], 1, 2").unwrap_or_default();
        assert_eq!(virtual_gpu.1.busy, None);
        assert!(reading("Failed to initialize NVML").is_none());
    }
}
