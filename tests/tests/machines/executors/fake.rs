//! A Slurm of shell scripts, so that every machine can test the adapter.
//!
//! Jobs are processes; files in a folder are the memory of the controller. `forget` loses it, as a
//! controller that is killed after it has returned the number of a job.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Reads the script from standard input and starts it once for each element of `--array`, or once
/// without one. A job that is requeued by `scontrol` starts again when it has ended.
const SBATCH: &str = r#"#!/bin/sh
state=STATE
for argument in "$@"; do
  case "$argument" in
    --array=*) array=${argument#--array=} ;;
    --job-name=*) name=${argument#--job-name=} ;;
    --output=*) output=${argument#--output=} ;;
  esac
done
echo "$@" >> $state/submitted
mkdir -p $state/jobs
job=$$
cat > $state/script-$job
for task in $(echo ${array:-alone} | tr , ' '); do
  log=$(echo "$output" | sed "s/%a/$task/")
  key=$job-$task
  # Before the job starts: a short one has ended when this script goes on.
  echo "$name $task" > $state/jobs/$key.name
  (
    export SLURM_JOB_ID=$job SLURMD_NODENAME=n$task SLURM_RESTART_COUNT=0
    [ -n "$array" ] && export SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$task
    while :; do
      setsid sh -c 'echo $$ > '$state/jobs/$key.pid'; exec sh '$state/script-$job >> "$log" 2>&1
      [ -e $state/requeue-$job ] || break
      rm $state/requeue-$job
      SLURM_RESTART_COUNT=$((SLURM_RESTART_COUNT + 1))
    done
    rm -f $state/jobs/$key.*
  ) > /dev/null 2>&1 < /dev/null &
done
echo "$job;fake"
"#;

const SQUEUE: &str = r#"#!/bin/sh
state=STATE
[ -e $state/away ] && { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
echo "$@" >> $state/asked
for argument in "$@"; do
  case "$argument" in --name=*) wanted=${argument#--name=} ;; esac
done
for job in $state/jobs/*.name; do
  [ -e "$job" ] || continue
  read name task < $job
  [ $task = alone ] && task=N/A
  case ",$wanted," in *,$name,*) echo "$name|$task|RUNNING|17|n$task|None" ;; esac
done
exit 0
"#;

const SCONTROL: &str = r#"#!/bin/sh
[ "$1" = requeue ] && touch STATE/requeue-$2 && echo $2 >> STATE/requeued
"#;

const SCANCEL: &str = r#"#!/bin/sh
state=STATE
echo "$@" >> $state/cancelled
for pid in $state/jobs/*.pid; do [ -e "$pid" ] && kill -TERM $(cat $pid); done
exit 0
"#;

pub struct FakeSlurm {
    folder: tempfile::TempDir,
}

impl FakeSlurm {
    pub fn new() -> FakeSlurm {
        let fake = FakeSlurm { folder: tempfile::tempdir().unwrap() };
        for (name, script) in
            [("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL), ("scontrol", SCONTROL)]
        {
            let path = fake.path().join(name);
            let text = script.replace("STATE", fake.path().to_str().unwrap());
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        fake
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The search path with these programs first.
    pub fn search_path(&self) -> String {
        format!("{}:{}", self.path().to_str().unwrap(), std::env::var("PATH").unwrap())
    }

    /// The arguments of every submission.
    pub fn submitted(&self) -> Vec<String> {
        self.lines("submitted")
    }

    /// The arguments of every question about the queue.
    pub fn asked(&self) -> Vec<String> {
        self.lines("asked")
    }

    pub fn requeued(&self) -> Vec<String> {
        self.lines("requeued")
    }

    pub fn cancelled(&self) -> Vec<String> {
        self.lines("cancelled")
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn jobs(&self, end: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join("jobs")).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|found| found == end));
        paths
    }

    /// The controller forgets all jobs, which run on.
    pub fn forget(&self) -> usize {
        // The name of a job that ends meanwhile is gone.
        let names = self.jobs("name");
        names.iter().filter(|name| std::fs::remove_file(name).is_ok()).count()
    }

    /// The processes of jobs.
    pub fn processes(&self) -> Vec<u32> {
        let read = |path: &PathBuf| std::fs::read_to_string(path).ok()?.trim().parse().ok();
        self.jobs("pid").iter().filter_map(read).collect()
    }
}
