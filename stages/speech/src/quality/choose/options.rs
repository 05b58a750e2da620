//! The parameters of `quality.choose`.

use stage_core::{Parameters, StageError};

use super::prefer::Preference;
use super::require::Rule;
use crate::plain::unknown_choice;

/// The parameters of a choice.
#[derive(Debug, Clone)]
pub struct Options {
    pub base: String,
    pub require: Vec<Rule>,
    pub prefer: Vec<Preference>,
    pub confidence: f64,
    pub draws: usize,
    pub least: usize,
    /// The share of sentences that take no part in the choice.
    pub hold: f64,
    /// Candidates that no interval tells apart are equal.
    pub ties: bool,
    pub falls_back: bool,
    pub seed: u64,
}

impl Options {
    pub fn read(parameters: &Parameters) -> Result<Options, StageError> {
        let whole = |name: &str| parameters.integer(name).map(|number| number.max(0) as usize);
        Ok(Options {
            base: parameters.text("base_name")?.to_owned(),
            require: Rule::read(&parameters.texts("require")?)?,
            prefer: Preference::read(parameters.list("prefer")?)?,
            confidence: parameters.number("confidence")?,
            draws: whole("bootstrap")?,
            least: whole("least")?,
            hold: parameters.number("hold")?,
            ties: match parameters.text("tie")? {
                "earlier" => true,
                "exact" => false,
                other => return Err(unknown_choice("tie", other)),
            },
            falls_back: match parameters.text("none")? {
                "base" => true,
                "fail" => false,
                other => return Err(unknown_choice("none", other)),
            },
            seed: parameters.integer("seed")? as u64,
        })
    }
}
