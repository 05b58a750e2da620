//! The names of items for stages that do not read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::Digest;
use stage_core::key::ItemReads;

use super::work::StageIdentity;
use crate::error::PlanError;
use crate::pipeline::{Reads, StageSpec};
use crate::record::{QuarantineRecord, StageRecord};
use crate::store::Store;

/// The items of a data set in the order in which a stage on whole data sets gets them, each with
/// the part that the stage sees.
pub struct Names(Vec<(Option<Digest>, Arc<str>)>);

impl Names {
    pub fn of(store: &Store, root: &Digest, reads: &Reads) -> Result<Names, PlanError> {
        let reads = match reads {
            Reads::Fields { names, id: false } => Some(ItemReads::new(names, false)),
            _ => None,
        };
        let base = Digest::of(b"projection");
        let mut all = Vec::new();
        for bucket in &store.dataset(root)?.buckets {
            for item in store.chunk(&bucket.chunk)?.items {
                let seen = reads.as_ref().map(|reads| reads.see(&item).key(&base));
                all.push((seen, item.id));
            }
        }
        all.sort();
        Ok(Names(all))
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// True if other names would be the same input.
    pub fn may_change(&self) -> bool {
        self.0.iter().any(|(seen, _)| seen.is_some())
    }

    /// The part of an item that the stage sees without its name, and the name.
    pub fn at(&self, place: usize) -> Option<(Option<Digest>, &Arc<str>)> {
        self.0.get(place).map(|(seen, name)| (*seen, name))
    }

    /// Names by the part that is seen; equal items have several.
    fn by_content(self) -> BTreeMap<Digest, Vec<Arc<str>>> {
        let mut names: BTreeMap<Digest, Vec<Arc<str>>> = BTreeMap::new();
        for (seen, name) in self.0.into_iter().rev() {
            names.entry(seen.unwrap_or(Digest::of(b""))).or_default().push(name);
        }
        names
    }
}

/// The record with the present names of its quarantined items: they may have been renamed since,
/// which does not change the outcome.
pub fn with_names_of(
    store: &Store,
    spec: &StageSpec,
    keyed: &StageIdentity,
    record: StageRecord,
) -> Result<StageRecord, PlanError> {
    let Some(aside) = &record.aside else { return Ok(record) };
    let now = |port: &String| keyed.roots.get(port).and_then(|roots| roots.first()).copied();
    if aside.roots.iter().all(|(port, root)| now(port) == Some(*root)) {
        return Ok(record);
    }
    let (mut names, mut roots) = (BTreeMap::new(), BTreeMap::new());
    for port in aside.roots.keys() {
        let (Some(root), Some(input)) = (now(port), spec.inputs.get(port.as_str())) else {
            return Ok(record);
        };
        names.insert(port, Names::of(store, &root, &input.reads)?.by_content());
        roots.insert(port.clone(), root);
    }
    let mut renamed = record.rejects.clone();
    for ((name, _), (port, seen)) in renamed.iter_mut().zip(&aside.seen) {
        let found = names.get_mut(port).and_then(|names| names.get_mut(seen)?.pop());
        *name = found.unwrap_or_else(|| name.clone());
    }
    let aside = QuarantineRecord { roots, ..aside.clone() };
    Ok(StageRecord { rejects: renamed, aside: Some(aside), ..record })
}
