//! Objects and records that were put but are not durable yet: readable in this process immediately.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use camino::Utf8PathBuf;

use crate::{Digest, Table};

#[derive(Debug, Clone)]
pub(crate) enum UncommittedObject {
    Bytes(Bytes),
    /// A finished file in this process's own staging folder.
    File {
        path: Utf8PathBuf,
        size: u64,
    },
}

impl UncommittedObject {
    pub fn size(&self) -> u64 {
        match self {
            UncommittedObject::Bytes(bytes) => bytes.len() as u64,
            UncommittedObject::File { size, .. } => *size,
        }
    }
}

/// One thing to write, in put order.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Object(Digest, UncommittedObject),
    Record { table: Table, key: Digest, value: Option<Bytes> },
}

#[derive(Debug, Clone, Default)]
pub(crate) struct CommitGroup {
    pub steps: Vec<Step>,
    pub objects: HashMap<Digest, UncommittedObject>,
    /// The last value of each key; None for a removal.
    pub records: HashMap<(Table, Digest), Option<Bytes>>,
    pub bytes: u64,
}

impl CommitGroup {
    pub fn put(&mut self, digest: Digest, waiting: UncommittedObject) {
        self.bytes += waiting.size();
        self.steps.push(Step::Object(digest, waiting.clone()));
        self.objects.insert(digest, waiting);
    }

    pub fn record(&mut self, table: Table, key: Digest, value: Option<Bytes>) {
        self.bytes += value.as_ref().map_or(0, |value| value.len() as u64);
        self.records.insert((table, key), value.clone());
        self.steps.push(Step::Record { table, key, value });
    }

    /// Appends a later batch.
    fn extend(&mut self, later: CommitGroup) {
        self.steps.extend(later.steps);
        self.objects.extend(later.objects);
        self.records.extend(later.records);
        self.bytes += later.bytes;
    }
}

/// The batch being collected, and the one being committed.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    pub active: CommitGroup,
    flight: Option<Arc<CommitGroup>>,
}

impl Commits {
    pub fn object(&self, digest: &Digest) -> Option<UncommittedObject> {
        let in_flight = || self.flight.as_ref()?.objects.get(digest);
        self.active.objects.get(digest).or_else(in_flight).cloned()
    }

    /// The outer option tells if anything is pending for the key.
    pub fn record(&self, table: Table, key: &Digest) -> Option<Option<Bytes>> {
        let in_flight = || self.flight.as_ref()?.records.get(&(table, *key));
        self.active.records.get(&(table, *key)).or_else(in_flight).cloned()
    }

    /// All pending records of a table.
    pub fn records(&self, table: Table) -> HashMap<Digest, Option<Bytes>> {
        let batches = self.flight.as_deref().into_iter().chain([&self.active]);
        batches
            .flat_map(|batch| &batch.records)
            .filter(|((of, _), _)| *of == table)
            .map(|((_, key), value)| (*key, value.clone()))
            .collect()
    }

    pub fn bytes(&self) -> u64 {
        self.active.bytes + self.flight.as_ref().map_or(0, |batch| batch.bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.active.steps.is_empty() && self.flight.is_none()
    }

    /// Moves the collected batch to the commit. Only one commit runs at a time.
    pub fn take_off(&mut self) -> Arc<CommitGroup> {
        let batch = Arc::new(std::mem::take(&mut self.active));
        self.flight = Some(Arc::clone(&batch));
        batch
    }

    /// After a commit. Returns the committed batch, since freeing it takes too long to do it under
    /// a lock.
    pub fn landed(&mut self) -> Option<Arc<CommitGroup>> {
        self.flight.take()
    }

    /// After a failed commit: everything waits for the next one.
    pub fn turn_back(&mut self) {
        if let Some(batch) = self.flight.take() {
            let mut batch = Arc::unwrap_or_clone(batch);
            batch.extend(std::mem::take(&mut self.active));
            self.active = batch;
        }
    }
}
