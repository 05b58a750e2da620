//! The reports of training stages: figures by step, and the kept checkpoints.

use std::collections::BTreeMap;

use engine::event::Event;
use engine::history;
use engine::record::{RunRecord, StageRecord};
use engine::store::{ReadError, Store};
use serde_json::Value;
use stage_core::{PortType, Work};

use super::chart::{Curve, LINES};
use super::run_data::{RunData, StageData, events, json};

/// The port with the figures of a finished training, and its JSON part.
const LOG: (&str, &str) = ("log", "metrics");
const CHECKPOINTS: &str = "checkpoints";
/// The prefix of measurements before the first step, which are no curve.
const PREFLIGHT: &str = "preflight/";

/// The figures of a step.
type Figures = (u64, BTreeMap<String, f64>);

/// One training stage.
#[derive(Clone, Debug, Default)]
pub struct TrainingReport {
    pub stage: String,
    pub curves: BTreeMap<String, Curve>,
    /// `None` for a training that has not finished, or that reports only figures.
    pub ended: Option<TrainingResult>,
    pub checkpoints: Vec<CheckpointRow>,
}

/// The results of a finished training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingResult {
    pub steps: u64,
    pub passes: Option<f64>,
    pub stopped_early: bool,
    pub skipped: u64,
    /// The step at which it returned to its best state.
    pub went_back: Option<u64>,
    pub held_out: Option<f64>,
    pub best: Option<(u64, f64)>,
}

/// A kept checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointRow {
    pub id: String,
    pub step: u64,
    pub held_out: Option<f64>,
}

/// The training stages with anything to show.
pub fn trainings(seen: &RunData) -> Result<Vec<TrainingReport>, ReadError> {
    let stages = seen.stages.iter().filter(|stage| stage.spec.kind.work == Work::Train);
    let trainings = stages.map(|stage| training(seen, stage)).collect::<Result<Vec<_>, _>>()?;
    Ok(trainings.into_iter().filter(|training| !training.curves.is_empty()).collect())
}

fn training(seen: &RunData, stage: &StageData) -> Result<TrainingReport, ReadError> {
    let mut training =
        TrainingReport { stage: stage.spec.name.clone(), ..TrainingReport::default() };
    let log = stage.outcome.as_ref().map(|outcome| json(seen.store, outcome, LOG)).transpose()?;
    match log.flatten() {
        Some(log) => training.read(&log),
        None => training.listen(seen, stage)?,
    }
    let ports = &stage.spec.kind.outputs;
    if ports.iter().any(|port| port.name == CHECKPOINTS && port.port_type == PortType::Dataset) {
        for item in seen.items(stage.spec.id, CHECKPOINTS)? {
            let step = item.fields.number("step").unwrap_or(0.0).max(0.0) as u64;
            let held_out = item.fields.number("held_out");
            training.checkpoints.push(CheckpointRow { id: item.id.to_string(), step, held_out });
        }
        training.checkpoints.sort_by_key(|checkpoint| checkpoint.step);
    }
    Ok(training)
}

impl TrainingResult {
    /// The results of the training with this outcome; `None` if it has none.
    pub fn read(store: &Store, outcome: &StageRecord) -> Result<Option<TrainingResult>, ReadError> {
        Ok(json(store, outcome, LOG)?.as_ref().map(TrainingResult::of))
    }

    /// The names of its figures.
    pub const FIGURES: [&str; 3] = ["steps", "last held-out loss", "best held-out loss"];

    /// Its figures by their names.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let figures = [Some(self.steps as f64), self.held_out, self.best.map(|(_, loss)| loss)];
        TrainingResult::FIGURES
            .into_iter()
            .zip(figures)
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }

    fn of(log: &Value) -> TrainingResult {
        let count = |name: &str| log[name].as_u64().unwrap_or(0);
        TrainingResult {
            steps: count("steps"),
            passes: log["passes"].as_f64(),
            stopped_early: log["stopped_early"].as_bool().unwrap_or(false),
            skipped: count("skipped"),
            went_back: log["went_back"].as_u64(),
            held_out: log["held_out"].as_f64(),
            best: log["best"]["step"].as_u64().zip(log["best"]["held_out"].as_f64()),
        }
    }
}

impl TrainingReport {
    fn add(&mut self, name: &str, step: f64, value: f64) {
        if !name.starts_with(PREFLIGHT) {
            let curve = self.curves.entry(name.to_owned()).or_default();
            curve.name = name.to_owned();
            curve.points.push((step, value));
        }
    }

