//! Items of a run with the same key: one of them is worked on, and the others wait for its outcome.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cache::Digest;

use super::queue::QueuedItem;
use crate::pipeline::StageId;

/// By the keys that are worked on: the items that wait.
#[derive(Default)]
pub struct Duplicates(HashMap<Digest, Vec<(StageId, QueuedItem)>>);

impl Duplicates {
    /// Begins work on an item; `None` if it has to wait for another one with its key.
    pub fn begin(&mut self, stage: StageId, queued: QueuedItem) -> Option<QueuedItem> {
        match self.0.entry(queued.key) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push((stage, queued));
                None
            }
            Entry::Vacant(place) => {
                place.insert(Vec::new());
                Some(queued)
            }
        }
    }

    /// Ends the work on a key, and returns the items that have waited for it.
    pub fn end(&mut self, key: &Digest) -> Vec<(StageId, QueuedItem)> {
        self.0.remove(key).unwrap_or_default()
    }
}
