//! Garbage collection: the cache may drop everything that no kept run reaches.
//!
//! Marking goes from the kept runs to the outcomes of their stages, and from there to data sets,
//! chunks and blobs. A record of one item or bucket is kept as long as everything that it refers to
//! is kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::event::Status;
use cache::{Cache, CacheError, Digest, IdleInputs, SweepPlan, Table};
use stage_core::course::UNTIL;
use stage_core::{Chunk, Dataset, Fields};

use crate::failed_output::FailedOutput;
use crate::history;
use crate::record::{
    CHECKPOINT, CHUNK, CheckpointRecord, ChunkRecord, ITEM, ItemRecord, JUDGED, LAST, LastRecord,
    MADE_OF, MEMO, MIRRORED, PART, PROGRESS, PartRecord, PortValue, Previous, RunRecord, STAGE,
    STEP_TIMES, StageRecord, decode,
};

#[derive(Clone, Copy, Debug)]
pub struct GcLimits {
    /// The number of last runs of every pipeline that are kept.
    pub keep_runs: usize,
    /// Runs that began at this time or later are kept; seconds since 1970.
    pub kept_since: Option<i64>,
    pub most_bytes: Option<u64>,
}

pub struct GcPlan {
    pub sweep: SweepPlan,
    /// The runs with kept results.
    pub kept: Vec<u64>,
    pub given_up: Vec<GivenUp>,
    /// Copies of inputs of programs, which the next run makes again.
    pub inputs: Vec<IdleInputs>,
    /// A run that was stopped or killed, or is still running: all outcomes of single items are kept
    /// until it is finished.
    pub unfinished: Option<u64>,
}

/// An outcome that is dropped although a kept run reaches it, to meet the size limit.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenUp {
    pub stage: String,
    pub bytes: u64,
    /// The time that making it took.
    pub seconds: f64,
}

/// Analyses the whole cache and decides; removes nothing.
pub fn plan(cache: &Cache, limits: &GcLimits) -> Result<GcPlan, CacheError> {
    let runs = history::runs(cache)?;
    let kept = kept_runs(&runs, limits);
    let unfinished = unfinished(cache, &runs)?;
    let lasts: Vec<LastRecord> = decoded(cache, LAST)?.into_iter().map(|(_, last)| last).collect();
    let wanted = wanted_keys(&runs, &kept, &lasts, limits);
    let mut marks = Marks::default();
    let resumable = resumable(cache, &runs, &kept, &wanted, limits)?;
    let parents = resumable.values().filter_map(|record| record.parent);
    let parents: Vec<(Digest, bool)> = parents.map(|parent| (parent, true)).collect();
    marks.outcomes(cache, &wanted.into_iter().chain(parents).collect())?;
    let states = || resumable.values().flat_map(|record| &record.states);
    let checkpoints: HashSet<Digest> =
        states().flat_map(Fields::blobs).map(|blob| blob.digest).collect();
    let (unused, used) = unused_inputs(cache, limits)?;
    let given_up = match limits.most_bytes {
        Some(limit) => marks.give_up(cache, &runs, &checkpoints, limit.saturating_sub(used))?,
        None => Vec::new(),
    };
    let mut live = marks.live();
    live.extend(checkpoints);
    // Small tables that `why` uses to name differences.
    for root in lasts.iter().flat_map(|last| last.roots.values().flatten()) {
        mark_tables(cache, root, &mut live)?;
    }
    if unfinished.is_some() {
        mark_items(cache, &mut live)?;
    }
    let live_record = |table: Table, key: &Digest, value: &[u8]| match table {
        CHECKPOINT | PROGRESS | STEP_TIMES | MIRRORED => resumable.contains_key(key),
        _ => marks.keeps(table, key, value, &live),
    };
    let sweep = cache.sweep_plan(&|digest| live.contains(digest), &live_record)?;
    Ok(GcPlan { sweep, kept: kept.into_iter().collect(), given_up, inputs: unused, unfinished })
}

/// The time for which copies of inputs of programs stay without use.
const INPUTS_STAY_NS: i64 = 7 * 24 * 3_600 * 1_000_000_000;

