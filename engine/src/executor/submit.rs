//! An unattended run: a job on Slurm, or a separate process on this machine.
//!
//! The job or process runs `throstle run`, and repeats it as long as that pauses because of a time
//! limit or a temporary fault.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use cache::Digest;
use cache::fs::{Fs, FsError, Open, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::decide::JobState;
use super::jobs::joined;
use super::process::{Mark, living};
use super::queue::Shards;
use super::slurm;
use crate::pipeline::{Adapter, ExecutorSpec, Slurm};

/// The number of times that a run is started again.
const MOST: u32 = 500;

/// A process starts its run again after this number of polls: two minutes by default, as on Slurm.
const POLLS: f64 = 8.0;

/// The interval between looks for a process that starts, and the number of looks: a minute, where `/proc`
/// shows nothing.
const LOOK: Duration = Duration::from_millis(5);
const MOST_LOOKS: u32 = 12_000;

/// The record of a submission, in the folder of the jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub executor: String,
    /// The number of the job, or of the process.
    pub job: String,
    /// True for a job on Slurm.
    pub is_slurm: bool,
    /// Seconds since 1970.
    pub begun: i64,
}

/// The present state of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SubmissionState {
    Waiting { reason: String },
    Running { node: String },
    Ended,
    Unknown { why: String },
}

/// The place and the name of the submitted runs of a pipeline.
#[derive(Clone, Debug)]
pub struct SubmittedRuns {
    /// The folder of the jobs, in the cache.
    folder: Utf8PathBuf,
    name: String,
}

impl SubmittedRuns {
    /// For a pipeline with its cache in this absolute folder.
    pub fn new(cache: &Utf8Path, pipeline: &str) -> SubmittedRuns {
        let digest = Digest::of(format!("{cache}\n{pipeline}").as_bytes()).to_string();
        let name = format!("throstle-{}", digest.chars().take(16).collect::<String>());
        SubmittedRuns { folder: cache.join("jobs"), name }
    }

    /// The name of the job.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The output of the run.
    pub fn log(&self) -> Utf8PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    fn record(&self) -> Utf8PathBuf {
        self.folder.join(format!("{}.json", self.name))
    }

    fn mark(&self) -> Mark {
        let file = self.folder.join(format!("{}.pid", self.name));
        Mark { file, variable: format!("THROSTLE_SUBMITTED={}", self.name) }
    }

    /// The last submission.
    pub fn last(&self) -> Option<Submission> {
        serde_json::from_slice(&RealFs.read(&self.record()).ok()?).ok()
    }

    /// The state of a submission, with the jobs of its name if Slurm was asked.
    pub fn life(
        &self,
        submitted: &Submission,
        jobs: Option<Result<&Shards, &str>>,
    ) -> SubmissionState {
        match (submitted.is_slurm, jobs) {
            (false, _) => match living(&self.mark()) {
                Some(_) => SubmissionState::Running { node: String::new() },
                None => SubmissionState::Ended,
            },
            (true, Some(Ok(jobs))) => match jobs.values().next() {
                Some(job) if job.seen == JobState::Running => {
                    SubmissionState::Running { node: job.node.clone() }
                }
                Some(job) => SubmissionState::Waiting { reason: job.reason.clone() },
                None => SubmissionState::Ended,
            },
            (true, Some(Err(why))) => SubmissionState::Unknown { why: why.to_owned() },
            (true, None) => SubmissionState::Unknown { why: "Slurm was not queried".to_owned() },
        }
    }

    /// The process of an earlier submission that is still running.
    pub fn process(&self) -> Option<i32> {
        living(&self.mark())
    }

    /// Starts a run with this command line.
    pub fn start(
        &self,
        spec: &ExecutorSpec,
        command: &[String],
        begun: i64,
    ) -> Result<Submission, String> {
        let failed = |error: FsError| format!("cannot start the run: {}", error.whole());
        RealFs.create_dir_all(&self.folder).map_err(failed)?;
        let (job, is_slurm) = match &spec.adapter {
            Adapter::Slurm(slurm) => {
                let script = script(slurm, command);
                (slurm::submit(&self.arguments(slurm), &script)?, true)
            }
            Adapter::Command(_) => {
                (self.detach(&chain(spec.poll_seconds * POLLS), command)?, false)
            }
        };
        let submitted = Submission { executor: spec.name.clone(), job, is_slurm, begun };
        let text = serde_json::to_vec(&submitted).unwrap_or_default();
        RealFs.write_durably(&self.record(), &text).map_err(failed)?;
        Ok(submitted)
    }

