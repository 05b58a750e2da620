//! The arguments that many commands share.

use camino::Utf8PathBuf;
use clap::Args;

/// The manifest as the first argument.
#[derive(Args, Clone, Debug)]
pub struct ManifestArgument {
    /// The manifest, or the folder that contains it as `pipeline.toml`.
    #[arg(value_name = "FILE|DIR", default_value = ".")]
    pub manifest: Utf8PathBuf,
}

/// The manifest where the first argument is something else.
#[derive(Args, Clone, Debug)]
pub struct ManifestOption {
    /// The manifest, or the folder that contains it as `pipeline.toml`.
    #[arg(short, long, value_name = "FILE|DIR", default_value = ".")]
    pub manifest: Utf8PathBuf,
}

#[derive(Args, Clone, Debug, Default)]
pub struct Settings {
    /// The folder of the cache. Default: `.throstle` beside the manifest.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<Utf8PathBuf>,
    /// Override a value of the manifest, such as `stage.voice.rate=22050` or `params.rate=22050`.
    /// Can be repeated.
    #[arg(long, value_name = "A.B=C")]
    pub set: Vec<String>,
    /// The remote that machines share, such as `file:///shared/cache` or `s3://bucket/cache`;
    /// overrides `url` in `[remote]`. `none`: no remote.
    #[arg(long, value_name = "URL", env = "THROSTLE_REMOTE", hide_env_values = true)]
    pub remote: Option<String>,
}

pub fn duration(text: &str) -> Result<f64, String> {
    engine::manifest::duration(text)
        .ok_or_else(|| "expected a time such as `90s` or `11h30m`".into())
}
