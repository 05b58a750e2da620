//! `use = "slurm"`: one job array for each submission, through the command line of Slurm.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cache::fs::{Fs, RealFs};

use super::decide::JobState;
use super::jobs::{Jobs, Order, joined, output};
use super::queue::Queue;
use crate::pipeline::Slurm;

/// The number of bytes of output that a message repeats.
const LAST: usize = 2_000;

pub struct Cluster {
    slurm: Slurm,
    order: Order,
    /// The name of its jobs.
    name: String,
    queue: Arc<Queue>,
    /// The time for which an answer of the queue is used.
    age: Duration,
}

impl Cluster {
    pub fn new(slurm: Slurm, order: Order, queue: Arc<Queue>, age: Duration) -> Cluster {
        let name = order.name();
        queue.watch(&name);
        Cluster { slurm, order, name, queue, age }
    }

    fn arguments(&self, shards: &[u32]) -> Vec<String> {
        let shards: Vec<String> = shards.iter().map(u32::to_string).collect();
        let slurm = &self.slurm;
        let mut arguments = vec![
            "--parsable".to_owned(),
            format!("--array={}", shards.join(",")),
            format!("--job-name={}", self.name),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            format!("--signal=B:USR1@{}", slurm.warning_seconds.ceil()),
            // `%a` is the number of the shard.
            format!("--output={}/%a.log", self.order.logs),
        ];
        let time = slurm.time_seconds.map(time);
        for (flag, value) in [
            ("partition", &slurm.partition),
            ("account", &slurm.account),
            ("gres", &slurm.gres),
            ("time", &time),
        ] {
            arguments.extend(value.iter().map(|value| format!("--{flag}={value}")));
        }
        arguments.extend(slurm.flags.iter().cloned());
        arguments
    }

    /// The worker replaces the shell, so that it gets the warning.
    fn script(&self) -> String {
        let setup: String = self.slurm.setup.iter().map(|line| format!("{line}\n")).collect();
        let worker = joined(&self.order.worker);
        format!("#!/bin/sh\n{setup}exec {worker} --shard \"$SLURM_ARRAY_TASK_ID\"\n")
    }
}

/// A time limit as `sbatch` takes it.
pub fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// Submits a script, and returns the number of its job.
pub fn submit(arguments: &[String], script: &str) -> Result<String, String> {
    let mut command = Command::new("sbatch");
    command.args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = command.spawn().and_then(|mut child| {
        if let Some(mut input) = child.stdin.take() {
            // A program that reads nothing tells why.
            let _ = input.write_all(script.as_bytes());
        }
        child.wait_with_output()
    });
    let told = output(&mut command, run)?;
    // The number of the job, and on some sites the name of the cluster.
    Ok(told.split(';').next().unwrap_or_default().to_owned())
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.queue.leave(&self.name);
    }
}

impl Jobs for Cluster {
    fn submit(&mut self, shards: &[u32]) -> Result<String, String> {
        let submitted = submit(&self.arguments(shards), &self.script());
        // Even if `sbatch` failed, Slurm may have taken the job.
        self.queue.outdate();
        Ok(format!("job {}", submitted?))
    }

    fn look(&mut self) -> Result<BTreeMap<u32, JobState>, String> {
        let jobs = self.queue.look(&self.name, self.age)?;
        Ok(jobs.into_iter().map(|(shard, job)| (shard, job.seen)).collect())
    }

    fn cancel(&mut self) -> Result<(), String> {
        let mut command = Command::new("scancel");
        command.args(["--name", &self.name]);
        let run = command.output();
        output(&mut command, run).map(drop)
    }

    fn last_words(&self, shard: u32) -> Option<String> {
        let bytes = RealFs.read(&self.order.logs.join(format!("{shard}.log"))).ok()?;
        let from = bytes.len().saturating_sub(LAST);
        let text = String::from_utf8_lossy(&bytes[from..]).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use cache::Digest;

    use super::*;

    fn cluster(slurm: Slurm) -> Cluster {
        let worker = ["/opt/my tools/throstle", "work", "--batch", "ab"];
        let order = Order {
            batch: Digest::of(b"batch"),
            shards: 8,
            worker: worker.map(str::to_owned).to_vec(),
            logs: "/p/.throstle/jobs".into(),
        };
        Cluster::new(slurm, order, Arc::default(), Duration::ZERO)
    }

    #[test]
    fn an_array_has_the_missing_shards_and_the_settings_of_the_site() {
        let slurm = Slurm {
            partition: Some("gpu".into()),
            gres: Some("gpu:1".into()),
            time_seconds: Some(43_200.0),
            warning_seconds: 120.0,
            flags: vec!["--mem=16G".into()],
            ..Slurm::default()
        };
        let arguments = cluster(slurm).arguments(&[0, 7]);
        for expected in [
            "--array=0,7",
            "--requeue",
            "--open-mode=append",
            "--signal=B:USR1@120",
            "--partition=gpu",
            "--gres=gpu:1",
            "--time=720:00",
            "--mem=16G",
        ] {
            assert!(arguments.iter().any(|found| found == expected), "{expected}: {arguments:?}");
        }
        assert!(!arguments.iter().any(|found| found.starts_with("--account")));
    }

    #[test]
    fn the_worker_replaces_the_shell_after_the_setup() {
        let slurm = Slurm { setup: vec!["module load cuda".into()], ..Slurm::default() };
        assert_eq!(
            cluster(slurm).script(),
            "#!/bin/sh\nmodule load cuda\nexec '/opt/my tools/throstle' work --batch ab --shard \
             \"$SLURM_ARRAY_TASK_ID\"\n"
        );
    }
}
