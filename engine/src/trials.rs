//! The state of sweeps: the scores of their trials, and the best one. All of it follows
//! from the results in the cache.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cache::Cache;
use serde::Serialize;

use crate::engine::{Engine, EngineError};
use crate::pipeline::{Pipeline, StageId, StageSpec, Sweep, TrialPosition};
use crate::plan::Plan;
use crate::plan::planner::Planner;
use crate::plan::sweep::Measured;
use crate::reason::Reason;
use crate::sweep::halving::{Fate, Score, Scores};

/// A sweep and its trials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepState {
    pub sweep: String,
    /// The written name of the stage of the trials.
    pub stage: String,
    /// The measure, and the stage that it is read from.
    pub score: Option<String>,
    pub of: Option<String>,
    pub better: &'static str,
    pub rungs: Vec<Rung>,
    pub trials: Vec<Row>,
    /// The number of the best trial, once no other can be better.
    pub winner: Option<String>,
    /// Nothing is left to do.
    pub is_decided: bool,
    /// The most that all rungs train, relative to whole trainings of all trials.
    pub share: f64,
    #[serde(skip)]
    pub number: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rung {
    pub rung: String,
    /// The steps or the share of the training; nothing for the whole.
    pub until: Option<String>,
    /// The number of trials that it has room for.
    pub places: usize,
    pub scored: usize,
    pub failed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialState {
    /// It depends on scores that are not known yet.
    Open,
    /// Other trials are better.
    Out,
    Failed,
    /// It took part in the last rung.
    Finalist,
    Winner,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub trial: String,
    pub values: BTreeMap<String, String>,
    pub state: TrialState,
    /// By rung; nothing where it took no part.
    pub scores: Vec<Option<f64>>,
    /// With other seeds.
    pub repeats: Vec<Option<f64>>,
    /// Of the last rung and its repeats, and their sample standard deviation.
    pub mean: Option<f64>,
    pub spread: Option<f64>,
    pub failure: Option<String>,
    /// In [`Sweep::trials`].
    #[serde(skip)]
    pub number: usize,
}

impl Row {
    /// The score of the highest rung, which is that of all seeds if there are several.
    pub fn best(&self) -> Option<f64> {
        self.mean.or_else(|| self.scores.iter().rev().find_map(|score| *score))
    }

    /// The number of rungs that it has a score for.
    pub fn reached(&self) -> usize {
        self.scores.iter().rposition(Option::is_some).map_or(0, |rung| rung + 1)
    }
}

impl TrialState {
    pub fn told(self) -> &'static str {
        match self {
            TrialState::Open => "open",
            TrialState::Out => "out",
            TrialState::Failed => "failed",
            TrialState::Finalist => "finalist",
            TrialState::Winner => "winner",
        }
    }
}

/// The sweeps of a pipeline by a plan of all its stages.
pub fn sweep_states(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    plan: &Plan,
) -> Result<Vec<SweepState>, EngineError> {
    let planner = Planner::new(engine, pipeline, cache)?;
    let standing = |(number, sweep): (usize, &Sweep)| {
        let found = TrialReader { planner: &planner, plan, pipeline, sweep, number }.sweep_state();
        found.map_err(|error| error.at(sweep.stage.clone()))
    };
    pipeline.sweeps.iter().enumerate().map(standing).collect()
}

/// The stage that trains a trial, at the highest rung that it takes part in.
pub fn trained<'a>(
    pipeline: &'a Pipeline,
    standing: &SweepState,
    row: &Row,
) -> Option<&'a StageSpec> {
    let rung = row.reached().max(1) - 1;
    let place = TrialPosition { sweep: standing.number, trial: row.number, rung };
    let is_it = |spec: &&StageSpec| spec.place == Some(place) && spec.written() == standing.stage;
    pipeline.stages.iter().find(is_it)
}

struct TrialReader<'a> {
    planner: &'a Planner<'a>,
    plan: &'a Plan,
    pipeline: &'a Pipeline,
    sweep: &'a Sweep,
    number: usize,
}

