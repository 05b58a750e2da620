//! The parent of a training: the model that the stage gave before, and its own checkpoints.

use cache::Digest;
use stage_core::ON_CHANGE;
use stage_core::key::{InputKey, StageKey, differences};
use stage_core::{Fields, ParameterValue};

use super::diff::settings;
use super::planner::Planner;
use super::work::StageIdentity;
use crate::checkpoints::{checkpoints, is_there};
use crate::error::PlanError;
use crate::pipeline::{StageSpec, StageWork};
use crate::reason::Reason;
use crate::record::{
    LastRecord, PARENT, PortValue, TRAINED_AS, decode, encode, last_key, parent_key,
};

impl Planner<'_> {
    /// The key of the parent outcome for a stage without an outcome of its own: the one that an
    /// earlier run chose for the same inputs, else the last outcome of the stage.
    pub fn parent_of(
        &self,
        spec: &StageSpec,
        base: &StageIdentity,
        last: Option<&LastRecord>,
    ) -> Result<Option<Digest>, PlanError> {
        if !continues(spec) {
            return Ok(None);
        }
        if let Some(parent) = self.chosen_parent(spec, base)?
            && self.can_go_on(base, &parent)?
        {
            return Ok(Some(parent));
        }
        let fits = |last: &&LastRecord| {
            last.key.kind == base.key.kind && meets_needs(spec, &last.key, &base.key)
        };
        let Some(last) = last.filter(fits) else { return Ok(None) };
        if without_parent(&last.key) == base.key {
            return Ok(last.key.parent);
        }
        let parent = last.key.digest();
        Ok(self.can_go_on(base, &parent)?.then_some(parent))
    }

    fn chosen_parent(
        &self,
        spec: &StageSpec,
        base: &StageIdentity,
    ) -> Result<Option<Digest>, PlanError> {
        let key = parent_key(&self.pipeline.name, &spec.name, &base.digest);
        let chosen = self.store.cache().get(PARENT, &key)?;
        Ok(chosen.and_then(|bytes| decode(&bytes)))
    }

    /// Tests if there is something to continue from: the outcome under this parent, or the parent
    /// itself.
    fn can_go_on(&self, base: &StageIdentity, parent: &Digest) -> Result<bool, PlanError> {
        let child = base.clone().with_parent(*parent).digest;
        Ok(self.known(&child, &mut Vec::new())?.is_some()
            || self.known(parent, &mut Vec::new())?.is_some())
    }

    /// Stores the choice, so that the same inputs continue from the same parent, and the key that
    /// begins, so that a later plan can say why it does not resume.
    pub fn choose_parent(&self, spec: &StageSpec, keyed: &StageIdentity) -> Result<(), PlanError> {
        let name = last_key(&self.pipeline.name, &spec.name);
        self.store.cache().record(TRAINED_AS, &name, encode(&keyed.key))?;
        if let Some(parent) = &keyed.key.parent {
            let base = without_parent(&keyed.key).digest();
            let key = parent_key(&self.pipeline.name, &spec.name, &base);
            self.store.cache().record(PARENT, &key, encode(parent))?;
        }
        Ok(())
    }

    /// The key of the parent, and its artifact.
    pub fn parent(
        &self,
        spec: &StageSpec,
        keyed: &StageIdentity,
    ) -> Result<Option<(Digest, Fields)>, PlanError> {
        let Some(parent) = keyed.key.parent else { return Ok(None) };
        let Some(record) = self.known(&parent, &mut Vec::new())? else { return Ok(None) };
        let artifacts = spec.kind.outputs.iter().filter_map(|port| record.outputs.get(port.name));
        let mut artifacts = artifacts.filter_map(|value| match value {
            PortValue::Artifact(fields) => Some(fields.clone()),
            PortValue::Dataset { .. } => None,
        });
        Ok(artifacts.next().map(|fields| (parent, fields)))
    }

    /// Adds a reason if the work was begun before, or other work under this name.
    pub fn tell_of_checkpoint(
        &self,
        spec: &StageSpec,
        keyed: &StageIdentity,
        reasons: &mut Vec<Reason>,
    ) -> Result<(), PlanError> {
        for key in std::iter::once(keyed.digest).chain(self.prefixes(spec, keyed)) {
            if let Some(run) = self.checkpoint_of(&key)? {
                reasons.retain(|reason| *reason != Reason::NeverRun);
                reasons.push(Reason::Resumes { run });
                return Ok(());
            }
        }
        let name = last_key(&self.pipeline.name, &spec.name);
        let begun = self.store.cache().get(TRAINED_AS, &name)?;
        let begun = begun.and_then(|bytes| decode::<StageKey>(&bytes));
        let Some(begun) = begun.filter(|begun| *begun != keyed.key) else { return Ok(()) };
        let digest = begun.digest();
        if let Some(run) = self.checkpoint_of(&digest)?
            && self.known(&digest, &mut Vec::new())?.is_none()
        {
            let changed = settings(&keyed.key.kind, &differences(&begun, &keyed.key));
            reasons.retain(|reason| *reason != Reason::NeverRun);
            reasons.push(Reason::LeavesCheckpoint { run, changed });
        }
        Ok(())
    }

    /// The run that saved a checkpoint under this key, if its objects exist.
    fn checkpoint_of(&self, key: &Digest) -> Result<Option<u64>, PlanError> {
        let Some(record) = checkpoints(&self.store, key)? else { return Ok(None) };
        for state in record.states {
            if is_there(&self.store, state)?.is_some() {
                return Ok(Some(record.run));
            }
        }
        Ok(None)
    }
}

fn continues(spec: &StageSpec) -> bool {
    let on_change = spec.parameters.get(ON_CHANGE.name);
    spec.work == StageWork::Train
        && matches!(on_change, ParameterValue::Text(text) if text == "continue")
}

/// Tests if the artifacts on the ports have what the weights of the earlier result need.
fn meets_needs(spec: &StageSpec, before: &StageKey, now: &StageKey) -> bool {
    spec.kind.inputs.iter().all(|port| {
        let artifacts = |key: &StageKey| match key.inputs.get(port.name).map(Vec::as_slice) {
            Some([InputKey::Artifact(fields)]) => fields.clone(),
            _ => Fields::new(),
        };
        port.parent_needs.are_met(&artifacts(before), &artifacts(now))
    })
}

fn without_parent(key: &StageKey) -> StageKey {
    StageKey { parent: None, ..key.clone() }
}
