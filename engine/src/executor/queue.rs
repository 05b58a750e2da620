//! The jobs that Slurm knows: one question for all batches of an engine.
//!
//! Text fields are read instead of JSON, since every version of Slurm has another JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::decide::JobState;
use super::jobs::output;

/// A job in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedJob {
    pub seen: JobState,
    /// Its number.
    pub job: String,
    /// Its machine; empty before it starts.
    pub node: String,
    /// The reason why it waits, in the words of Slurm.
    pub reason: String,
}

/// The jobs of a name by the numbers of their shards; a job outside of an array has number 0.
pub type Shards = BTreeMap<u32, QueuedJob>;

/// The answers are shared: batches that look at about the same time ask once.
#[derive(Debug, Default)]
pub struct Queue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    /// The names of the jobs that are watched.
    names: BTreeSet<String>,
    last: Option<(Instant, Answer)>,
}

type Answer = Result<BTreeMap<String, Shards>, String>;

impl Queue {
    fn asked(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Includes the jobs of a batch in later questions.
    pub fn watch(&self, name: &str) {
        let mut asked = self.asked();
        if asked.names.insert(name.to_owned()) {
            asked.last = None;
        }
    }

    pub fn leave(&self, name: &str) {
        self.asked().names.remove(name);
    }

    /// An answer from before a submission does not know its jobs.
    pub fn outdate(&self) {
        self.asked().last = None;
    }

    /// The jobs of a batch, from an answer that is younger than `age`. Others wait while one asks.
    pub fn look(&self, name: &str, age: Duration) -> Result<Shards, String> {
        let mut asked = self.asked();
        let is_fresh = |(at, _): &(Instant, Answer)| at.elapsed() < age;
        if !asked.last.as_ref().is_some_and(is_fresh) {
            let at = Instant::now();
            let answer = ask(&asked.names);
            asked.last = Some((at, answer));
        }
        match &asked.last {
            Some((_, Ok(jobs))) => Ok(jobs.get(name).cloned().unwrap_or_default()),
            Some((_, Err(why))) => Err(why.clone()),
            None => Ok(Shards::new()),
        }
    }
}

/// Asks about the jobs with these names.
pub fn ask(names: &BTreeSet<String>) -> Answer {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--array", "--format=%j|%K|%T|%A|%N|%r"]);
    command.arg(format!("--name={}", names.join(",")));
    let run = command.output();
    Ok(jobs(&output(&mut command, run)?))
}

/// The jobs in lines such as `NAME|3|RUNNING|17|n1|None`. A job of a shard that is on its way counts
/// more than another one that ends.
fn jobs(text: &str) -> BTreeMap<String, Shards> {
    let mut jobs: BTreeMap<String, Shards> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('|').map(str::trim);
        let mut next = || fields.next().unwrap_or_default().to_owned();
        let (name, shard, state) = (next(), next(), next());
        let Some(seen) = seen(&state) else { continue };
        let shard = match shard.as_str() {
            "N/A" => 0,
            number => match number.parse() {
                Ok(number) => number,
                Err(_) => continue,
            },
        };
        let listed = QueuedJob { seen, job: next(), node: next(), reason: next() };
        let shards = jobs.entry(name).or_default();
        if seen == JobState::Running || !shards.contains_key(&shard) {
            shards.insert(shard, listed);
        }
    }
    jobs
}

fn seen(state: &str) -> Option<JobState> {
    match state {
        "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "RESV_DEL_HOLD" | "SPECIAL_EXIT" => {
            Some(JobState::Waiting)
        }
        "RUNNING" | "CONFIGURING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "RESIZING"
        | "SIGNALING" | "STAGE_OUT" => Some(JobState::Running),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_and_odd_lines_are_not() {
        let text = "a|0|RUNNING|7|n1|None\na|1|PENDING|7||Priority\na|2|COMPLETED|7|n1|\n\
                    b|N/A|RUNNING|8|n2|None\n\na|3\na|4|NEW_STATE\na|1|RUNNING|9|n3|None\na|x|RUNNING\n";
        let jobs = jobs(text);
        let seen = |name: &str| -> BTreeMap<u32, (JobState, &str)> {
            let shards = jobs.get(name).into_iter().flatten();
            shards.map(|(shard, job)| (*shard, (job.seen, job.node.as_str()))).collect()
        };
        assert_eq!(
            seen("a"),
            [(0, (JobState::Running, "n1")), (1, (JobState::Running, "n3"))].into()
        );
        assert_eq!(seen("b"), [(0, (JobState::Running, "n2"))].into());
        assert_eq!(super::jobs("c|5|PENDING|1||Resources")["c"][&5].reason, "Resources");
    }

    #[test]
    fn an_answer_serves_all_batches_until_one_of_them_submits() {
        let queue = Queue::default();
        let answered = |queue: &Queue| queue.asked().last.is_some();
        let long = Duration::from_secs(3_600);
        // No names: nothing is asked, which is an answer too.
        assert_eq!(queue.look("a", long), Ok(Shards::new()));
        assert!(answered(&queue));
        queue.asked().names.insert("a".to_owned());
        assert_eq!(queue.look("a", long), Ok(Shards::new()), "it is still young");
        queue.outdate();
        assert!(!answered(&queue));
        queue.watch("b");
        assert!(!answered(&queue), "a name that nobody has asked about");
    }
}