impl TrialReader<'_> {
    fn sweep_state(&self) -> Result<SweepState, crate::error::PlanError> {
        let (sweep, stages) = (self.sweep, &self.plan.stages);
        let scores = self.planner.scores(sweep, stages)?;
        let mut trials = Vec::new();
        for (number, trial) in sweep.trials.iter().enumerate() {
            let values = trial.values.iter().map(|(name, value)| (name.to_string(), value));
            let mut row = Row {
                trial: trial.number.clone(),
                values: values.map(|(name, value)| (name, value.to_string())).collect(),
                state: TrialState::Open,
                scores: vec![None; sweep.rungs()],
                repeats: vec![None; sweep.repeats],
                mean: None,
                spread: None,
                failure: self.failure(number),
                number,
            };
            for rung in 0..sweep.rungs() + sweep.repeats {
                let value = match self.measured(rung, number)? {
                    Some(Ok(value)) => Some(value),
                    Some(Err(why)) => {
                        row.failure.get_or_insert(why);
                        None
                    }
                    None => None,
                };
                match rung.checked_sub(sweep.rungs()) {
                    None => row.scores[rung] = value,
                    Some(repeat) => row.repeats[repeat] = value,
                }
            }
            (row.mean, row.spread) = spread(&row);
            row.state = state(sweep, number, &scores);
            trials.push(row);
        }
        let is_decided = sweep.score.is_some()
            && sweep.halving.ready(&scores).is_empty()
            && trials.iter().all(|row| row.state != TrialState::Finalist || self.is_repeated(row));
        let winner = winner(sweep, &trials).filter(|_| is_decided);
        if let Some(winner) = winner {
            trials[winner].state = TrialState::Winner;
        }
        Ok(SweepState {
            sweep: sweep.name.clone(),
            stage: sweep.stage.clone(),
            score: sweep.score.as_ref().map(|score| score.text.clone()),
            of: sweep.score.as_ref().map(|score| score.stage.clone()),
            better: match &sweep.score {
                Some(score) if score.is_higher_better => "higher",
                _ => "lower",
            },
            rungs: (0..sweep.rungs()).map(|rung| self.rung(rung, &scores)).collect(),
            winner: winner.map(|winner| sweep.trials[winner].number.clone()),
            trials,
            is_decided,
            share: sweep.halving.share(sweep.repeats),
            number: self.number,
        })
    }

    fn rung(&self, rung: usize, scores: &Scores) -> Rung {
        let own = || scores.range((rung, 0)..(rung + 1, 0)).map(|(_, score)| *score);
        let until = self.sweep.until.get(rung);
        let is_part =
            |value: &&stage_core::ParameterValue| **value != stage_core::ParameterValue::Absent;
        Rung {
            rung: self.sweep.label(rung),
            until: until.filter(is_part).map(ToString::to_string),
            places: self.sweep.halving.places(rung),
            scored: own().filter(|score| *score != Score::Failed).count(),
            failed: own().filter(|score| *score == Score::Failed).count(),
        }
    }

    fn measured(
        &self,
        rung: usize,
        trial: usize,
    ) -> Result<Option<Measured>, crate::error::PlanError> {
        let Some(score) = &self.sweep.score else { return Ok(None) };
        let Some(id) = score.stages.get(&(rung, trial)) else { return Ok(None) };
        self.planner.measured(score, *id, &self.plan.stages)
    }

    fn is_repeated(&self, row: &Row) -> bool {
        let has_score = |repeat: usize| {
            let measured = self.measured(self.sweep.rungs() + repeat, row.number);
            measured.is_ok_and(|measured| measured.is_some())
        };
        (0..self.sweep.repeats).all(has_score)
    }

    /// The recorded failure of a stage of the trial.
    fn failure(&self, trial: usize) -> Option<String> {
        let is_own = |id: &StageId| {
            let place = self.pipeline.stage(*id).place;
            place.is_some_and(|place| (place.sweep, place.trial) == (self.number, trial))
        };
        let mut reasons =
            self.pipeline.ids().filter(is_own).flat_map(|id| &self.plan.stage(id).reasons);
        reasons.find_map(|reason| match reason {
            Reason::TrialFailed { message } => Some(message.clone()),
            _ => None,
        })
    }
}

fn state(sweep: &Sweep, trial: usize, scores: &Scores) -> TrialState {
    for rung in 0..sweep.rungs() {
        match sweep.halving.fate(rung, trial, scores) {
            Fate::On => {}
            _ if rung == sweep.last_rung() && scores.get(&(rung, trial)).is_some_and(is_valid) => {
                return TrialState::Finalist;
            }
            Fate::Open => return TrialState::Open,
            Fate::Out if scores.get(&(rung, trial)).is_some_and(|score| !is_valid(score)) => {
                return TrialState::Failed;
            }
            Fate::Out => return TrialState::Out,
        }
    }
    TrialState::Finalist
}

fn is_valid(score: &Score) -> bool {
    *score != Score::Failed
}

/// The best by the highest rung, then by its score over all seeds; the earlier one of equals.
fn winner(sweep: &Sweep, trials: &[Row]) -> Option<usize> {
    let sign = match &sweep.score {
        Some(score) if score.is_higher_better => -1.0,
        _ => 1.0,
    };
    let by_score = |one: &Row, other: &Row| match (one.best(), other.best()) {
        (Some(one), Some(other)) => (sign * one).total_cmp(&(sign * other)),
        _ => Ordering::Equal,
    };
    // A finalist with a failed seed is worse than one without.
    let lacks = |row: &Row| row.repeats.iter().filter(|score| score.is_none()).count();
    let scored = trials.iter().enumerate().filter(|(_, row)| row.best().is_some());
    let best = scored.min_by(|(at, one), (to, other)| {
        let rung = other.reached().cmp(&one.reached());
        let order = rung.then(lacks(one).cmp(&lacks(other))).then_with(|| by_score(one, other));
        order.then(at.cmp(to))
    });
    best.map(|(at, _)| at)
}

/// The mean of the last rung and its repeats, and their standard deviation.
fn spread(row: &Row) -> (Option<f64>, Option<f64>) {
    let last = row.scores.last().copied().flatten();
    let values: Vec<f64> = last.into_iter().chain(row.repeats.iter().copied().flatten()).collect();
    if last.is_none() || values.len() < 2 {
        return (None, None);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (Some(mean), Some((squares / (count - 1.0)).sqrt()))
}
