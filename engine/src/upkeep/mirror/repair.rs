//! Repairs of a remote: which outcomes are still whole, and what is written before damaged files are
//! removed.

use std::collections::HashSet;

use bytes::Bytes;
use cache::{Cache, Digest, Table};
use remote::{Fresh, PushCounts, Remote, RemoteError, Salvage, VerifyReport};

use super::{bring_tables, push_logs, selected};
use crate::gc;
use crate::record::{PortValue, STAGE, StageRecord, decode};

/// Writes the intact contents of damaged packs to the remote, with the copies that this machine has
/// of damaged contents, and then removes the damaged files. Returns their names as well.
pub fn repair(
    cache: &Cache,
    remote: &Remote,
    verified: &VerifyReport,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(Vec<String>, PushCounts), RemoteError> {
    let mut salvage = remote.begin_repair(verified)?;
    let damaged = std::mem::take(&mut salvage.damaged);
    let mut pushed = remote.push(selected(cache, remote, salvage, progress)?)?;
    pushed.logs += push_logs(cache, remote)?;
    let removed = remote.end_repair(damaged)?;
    Ok((removed, pushed))
}

/// The outcomes with objects that all exist: on this machine, in intact packs, or as files of their
/// own in the remote. The end of the repair removes the others, so that a machine with their
/// objects writes them again. `knows_all`: the outcome has a list of all objects that its packs had.
pub fn only_whole(
    cache: &Cache,
    remote: &Remote,
    salvage: &Salvage,
    outcomes: Vec<Fresh>,
    knows_all: impl Fn(&Fresh) -> bool,
) -> Result<Vec<Fresh>, RemoteError> {
    let is_left = |digest: &Digest| -> Result<bool, RemoteError> {
        Ok(remote.keeps_large(digest) || cache.contains(digest)? || remote.lists(digest)?)
    };
    let mut whole = Vec::new();
    let record =
        |(table, value): (Table, &Bytes)| decode::<StageRecord>(value).filter(|_| table == STAGE);
    let records: Vec<Option<StageRecord>> =
        outcomes.iter().map(|outcome| record((outcome.table, &outcome.value))).collect();
    let others = salvage.others.iter().filter_map(|(table, value)| record((*table, value)));
    // Without an index, the recordings of all data sets have to be told from lost objects.
    let others: Vec<StageRecord> =
        if outcomes.iter().all(&knows_all) { Vec::new() } else { others.collect() };
    let all = || records.iter().flatten().chain(&others);
    for output in all().flat_map(|record| record.outputs.values()) {
        if let PortValue::Dataset { root, .. } = output {
            bring_tables(cache, remote, root)?;
        }
    }
    let in_place = read_in_place(cache, all(), &is_left)?;
    for (mut outcome, record) in outcomes.into_iter().zip(records) {
        if let Some(record) = record {
            let mut needed = HashSet::new();
            for output in record.outputs.values() {
                gc::mark_value(cache, output, &mut needed)?;
            }
            if knows_all(&outcome) {
                outcome.objects.retain(|digest| needed.contains(digest))
            } else {
                outcome.objects = needed.difference(&in_place).copied().collect()
            }
        }
        let mut is_whole = true;
        for digest in &outcome.objects {
            is_whole &= is_left(digest)?;
        }
        if is_whole {
            whole.push(outcome);
        }
    }
    Ok(whole)
}

/// The recordings that stages read where they are: the objects of items of data sets without a single
/// one in the remote.
fn read_in_place<'a>(
    cache: &Cache,
    records: impl Iterator<Item = &'a StageRecord>,
    is_left: &dyn Fn(&Digest) -> Result<bool, RemoteError>,
) -> Result<HashSet<Digest>, RemoteError> {
    let mut in_place = HashSet::new();
    for output in records.flat_map(|record| record.outputs.values()) {
        let PortValue::Dataset { root, .. } = output else { continue };
        let chunks = gc::mark_tables(cache, root, &mut HashSet::new())?;
        let items = chunks.iter().flat_map(|chunk| &chunk.items);
        let blobs: HashSet<Digest> =
            items.flat_map(|item| item.fields.blobs()).map(|blob| blob.digest).collect();
        let left: Result<Vec<bool>, RemoteError> = blobs.iter().map(is_left).collect();
        if !left?.contains(&true) {
            in_place.extend(blobs);
        }
    }
    Ok(in_place)
}
