//! The arguments of `new-stage`.

use camino::Utf8PathBuf;
use clap::Args;

use crate::setup::new_stage::stage_name;

#[derive(Args, Debug)]
pub struct NewStage {
    /// The name of the stage, such as `room-tone`. Manifests use it as `my.room-tone`.
    #[arg(value_parser = stage_name)]
    pub name: String,
    /// The folder to write to; it is created if necessary. Default: NAME.
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// A checkout of throstle to build with. Default: its git repository.
    #[arg(long, value_name = "PATH")]
    pub throstle: Option<Utf8PathBuf>,
}
