//! `use = "command"`: a shell command runs one job, and ends with it.
//!
//! The shell of a job writes its process id to a file. A later run finds jobs of a killed run by it,
//! and starts them no second time.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use cache::Digest;
use cache::fs::{Fs, Open, RealFs};
use camino::{Utf8Path, Utf8PathBuf};

use super::decide::JobState;
use super::jobs::{Jobs, Order, joined};
use super::process::{Mark, living};
use super::queue::{QueuedJob, Shards};

/// The number of bytes of output that a message repeats.
const LAST: usize = 2_000;

pub struct Programs {
    command: String,
    order: Order,
    running: BTreeMap<u32, Child>,
    /// The processes of jobs that an earlier run has started.
    adopted: BTreeMap<u32, i32>,
}

/// Writes the id of the shell, which stays that of the job if the command begins with `exec`.
const SCRIPT: &str =
    r#"echo $$ >"$THROSTLE_PID"; exec >>"$THROSTLE_LOG" 2>&1; eval "$THROSTLE_COMMAND""#;

impl Programs {
    pub fn new(command: String, order: Order) -> Programs {
        Programs { command, order, running: BTreeMap::new(), adopted: BTreeMap::new() }
    }

    fn log(&self, shard: u32) -> Utf8PathBuf {
        self.order.logs.join(format!("{shard}.log"))
    }

    fn mark(&self, shard: u32) -> Mark {
        mark(&self.order.logs, &self.order.batch, shard)
    }

    fn start(&self, shard: u32) -> Result<Child, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot start a job: {error}");
        let shard_text = shard.to_string();
        let worker = [&self.order.worker[..], &["--shard".to_owned(), shard_text]].concat();
        // Opened and closed by the shell, since it outlives this process.
        let log = self.log(shard);
        RealFs.open(&log, Open::Create).map_err(|error| failed(&error.whole()))?;
        let mut command = Command::new("sh");
        let mark = self.mark(shard);
        mark.make().map_err(|error| failed(&error.whole()))?;
        command.arg("-c").arg(SCRIPT).env("THROSTLE_PID", &mark.file);
        command.envs(mark.variable.split_once('='));
        command.env("THROSTLE_LOG", &log).env("THROSTLE_COMMAND", &self.command);
        command.env("THROSTLE_WORK", joined(&worker));
        command.env("THROSTLE_SHARD", shard.to_string());
        command.env("THROSTLE_BATCH", self.order.batch.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C in a terminal is for the engine.
        command.process_group(0).spawn().map_err(|error| failed(&error))
    }

    fn signal(&self) {
        // The children have not been waited for, so the numbers are still their own.
        let own = self.running.values().filter_map(|child| i32::try_from(child.id()).ok());
        let adopted = self.adopted.keys().filter_map(|shard| living(&self.mark(*shard)));
        for group in own.chain(adopted) {
            // SAFETY: `kill` touches no memory.
            unsafe { libc::kill(-group, libc::SIGTERM) };
        }
    }
}

fn mark(logs: &Utf8Path, batch: &Digest, shard: u32) -> Mark {
    let variable = format!("THROSTLE_JOB={batch}/{shard}");
    Mark { file: logs.join(format!("{shard}.pid")), variable }
}

/// The living jobs of a batch on this machine.
pub fn listed(logs: &Utf8Path, batch: &Digest, shards: u32) -> Shards {
    let job = |shard| {
        let job = living(&mark(logs, batch, shard))?.to_string();
        let (node, reason) = (String::new(), String::new());
        Some((shard, QueuedJob { seen: JobState::Running, job, node, reason }))
    };
    (0..shards).filter_map(job).collect()
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

    fn look(&mut self) -> Result<BTreeMap<u32, JobState>, String> {
        self.running.retain(|_, child| !matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
        self.adopted = BTreeMap::new();
        for shard in (0..self.order.shards).filter(|shard| !self.running.contains_key(shard)) {
            if let Some(process) = living(&self.mark(shard)) {
                self.adopted.insert(shard, process);
            }
        }
        let jobs = self.running.keys().chain(self.adopted.keys());
        Ok(jobs.map(|shard| (*shard, JobState::Running)).collect())
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
