//! The arguments of the commands on sweeps.

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};

use super::{ManifestArgument, ManifestOption, Settings};

#[derive(Args, Debug)]
pub struct Sweep {
    /// The name of the sweep in the manifest.
    pub name: String,
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Print every event as a JSON object on a line of its own, in place of the table.
    #[arg(long)]
    pub json: bool,
    /// Also replace exported files that were edited. By default they are kept.
    #[arg(long)]
    pub overwrite: bool,
    /// The number of threads in this process. Default: the number of processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Stop cleanly after this time, such as `11h30m`; overrides `stop_after` of the manifest.
    #[arg(long, value_name = "TIME", value_parser = super::duration)]
    pub stop_after: Option<f64>,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Args, Debug)]
pub struct Compare {
    /// A sweep, or training stages. A name without brackets means every instance.
    #[arg(value_name = "SWEEP|STAGE", required = true)]
    pub names: Vec<String>,
    /// The form of the result. The page has a table that can be sorted, and the curves.
    #[arg(long, value_enum, default_value_t = SweepFormat::Text)]
    pub format: SweepFormat,
    /// The file to write, or `-` for standard output. Default: standard output; for `html`,
    /// `compare.html` beside the manifest; for `tensorboard`, the folder `runs` beside the
    /// manifest.
    #[arg(short, long, value_name = "FILE|DIR")]
    pub output: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SweepFormat {
    Text,
    Markdown,
    Csv,
    Json,
    Html,
    /// Event files, one folder for each trial of a sweep: its values, scores, curves and samples.
    Tensorboard,
}

#[derive(Args, Debug)]
pub struct Promote {
    /// The number of the trial, such as `3`, or `best`.
    pub trial: String,
    /// The sweep, if the manifest has several.
    #[arg(long, value_name = "NAME")]
    pub sweep: Option<String>,
    /// Print the new manifest and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}
