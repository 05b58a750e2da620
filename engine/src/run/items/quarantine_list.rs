//! Items quarantined by a stage on whole data sets: their names, which the stage may not know, and
//! the limit on their number.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use stage_core::{Cause, Kind, Reject, StageError};

use crate::error::PlanError;
use crate::pipeline::{ITEMS, Tolerance};
use crate::plan::names::Names;
use crate::record::QuarantineRecord;
use crate::run::message::{GatherSource, GatherSources, GatherTask};
use crate::store::Store;

/// The items quarantined so far.
pub struct QuarantineList {
    stage: String,
    kind: &'static Kind,
    limit: Tolerance,
    ports: Arc<GatherSources>,
    /// The ports with such items.
    names: BTreeMap<String, Names>,
    rejects: Vec<(Arc<str>, Reject)>,
    known: HashSet<Arc<str>>,
    record: QuarantineRecord,
}

impl QuarantineList {
    pub fn new(task: &GatherTask) -> QuarantineList {
        QuarantineList {
            stage: task.job.setup.stage.clone(),
            kind: task.job.kind,
            limit: task.policy.quarantine,
            ports: task.ports.clone(),
            names: BTreeMap::new(),
            rejects: Vec::new(),
            known: HashSet::new(),
            record: QuarantineRecord::default(),
        }
    }

    /// Names them; returns the new ones.
    pub fn add(
        &mut self,
        store: &Store,
        port: &str,
        rejects: Vec<(usize, Reject)>,
    ) -> Result<Vec<(Arc<str>, Reject)>, PlanError> {
        self.look_at(store, port)?;
        let Some(names) = self.names.get(port) else { return Ok(Vec::new()) };
        let mut new = Vec::new();
        for (place, reject) in rejects {
            let Some((seen, name)) = names.at(place) else { continue };
            // A clip on two ports is one clip.
            if self.known.insert(name.clone()) {
                self.record.seen.extend(seen.map(|seen| (port.to_owned(), seen)));
                new.push((name.clone(), reject));
            }
        }
        self.rejects.extend(new.iter().cloned());
        Ok(new)
    }

    fn look_at(&mut self, store: &Store, port: &str) -> Result<(), PlanError> {
        let source = self.ports.get(port).and_then(|sources| sources.first());
        let (false, Some(GatherSource::Dataset { root, reads, .. })) =
            (self.names.contains_key(port), source)
        else {
            return Ok(());
        };
        let names = Names::of(store, root, reads)?;
        self.record.of += names.count() as u64;
        if names.may_change() {
            self.record.roots.insert(port.to_owned(), *root);
        }
        self.names.insert(port.to_owned(), names);
        Ok(())
    }

    /// An error if the stage has quarantined more than it may.
    pub fn check(&self) -> Result<(), StageError> {
        let (bad, of) = self.record.counted(&self.rejects);
        if !self.limit.is_exceeded(bad, of) {
            return Ok(());
        }
        let (stage, kind, limit) = (self.stage.as_str(), self.kind, self.limit);
        let from = self.names.keys().filter_map(|port| self.data_set(port)).collect();
        Err(LimitExceeded { stage, kind, limit, quarantined: bad, of, from }.error(&self.rejects))
    }

    /// The data set on a port, in words.
    fn data_set(&self, port: &str) -> Option<String> {
        match self.ports.get(port)?.first()? {
            GatherSource::Dataset { stage, .. } if port == ITEMS => Some(format!("`{stage}`")),
            GatherSource::Dataset { stage, .. } => Some(format!("`{stage}` (`{port}`)")),
            GatherSource::Artifact { .. } => None,
        }
    }

    /// The part of them that is recorded.
    pub fn close(self) -> (Vec<(Arc<str>, Reject)>, Option<QuarantineRecord>) {
        let aside = (!self.rejects.is_empty()).then_some(self.record);
        (self.rejects, aside)
    }
}

