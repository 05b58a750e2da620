//! `quality.choose`: the checkpoint that speaks best, by measures of its sentences and not by loss.
//!
//! Requirements leave out candidates that are not shown to be good enough, the preferred measures
//! order the rest, and of equal ones the earlier step wins. A missing value is never ignored: for
//! the base it is an error, and it excludes a candidate.

mod candidate;
pub mod kinds;
mod options;
mod prefer;
mod report;
mod require;
#[cfg(test)]
mod tests;

use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, PortOutput, Setup,
    StageError,
};

use self::candidate::{Candidate, candidates};
pub use self::options::{CandidateWords, ChoiceOptions};
use self::prefer::preferred;
use self::report::ChoiceReport;
use crate::dataset::is_held;
use crate::plain::{JSON, to_json};
use crate::statistics::bootstrap::Draws;
use crate::statistics::table::SentenceTable;

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Gather(Box::new(ChoiceOptions::read(&setup.parameters)?)))
}

/// The candidate and the sentence of an item of `model.audition`.
pub fn place(item: &Item) -> (&str, &str) {
    let text = |name: &str| item.fields.text(name).unwrap_or_default();
    (text("checkpoint"), text("sentence"))
}

/// The outcome: the position of a candidate, or none.
pub struct Choice {
    pub chosen: Option<usize>,
    pub candidates: Vec<Candidate>,
    pub report: ChoiceReport,
}

/// Chooses among candidates by their measured sentences.
pub fn choose(
    items: &[Item],
    checkpoints: &[Item],
    options: &ChoiceOptions,
) -> Result<Choice, StageError> {
    let table = |is_held_wanted: bool| -> Result<SentenceTable<'_>, StageError> {
        let table = SentenceTable::of(items, place);
        let mut table = table.map_err(|twice| StageError::failed(twice.to_string()))?;
        table.keep(|sentence| is_held("choice", sentence, options.hold) == is_held_wanted);
        Ok(table)
    };
    let (own, fresh) = (table(false)?, table(true)?);
    check_count(&own, &fresh, options)?;
    if !own.has(&options.base) {
        return Err(StageError::with_help(
            format!("the base `{}` has no sentences", options.base),
            "name the untuned model on the port `base` of `model.audition`",
        ));
    }
    let mut candidates = candidates(&own, checkpoints, &options.base)?;
    let draws = Draws::new(own.sentences.len(), options.draws, options.seed);
    for rule in &options.require {
        rule.judge(&mut candidates, &own, &draws, options)?;
    }
    let chosen = preferred(&mut candidates, &own, &draws, options)?;
    let report = ChoiceReport::of(chosen, &candidates, (&own, &fresh), &draws, options)?;
    Ok(Choice { chosen, candidates, report })
}

fn check_count(
    own: &SentenceTable<'_>,
    fresh: &SentenceTable<'_>,
    options: &ChoiceOptions,
) -> Result<(), StageError> {
    let (found, least) = (own.sentences.len(), options.least.max(1));
    if found >= least {
        return Ok(());
    }
    let kept = match fresh.sentences.len() {
        0 => String::new(),
        kept => format!(" (and {kept} kept for the report)"),
    };
    Err(StageError::with_help(
        format!("sentences to choose by: {found}{kept}, expected at least {least}"),
        "a mean of few sentences says little: speak more sentences, lower `hold`, or lower `least`",
    ))
}

impl GatherJob for ChoiceOptions {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        self.hear(&input, context)?;
        let checkpoints = input.items("checkpoints")?;
        let choice = choose(input.items("input")?, checkpoints, self)?;
        let chosen = choice.chosen.map(|at| &choice.candidates[at]);
        let name = chosen.map_or(&*self.base, |candidate| &*candidate.id);
        let model = match chosen.and_then(|candidate| candidate.checkpoint) {
            Some(at) => &checkpoints[at].fields,
            None => self.fallback(&choice, input.artifact("base"))?,
        };
        let kept =
            model.iter().map(|(name, value)| (name.to_string(), NewValue::Kept(value.clone())));
        let model = PortOutput::Artifact(kept.collect());
        choice.output(name, ("model", model))
    }
}

impl Choice {
    /// The error that has the reasons why no candidate is chosen, or only the base.
    pub fn refused(&self) -> StageError {
        let others = self.candidates.iter().filter(|candidate| !candidate.is_base());
        let out = others.filter_map(|candidate| {
            Some(format!("`{}`: {}", candidate.id, candidate.out.as_deref()?))
        });
        let reasons = out.collect::<Vec<_>>().join("; ");
        let fault = match self.chosen {
            Some(_) => "the untuned base speaks best",
            None => "no candidate meets the requirements",
        };
        StageError::with_help(
            format!("{fault}: {reasons}"),
            "train for longer or on other clips, or relax `require`",
        )
    }

    /// The report and the name of the chosen one, beside what was chosen.
    pub fn output(
        &self,
        name: &str,
        (port, chosen): (&str, PortOutput),
    ) -> Result<GatherOutput, StageError> {
        let report = PortOutput::Artifact(vec![
            ("report".to_owned(), NewValue::bytes(JSON, to_json(&self.report)?)),
            ("chosen".to_owned(), NewValue::Text(name.to_owned())),
        ]);
        let output = GatherOutput::default().with(port, chosen).with("report", report);
        let told = self.report.warnings.iter().cloned();
        let notes = std::iter::once(format!("chose `{name}`")).chain(told);
        Ok(GatherOutput { notes: notes.map(|note| (note, 1)).collect(), ..output })
    }
}

impl ChoiceOptions {
    /// The model if no candidate is good enough.
    fn fallback<'a>(
        &self,
        choice: &Choice,
        base: Option<&'a Fields>,
    ) -> Result<&'a Fields, StageError> {
        match (base, self.falls_back) {
            (Some(base), true) => Ok(base),
            (None, true) => Err(StageError::with_help(
                format!(
                    "{}; and there is no model on port `base` for `none = \"base\"`",
                    choice.refused()
                ),
                "name the untuned model: `base = \"…\"`; for checkpoints that are adapters, set \
                 `none = \"fail\"`",
            )),
            (_, false) => Err(choice.refused()),
        }
    }
}
