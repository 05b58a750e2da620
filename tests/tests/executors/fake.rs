//! A Slurm of shell scripts, so that every machine can test the adapter.
//!
//! Jobs are processes; files in a folder are the memory of the controller. `forget` loses it, as a
//! controller that is killed after it has returned the number of a job.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Reads the script from standard input and starts it once for each element of `--array`.
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
for task in $(echo $array | tr , ' '); do
  log=$(echo "$output" | sed "s/%a/$task/")
  (
    export SLURM_ARRAY_TASK_ID=$task SLURMD_NODENAME=n$task
    setsid sh -c 'echo $$ > '$state/jobs/$job-$task.pid'; exec sh '$state/script-$job >> "$log" 2>&1
    rm -f $state/jobs/$job-$task.*
  ) > /dev/null 2>&1 < /dev/null &
  echo "$name $task" > $state/jobs/$job-$task.name
done
echo "$job;fake"
"#;

const SQUEUE: &str = r#"#!/bin/sh
state=STATE
[ -e $state/away ] && { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
while [ $# -gt 0 ]; do [ "$1" = --name ] && wanted=$2; shift; done
for job in $state/jobs/*.name; do
  [ -e "$job" ] || continue
  read name task < $job
  [ "$name" = "$wanted" ] && echo "$task|RUNNING"
done
exit 0
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
        for (name, script) in [("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)] {
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
