//! The configuration, which is parsed in a crate without libtorch.

pub use stage_families::vits::Config;

use crate::error::TorchError;

/// Reads a `config.json`.
pub fn parse(json: &[u8]) -> Result<Config, TorchError> {
    Config::parse(json).map_err(|error| TorchError::Model(error.to_string()))
}