/// The folders with inputs of programs to remove, and the size of those that stay. Under a size limit all
/// go that no process uses: nothing is cheaper to make again.
fn unused_inputs(cache: &Cache, limits: &GcLimits) -> Result<(Vec<IdleInputs>, u64), CacheError> {
    let before = cache.fs().now().saturating_sub(INPUTS_STAY_NS);
    let idle = cache.idle_inputs()?;
    let goes = |folder: &IdleInputs| limits.most_bytes.is_some() || folder.used_ns < before;
    let (unused, used): (Vec<IdleInputs>, Vec<IdleInputs>) = idle.into_iter().partition(goes);
    Ok((unused, used.iter().map(|folder| folder.bytes).sum()))
}

fn kept_runs(runs: &[RunRecord], limits: &GcLimits) -> BTreeSet<u64> {
    let mut kept = BTreeSet::new();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for run in runs.iter().rev() {
        let later = seen.entry(&run.pipeline).or_default();
        let is_recent = limits.kept_since.is_some_and(|since| run.started >= since);
        if run.pinned || is_recent || *later < limits.keep_runs {
            kept.insert(run.run);
        }
        *later += 1;
    }
    kept
}

/// The last run of a pipeline, if it has not ended.
fn unfinished(cache: &Cache, runs: &[RunRecord]) -> Result<Option<u64>, CacheError> {
    let last: BTreeMap<&str, &RunRecord> =
        runs.iter().map(|run| (run.pipeline.as_str(), run)).collect();
    let open = last.values().filter(|run| run.status != Status::Done).map(|run| run.run).max();
    // A killed run matters until another has finished its work.
    let is_last = |run: &history::OpenRun| {
        last.get(run.pipeline.as_str()).is_none_or(|last| last.run < run.run)
    };
    let begun = history::begun_runs(cache, runs)?.into_iter().filter(is_last);
    Ok(begun.map(|run| run.run).max().max(open))
}

/// The checkpoints of unfinished trainings that garbage collection would keep, by whole-stage key.
pub fn open_checkpoints(
    cache: &Cache,
    keep_runs: usize,
) -> Result<BTreeMap<Digest, CheckpointRecord>, CacheError> {
    let limits = GcLimits { keep_runs, kept_since: None, most_bytes: None };
    let runs = history::runs(cache)?;
    let kept = kept_runs(&runs, &limits);
    let lasts: Vec<LastRecord> =
        decoded(cache, LAST)?.into_iter().map(|(_, last): (Digest, LastRecord)| last).collect();
    let wanted = wanted_keys(&runs, &kept, &lasts, &limits);
    resumable(cache, &runs, &kept, &wanted, &limits)
}

/// The checkpoints of unfinished trainings that one of the last runs worked on, by whole-stage key.
fn resumable(
    cache: &Cache,
    runs: &[RunRecord],
    kept: &BTreeSet<u64>,
    wanted: &BTreeMap<Digest, bool>,
    limits: &GcLimits,
) -> Result<BTreeMap<Digest, CheckpointRecord>, CacheError> {
    let mut resumable = BTreeMap::new();
    for (key, record) in decoded::<CheckpointRecord>(cache, CHECKPOINT)? {
        // A killed run has no record: it counts like the run after it.
        let later = runs.iter().filter(|run| run.pipeline == record.pipeline);
        let later = later.filter(|run| run.run > record.run).count();
        let is_recent = later < limits.keep_runs || kept.contains(&record.run);
        let is_finished = history::outcome_of(cache, &key)?.is_some() && !leads_on(cache, &key)?;
        if !is_finished && (is_recent || wanted.contains_key(&key)) {
            resumable.insert(key, record);
        }
    }
    Ok(resumable)
}

/// Tests if a training is a rung of a sweep, from which a longer one goes on.
fn leads_on(cache: &Cache, key: &Digest) -> Result<bool, CacheError> {
    let made_of = cache.get(MADE_OF, key)?.and_then(|bytes| decode::<Previous>(&bytes));
    Ok(made_of.is_some_and(|(key, _)| key.parameters.is_set(UNTIL)))
}

