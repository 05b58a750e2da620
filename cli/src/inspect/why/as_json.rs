//! The answer of `why` as JSON.

use std::sync::Arc;

use cache::Cache;
use cache::stat::StatIndex;
use engine::history;
use engine::pipeline::StageSpec;
use engine::plan::StagePlan;
use engine::reason::Reason;
use engine::record::LastRecord;
use engine::store::Store;
use serde_json::{Value, json};

use super::{FieldChange, One};
use crate::error::CliError;
use crate::project::Project;

/// One object about a stage, or about one of its items.
pub fn explained(
    item: Option<&str>,
    (project, cache): (&Project, &Cache),
    (spec, stage): (&StageSpec, &StagePlan),
) -> Result<Value, CliError> {
    let last = history::last(cache, &project.pipeline.name, &spec.name)?;
    let mut told = json!({
        "stage": spec.name, "verdict": stage.verdict, "run": last.as_ref().map(|last| last.run),
        "executed": stage.executed + stage.pending, "reused": stage.reused,
        "reasons": texts(&stage.reasons),
        "reasons_of_run": texts(last.as_ref().map_or(&[], |last: &LastRecord| &last.reasons)),
    });
    if let Some(id) = item {
        let index = Arc::new(StatIndex::load(cache)?);
        let store = Store::new(cache.clone(), &project.pipeline.base, index);
        let one = One { cache, store: &store, spec, stage, last: last.as_ref(), id };
        told["item"] = One { id: one.arriving()?, ..one }.explained()?;
    }
    Ok(told)
}

fn texts(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(ToString::to_string).collect()
}

impl One<'_> {
    /// The item now and in the run before.
    fn explained(&self) -> Result<Value, CliError> {
        let port = self.port_or_error()?;
        let rejects = &self.stage.known.rejects;
        let reject = rejects.iter().find(|(own, _)| **own == *self.id).map(|(_, reject)| reject);
        let quarantined =
            reject.map(|reject| json!({ "code": reject.code, "reason": reject.reason }));
        let Some(keyed) = &self.stage.known.keyed else {
            return Ok(json!({ "id": self.id, "state": "unknown", "quarantined": quarantined }));
        };
        let now = self.find(keyed.roots.get(port))?;
        let (_, state) = self.before(&keyed.digest);
        let before = self.find(state.as_ref().and_then(|(_, roots)| roots.get(port)))?;
        let (changes, settings) = match (&before, &now) {
            (Some(before), Some(now)) => {
                (self.changes(port, before, now), self.settings(port, state.as_ref(), keyed))
            }
            _ => (Vec::new(), Vec::new()),
        };
        let is_changed = changes.iter().any(|change| change.is_read) || !settings.is_empty();
        let told = match (&before, &now) {
            (None, None) => return Err(self.no_item()),
            (None, Some(_)) if self.is_collected(state.as_ref(), port)? => "unknown",
            (None, Some(_)) => "new",
            (Some(_), None) => "gone",
            (Some(_), Some(_)) if is_changed => "changed",
            (Some(_), Some(_)) => "same",
        };
        let field = |FieldChange { name, old, new, is_read }| json!({ "name": name, "old": old, "new": new, "is_read": is_read });
        Ok(json!({
            "id": self.id, "state": told,
            "fields": changes.into_iter().map(field).collect::<Vec<_>>(),
            "reasons": texts(&settings), "quarantined": quarantined,
        }))
    }
}
