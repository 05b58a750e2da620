//! The differences between the last run's state of a stage and the present one, as reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cache::Digest;
use stage_core::key::{InputKey, StageKey};
use stage_core::{Bucket, Fields, Item, ParameterValue, Value};

use super::work::Keyed;
use crate::pipeline::Reads;
use crate::reason::Reason;
use crate::record::LastRecord;
use crate::store::{ReadError, Store};

/// The number of items that are named before only totals are given.
const EXAMPLES: usize = 3;

/// The differences between two data sets.
#[derive(Debug, Default)]
pub struct DatasetDiff {
    pub added: Vec<Arc<str>>,
    pub removed: Vec<Arc<str>>,
    pub changed: Vec<FieldChange>,
    /// The number of items that differ in a field that is read.
    pub changed_items: u64,
    pub same: u64,
}

#[derive(Debug, PartialEq)]
pub struct FieldChange {
    pub item: Arc<str>,
    pub field: Arc<str>,
    pub old: Option<Value>,
    pub new: Option<Value>,
}

/// Compares two data sets in the fields that are read; equal chunks are not opened.
pub fn compare_datasets(
    store: &Store,
    old: &Digest,
    new: &Digest,
    reads: &Reads,
) -> Result<DatasetDiff, ReadError> {
    let (old, new) = (store.dataset(old)?, store.dataset(new)?);
    let shared: BTreeSet<Digest> = match old.bits == new.bits {
        true => {
            let chunks: BTreeSet<Digest> = old.buckets.iter().map(|b| b.chunk).collect();
            new.buckets.iter().map(|b| b.chunk).filter(|c| chunks.contains(c)).collect()
        }
        false => BTreeSet::new(),
    };
    let mut diff = DatasetDiff::default();
    let same = new.buckets.iter().filter(|bucket| shared.contains(&bucket.chunk));
    diff.same = same.map(|bucket| u64::from(bucket.items)).sum();
    let mut before = items_outside(store, &old.buckets, &shared)?;
    for (id, item) in items_outside(store, &new.buckets, &shared)? {
        match before.remove(&id) {
            None => diff.added.push(id),
            Some(old) => diff.compare_items(&old, &item, reads),
        }
    }
    diff.removed = before.into_keys().collect();
    Ok(diff)
}

fn items_outside(
    store: &Store,
    buckets: &[Bucket],
    shared: &BTreeSet<Digest>,
) -> Result<BTreeMap<Arc<str>, Item>, ReadError> {
    let mut items = BTreeMap::new();
    for bucket in buckets.iter().filter(|bucket| !shared.contains(&bucket.chunk)) {
        let chunk = store.chunk(&bucket.chunk)?;
        items.extend(chunk.items.into_iter().map(|item| (item.id.clone(), item)));
    }
    Ok(items)
}

impl DatasetDiff {
    fn compare_items(&mut self, old: &Item, new: &Item, reads: &Reads) {
        let before = self.changed.len();
        for field in field_names(&old.fields, &new.fields) {
            let is_read = match reads {
                Reads::All => true,
                Reads::Fields { names, .. } => names.iter().any(|name| **name == *field),
            };
            let (old_value, new_value) = (old.fields.get(&field), new.fields.get(&field));
            if is_read && old_value != new_value {
                self.changed.push(FieldChange {
                    item: new.id.clone(),
                    field,
                    old: old_value.cloned(),
                    new: new_value.cloned(),
                });
            }
        }
        match self.changed.len() == before {
            true => self.same += 1,
            false => self.changed_items += 1,
        }
    }

    fn reasons(&self, port: &str, reasons: &mut Vec<Reason>) {
        let named = |item: &Arc<str>| (port.to_owned(), item.to_string());
        for item in self.added.iter().take(EXAMPLES) {
            let (port, item) = named(item);
            reasons.push(Reason::ItemAdded { port, item });
        }
        for item in self.removed.iter().take(EXAMPLES) {
            let (port, item) = named(item);
            reasons.push(Reason::ItemRemoved { port, item });
        }
        for change in self.changed.iter().take(EXAMPLES) {
            let (port, item) = named(&change.item);
            reasons.push(Reason::ItemChanged {
                port,
                item,
                field: change.field.to_string(),
                old: shown(change.old.as_ref()),
                new: shown(change.new.as_ref()),
            });
        }
        let (added, removed) = (self.added.len() as u64, self.removed.len() as u64);
        if added + removed + self.changed_items > 0 {
            reasons.push(Reason::ItemsDiffer {
                port: port.to_owned(),
                added,
                removed,
                changed: self.changed_items,
                same: self.same,
            });
        }
    }
}

fn field_names(old: &Fields, new: &Fields) -> BTreeSet<Arc<str>> {
    old.iter().chain(new.iter()).map(|(name, _)| name.clone()).collect()
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), ToString::to_string)
}