/// The whole-stage keys of kept runs, with a flag for pinned ones.
fn wanted_keys(
    runs: &[RunRecord],
    kept: &BTreeSet<u64>,
    lasts: &[LastRecord],
    limits: &GcLimits,
) -> BTreeMap<Digest, bool> {
    // A run of a few stages says nothing about the others, so their present state counts too.
    let present = lasts.iter().filter(|last| limits.keep_runs > 0 || kept.contains(&last.run));
    let mut wanted: BTreeMap<Digest, bool> =
        present.map(|last| (last.key.digest(), false)).collect();
    for run in runs.iter().filter(|run| kept.contains(&run.run)) {
        for key in run.keys.values() {
            *wanted.entry(*key).or_default() |= run.pinned;
        }
    }
    wanted
}

fn decoded<T: serde::de::DeserializeOwned>(
    cache: &Cache,
    table: Table,
) -> Result<Vec<(Digest, T)>, CacheError> {
    let records = cache.scan(table)?;
    Ok(records.iter().filter_map(|(key, bytes)| Some((*key, decode(bytes)?))).collect())
}

/// The objects that outcomes of stages reach.
#[derive(Default)]
struct Marks {
    /// By whole-stage key.
    outcomes: BTreeMap<Digest, OutcomeReach>,
}

struct OutcomeReach {
    objects: HashSet<Digest>,
    seconds: f64,
    pinned: bool,
}

impl Marks {
    fn outcomes(
        &mut self,
        cache: &Cache,
        wanted: &BTreeMap<Digest, bool>,
    ) -> Result<(), CacheError> {
        for (key, pinned) in wanted {
            let Some(record) = history::outcome_of(cache, key)? else { continue };
            let mut objects = HashSet::new();
            record.outputs.values().try_for_each(|value| mark_value(cache, value, &mut objects))?;
            let StageRecord { seconds, .. } = record;
            self.outcomes.insert(*key, OutcomeReach { objects, seconds, pinned: *pinned });
        }
        Ok(())
    }

    fn live(&self) -> HashSet<Digest> {
        self.outcomes.values().flat_map(|reached| reached.objects.iter().copied()).collect()
    }

    /// Drops whole outcomes, starting with those that are cheapest to remake for their size.
    /// Checkpoints stay: they took long to make, and the next run needs them.
    fn give_up(
        &mut self,
        cache: &Cache,
        runs: &[RunRecord],
        checkpoints: &HashSet<Digest>,
        limit: u64,
    ) -> Result<Vec<GivenUp>, CacheError> {
        let costs = Costs::read(cache)?;
        let mut reached = self.live();
        reached.extend(checkpoints);
        let sizes = sizes(cache, &reached)?;
        let mut total: u64 = sizes.values().sum();
        let mut order: Vec<(f64, Digest)> = Vec::new();
        for (key, reached) in self.outcomes.iter().filter(|(_, reached)| !reached.pinned) {
            let bytes: u64 = reached.objects.iter().filter_map(|object| sizes.get(object)).sum();
            let seconds = costs.seconds(reached);
            order.push((seconds / bytes.max(1) as f64, *key));
        }
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let names: HashMap<Digest, &String> =
            runs.iter().flat_map(|run| run.keys.iter().map(|(name, key)| (*key, name))).collect();
        let mut users: HashMap<Digest, usize> = HashMap::new();
        let objects = self.outcomes.values().flat_map(|reached| &reached.objects);
        let objects = objects.chain(checkpoints);
        objects.for_each(|object| *users.entry(*object).or_default() += 1);
        let mut given_up = Vec::new();
        for (_, key) in order {
            if total <= limit {
                break;
            }
            let Some(reached) = self.outcomes.remove(&key) else { continue };
            let mut bytes = 0;
            for object in &reached.objects {
                let users = users.entry(*object).or_default();
                *users = users.saturating_sub(1);
                if *users == 0 {
                    bytes += sizes.get(object).copied().unwrap_or(0);
                }
            }
            total = total.saturating_sub(bytes);
            let stage = names.get(&key).map_or_else(|| key.short(), |name| name.to_string());
            given_up.push(GivenUp { stage, bytes, seconds: costs.seconds(&reached) });
        }
        Ok(given_up)
    }

