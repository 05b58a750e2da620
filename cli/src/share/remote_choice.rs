//! The choice between the remote of the arguments and that of the manifest.

use engine::pipeline::RemoteSpec;

use crate::arguments::Settings;
use crate::error::CliError;

/// Switches the remote of the manifest off.
const NONE: &str = "none";

pub fn is_off(settings: &Settings) -> bool {
    settings.remote.as_deref() == Some(NONE)
}

/// The remote of the arguments, or else that of the manifest.
pub fn chosen(
    settings: &Settings,
    written: Option<RemoteSpec>,
) -> Result<Option<RemoteSpec>, CliError> {
    let Some(url) = settings.remote.as_deref().filter(|url| !url.is_empty()) else {
        return Ok(written);
    };
    if is_off(settings) {
        return Ok(None);
    }
    // The text may contain a password.
    let address = url.parse().map_err(|error| {
        CliError::usage(
            format!("invalid address in `--remote`: {error}"),
            "write `--remote file:///shared/cache`",
        )
    })?;
    let settings = written.map(|written| written.settings).unwrap_or_default();
    Ok(Some(RemoteSpec { address, settings }))
}