    fn read(&mut self, log: &Value) {
        self.ended = Some(TrainingResult::of(log));
        for values in log["values"].as_array().into_iter().flatten().filter_map(Value::as_object) {
            let Some(step) = values.get("step").and_then(Value::as_f64) else { continue };
            for (name, value) in values.iter().filter(|(name, _)| *name != "step") {
                if let Some(value) = value.as_f64() {
                    self.add(name, step, value);
                }
            }
        }
    }

    /// The figures in the logs of the runs that trained, if the training left none.
    fn listen(&mut self, seen: &RunData, stage: &StageData) -> Result<(), ReadError> {
        let run = match (&stage.last, stage.counts.executed) {
            (Some(last), 0) if stage.outcome.is_some() => last.run,
            _ => seen.run.run,
        };
        let runs = history::runs(seen.store.cache()).map_err(ReadError::Cache)?;
        let own =
            |earlier: &&RunRecord| earlier.pipeline == seen.run.pipeline && earlier.run <= run;
        let logs = runs.iter().rev().filter(own).map(|run| events(seen.store, run.run));
        for (step, values) in joined(logs, &self.stage)? {
            values.iter().for_each(|(name, value)| self.add(name, step as f64, *value));
        }
        Ok(())
    }

    /// Tests if the losses of training and of held-out clips are comparable. They are not if one is
    /// a sum of many terms and the other a distance of spectrograms.
    fn has_one_loss(&self) -> bool {
        let largest = |name: &str| {
            let points = self.curves.get(name).map_or(&[][..], |curve| &curve.points);
            points.iter().map(|(_, value)| value.abs()).fold(0.0, f64::max)
        };
        let (loss, held_out) = (largest("loss"), largest("held_out"));
        loss.max(held_out) < 8.0 * loss.min(held_out)
    }

    /// The curves of each chart, the losses first: curves with the same name before `/` share a
    /// chart. A chart has at most `LINES`.
    pub fn charts<'a>(&'a self) -> Vec<(String, Vec<&'a Curve>)> {
        let mut charts: Vec<(String, Vec<&'a Curve>)> = Vec::new();
        let mut add = |title: &str, curve| match charts.iter_mut().find(|(own, _)| own == title) {
            Some((_, curves)) => curves.push(curve),
            None => charts.push((title.to_owned(), vec![curve])),
        };
        let is_shown = |name: &&String| *name != "passes";
        for name in self.curves.keys().filter(is_shown) {
            let (family, part) =
                name.split_once('/').map_or((name.as_str(), false), |(f, _)| (f, true));
            let title = match (family, part) {
                ("held_out", false) if !self.has_one_loss() => "Held-out loss",
                ("loss" | "held_out", false) => "Loss",
                ("loss", true) => "Parts of the loss",
                ("held_out", true) => "Parts of the held-out loss",
                ("rate", _) => "Learning rate",
                ("gradient_norm", _) => "Norm of the gradients",
                (other, _) => other,
            };
            add(title, &self.curves[name]);
        }
        for (_, curves) in &mut charts {
            // Training loss before held-out loss.
            curves.sort_by_key(|curve| curve.name == "held_out");
        }
        // The order of interest: results, settings, the rest.
        charts.sort_by_key(|(title, _)| match title.as_str() {
            "Loss" => 0,
            "Held-out loss" => 1,
            "Learning rate" => 2,
            "Norm of the gradients" => 3,
            title if title.starts_with("Parts") => 4,
            _ => 5,
        });
        let parts = |(title, curves): (String, Vec<&'a Curve>)| {
            let parts: Vec<Vec<&Curve>> = curves.chunks(LINES).map(<[_]>::to_vec).collect();
            parts.into_iter().map(move |curves| (title.clone(), curves))
        };
        charts.into_iter().flat_map(parts).collect()
    }
}