    fn arguments(&self, slurm: &Slurm) -> Vec<String> {
        let mut arguments = vec![
            "--parsable".to_owned(),
            format!("--job-name={}", self.name),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            format!("--signal=B:USR1@{}", slurm.warning_seconds.ceil()),
            format!("--output={}", self.log()),
        ];
        let time = slurm.time_seconds.map(slurm::time);
        for (flag, value) in
            [("partition", &slurm.partition), ("account", &slurm.account), ("time", &time)]
        {
            arguments.extend(value.iter().map(|value| format!("--{flag}={value}")));
        }
        // The last one counts.
        arguments.extend(slurm.submit_flags.iter().cloned());
        arguments
    }

    /// A process in a session of its own: the end of a terminal does not end it.
    fn detach(&self, script: &str, command: &[String]) -> Result<String, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot start the run: {error}");
        let mark = self.mark();
        let log = RealFs.open(&self.log(), Open::Create).map(drop);
        log.and_then(|()| mark.make()).map_err(|error| failed(&error.whole()))?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg("sh").args(command);
        shell.env("THROSTLE_PID", &mark.file).env("THROSTLE_LOG", self.log());
        shell.envs(mark.variable.split_once('='));
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: `setsid` may be called between `fork` and `exec`, and touches no memory.
        unsafe {
            shell.pre_exec(|| {
                libc::setsid();
                Ok(())
            });
        }
        let mut child = shell.spawn().map_err(|error| failed(&error))?;
        // Until the shell has written its id, nobody finds the process: a second submission would
        // start a second run, and `status` would say that this one has ended.
        for _ in 0..MOST_LOOKS {
            if living(&mark).is_some() || !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        Ok(child.id().to_string())
    }
}

/// Runs the command, and lets Slurm start the job again if it could not finish. The warning becomes a
/// request to stop; `scancel` sends SIGTERM without a warning, and ends the chain.
fn script(slurm: &Slurm, command: &[String]) -> String {
    let setup: String = slurm.setup.iter().map(|line| format!("{line}\n")).collect();
    let command = joined(command);
    format!(
        r#"#!/bin/sh
{setup}warned= cancelled=
trap 'warned=1; kill -TERM $run' USR1
trap 'cancelled=1' TERM
{command} & run=$!
while :; do
  wait $run; code=$?
  kill -0 $run 2>/dev/null || break
done
[ $code = 75 ] || exit $code
[ -n "$cancelled" ] && [ -z "$warned" ] && exit 75
[ "${{SLURM_RESTART_COUNT:-0}}" -lt {MOST} ] && scontrol requeue "$SLURM_JOB_ID"
exit 75
"#
    )
}

/// Runs the command in the arguments, and starts it again after this time if it has paused. SIGTERM
/// becomes a request to stop, and ends the chain.
fn chain(pause_seconds: f64) -> String {
    format!(
        r#"echo $$ >"$THROSTLE_PID"
exec >>"$THROSTLE_LOG" 2>&1
stopped= run= again=0
trap 'stopped=1; [ -z "$run" ] || kill -TERM $run 2>/dev/null' TERM INT
while :; do
  "$@" & run=$!
  [ -z "$stopped" ] || kill -TERM $run
  while :; do
    wait $run; code=$?
    kill -0 $run 2>/dev/null || break
  done
  [ $code = 75 ] && [ -z "$stopped" ] && [ $again -lt {MOST} ] || exit $code
  again=$((again + 1))
  echo "throstle submit: the run has paused, and starts again in {pause_seconds} s ($again of {MOST})"
  sleep {pause_seconds} & run=$!
  wait $run
  [ -z "$stopped" ] || exit 75
done
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pipeline_and_each_cache_has_a_name_of_its_own() {
        let name = |cache: &str, pipeline: &str| SubmittedRuns::new(cache.into(), pipeline).name;
        assert_eq!(name("/p/.throstle", "voice"), name("/p/.throstle", "voice"));
        assert_ne!(name("/p/.throstle", "voice"), name("/q/.throstle", "voice"));
        assert_ne!(name("/p/.throstle", "voice"), name("/p/.throstle", "other"));
    }

    #[test]
    fn the_job_of_a_run_takes_no_gpus_and_its_own_flags_last() {
        let slurm = Slurm {
            partition: Some("gpu".into()),
            gres: Some("gpu:1".into()),
            time_seconds: Some(3_600.0),
            flags: vec!["--mem=500G".into()],
            submit_flags: vec!["--partition=small".into()],
            ..Slurm::default()
        };
        let arguments = SubmittedRuns::new("/p/.throstle".into(), "voice").arguments(&slurm);
        assert!(!arguments.iter().any(|found| found.contains("gres") || found.contains("mem")));
        assert!(arguments.contains(&"--time=60:00".to_owned()), "{arguments:?}");
        assert_eq!(arguments.last().map(String::as_str), Some("--partition=small"));
    }
}
