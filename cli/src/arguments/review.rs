//! The arguments of `review`.

use clap::Args;

use super::common::{ManifestOption, Settings};

#[derive(Args, Debug)]
pub struct Review {
    /// The stage with the clips, such as one of `text.align`; or `stage.port`.
    pub stage: String,
    /// The port on this machine; 0 is any free one.
    #[arg(long, default_value_t = 8022)]
    pub port: u16,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}
