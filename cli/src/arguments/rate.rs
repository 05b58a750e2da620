//! The arguments of `rate`.

use camino::Utf8PathBuf;
use clap::{ArgGroup, Args};

use super::common::{ManifestOption, Settings};

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("way").required(true).args(["rater", "pack", "read"])))]
pub struct Rate {
    /// The stage with the pairs, of the kind `rate.pairs`.
    pub stage: String,
    /// Listen in the browser, as the rater with this name: letters, digits, `-` and `_`.
    #[arg(long, value_name = "NAME")]
    pub rater: Option<String>,
    /// Write the test as one HTML file for other raters: it contains the recordings, and returns
    /// the votes as a file.
    #[arg(long, value_name = "FILE")]
    pub pack: Option<Utf8PathBuf>,
    /// Merge votes from such a file. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub read: Vec<Utf8PathBuf>,
    /// The port on this machine; 0 is any free one.
    #[arg(long, default_value_t = 8021)]
    pub port: u16,
    #[command(flatten)]
    pub manifest: ManifestOption,
    #[command(flatten)]
    pub settings: Settings,
}