/// A stage that has quarantined more of its items than it may.
pub struct LimitExceeded<'a> {
    pub stage: &'a str,
    pub kind: &'static Kind,
    pub limit: Tolerance,
    pub quarantined: u64,
    pub of: u64,
    /// The data sets of these items.
    pub from: Vec<String>,
}

impl LimitExceeded<'_> {
    /// The error, from the quarantined items.
    pub fn error(&self, rejects: &[(Arc<str>, Reject)]) -> StageError {
        let of = match self.from.as_slice() {
            [] => String::new(),
            from => format!(" of {}", from.join(" and ")),
        };
        let first = rejects.iter().find(|(_, reject)| reject.is_fault());
        let first = first.map_or(String::new(), |(item, reject)| {
            format!("; the first is `{item}`: {}", reject.reason)
        });
        let message = format!("{}{first}", self.limit.violation(self.quarantined, self.of, &of));
        StageError::with_help(message, self.advice(rejects))
    }

    /// Names the likely cause if most items have it in common.
    fn advice(&self, rejects: &[(Arc<str>, Reject)]) -> String {
        let count = |code: &str| rejects.iter().filter(|(_, reject)| reject.code == code).count();
        let is_common = |cause: &&Cause| 2 * count(cause.code) as u64 > self.of;
        let listed = format!("`throstle items {} --quarantined` lists them", self.stage);
        match self.kind.causes.iter().find(is_common) {
            Some(cause) => format!("{}; {listed}", cause.advice),
            None => format!(
                "{}; {listed}, and `throstle retry {}` tries them again",
                self.allowance(),
                self.stage
            ),
        }
    }

    fn allowance(&self) -> String {
        match limit_for(self.quarantined, self.of) {
            Some(percent) => {
                format!(
                    "fix these items, or allow them with `quarantine = \"{percent}%\"` in `[stage.{}]`",
                    self.stage
                )
            }
            None => "most items fail: look for one cause".to_owned(),
        }
    }
}

/// The next limit, in steps of 5 %, under which a stage does not fail; none if it fails for more than
/// half of its items.
fn limit_for(bad: u64, total: u64) -> Option<u64> {
    const STEP: u64 = 5;
    let is_minority = bad > 0 && bad * 2 <= total;
    is_minority.then(|| (bad * 100).div_ceil(total).div_ceil(STEP) * STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    static KIND: Kind = Kind {
        causes: &[Cause { code: "no-text", advice: "the recogniser is for another language" }],
        ..Kind::BASE
    };

    fn too_many(quarantined: u64) -> LimitExceeded<'static> {
        LimitExceeded {
            stage: "aligned",
            kind: &KIND,
            limit: Tolerance::Share(0.05),
            quarantined,
            of: 10,
            from: vec!["`heard`".to_owned()],
        }
    }

    fn rejects(codes: &[&str]) -> Vec<(Arc<str>, Reject)> {
        let reject = |(at, code): (usize, &&str)| {
            (Arc::from(format!("clip{at}")), Reject::new(*code, "for a reason"))
        };
        codes.iter().enumerate().map(reject).collect()
    }

    #[test]
    fn what_most_items_have_in_common_is_the_likely_cause() {
        let help = |codes: &[&str]| {
            let error = too_many(codes.len() as u64).error(&rejects(codes));
            error.help().unwrap_or_default().to_owned()
        };
        let listed = "; `throstle items aligned --quarantined` lists them";
        let common = format!("the recogniser is for another language{listed}");
        assert_eq!(help(&["no-text"; 6]), common);
        let allowed = "fix these items, or allow them with `quarantine = \"50%\"`";
        assert!(help(&["no-text"; 5]).starts_with(allowed));
        assert!(help(&["cut-word"; 10]).starts_with("most items fail: look for one cause"));
    }

    #[test]
    fn the_items_are_those_of_a_data_set() {
        let error = too_many(1).error(&rejects(&["no-text"]));
        let told = "1 of 10 items of `heard` were quarantined, more than 5 %; the first is `clip0`: for a \
                    reason";
        assert_eq!(error.to_string(), told);
    }
}
