//! `use = "command"`: a shell command runs one job, and ends with it.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use cache::fs::{Fs, Open, RealFs};
use camino::Utf8PathBuf;

use super::decide::Seen;
use super::jobs::{Jobs, Order, joined};

/// The number of bytes of output that a message repeats.
const LAST: usize = 2_000;

pub struct Programs {
    command: String,
    order: Order,
    running: BTreeMap<u32, Child>,
}

impl Programs {
    pub fn new(command: String, order: Order) -> Programs {
        Programs { command, order, running: BTreeMap::new() }
    }

    fn log(&self, shard: u32) -> Utf8PathBuf {
        self.order.logs.join(format!("{shard}.log"))
    }

    fn start(&self, shard: u32) -> Result<Child, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot start a job: {error}");
        let shard_text = shard.to_string();
        let worker = [&self.order.worker[..], &["--shard".to_owned(), shard_text]].concat();
        // Opened and closed by the shell, since it outlives this process.
        let log = self.log(shard);
        RealFs.open(&log, Open::Create).map_err(|error| failed(&error.whole()))?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(r#"exec >>"$THROSTLE_LOG" 2>&1; eval "$THROSTLE_COMMAND""#);
        command.env("THROSTLE_LOG", &log).env("THROSTLE_COMMAND", &self.command);
        command.env("THROSTLE_WORK", joined(&worker));
        command.env("THROSTLE_SHARD", shard.to_string());
        command.env("THROSTLE_BATCH", self.order.batch.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C in a terminal is for the engine.
        command.process_group(0).spawn().map_err(|error| failed(&error))
    }

    fn signal(&self) {
        for child in self.running.values() {
            if let Ok(group) = i32::try_from(child.id()) {
                // SAFETY: `kill` touches no memory. The child has not been waited for, so the
                // number is still its own.
                unsafe { libc::kill(-group, libc::SIGTERM) };
            }
        }
    }
}

impl Jobs for Programs {
    fn submit(&mut self, shards: &[u32]) -> Result<String, String> {
        let mut names = Vec::new();
        for shard in shards {
            let child = self.start(*shard)?;
            names.push(child.id().to_string());
            self.running.insert(*shard, child);
        }
        Ok(format!("processes {}", names.join(", ")))
    }

    fn look(&mut self) -> Result<BTreeMap<u32, Seen>, String> {
        self.running.retain(|_, child| !matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
        Ok(self.running.keys().map(|shard| (*shard, Seen::Running)).collect())
    }

    fn cancel(&mut self) -> Result<(), String> {
        self.signal();
        Ok(())
    }

    fn leave(&mut self) {
        self.signal();
    }

    fn last_words(&self, shard: u32) -> Option<String> {
        let bytes = RealFs.read(&self.log(shard)).ok()?;
        let from = bytes.len().saturating_sub(LAST);
        let text = String::from_utf8_lossy(&bytes[from..]).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}
