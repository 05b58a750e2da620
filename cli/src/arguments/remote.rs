//! The arguments of the commands that use a remote.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};

use super::common::{ManifestArgument, ManifestOption, Settings, duration};

#[derive(Args, Debug)]
pub struct Push {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Pull {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Only the results of these stages.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Work {
    /// The digest of the batch.
    #[arg(long, value_name = "DIGEST")]
    pub batch: String,
    /// The number of the shard.
    #[arg(long, value_name = "N")]
    pub shard: u32,
    /// The address of the remote.
    #[arg(long, value_name = "URL", env = "THROSTLE_REMOTE", hide_env_values = true)]
    pub remote: String,
    /// The folder of the cache, which other jobs may use too. Default: a folder in the folder for
    /// temporary files.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<Utf8PathBuf>,
    /// The number of threads in this process. Default: the number of processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub enum RemoteCommand {
    /// Show the size of the remote.
    Stats(RemoteStats),
    /// Read everything in the remote and compare it with its digest.
    Verify(RemoteVerify),
    /// List unused files in the remote; with `--yes`, remove them.
    ///
    /// Finds leftovers of interrupted pushes and, with `--older-than`, old results and logs with
    /// the files that only they need. Leftovers younger than a day are kept, since they may belong
    /// to a push that is still running.
    Gc(RemoteGc),
    /// List the logs of runs in the remote, or print one.
    Log(RemoteLog),
}

#[derive(Args, Debug)]
pub struct RemoteStats {
    /// Print the figures as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct RemoteVerify {
    /// Write what is intact or on this machine again, and remove damaged files.
    #[arg(long)]
    pub repair: bool,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct RemoteGc {
    /// Remove the files instead of only listing them.
    #[arg(long)]
    pub yes: bool,
    /// Also remove results and logs that are older than this, such as `720h`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub older_than: Option<f64>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct RemoteLog {
    /// The name of a log. Default: list all logs.
    pub name: Option<String>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}
