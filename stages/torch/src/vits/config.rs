//! The configuration, which is read where libtorch is not needed.

pub use stage_families::vits::Config;

use crate::error::TorchError;

/// Reads a `config.json`.
pub fn parse(json: &[u8]) -> Result<Config, TorchError> {
    Config::parse(json).map_err(|error| TorchError::Model(error.to_string()))
}
