//! Selects the original's behaviour where it has defects.

use serde::{Deserialize, Serialize};
use stage_core::{Parameters, StageError};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parity {
    #[default]
    Correct,
    Upstream,
}

impl Parity {
    pub fn read(parameters: &Parameters) -> Result<Parity, StageError> {
        Ok(match parameters.text("parity")? {
            "upstream" => Parity::Upstream,
            _ => Parity::Correct,
        })
    }
}