/// The figures of a training without a log of its own, from the logs of the runs, newest first: a
/// stopped training continued in a later run, from a step before the last logged one.
fn joined(
    logs: impl Iterator<Item = Result<Vec<Event>, ReadError>>,
    stage: &str,
) -> Result<Vec<Figures>, ReadError> {
    let mut figures: Vec<Figures> = Vec::new();
    for log in logs {
        let log = log?;
        let is_end = |event: &Event| matches!(event, Event::StageFinished { stage: own, .. } if own == stage);
        if !figures.is_empty() && log.iter().any(is_end) {
            break;
        }
        let next = figures.first().map_or(u64::MAX, |(step, _)| *step);
        let own = log.into_iter().filter_map(|event| match event {
            Event::Metrics { stage: own, step, values } if own == stage && step < next => {
                Some((step, values))
            }
            _ => None,
        });
        let is_trained =
            |(_, values): &Figures| values.keys().any(|name| !name.starts_with(PREFLIGHT));
        let own: Vec<Figures> = own.filter(is_trained).collect();
        figures.splice(0..0, own);
        if figures.first().is_some_and(|(step, _)| *step <= 1) {
            break;
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_log_is_read_by_step_and_by_name() {
        let mut training = TrainingReport::default();
        training.read(&json!({
            "steps": 3, "passes": 1.5, "stopped_early": true, "skipped": 1, "went_back": null,
            "held_out": 2.5, "best": {"step": 2, "held_out": 2.0},
            "values": [
                {"step": 1, "loss": 3.0, "rate": 0.1, "preflight/loss": 9.0},
                {"step": 2, "loss": null, "held_out": 2.0, "loss/base": 1.0},
                {"step": 3, "loss": 1.0},
                "damaged", {"loss": 4.0},
            ],
        }));
        let ended = training.ended.as_ref().unwrap();
        assert_eq!((ended.steps, ended.best, ended.stopped_early), (3, Some((2, 2.0)), true));
        assert_eq!(training.curves["loss"].points, [(1.0, 3.0), (3.0, 1.0)]);
        let charts: Vec<(String, usize)> =
            training.charts().into_iter().map(|(title, curves)| (title, curves.len())).collect();
        let expected = [("Loss", 2), ("Learning rate", 1), ("Parts of the loss", 1)];
        assert_eq!(charts, expected.map(|(title, count)| (title.to_owned(), count)));
    }

    fn told(steps: &[u64], is_finished: bool) -> Result<Vec<Event>, ReadError> {
        let stage = "voice".to_owned();
        let values = |step: u64| BTreeMap::from([("loss".to_owned(), 1.0 / step as f64)]);
        let metrics = |step: &u64| Event::Metrics {
            stage: stage.clone(),
            step: *step,
            values: values(*step),
        };
        let preflight = Event::Metrics {
            stage: stage.clone(),
            step: 0,
            values: BTreeMap::from([(format!("{PREFLIGHT}loss"), 9.0)]),
        };
        let (counts, notes) = Default::default();
        let finished = Event::StageFinished { stage: stage.clone(), counts, notes };
        let mut log = vec![preflight];
        log.extend(steps.iter().map(metrics));
        log.extend(is_finished.then_some(finished));
        Ok(log)
    }

    #[test]
    fn a_training_in_several_runs_has_all_its_figures_once() {
        let steps = |logs: Vec<Result<Vec<Event>, ReadError>>| -> Vec<u64> {
            joined(logs.into_iter(), "voice").unwrap().iter().map(|(step, _)| *step).collect()
        };
        // The last run repeated a step that had no checkpoint.
        let logs = vec![
            told(&[5, 6], false),
            told(&[], false),
            told(&[3, 4, 5], false),
            told(&[1, 2], false),
        ];
        assert_eq!(steps(logs), [1, 2, 3, 4, 5, 6]);
        let other = vec![told(&[1, 2], false), told(&[1, 2, 3], false)];
        assert_eq!(steps(other), [1, 2]);
        let ended = vec![told(&[5, 6], false), told(&[1, 2, 3, 4], true)];
        assert_eq!(steps(ended), [5, 6]);
    }

    #[test]
    fn losses_of_other_sizes_have_charts_of_their_own_and_all_parts_are_drawn() {
        let mut training = TrainingReport::default();
        training.add("loss", 1.0, 100.0);
        (0..=LINES).for_each(|part| training.add(&format!("loss/{part}"), 1.0, 100.0));
        training.add("held_out", 1.0, 3.0);
        let charts: Vec<(String, usize)> =
            training.charts().into_iter().map(|(title, curves)| (title, curves.len())).collect();
        let parts = "Parts of the loss";
        let expected = [("Loss", 1), ("Held-out loss", 1), (parts, LINES), (parts, 1)];
        assert_eq!(charts, expected.map(|(title, count)| (title.to_owned(), count)));
    }

    #[test]
    fn a_log_that_says_nothing_gives_no_curves() {
        for log in [json!({}), json!([1]), json!({"values": "x"})] {
            let mut training = TrainingReport::default();
            training.read(&log);
            assert!(training.curves.is_empty(), "{log}");
        }
    }
}
