//! Jobs: what an adapter to a scheduler has to do.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use cache::Digest;
use camino::Utf8PathBuf;

use super::command::Programs;
use super::decide::JobState;
use super::queue::Queue;
use super::slurm::Cluster;
use crate::pipeline::{Adapter, ExecutorSpec};

/// The jobs of one batch on one executor. Shards are known by their numbers.
pub trait Jobs: Send {
    /// Starts a job for each of these shards, and returns how the scheduler names them.
    fn submit(&mut self, shards: &[u32]) -> Result<String, String>;

    /// The shards that the scheduler knows.
    fn look(&mut self) -> Result<BTreeMap<u32, JobState>, String>;

    fn cancel(&mut self) -> Result<(), String>;

    /// The engine ends. Jobs that nobody would watch are asked to save and stop.
    fn leave(&mut self) {}

    /// The last output of the jobs of a shard, if it is on this machine.
    fn last_words(&self, shard: u32) -> Option<String>;
}

/// The jobs of a batch, before an adapter has them.
#[derive(Clone, Debug)]
pub struct Order {
    pub batch: Digest,
    pub shards: u32,
    /// The command line of a worker, without the number of the shard.
    pub worker: Vec<String>,
    /// The folder for the output of jobs.
    pub logs: Utf8PathBuf,
}

impl Order {
    /// The name of its jobs, which may be the only thing that a scheduler tells.
    pub fn name(&self) -> String {
        name(&self.batch)
    }
}

/// The name of the jobs of a batch.
pub fn name(batch: &Digest) -> String {
    batch.to_string().chars().take(32).collect()
}

/// The jobs of a batch. Those on Slurm share one queue.
pub fn start(spec: &ExecutorSpec, order: Order, queue: &Arc<Queue>) -> Box<dyn Jobs> {
    match &spec.adapter {
        Adapter::Slurm(slurm) => {
            let age = Duration::from_secs_f64(spec.poll_seconds);
            Box::new(Cluster::new(slurm.clone(), order, queue.clone(), age))
        }
        Adapter::Command(command) => Box::new(Programs::new(command.clone(), order)),
    }
}

/// A word of a shell command.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@%+,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

pub fn joined<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The output of a successful program.
pub fn output(command: &mut Command, result: std::io::Result<Output>) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = result.map_err(|error| format!("cannot start `{name}`: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("`{name}` failed ({}): {}", output.status, text(&output.stderr)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_stay_words() {
        for (word, expected) in [
            ("a-b_c.d/e:f=g", "a-b_c.d/e:f=g"),
            ("", "''"),
            ("two words", "'two words'"),
            ("$HOME; rm *", "'$HOME; rm *'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
