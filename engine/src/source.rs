//! Sources: what one saw last time holds as long as no file's stat differs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use cache::Digest;
use cache::stat::{self, Section, StatEntry, What};
use stage_core::event::{Event, Verdict};
use stage_core::key::{InputKey, StageKey};
use stage_core::{Job, Role, SourceOutput, StageError, World};

use crate::engine::{NoContext, Sink};
use crate::pipeline::StageSpec;
use crate::plan::planner::{PlanError, Planner};
use crate::plan::{Keyed, StagePlan};
use crate::reason::Reason;
use crate::record::{LastRecord, StageRecord};
use crate::tables::{WriteError, write_dataset};
use crate::world::{Trace, Watch};

/// The name under which a source's files stand in its key.
const FILES: &str = "files";
/// How many files are named before only their number is given.
const EXAMPLES: usize = 5;
const STAT_THREADS: usize = 2;

/// What has been seen under a scan key.
pub struct Seen {
    pub digest: Digest,
    /// The asking itself was repeated, since some answer differs.
    pub looked: bool,
}

type Look<'a> = &'a mut dyn FnMut(&mut dyn World) -> Result<(), StageError>;

/// Makes sure that what was seen under a scan key still holds, and looks again where not.
pub fn observe(
    planner: &mut Planner,
    scan: Digest,
    sink: Sink,
    look: Look,
) -> Result<Seen, PlanError> {
    let index = planner.index.clone();
    let (store, verify) = (planner.store.clone(), planner.verify);
    let mut waiting = |what| sink(Event::Waiting { what });
    if let Some(section) = index.section(&scan) {
        let differ: Vec<StatEntry> = match verify {
            true => section.iter().collect(),
            false => {
                let fs = store.cache().fs().as_ref();
                let differ = stat::differing(fs, store.base(), section, STAT_THREADS);
                differ.into_iter().filter_map(|at| section.get(at)).collect()
            }
        };
        let old = section.content();
        if differ.is_empty() {
            return Ok(Seen { digest: old, looked: false });
        }
        let mut watch = Watch::new(&store, &index, verify, &mut waiting);
        watch.look_again(&differ)?;
        let section = renewed(section, watch.seen);
        let digest = section.content();
        if digest == old {
            planner.seen.push((scan, section));
            return Ok(Seen { digest, looked: false });
        }
    }
    let mut watch = Watch::new(&store, &index, verify, &mut waiting);
    look(&mut watch)?;
    let section: Section = watch.seen.into_values().collect::<Vec<_>>().into();
    let digest = section.content();
    planner.seen.push((scan, section));
    Ok(Seen { digest, looked: true })
}

/// A section with what was seen now in the place of what was seen then.
fn renewed(section: &Section, mut seen: Trace) -> Section {
    let now = |entry: StatEntry| seen.remove(&entry.path).unwrap_or(entry);
    let mut entries: Vec<StatEntry> = section.iter().map(now).collect();
    entries.extend(seen.into_values());
    entries.into()
}

/// All entries under a scan key, as last seen.
pub fn entries(planner: &Planner, scan: &Digest) -> Vec<StatEntry> {
    match planner.seen.iter().rev().find(|(own, _)| own == scan) {
        Some((_, section)) => section.iter().collect(),
        None => {
            planner.index.section(scan).map_or_else(Vec::new, |section| section.iter().collect())
        }
    }
}

