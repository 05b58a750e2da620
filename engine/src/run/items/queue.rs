//! Pending items of a stage, and their order.

use cache::Digest;
use stage_core::Item;
use stage_core::key::ItemReads;

use crate::measure::weight::{blobs, item_weight};

/// A pending item. The longest come first. Items of equal length that read the same file follow
/// each other, so that a stage can reuse an expensive result of that file, such as a loaded model.
#[derive(Clone, Debug)]
pub struct QueuedItem {
    pub weight: u64,
    pub file: Option<Digest>,
    pub bucket: u32,
    pub item: Item,
    pub key: Digest,
    pub attempt: u32,
}

impl PartialEq for QueuedItem {
    fn eq(&self, other: &QueuedItem) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for QueuedItem {}

impl PartialOrd for QueuedItem {
    fn partial_cmp(&self, other: &QueuedItem) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedItem {
    fn cmp(&self, other: &QueuedItem) -> std::cmp::Ordering {
        let by_size = self.weight.cmp(&other.weight).then_with(|| other.file.cmp(&self.file));
        by_size.then_with(|| other.item.id.cmp(&self.item.id))
    }
}

impl QueuedItem {
    /// With the size of the blobs that the stage reads of the item, and the first of them.
    pub fn new(reads: &ItemReads, bucket: u32, item: Item, key: Digest) -> QueuedItem {
        let weight = item_weight(reads, &item);
        let file = blobs(reads, &item).next().map(|blob| blob.digest);
        QueuedItem { weight, file, bucket, item, key, attempt: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BinaryHeap;
    use std::sync::Arc;

    use stage_core::{Blob, Value};

    use super::*;

    /// An item that reads a file of this size.
    fn queued(id: &str, file: &str, size: u64) -> QueuedItem {
        let blob = Blob { digest: Digest::of(file.as_bytes()), size, kind: "x".into() };
        let fields = [("text", Value::text(id)), ("weights", Value::Blob(Arc::new(blob)))];
        let item = Item::new(id, fields.into_iter().collect());
        let reads = ItemReads { names: vec!["text".into(), "weights".into()], id: false };
        QueuedItem::new(&reads, 0, item, Digest::of(id.as_bytes()))
    }

    #[test]
    fn the_longest_come_first_and_those_with_the_same_file_one_after_the_other() {
        let items = [
            queued("a@1", "one", 7),
            queued("a@2", "two", 7),
            queued("b@1", "one", 7),
            queued("b@2", "two", 7),
            queued("long", "three", 8),
        ];
        let mut queue = BinaryHeap::from(items);
        let order: Vec<String> =
            std::iter::from_fn(|| queue.pop()).map(|queued| queued.item.id.to_string()).collect();
        assert_eq!(order[0], "long");
        let of = |file: &str| ["a", "b"].map(|id| format!("{id}@{file}"));
        let pairs = [of("1"), of("2")];
        assert!(
            order[1..] == pairs.concat() || order[1..] == [of("2"), of("1")].concat(),
            "{order:?}"
        );
    }
}
