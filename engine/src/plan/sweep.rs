//! The stages of a sweep that wait for scores, and those that do not run: other trials are better,
//! or their own has failed.
//!
//! All of it follows from the outcomes in the cache, so that a killed sweep goes on where it was,
//! and every process that shares the cache decides in the same way.

use crate::event::{Event, Verdict};
use cache::Digest;
use stage_core::Fields;
use stage_core::course::UNTIL;
use stage_core::key::{HashSink, Sink};
use stage_expression::Lacks;

use super::inputs::StageInputs;
use super::planner::Planner;
use super::stage::{StageKnowledge, StagePlan};
use super::value::PlannedValue;
use super::work::{StageIdentity, Work};
use crate::error::PlanError;
use crate::pipeline::{ScoreMeasure, StageId, StageSpec, Sweep, Tolerance, TrialPosition};
use crate::reason::Reason;
use crate::record::{FAILED, FAILED_HERE, FailedRecord, MEMO, decode, encode};
use crate::sweep::halving::{self, Fate, Part, Scores};

/// The score of a trial, or why it has none.
pub type Measured = Result<f64, String>;

impl Planner<'_> {
    /// The sweep that ranks the trial of a stage.
    pub fn ranking(&self, spec: &StageSpec) -> Option<&Sweep> {
        let sweep = &self.pipeline.sweeps[spec.place?.sweep];
        sweep.score.is_some().then_some(sweep)
    }

    /// The plan of a rung that does not run, or not yet.
    pub fn gated(
        &self,
        spec: &StageSpec,
        stages: &[impl AsRef<StageKnowledge>],
    ) -> Result<Option<StagePlan>, PlanError> {
        let (Some(place), false) = (spec.place, spec.gate.is_empty()) else { return Ok(None) };
        let sweep = &self.pipeline.sweeps[place.sweep];
        let is_repeat = place.rung >= sweep.rungs();
        let below = if is_repeat { sweep.last_rung() } else { place.rung - 1 };
        let Some(score) = &sweep.score else { return Ok(None) };
        let own = score.stages.get(&(below, place.trial)).and_then(|id| stages.get(id.0));
        let fate = match own.map(|own| own.as_ref().part) {
            Some(Part::In) if is_repeat => {
                match self.scores(sweep, stages)?.get(&(below, place.trial)) {
                    Some(halving::Score::Of(_)) => Fate::On,
                    Some(halving::Score::Failed) => Fate::Out,
                    None => Fate::Open,
                }
            }
            Some(Part::In) => sweep.halving.fate(below, place.trial, &self.scores(sweep, stages)?),
            _ => Fate::Out,
        };
        let (name, label) = (sweep.name.clone(), sweep.label(below));
        Ok(match fate {
            Fate::On => None,
            Fate::Out => {
                let reason = Reason::TrialOut { sweep: name, rung: label };
                Some(StagePlan::left_out(Part::Out, vec![reason]))
            }
            Fate::Open => Some(StagePlan {
                pending: 1,
                reasons: vec![Reason::AwaitsRung { sweep: name, rung: label }],
                work: Work::AwaitsInputs,
                ..StagePlan::unwanted()
            }),
        })
    }

    /// The scores that are known.
    pub fn scores(
        &self,
        sweep: &Sweep,
        stages: &[impl AsRef<StageKnowledge>],
    ) -> Result<Scores, PlanError> {
        let mut scores = Scores::new();
        let Some(score) = &sweep.score else { return Ok(scores) };
        for ((rung, trial), id) in &score.stages {
            if *rung >= sweep.rungs() {
                continue;
            }
            let found = match self.measured(score, *id, stages)? {
                None => continue,
                Some(Ok(value)) if score.is_higher_better => halving::Score::new(-value),
                Some(Ok(value)) => halving::Score::new(value),
                Some(Err(_)) => halving::Score::Failed,
            };
            scores.insert((*rung, *trial), found);
        }
        Ok(scores)
    }

    /// The score of a stage, once it is done; none for a stage that does not take part.
    pub fn measured(
        &self,
        score: &ScoreMeasure,
        id: StageId,
        stages: &[impl AsRef<StageKnowledge>],
    ) -> Result<Option<Measured>, PlanError> {
        let Some(known) = stages.get(id.0).map(AsRef::as_ref) else { return Ok(None) };
        let over = |fields: &[&Fields]| score.measure.over(fields).map_err(|lacks| told(&lacks));
        match (known.part, known.outputs.get(score.port)) {
            (Part::Failed, _) => Ok(Some(Err("a stage failed".to_owned()))),
            (Part::In, Some(PlannedValue::Artifact(fields))) => Ok(Some(over(&[fields]))),
            (Part::In, Some(PlannedValue::Root { root, .. })) => {
                let mut sink = HashSink::default();
                sink.text("score", &score.text);
                sink.digest("root", root);
                let memo = sink.finish();
                if let Some(known) = self.measured.borrow().get(&memo) {
                    return Ok(Some(known.clone()));
                }
                let kept = self.store.cache().get(MEMO, &memo)?;
                let kept = kept.and_then(|bytes| decode::<Measured>(&bytes));
                let is_new = kept.is_none();
                let found = match kept {
                    Some(found) => found,
                    None => over(&self.rows(root)?.iter().collect::<Vec<_>>()),
                };
                if is_new && !self.store.cache().is_read_only() {
                    self.store.cache().record(MEMO, &memo, encode(&found))?;
                }
                self.measured.borrow_mut().insert(memo, found.clone());
                Ok(Some(found))
            }
            _ => Ok(None),
        }
    }

    fn rows(&self, root: &Digest) -> Result<Vec<Fields>, PlanError> {
        let mut rows = Vec::new();
        for bucket in self.store.dataset(root)?.buckets {
            let items = self.store.chunk(&bucket.chunk)?.items;
            rows.extend(items.into_iter().map(|item| item.fields));
        }
        Ok(rows)
    }

    /// The recorded failure of a stage of a trial.
    pub fn failure(
        &self,
        spec: &StageSpec,
        keyed: &StageIdentity,
    ) -> Result<Option<StagePlan>, PlanError> {
        if self.ranking(spec).is_none() {
            return Ok(None);
        }
        let Some(message) = self.recorded_failure(spec, &keyed.digest)? else { return Ok(None) };
        let plan = StagePlan::left_out(Part::Failed, vec![Reason::TrialFailed { message }]);
        let known = StageKnowledge { keyed: Some(keyed.clone()), ..plan.known };
        Ok(Some(StagePlan { known, ..plan }))
    }

    fn recorded_failure(
        &self,
        spec: &StageSpec,
        key: &Digest,
    ) -> Result<Option<String>, PlanError> {
        let cache = self.store.cache();
        let record = match cache.get(FAILED, key)? {
            None => cache.get(FAILED_HERE, &failed_here_key(spec, key))?,
            known => known,
        };
        let record = record.and_then(|bytes| decode::<FailedRecord>(&bytes));
        Ok(record.map(|record| record.message))
    }

    /// The keys of the shorter trainings that a rung goes on from, longest first.
    pub fn prefixes(&self, spec: &StageSpec, keyed: &StageIdentity) -> Vec<Digest> {
        let (Some(place), false) = (spec.place, spec.gate.is_empty()) else { return Vec::new() };
        let sweep = &self.pipeline.sweeps[place.sweep];
        if place.rung >= sweep.rungs() {
            return Vec::new();
        }
        let with = |until: &stage_core::ParameterValue| {
            let mut key = keyed.key.clone();
            key.parameters.0.insert(UNTIL.to_owned(), until.clone());
            key.digest()
        };
        sweep.until[..place.rung].iter().rev().map(with).collect()
    }

    /// The first sweep in which every trial has failed, and why the first trial has.
    pub fn lost_sweep(
        &self,
        stages: &[impl AsRef<StageKnowledge>],
    ) -> Result<Option<LostSweep<'_>>, PlanError> {
        for (number, sweep) in self.pipeline.sweeps.iter().enumerate() {
            let Some(score) = &sweep.score else { continue };
            let scores = self.scores(sweep, stages)?;
            let has_failed = |trial| scores.get(&(0, trial)) == Some(&halving::Score::Failed);
            if !(0..sweep.trials.len()).all(has_failed) {
                continue;
            }
            let (stage, why) = match self.failed_stage(number, stages)? {
                Some(failed) => failed,
                None => (score.stage.clone(), self.without_score(score, stages)?),
            };
            return Ok(Some(LostSweep { sweep, stage, why }));
        }
        Ok(None)
    }

    /// The stage of the first trial of a sweep with a recorded failure, and its reason.
    fn failed_stage(
        &self,
        sweep: usize,
        stages: &[impl AsRef<StageKnowledge>],
    ) -> Result<Option<(String, String)>, PlanError> {
        let is_first = |place: TrialPosition| (place.sweep, place.trial) == (sweep, 0);
        for (spec, known) in self.pipeline.stages.iter().zip(stages) {
            if spec.place.is_some_and(is_first)
                && let Some(keyed) = &known.as_ref().keyed
                && let Some(why) = self.recorded_failure(spec, &keyed.digest)?
            {
                return Ok(Some((spec.written().to_owned(), why)));
            }
        }
        Ok(None)
    }

    /// The reason why the first trial has no valid score.
    fn without_score(
        &self,
        score: &ScoreMeasure,
        stages: &[impl AsRef<StageKnowledge>],
    ) -> Result<String, PlanError> {
        let first = score.stages.get(&(0, 0));
        let measured = first.map(|id| self.measured(score, *id, stages)).transpose()?.flatten();
        Ok(match measured {
            Some(Err(why)) => why,
            _ => "its score is not a number".to_owned(),
        })
    }
}

