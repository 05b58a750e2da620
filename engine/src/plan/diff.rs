//! The differences between the last run's state of a stage and the present one, as reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cache::Digest;
use stage_core::key::{Difference, InputPart, Part, differences};
use stage_core::{Bucket, Fields, Item, ParameterValue, Value};

use super::work::StageIdentity;
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
    let shared: BTreeSet<Digest> = if old.bits == new.bits {
        let chunks: BTreeSet<Digest> = old.buckets.iter().map(|b| b.chunk).collect();
        new.buckets.iter().map(|b| b.chunk).filter(|c| chunks.contains(c)).collect()
    } else {
        BTreeSet::new()
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
        if self.changed.len() == before { self.same += 1 } else { self.changed_items += 1 }
    }

    /// The first items of each sort.
    pub fn examples(&self, port: &str) -> Vec<Reason> {
        let mut reasons = Vec::new();
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
        reasons
    }

    fn reasons(&self, port: &str, reasons: &mut Vec<Reason>) {
        reasons.extend(self.examples(port));
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
    now: &StageIdentity,
    reads: &dyn Fn(&str) -> Reads,
) -> Vec<Reason> {
    let differences = differences(&last.key, &now.key);
    let mut reasons = settings(&now.key.kind, &differences);
    let mut ports: BTreeMap<&str, Vec<Difference>> = BTreeMap::new();
    for difference in differences {
        let (old, new) = difference;
        if let Some(Part::Port(port, _) | Part::Input(port, ..)) = new.or(old) {
            ports.entry(port).or_default().push(difference);
        }
    }
    for (port, differences) in ports {
        if inputs(port, &differences, &mut reasons) {
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

/// The reasons in the stage itself: its kind, parameters, files, parent and salt.
pub fn settings(kind: &str, differences: &[Difference]) -> Vec<Reason> {
    let kind_changed = differences.iter().find_map(|difference| match *difference {
        (Some(Part::Kind(old)), Some(Part::Kind(new))) => {
            Some(Reason::KindChanged { old: old.to_owned(), new: new.to_owned() })
        }
        _ => None,
    });
    match kind_changed {
        // Its parameters have nothing to do with those of another kind.
        Some(reason) => vec![reason],
        None => differences.iter().filter_map(|difference| setting(kind, *difference)).collect(),
    }
}

fn setting(kind: &str, (old, new): Difference) -> Option<Reason> {
    let file = |part: Option<Part>| match part {
        Some(Part::File(_, digest)) => digest.short(),
        _ => "nothing".to_owned(),
    };
    let parent = |part: Option<Part>| match part {
        Some(Part::Parent(parent)) => Some(parent.short()),
        _ => None,
    };
    // A parameter that a key lacks has no value.
    let value = |part: Option<Part>| match part {
        Some(Part::Parameter(_, value)) => value.clone(),
        _ => ParameterValue::Absent,
    };
    Some(match (old, new, new.or(old)?) {
        (Some(Part::Version(old)), Some(Part::Version(new)), _) => {
            Reason::VersionChanged { kind: kind.to_owned(), old, new }
        }
        (Some(Part::Salt(old)), Some(Part::Salt(new)), _) => {
            Reason::SaltChanged { old: format!("{old:?}"), new: format!("{new:?}") }
        }
        (_, _, Part::Parameter(name, _)) => {
            let (old, new) = (value(old), value(new));
            if old == new {
                return None;
            }
            let (old, new) = (old.to_string(), new.to_string());
            Reason::ParameterChanged { name: name.to_owned(), old, new }
        }
        (_, _, Part::File(name, _)) => {
            let (old, new) = (file(old), file(new));
            Reason::FileParameterChanged { name: name.to_owned(), old, new }
        }
        (_, _, Part::Parent(_)) => Reason::ParentChanged { old: parent(old), new: parent(new) },
        _ => return None,
    })
}

/// The reasons in the inputs on a port. True if the data sets there may differ too.
fn inputs(port: &str, differences: &[Difference], reasons: &mut Vec<Reason>) -> bool {
    let place = |(old, new): &Difference| match new.or(*old) {
        Some(Part::Input(_, at, _)) => Some(at),
        _ => None,
    };
    let count = |part: Option<Part>| match part {
        Some(Part::Port(_, count)) => count,
        _ => 0,
    };
    let value = |part: Option<Part<'_>>| match part {
        Some(Part::Input(_, _, InputPart::Field(_, value))) => shown(Some(value)),
        _ => shown(None),
    };
    let mut differs = false;
    for input in differences.chunk_by(|one, other| place(one) == place(other)) {
        let mut fields = Vec::new();
        for (old, new) in input {
            match (old, new, new.or(*old)) {
                (_, _, Some(Part::Port(..))) if count(*old) != count(*new) => {
                    let (port, old, new) = (port.to_owned(), count(*old), count(*new));
                    reasons.push(Reason::InputsChanged { port, old, new });
                    return false;
                }
                (
                    Some(Part::Input(_, _, InputPart::Stage(old))),
                    Some(Part::Input(_, _, InputPart::Stage(new))),
                    _,
                ) => {
                    let (port, old, new) = (port.to_owned(), (*old).to_owned(), (*new).to_owned());
                    reasons.push(Reason::InputRenamed { port, old, new });
                }
                (_, _, Some(Part::Input(_, _, InputPart::Stage(_)) | Part::Port(..))) => {}
                (_, _, Some(Part::Input(_, _, InputPart::Field(field, _)))) => {
                    let (port, field) = (port.to_owned(), field.to_owned());
                    let (old, new) = (value(*old), value(*new));
                    fields.push(Reason::ArtifactChanged { port, field, old, new });
                }
                _ => differs = true,
            }
        }
        differs |= !fields.is_empty();
        // A model has hundreds of tensors.
        let more = fields.len().saturating_sub(EXAMPLES) as u64;
        reasons.extend(fields.into_iter().take(EXAMPLES));
        if more > 0 {
            reasons.push(Reason::MoreFields { port: port.to_owned(), count: more });
        }
    }
    differs
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
