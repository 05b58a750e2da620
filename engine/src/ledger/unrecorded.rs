//! Items that a stage had quarantined when it failed by its limit, or when it was done except for
//! items that failed.
//!
//! They are no result: no key leads to them and nothing is made from them. They are kept to be
//! listed, since such a stage has no recorded outcome.

use std::sync::Arc;

use cache::{Cache, CacheError, Digest};
use serde::{Deserialize, Serialize};
use stage_core::Reject;
use stage_core::key::{HashSink, Sink};

use crate::record::{EXCESS, decode, encode, last_key};

/// A record holds at most this many items: a whole corpus may have been set aside.
const PART: usize = 1_000;

/// The last end of a stage without a recorded outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct UnrecordedEnd {
    pub run: u64,
    pub rejects: Vec<(Arc<str>, Reject)>,
}

/// The record of the stage; its items are in parts beside it.
#[derive(Serialize, Deserialize)]
struct Head {
    run: u64,
    parts: u64,
}

/// Stores the items that a stage had quarantined when it failed in a run, and replaces those of an
/// earlier failure.
pub fn keep(
    cache: &Cache,
    pipeline: &str,
    stage: &str,
    unrecorded: &UnrecordedEnd,
) -> Result<(), CacheError> {
    let stage = last_key(pipeline, stage);
    let parts = unrecorded.rejects.chunks(PART);
    let head = Head { run: unrecorded.run, parts: parts.len() as u64 };
    for (number, part) in parts.enumerate() {
        cache.record(EXCESS, &part_key(&stage, number as u64), encode(&part))?;
    }
    cache.record(EXCESS, &stage, encode(&head))
}

/// The items that the stage had quarantined when it last failed by its limit, even if it succeeded
/// since.
pub fn last(
    cache: &Cache,
    pipeline: &str,
    stage: &str,
) -> Result<Option<UnrecordedEnd>, CacheError> {
    let stage = last_key(pipeline, stage);
    let head = cache.get(EXCESS, &stage)?;
    let Some(Head { run, parts }) = head.and_then(|bytes| decode(&bytes)) else { return Ok(None) };
    let mut rejects = Vec::new();
    for number in 0..parts {
        let part = cache.get(EXCESS, &part_key(&stage, number))?;
        let part = part.and_then(|bytes| decode::<Vec<(Arc<str>, Reject)>>(&bytes));
        rejects.extend(part.unwrap_or_default());
    }
    Ok(Some(UnrecordedEnd { run, rejects }))
}

fn part_key(stage: &Digest, number: u64) -> Digest {
    let mut sink = HashSink::default();
    sink.digest("set aside by stage", stage);
    sink.integer("part", number as i64);
    sink.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cache::Access;
    use cache::fs::MemoryFs;

    fn unrecorded(run: u64, count: usize) -> UnrecordedEnd {
        let reject = |number| (format!("item {number}").into(), Reject::new("bad", "is bad"));
        UnrecordedEnd { run, rejects: (0..count).map(reject).collect() }
    }

    #[test]
    fn a_long_list_is_kept_in_parts_and_a_later_one_takes_its_place() {
        let cache =
            Cache::open("/cache".into(), Arc::new(MemoryFs::new()), Access::ReadWrite).unwrap();
        for (run, count) in [(1, 2 * PART + 5), (2, PART), (3, 7)] {
            keep(&cache, "p", "s", &unrecorded(run, count)).unwrap();
            assert_eq!(last(&cache, "p", "s").unwrap(), Some(unrecorded(run, count)));
        }
        assert_eq!(last(&cache, "p", "other").unwrap(), None);
    }
}
