//! The parameters of `quality.choose`.

use stage_core::{Context, GatherInput, Parameters, StageError};

use super::prefer::Preference;
use super::require::RequirementText;
use crate::plain::unknown_choice;
use crate::rate::RatingReport;

/// The parameters of a choice.
#[derive(Debug, Clone)]
pub struct ChoiceOptions {
    pub base: String,
    pub require: Vec<RequirementText>,
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
    /// The ranks of a listening test, if there was one.
    pub rated: Option<RatingReport>,
    pub words: CandidateWords,
}

/// The words for candidates in messages.
#[derive(Debug, Clone, Copy)]
pub struct CandidateWords {
    /// The reason why the first of equal candidates is chosen.
    pub first: &'static str,
}

const CHECKPOINTS: CandidateWords = CandidateWords { first: "is earlier" };

impl ChoiceOptions {
    /// The parameters of `quality.choose`.
    pub fn read(parameters: &Parameters) -> Result<ChoiceOptions, StageError> {
        ChoiceOptions::of(parameters, parameters.text("base_name")?, CHECKPOINTS)
    }

    /// The parameters of any choice, with the name of the base.
    pub fn of(
        parameters: &Parameters,
        base: &str,
        words: CandidateWords,
    ) -> Result<ChoiceOptions, StageError> {
        let whole = |name: &str| parameters.integer(name).map(|number| number.max(0) as usize);
        Ok(ChoiceOptions {
            base: base.to_owned(),
            require: RequirementText::read(&parameters.texts("require")?)?,
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
            rated: None,
            words,
        })
    }

    /// Reads the ranks by people on the port `rated`.
    pub fn hear(
        &mut self,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let Some(fields) = input.artifact("rated") else { return Ok(()) };
        let report = fields.blob("report").ok_or_else(|| {
            StageError::failed("the artifact on `rated` has no report of ratings")
        })?;
        let rated = serde_json::from_slice(&context.read(report)?).map_err(|error| {
            StageError::failed(format!("the ratings on `rated` cannot be read: {error}"))
        })?;
        self.rated = Some(rated);
        Ok(())
    }

    /// The ranks by people, if there are votes.
    pub fn heard(&self) -> Option<&RatingReport> {
        self.rated.as_ref().filter(|rated| rated.votes > 0)
    }
}
