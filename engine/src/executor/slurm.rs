//! `use = "slurm"`: one job array for each submission, through the command line of Slurm.
//!
//! Text fields are read instead of JSON, since every version of Slurm has another JSON.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use cache::fs::{Fs, RealFs};

use super::decide::Seen;
use super::jobs::{Jobs, Order, joined, output};
use crate::pipeline::Slurm;

/// The number of bytes of output that a message repeats.
const LAST: usize = 2_000;

pub struct Cluster {
    slurm: Slurm,
    order: Order,
}

impl Cluster {
    pub fn new(slurm: Slurm, order: Order) -> Cluster {
        Cluster { slurm, order }
    }

    fn arguments(&self, shards: &[u32]) -> Vec<String> {
        let shards: Vec<String> = shards.iter().map(u32::to_string).collect();
        let slurm = &self.slurm;
        let mut arguments = vec![
            "--parsable".to_owned(),
            format!("--array={}", shards.join(",")),
            format!("--job-name={}", self.order.name()),
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
fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

impl Jobs for Cluster {
    fn submit(&mut self, shards: &[u32]) -> Result<String, String> {
        let mut command = Command::new("sbatch");
        command.args(self.arguments(shards));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = command.spawn().and_then(|mut child| {
            if let Some(mut input) = child.stdin.take() {
                // A program that reads nothing tells why.
                let _ = input.write_all(self.script().as_bytes());
            }
            child.wait_with_output()
        });
        let told = output(&mut command, run)?;
        // The number of the job, and on some sites the name of the cluster.
        Ok(format!("job {}", told.split(';').next().unwrap_or_default()))
    }

    fn look(&mut self) -> Result<BTreeMap<u32, Seen>, String> {
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--array", "--format=%K|%T", "--name", &self.order.name()]);
        let run = command.output();
        Ok(states(&output(&mut command, run)?))
    }

    fn cancel(&mut self) -> Result<(), String> {
        let mut command = Command::new("scancel");
        command.args(["--name", &self.order.name()]);
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

/// The states of shards in lines such as `3|RUNNING`. A job of a shard that is on its way counts
/// more than another one that ends.
fn states(text: &str) -> BTreeMap<u32, Seen> {
    let mut states = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('|').map(str::trim);
        let (Some(Ok(shard)), Some(state)) = (fields.next().map(str::parse), fields.next()) else {
            continue;
        };
        match state {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "RESV_DEL_HOLD" | "SPECIAL_EXIT" => {
                states.entry(shard).or_insert(Seen::Waiting);
            }
            "RUNNING" | "CONFIGURING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "RESIZING"
            | "SIGNALING" | "STAGE_OUT" => {
                states.insert(shard, Seen::Running);
            }
            _ => {}
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use cache::Digest;

    use super::*;

    fn cluster(slurm: Slurm) -> Cluster {
        let worker = ["/opt/my tools/throstle", "work", "--batch", "ab"];
        let order = Order {
            batch: Digest::of(b"batch"),
            worker: worker.map(str::to_owned).to_vec(),
            logs: "/p/.throstle/jobs".into(),
        };
        Cluster::new(slurm, order)
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

    #[test]
    fn states_are_read_and_odd_lines_are_not() {
        let text = "0|RUNNING\n1|PENDING\n2|COMPLETED\nN/A|RUNNING\n\n3\n4|NEW_STATE\n1|RUNNING\n";
        let expected = [(0, Seen::Running), (1, Seen::Running)];
        assert_eq!(states(text), expected.into());
        assert_eq!(states("5|PENDING"), [(5, Seen::Waiting)].into());
    }
}
