//! The arguments of `submit`.

use clap::Args;

use super::common::{ManifestArgument, Settings};

#[derive(Args, Debug)]
pub struct Submit {
    #[command(flatten)]
    pub manifest: ManifestArgument,
    /// Only these stages and their upstream stages.
    #[arg(value_name = "STAGE")]
    pub stages: Vec<String>,
    /// The executor that starts the run. Default: the only one that stages use.
    #[arg(long, value_name = "NAME")]
    pub on: Option<String>,
    /// After a stage has failed, continue with the stages that do not depend on it.
    #[arg(long)]
    pub keep_going: bool,
    /// Also replace exported files that were edited. By default they are kept.
    #[arg(long)]
    pub overwrite: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: Settings,
}