pub fn plan(
    planner: &mut Planner,
    spec: &StageSpec,
    last: Option<LastRecord>,
    sink: Sink,
) -> Result<StagePlan, PlanError> {
    let settings = settings_key(spec);
    let scan = settings.digest();
    let (engine, pipeline) = (planner.engine, planner.pipeline);
    let found = RefCell::new(None);
    let mut look = |world: &mut dyn World| {
        let job = engine.open(spec.kind, engine.setup(pipeline, spec)?, &mut NoContext)?;
        *found.borrow_mut() = Some(scan_with(job, world)?);
        Ok(())
    };
    let before = planner.index.clone();
    let seen = observe(planner, scan, sink, &mut look)?;
    let keyed = keyed(settings, seen.digest);
    let mut lost = Vec::new();
    if let Some(record) = planner.known(&keyed.digest, &mut lost)? {
        return Ok(StagePlan::fresh(spec, keyed, record));
    }
    if found.borrow().is_none() {
        // Nothing differs but the outcome is not there: it was never run, or is lost.
        let (store, index) = (planner.store.clone(), planner.index.clone());
        let mut waiting = |what| sink(Event::Waiting { what });
        look(&mut Watch::new(&store, &index, planner.verify, &mut waiting))?;
    }
    let mut reasons = planner.reasons(spec, last.as_ref(), &keyed, &lost, 1);
    if last.is_some() && seen.looked {
        let old = before.section(&scan).map_or_else(Vec::new, |section| section.iter().collect());
        add_file_reasons(&old, &entries(planner, &scan), &mut reasons);
    }
    let record = write(planner, spec, found.take().unwrap_or_default())?;
    Ok(StagePlan {
        verdict: Verdict::Dirty,
        reasons,
        executed: 1,
        ..StagePlan::scanned(spec, keyed, record)
    })
}

/// The parameters of a source, paths included: what it asks for depends on them.
fn settings_key(spec: &StageSpec) -> StageKey {
    let mut parameters = spec.parameters.clone();
    parameters.0.retain(|name, _| {
        spec.kind.parameter(name).is_some_and(|parameter| parameter.role == Role::Content)
    });
    StageKey {
        kind: spec.kind.name.to_owned(),
        version: spec.kind.version,
        parameters,
        files: Default::default(),
        inputs: Default::default(),
        salt: spec.policy.salt.clone(),
    }
}

fn keyed(mut key: StageKey, files: Digest) -> Keyed {
    key.inputs.insert(FILES.to_owned(), vec![InputKey::Dataset(files)]);
    Keyed { digest: key.digest(), key, roots: Default::default() }
}

fn scan_with(job: Job, world: &mut dyn World) -> Result<SourceOutput, StageError> {
    match job {
        Job::Source(mut source) => source.scan(world),
        Job::Item(_) | Job::Gather(_) => Err(StageError::failed("the stage is no source")),
    }
}

fn write(
    planner: &Planner,
    spec: &StageSpec,
    found: SourceOutput,
) -> Result<StageRecord, PlanError> {
    let value = write_dataset(&planner.store, found.items).map_err(|error| match error {
        WriteError::Cache(error) => PlanError::Cache(error),
        WriteError::Dataset(error) => StageError::failed(error.to_string()).into(),
    })?;
    let port = spec.kind.outputs.first().map_or("output", |port| port.name);
    Ok(StageRecord {
        outputs: [(port.to_owned(), value)].into(),
        rejects: found.rejects.into_iter().map(|(id, reject)| (id.into(), reject)).collect(),
        items: 1,
        notes: found.notes.into_iter().collect(),
        seconds: 0.0,
    })
}

/// Names the files that differ, in place of the statement that something does.
fn add_file_reasons(old: &[StatEntry], new: &[StatEntry], reasons: &mut Vec<Reason>) {
    let changes = compare_traces(old, new);
    if changes.is_empty() {
        return;
    }
    reasons.retain(|reason| !matches!(reason, Reason::ResultGone | Reason::RejectsChanged { .. }));
    let more = changes.len().saturating_sub(EXAMPLES) as u64;
    reasons.extend(changes.into_iter().take(EXAMPLES));
    if more > 0 {
        reasons.push(Reason::MoreSourceFiles { count: more });
    }
}

fn compare_traces<'a>(old: &'a [StatEntry], new: &'a [StatEntry]) -> Vec<Reason> {
    let digests = |entries: &'a [StatEntry]| -> BTreeMap<&'a str, String> {
        let there = entries.iter().filter(|entry| entry.what != What::Absent);
        there.map(|entry| (entry.path.as_str(), entry.digest.short())).collect()
    };
    let (old, new) = (digests(old), digests(new));
    let paths: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let mut reasons = Vec::new();
    for path in paths {
        let (old, new) = (old.get(path).cloned(), new.get(path).cloned());
        if old != new {
            reasons.push(Reason::SourceFileChanged { path: path.to_owned(), old, new });
        }
    }
    reasons
}
