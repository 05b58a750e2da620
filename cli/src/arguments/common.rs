//! The arguments that many commands share.

use camino::Utf8PathBuf;
use clap::Args;

/// The manifest as the first argument, or with `-m` as everywhere.
#[derive(Args, Clone, Debug)]
pub struct ManifestArgument {
    /// The manifest, or the folder that contains it as `pipeline.toml`.
    #[arg(value_name = "FILE|DIR", default_value = HERE)]
    pub manifest: Utf8PathBuf,
    /// The same in place of the first argument.
    #[arg(short = 'm', long = "manifest", value_name = "FILE|DIR", id = "named_manifest")]
    named: Option<Utf8PathBuf>,
}

/// The folder that contains the manifest unless another one is given.
const HERE: &str = ".";

impl ManifestArgument {
    /// With `-m`, the first argument is the first of the stages. An error if there can be none.
    pub fn settle(&mut self, stages: Option<&mut Vec<String>>) -> Result<(), String> {
        let Some(named) = self.named.take() else { return Ok(()) };
        let first = std::mem::replace(&mut self.manifest, named);
        match stages {
            _ if first == HERE => {}
            Some(stages) => stages.insert(0, first.into_string()),
            None => {
                return Err(format!(
                    "the manifest is named twice: `{first}` and `{}`",
                    self.manifest
                ));
            }
        }
        Ok(())
    }
}

/// The manifest where the first argument is something else.
#[derive(Args, Clone, Debug)]
pub struct ManifestOption {
    /// The manifest, or the folder that contains it as `pipeline.toml`.
    #[arg(short, long, value_name = "FILE|DIR", default_value = HERE)]
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