/// The reasons why a stage's key is no longer what it was.
pub fn compare_keys(
    store: &Store,
    last: &LastRecord,
    now: &Keyed,
    reads: &dyn Fn(&str) -> Reads,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    compare_settings(&last.key, &now.key, &mut reasons);
    let ports: BTreeSet<&String> = last.key.inputs.keys().chain(now.key.inputs.keys()).collect();
    for port in ports {
        let old = last.key.inputs.get(port).map_or(&[][..], Vec::as_slice);
        let new = now.key.inputs.get(port).map_or(&[][..], Vec::as_slice);
        if old.len() != new.len() {
            let (old, new) = (old.len(), new.len());
            reasons.push(Reason::InputsChanged { port: port.clone(), old, new });
            continue;
        }
        for (old, new) in old.iter().zip(new) {
            if let (Some(old), Some(new)) = (old.stage(), new.stage())
                && old != new
            {
                let (port, old, new) = (port.clone(), old.to_owned(), new.to_owned());
                reasons.push(Reason::InputRenamed { port, old, new });
            }
            if let (InputKey::Artifact(old), InputKey::Artifact(new)) =
                (old.content(), new.content())
            {
                compare_artifacts(port, old, new, &mut reasons);
            }
        }
        let content = |inputs: &[InputKey]| inputs.iter().map(InputKey::content).cloned().collect();
        let (old, new): (Vec<InputKey>, Vec<InputKey>) = (content(old), content(new));
        if old != new {
            let roots = |roots: &BTreeMap<String, Vec<Digest>>| roots.get(port).cloned();
            let old = roots(&last.roots).unwrap_or_default();
            let new = roots(&now.roots).unwrap_or_default();
            for (old, new) in old.iter().zip(&new) {
                compare_roots(store, port, (old, new), &reads(port), &mut reasons);
            }
        }
    }
    reasons
}

pub fn compare_settings(old: &StageKey, new: &StageKey, reasons: &mut Vec<Reason>) {
    if old.kind != new.kind {
        reasons.push(Reason::KindChanged { old: old.kind.clone(), new: new.kind.clone() });
        return;
    }
    if old.version != new.version {
        let (kind, old, new) = (new.kind.clone(), old.version, new.version);
        reasons.push(Reason::VersionChanged { kind, old, new });
    }
    let names: BTreeSet<&String> = old.parameters.0.keys().chain(new.parameters.0.keys()).collect();
    for name in names {
        let (old, new) = (old.parameters.get(name), new.parameters.get(name));
        if old != new {
            let shown = |value: &ParameterValue| value.to_string();
            let (old, new) = (shown(old), shown(new));
            reasons.push(Reason::ParameterChanged { name: name.clone(), old, new });
        }
    }
    let names: BTreeSet<&String> = old.files.keys().chain(new.files.keys()).collect();
    for name in names {
        let (old, new) = (old.files.get(name), new.files.get(name));
        if old != new {
            let shown = |digest: Option<&Digest>| {
                digest.map_or_else(|| "nothing".to_owned(), Digest::short)
            };
            let (old, new) = (shown(old), shown(new));
            reasons.push(Reason::FileParameterChanged { name: name.clone(), old, new });
        }
    }
    if old.parent != new.parent {
        let shown = |parent: &Option<Digest>| parent.as_ref().map(Digest::short);
        let (old, new) = (shown(&old.parent), shown(&new.parent));
        reasons.push(Reason::ParentChanged { old, new });
    }
    if old.salt != new.salt {
        let shown = |salt: &Option<String>| format!("{:?}", salt.as_deref().unwrap_or(""));
        reasons.push(Reason::SaltChanged { old: shown(&old.salt), new: shown(&new.salt) });
    }
}

fn compare_artifacts(port: &str, old: &Fields, new: &Fields, reasons: &mut Vec<Reason>) {
    let names = field_names(old, new);
    let differing: Vec<&Arc<str>> =
        names.iter().filter(|name| old.get(name) != new.get(name)).collect();
    for field in differing.iter().take(EXAMPLES) {
        reasons.push(Reason::ArtifactChanged {
            port: port.to_owned(),
            field: field.to_string(),
            old: shown(old.get(field)),
            new: shown(new.get(field)),
        });
    }
    // A model has hundreds of tensors.
    if let Some(count) = differing.len().checked_sub(EXAMPLES).filter(|count| *count > 0) {
        reasons.push(Reason::MoreFields { port: port.to_owned(), count: count as u64 });
    }
}

fn compare_roots(
    store: &Store,
    port: &str,
    (old, new): (&Digest, &Digest),
    reads: &Reads,
    reasons: &mut Vec<Reason>,
) {
    let before = reasons.len();
    match compare_datasets(store, old, new, reads) {
        Ok(diff) => diff.reasons(port, reasons),
        // The old table has been collected: only the fact that it differed is left.
        Err(_) => {
            let (old, new) =
                (format!("data set {}", old.short()), format!("data set {}", new.short()));
            let field = "items".to_owned();
            reasons.push(Reason::ArtifactChanged { port: port.to_owned(), field, old, new });
        }
    }
    if reasons.len() == before && old == new {
        reasons.push(Reason::RejectsChanged { port: port.to_owned() });
    }
}
