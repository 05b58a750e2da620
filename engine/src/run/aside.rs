//! Items quarantined by a stage on whole data sets: their names, which the stage may not know, and
//! the limit on their number.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use stage_core::{Reject, StageError};

use super::message::{GatherSource, GatherSources};
use crate::error::PlanError;
use crate::pipeline::{Policy, Tolerance};
use crate::plan::names::Names;
use crate::record::Aside;
use crate::store::Store;

/// The items quarantined so far.
pub struct Asides {
    policy: Policy,
    ports: Arc<GatherSources>,
    /// The ports with such items.
    names: BTreeMap<String, Names>,
    rejects: Vec<(Arc<str>, Reject)>,
    known: HashSet<Arc<str>>,
    record: Aside,
}

impl Asides {
    pub fn new(policy: Policy, ports: Arc<GatherSources>) -> Asides {
        Asides {
            policy,
            ports,
            names: BTreeMap::new(),
            rejects: Vec::new(),
            known: HashSet::new(),
            record: Aside::default(),
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
        let limit = self.policy.quarantine;
        match limit.is_exceeded(bad, of) {
            true => {
                let first = self.rejects.iter().find(|(_, reject)| reject.is_fault());
                Err(too_many(limit, (bad, of), first))
            }
            false => Ok(()),
        }
    }

    /// The part of them that is recorded.
    pub fn close(self) -> (Vec<(Arc<str>, Reject)>, Option<Aside>) {
        let aside = (!self.rejects.is_empty()).then_some(self.record);
        (self.rejects, aside)
    }
}

/// The message for a stage that has quarantined more of its items than it may.
pub fn too_many(
    limit: Tolerance,
    (bad, total): (u64, u64),
    first: Option<&(Arc<str>, Reject)>,
) -> StageError {
    let first = first.map_or(String::new(), |(item, reject)| {
        format!("; the first is `{item}`: {}", reject.reason)
    });
    StageError::with_help(
        format!("{}{first}", limit.violation(bad, total)),
        "fix these items or raise `quarantine`; see `throstle items STAGE --quarantined` and `throstle \
         retry`",
    )
}
