//! The trials of a sweep as runs for TensorBoard, and for the trackers that read its files: a folder
//! for each trial, with its values as hyperparameters, its scores, and the log of its training.

use cache::fs::Confined;
use camino::Utf8Path;
use engine::pipeline::{Pipeline, StageSpec, TrialPosition};
use engine::plan::{Plan, PlannedValue};
use engine::store::Store;
use engine::trials::{Row, SweepState, TrialState};
use stage_core::course;
use stage_formats::FormatError;
use stage_formats::tensorboard::{EventWriter, HyperParameter, Moment, file_name};

use crate::error::CliError;
use crate::setup::init::{new_folder, write};

/// The output of a training with its event file, and the field.
const LOG: (&str, &str) = ("log", "events");
const SCORE: &str = "score";
const SUFFIX: &str = "throstle";

pub struct Runs<'a> {
    pub pipeline: &'a Pipeline,
    pub store: &'a Store,
    pub plan: &'a Plan,
}

impl Runs<'_> {
    /// Writes a folder for each trial with a score, and for each of its repeats; returns their
    /// number. Existing files of the same runs are replaced.
    pub fn write(&self, standing: &SweepState, folder: &Utf8Path) -> Result<usize, CliError> {
        let (mut written, runs) = (0, &new_folder(folder)?);
        for row in &standing.trials {
            let scores: Vec<(usize, f64)> = row
                .scores
                .iter()
                .enumerate()
                .filter_map(|(rung, score)| Some((rung, (*score)?)))
                .collect();
            if scores.is_empty() && row.state != TrialState::Failed {
                continue;
            }
            let rung = row.reached().max(1) - 1;
            self.run(standing, row, rung, &scores, (runs, folder))?;
            written += 1;
            for (repeat, score) in row.repeats.iter().enumerate() {
                let Some(score) = score else { continue };
                let rung = standing.rungs.len() + repeat;
                self.run(standing, row, rung, &[(rung, *score)], (runs, folder))?;
                written += 1;
            }
        }
        Ok(written)
    }

    fn run(
        &self,
        standing: &SweepState,
        row: &Row,
        rung: usize,
        scores: &[(usize, f64)],
        (runs, folder): (&Confined, &Utf8Path),
    ) -> Result<(), CliError> {
        let group = format!("trial-{}", row.trial);
        let name = match rung.checked_sub(standing.rungs.len()) {
            Some(repeat) => format!("{group}-repeat{}", repeat + 1),
            None => group.clone(),
        };
        let log = self.stage(standing, row, rung).and_then(|spec| self.log(spec));
        let failed = |error: FormatError| {
            CliError::failed(
                format!("cannot write the run of {group}: {error}"),
                "report this as a bug",
            )
        };
        let moment = |step: u64| Moment { step, seconds: step as f64 };
        let mut writer = match log {
            Some(log) => EventWriter::resume(log),
            None => EventWriter::new(Vec::new(), 0.0).map_err(failed)?,
        };
        let values = row.values.iter().map(|(name, value)| (name.clone(), parameter(value)));
        writer.session(moment(0), values, &group).map_err(failed)?;
        let mut last = 0;
        for (rung, score) in scores {
            last = self.step(standing, row, *rung);
            writer.scalars(moment(last), [(SCORE, *score)]).map_err(failed)?;
        }
        writer.session_end(moment(last), row.state == TrialState::Failed).map_err(failed)?;
        let bytes = writer.finish().map_err(failed)?;
        let folder = folder.join(name);
        write(runs, &folder.join(file_name(0, SUFFIX)), &bytes)
    }

    fn stage(&self, standing: &SweepState, row: &Row, rung: usize) -> Option<&StageSpec> {
        let place = TrialPosition { sweep: standing.number, trial: row.number, rung };
        let is_it =
            |spec: &&StageSpec| spec.place == Some(place) && spec.written() == standing.stage;
        self.pipeline.stages.iter().find(is_it)
    }

    /// The event file of a finished training, if it is in the cache.
    fn log(&self, spec: &StageSpec) -> Option<Vec<u8>> {
        let PlannedValue::Artifact(fields) = self.plan.stage(spec.id).known.outputs.get(LOG.0)?
        else {
            return None;
        };
        let blob = fields.blob(LOG.1)?;
        self.store.read(&blob.digest).ok().map(|bytes| bytes.to_vec())
    }

    /// The last step of a rung, or its number if that is not known.
    fn step(&self, standing: &SweepState, row: &Row, rung: usize) -> u64 {
        let steps = self.stage(standing, row, rung).and_then(|spec| {
            let steps = spec.parameters.integer("steps").ok()?.max(1) as u64;
            Some(course::until(&spec.parameters, steps).ok()?.unwrap_or(steps))
        });
        steps.unwrap_or(rung as u64 + 1)
    }
}

/// Numbers and flags are compared as such.
fn parameter(value: &str) -> HyperParameter {
    match (value.parse::<f64>(), value) {
        (Ok(number), _) => HyperParameter::Number(number),
        (_, "true") => HyperParameter::Flag(true),
        (_, "false") => HyperParameter::Flag(false),
        (_, text) => HyperParameter::Text(text.trim_matches('"').to_owned()),
    }
}
