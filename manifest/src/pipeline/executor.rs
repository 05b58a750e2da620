//! Executors: places other than this process where the work of stages can run. They enter no key.

/// An executor, as the manifest describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutorSpec {
    pub name: String,
    pub adapter: Adapter,
    /// The largest number of jobs of one batch.
    pub max_jobs: u32,
    /// The expected time of a job.
    pub shard_seconds: f64,
    /// The number of times that a job is submitted without progress.
    pub attempts: u32,
    /// The interval between two queries of the jobs.
    pub poll_seconds: f64,
    /// The path of `throstle` where jobs run; that of this program if `None`.
    pub program: Option<String>,
    /// The cache folder of a job; a temporary folder of its machine if `None`.
    pub cache: Option<String>,
    /// Jobs are cancelled when the run is stopped.
    pub cancels: bool,
    /// Stages on GPUs run there unless they name another executor.
    pub takes_gpus: bool,
}

/// The program that starts jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum Adapter {
    Slurm(Slurm),
    /// A shell command that runs one job, and ends with it.
    Command(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slurm {
    pub partition: Option<String>,
    pub account: Option<String>,
    pub gres: Option<String>,
    pub time_seconds: Option<f64>,
    /// Jobs are warned this long before their time limit.
    pub warning_seconds: f64,
    /// Lines of shell before the worker starts.
    pub setup: Vec<String>,
    /// Further arguments of `sbatch`.
    pub flags: Vec<String>,
    /// Arguments of `sbatch` for the job of a submitted run.
    pub submit_flags: Vec<String>,
}

impl Adapter {
    pub fn name(&self) -> &'static str {
        match self {
            Adapter::Slurm(_) => "slurm",
            Adapter::Command(_) => "command",
        }
    }
}