/// A sweep in which every trial has failed.
pub struct LostSweep<'a> {
    pub sweep: &'a Sweep,
    /// The stage of the first trial that failed, or that gives its score.
    pub stage: String,
    pub why: String,
}

impl LostSweep<'_> {
    pub fn event(&self) -> Event {
        Event::StageFailed {
            stage: self.sweep.stage.clone(),
            message: format!(
                "every trial of sweep `{}` has failed, the first in stage `{}`: {}",
                self.sweep.name, self.stage, self.why
            ),
            help: Some(
                "`throstle status` has the reasons, and `throstle items STAGE --quarantined` what a \
                 stage rejected; `throstle retry STAGE` tries a stage again"
                    .into(),
            ),
        }
    }
}

/// The key of a failure that depends on limits, which are in no key of a stage: with other limits, the
/// trial is tried again.
pub fn failed_here_key(spec: &StageSpec, key: &Digest) -> Digest {
    let mut sink = HashSink::default();
    sink.number("timeout", spec.policy.timeout_seconds.unwrap_or(f64::INFINITY));
    let (share, few) = match spec.policy.quarantine {
        Tolerance::Usual => (0.05, "3"),
        Tolerance::Each => (1.0, "each"),
        Tolerance::Share(share) => (share, ""),
    };
    sink.number("quarantine", share);
    sink.text("few", few);
    sink.digest("key", key);
    sink.finish()
}

fn told(lacks: &Lacks) -> String {
    match lacks {
        Lacks::Sentences => "there are no items to score".to_owned(),
        other => format!("an item has {other}"),
    }
}

impl StageInputs<'_> {
    /// The plan of a stage with an input that does not take part.
    pub fn left_out(&self) -> Option<StagePlan> {
        (self.part != Part::In).then(|| StagePlan::left_out(self.part, Vec::new()))
    }
}

impl StagePlan {
    /// A stage of a trial that does not run.
    pub fn left_out(part: Part, reasons: Vec<Reason>) -> StagePlan {
        StagePlan {
            verdict: Verdict::Out,
            unchanged: true,
            reasons,
            known: StageKnowledge { part, ..StageKnowledge::default() },
            work: Work::LeftOut,
            ..StagePlan::unwanted()
        }
    }
}
