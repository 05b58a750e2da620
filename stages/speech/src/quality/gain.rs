//! `quality.gain`: the gain of each model over the untuned base.

use serde::Serialize;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, PortOutput, Setup,
    StageError,
};
use stage_formats::checkpoint::STEP;

use super::ceiling::{Ceiling, TextLengths, ceilings, items_on, unmeasured};
use super::choose::place;
use super::paired::{MeasureText, Measures, compare_with_base};
use crate::plain::{JSON, to_json};
use crate::statistics::bootstrap::Draws;
use crate::statistics::table::SentenceTable;

struct Gain {
    base: String,
    measures: Vec<MeasureText>,
    confidence: f64,
    draws: usize,
    seed: u64,
    /// Sentences that a model lacks are left out and told; otherwise they fail the stage.
    tells_missing: bool,
}

#[derive(Debug, Serialize)]
struct GainReport {
    base: String,
    confidence: f64,
    draws: usize,
    sentences: usize,
    models: Vec<ModelGain>,
    /// What the judges say of real recordings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ceilings: Vec<Ceiling>,
    /// Those of the sentences, and of the recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    lengths: Option<GainLengths>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct GainLengths {
    sentences: TextLengths,
    recordings: TextLengths,
}

#[derive(Debug, Serialize)]
struct ModelGain {
    id: String,
    step: f64,
    measures: Measures,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let measures: Result<Vec<MeasureText>, StageError> =
        parameters.texts("measures")?.into_iter().map(MeasureText::read).collect();
    Ok(Job::Gather(Box::new(Gain {
        base: parameters.text("base_name")?.to_owned(),
        measures: measures?,
        confidence: parameters.number("confidence")?,
        draws: parameters.integer("bootstrap")?.max(1) as usize,
        seed: parameters.integer("seed")? as u64,
        tells_missing: parameters.text("missing")? == "report",
    })))
}

impl GatherJob for Gain {
    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        let table = SentenceTable::of(items, place);
        let table = table.map_err(|twice| StageError::failed(twice.to_string()))?;
        if !table.has(&self.base) && !self.tells_missing {
            return Err(StageError::with_help(
                format!("the base `{}` has no sentences", self.base),
                "name the untuned model on the port `base` of `model.audition`",
            ));
        }
        let mut models = Vec::new();
        for id in table.candidates() {
            let measures = if self.tells_missing {
                self.compare(id, &table.shared(&[id, &self.base]))
            } else {
                self.compare(id, &table)
            }?;
            let own = items.iter().find(|item| place(item).0 == id);
            let step = own.and_then(|item| item.fields.number(STEP)).unwrap_or(0.0);
            models.push(ModelGain { id: id.to_owned(), step, measures });
        }
        models.sort_by(|one, other| {
            let first = |model: &ModelGain| model.id != self.base;
            (first(one), one.step)
                .partial_cmp(&(first(other), other.step))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then_with(|| one.id.cmp(&other.id))
        });
        let ceilings = ceilings(&input, &self.measures, (self.draws, self.seed), self.confidence)?;
        let lengths = GainLengths::of(items, items_on(&input, "recordings")?);
        let mut warnings = self.warnings(&table);
        warnings.extend(unmeasured(&ceilings, &self.measures));
        warnings.extend(lengths.as_ref().and_then(GainLengths::warning));
        let notes = warnings.iter().map(|warning| (warning.clone(), 1)).collect();
        let report = GainReport {
            base: self.base.clone(),
            confidence: self.confidence,
            draws: self.draws,
            sentences: table.sentences.len(),
            models,
            ceilings,
            lengths,
            warnings,
        };
        let json = ("report".to_owned(), NewValue::bytes(JSON, to_json(&report)?));
        let output = GatherOutput::default().with("output", PortOutput::Artifact(vec![json]));
        Ok(GatherOutput { notes, ..output })
    }
}

impl GainLengths {
    /// None if the sentences or the recordings have no texts.
    fn of(sentences: &[Item], recordings: &[Item]) -> Option<GainLengths> {
        let (sentences, recordings) = (TextLengths::of(sentences)?, TextLengths::of(recordings)?);
        Some(GainLengths { sentences, recordings })
    }

    fn warning(&self) -> Option<String> {
        self.sentences.warning(self.recordings)
    }
}

impl Gain {
    /// The measures of a model on the sentences of a table; none without any.
    fn compare(&self, id: &str, table: &SentenceTable<'_>) -> Result<Measures, StageError> {
        if table.sentences.is_empty() {
            return Ok(Measures::new());
        }
        let draws = Draws::new(table.sentences.len(), self.draws, self.seed);
        let names = (id, self.base.as_str());
        compare_with_base(&self.measures, names, table, &draws, self.confidence)
            .map_err(|missing| incomplete(id, &missing))
    }

    /// The models that lack sentences, the base among them.
    fn warnings(&self, table: &SentenceTable<'_>) -> Vec<String> {
        let all = table.sentences.len();
        let mut names: Vec<&str> = table.candidates().collect();
        if !names.contains(&self.base.as_str()) {
            names.insert(0, &self.base);
        }
        let lacking = names.into_iter().filter_map(|name| {
            let own = table.shared(&[name]).sentences.len();
            (own < all).then(|| {
                format!(
                    "`{name}` lacks {} of {all} sentences: models are compared on those that they and \
                     `{}` have",
                    all - own,
                    self.base
                )
            })
        });
        lacking.collect()
    }
}

fn incomplete(model: &str, missing: &impl std::fmt::Display) -> StageError {
    StageError::with_help(
        format!("`{model}` cannot be compared: {missing}"),
        "models are compared on sentences that each of them has, with all measures: use only measures \
         that every model has in each sentence (an untuned one may lack some), set `missing = \"report\"` to \
         compare on the sentences that there are, or leave a sentence out of all models by \
         `dataset.filter` with `none_of` on its field `sentence`",
    )
}