    /// Tests if a record stays, given the live objects.
    fn keeps(&self, table: Table, key: &Digest, value: &[u8], live: &HashSet<Digest>) -> bool {
        let all_live = |fields: &Fields| fields.blobs().all(|blob| live.contains(&blob.digest));
        match table {
            STAGE | MADE_OF => self.outcomes.contains_key(key),
            ITEM => match decode::<ItemRecord>(value) {
                Some(ItemRecord::Done { fields, .. }) => all_live(&fields),
                Some(ItemRecord::Rejected(_)) => true,
                None => false,
            },
            CHUNK => decode::<ChunkRecord>(value)
                .is_some_and(|record| record.chunk.is_none_or(|chunk| live.contains(&chunk))),
            PART => decode::<PartRecord>(value).is_some_and(|record| live.contains(&record.chunk)),
            JUDGED => decode::<FailedOutput>(value).is_some_and(|judged| judged.is_among(live)),
            // Other memos are small and stay valid whatever is stored.
            MEMO => decode_whole::<Fields>(value).is_none_or(|fields| all_live(&fields)),
            _ => true,
        }
    }
}

/// The time that single items took: a stage that ran for a few of its items only has its own time
/// for those.
struct Costs(HashMap<Digest, f64>);

impl Costs {
    fn read(cache: &Cache) -> Result<Costs, CacheError> {
        let mut costs = HashMap::new();
        for (_, record) in decoded::<ItemRecord>(cache, ITEM)? {
            if let ItemRecord::Done { fields, seconds, .. } = record
                && let Some(blob) = fields.blobs().next()
            {
                costs.insert(blob.digest, f64::from(seconds));
            }
        }
        Ok(Costs(costs))
    }

    fn seconds(&self, reached: &OutcomeReach) -> f64 {
        let items: f64 = reached.objects.iter().filter_map(|object| self.0.get(object)).sum();
        items.max(reached.seconds)
    }
}

fn sizes(cache: &Cache, objects: &HashSet<Digest>) -> Result<HashMap<Digest, u64>, CacheError> {
    let mut sizes = HashMap::new();
    for object in objects {
        if let Some(size) = cache.size(object)? {
            sizes.insert(*object, size);
        }
    }
    Ok(sizes)
}

pub fn decode_whole<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

pub fn mark_value(
    cache: &Cache,
    value: &PortValue,
    live: &mut HashSet<Digest>,
) -> Result<(), CacheError> {
    match value {
        PortValue::Artifact(fields) => live.extend(fields.blobs().map(|blob| blob.digest)),
        PortValue::Dataset { root, .. } => {
            for chunk in mark_tables(cache, root, live)? {
                let blobs = chunk.items.iter().flat_map(|item| item.fields.blobs());
                live.extend(blobs.map(|blob| blob.digest));
            }
        }
    }
    Ok(())
}

/// Marks a data set without its blobs; returns its chunks. A lost data set keeps nothing alive.
pub fn mark_tables(
    cache: &Cache,
    root: &Digest,
    live: &mut HashSet<Digest>,
) -> Result<Vec<Chunk>, CacheError> {
    live.insert(*root);
    let mut chunks = Vec::new();
    let Some(bytes) = read(cache, root)? else { return Ok(chunks) };
    let dataset = Dataset::decode(&bytes).unwrap_or_default();
    for bucket in dataset.buckets {
        live.insert(bucket.chunk);
        let bytes = read(cache, &bucket.chunk)?;
        chunks.extend(bytes.and_then(|bytes| Chunk::decode(&bytes).ok()));
    }
    Ok(chunks)
}

fn read(cache: &Cache, digest: &Digest) -> Result<Option<bytes::Bytes>, CacheError> {
    match cache.read(digest) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_lost_object() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Every outcome of an item, a bucket or a part of a gather, regardless of use.
fn mark_items(cache: &Cache, live: &mut HashSet<Digest>) -> Result<(), CacheError> {
    for (_, record) in decoded::<ItemRecord>(cache, ITEM)? {
        if let ItemRecord::Done { fields, .. } = record {
            live.extend(fields.blobs().map(|blob| blob.digest));
        }
    }
    let chunks = decoded::<ChunkRecord>(cache, CHUNK)?;
    live.extend(chunks.into_iter().filter_map(|(_, record)| record.chunk));
    for (_, bytes) in cache.scan(MEMO)? {
        if let Some(fields) = decode_whole::<Fields>(&bytes) {
            live.extend(fields.blobs().map(|blob| blob.digest));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
