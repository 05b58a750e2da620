//! Sources: the outcome of the last scan is valid as long as no file's stat differs.

mod passed_on;

use std::cell::RefCell;

use crate::event::{Event, Verdict};
use cache::Digest;
use cache::stat::{self, Differing, NewContent, Section, StatEntry, What};
use stage_core::key::{HashSink, InputKey, Sink as _, StageKey};
use stage_core::{Detached, Job, Role, SourceOutput, StageError, World};

use super::planner::{Planner, Purpose};
use super::stage::StagePlan;
use super::work::StageIdentity;
use crate::error::PlanError;
use crate::options::Sink;
use crate::pipeline::StageSpec;
use crate::reason::Reason;
use crate::record::{LastRecord, StageRecord};
use crate::tables::{WriteError, write_dataset};
use crate::world::{Current, Watch};

/// The name of a source's files in its key.
const FILES: &str = "files";
/// The number of files that are named before only their number is given.
const EXAMPLES: usize = 5;
const STAT_THREADS: usize = 2;

type Look<'a> = &'a mut dyn FnMut(&mut dyn World) -> Result<(), StageError>;

/// The observations under a scan key.
pub struct Observations {
    /// The digest of all observations.
    pub content: Digest,
    /// Present if nothing was scanned again, since only contents of files differ.
    replaced: Option<EarlierObservations>,
}

/// The earlier observations under a scan key, and the differences.
struct EarlierObservations {
    before: Digest,
    contents: Vec<NewContent>,
}

impl From<Digest> for Observations {
    fn from(content: Digest) -> Observations {
        Observations { content, replaced: None }
    }
}

/// Checks that the observations under a scan key are still valid, and scans again if not. A source
/// that passes files on unread need not be scanned if only contents differ.
pub fn observe(
    planner: &mut Planner,
    scan: Digest,
    sink: Sink,
    look: Look,
    passes_files_on: &dyn Fn() -> bool,
) -> Result<Observations, PlanError> {
    let index = planner.index.clone();
    let (store, verify) = (planner.store.clone(), planner.engine.verify);
    let mut waiting = |what| sink(Event::Waiting { what });
    let mut current = None;
    if let Some(section) = index.section(&scan) {
        let differ = if verify {
            Differing::all(section)
        } else {
            let fs = store.cache().fs().as_ref();
            stat::differing(fs, store.base(), section, STAT_THREADS)
        };
        let old = section.content();
        if differ.is_empty() {
            return Ok(old.into());
        }
        let mut watch = Watch::new(&store, &index, verify, &mut waiting);
        watch.look_again(section, &differ)?;
        let again = watch.seen;
        if let Some(renewed) = section.renewed(&again) {
            planner.saw(scan, renewed);
            return Ok(old.into());
        }
        if passes_files_on()
            && let Some((section, contents)) = section.with_new_contents(&again)
        {
            let content = section.content();
            planner.saw(key_of_seen(planner, scan), section);
            let replaced = Some(EarlierObservations { before: old, contents });
            return Ok(Observations { content, replaced });
        }
        current = Some(Current::new(section, again));
    }
    let mut watch = Watch::new(&store, &index, verify, &mut waiting);
    watch.current = current;
    look(&mut watch)?;
    let section = Section::from(watch.seen);
    let content = section.content();
    planner.saw(key_of_seen(planner, scan), section);
    Ok(content.into())
}

/// The key under which new observations are stored.
fn key_of_seen(planner: &Planner, scan: Digest) -> Digest {
    if planner.purpose == Purpose::Show { planned_key(&scan) } else { scan }
}

/// The key under which a plan stores its observations, so that the run need not hash again: the
/// section under the scan key itself is that of the last run.
fn planned_key(scan: &Digest) -> Digest {
    let mut sink = HashSink::default();
    sink.digest("planned", scan);
    sink.finish()
}

fn seen_now<'a>(planner: &'a Planner, scan: &Digest) -> Option<&'a Section> {
    let planned = planned_key(scan);
    let now = planner.seen.iter().rev().find(|(own, _)| own == scan || *own == planned);
    now.map(|(_, section)| section)
}

/// All entries under a scan key, as last seen.
pub fn entries(planner: &Planner, scan: &Digest) -> Vec<StatEntry> {
    match seen_now(planner, scan) {
        Some(section) => section.iter().collect(),
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
        let job =
            engine.open(spec.kind, engine.setup(pipeline, spec)?, &mut Detached::default())?;
        *found.borrow_mut() = Some(scan_with(job, world)?);
        Ok(())
    };
    let before = planner.index.clone();
    let passes_files_on = || match engine.setup(pipeline, spec) {
        Ok(setup) => matches!(
            engine.open(spec.kind, setup, &mut Detached::default()),
            Ok(Job::Source(job)) if job.passes_files_on()
        ),
        // The scan itself reports the reason.
        Err(_) => false,
    };
    let observed = observe(planner, scan, sink, &mut look, &passes_files_on)?;
    let mut keyed = key_with(settings.clone(), observed.content);
    let mut lost = Vec::new();
    let known = planner.known(&keyed.digest, &mut lost)?;
    let reasons = if last.as_ref().is_none_or(|last| last.key != keyed.key) || known.is_none() {
        reasons(planner, spec, last, &keyed, (before.section(&scan), &scan), &lost)
    } else {
        Vec::new()
    };
    if let Some(record) = known {
        return Ok(StagePlan { reasons, ..StagePlan::fresh(spec, keyed, record) });
    }
    if let Some(EarlierObservations { before, contents }) = &observed.replaced {
        let before = key_with(settings.clone(), *before).digest;
        if let Some(record) = passed_on::outcome(&planner.store, &before, contents)? {
            return Ok(dirty(spec, keyed, record, reasons));
        }
    }
    if found.borrow().is_none() {
        // Neither the outcome nor its parts exist: it never ran, or is lost.
        let (store, index) = (planner.store.clone(), planner.index.clone());
        let mut waiting = |what| sink(Event::Waiting { what });
        let mut watch = Watch::new(&store, &index, planner.engine.verify, &mut waiting);
        look(&mut watch)?;
        // The files may have changed since they were compared with the stat index.
        let section = Section::from(watch.seen);
        keyed = key_with(settings, section.content());
        let key = if observed.replaced.is_some() { key_of_seen(planner, scan) } else { scan };
        planner.saw(key, section);
    }
    let record = write(planner, spec, found.take().unwrap_or_default())?;
    Ok(dirty(spec, keyed, record, reasons))
}

/// The reasons for a new outcome, with the files that changed since the last scan.
fn reasons(
    planner: &Planner,
    spec: &StageSpec,
    last: Option<LastRecord>,
    keyed: &StageIdentity,
    (before, scan): (Option<&Section>, &Digest),
    lost: &[Digest],
) -> Vec<Reason> {
    let mut reasons = planner.reasons(spec, last.as_ref(), keyed, lost, 1);
    if let (Some(_), Some(old), Some(new)) = (&last, before, seen_now(planner, scan)) {
        add_file_reasons(old, new, &mut reasons);
    }
    if last.is_some_and(|last| last.key.inputs != keyed.key.inputs) {
        // The stat index is lost, so that no file can be named.
        let gone = reasons.iter_mut().filter(|reason| **reason == Reason::ResultGone);
        gone.for_each(|reason| *reason = Reason::FilesChanged);
    }
    reasons
}

fn dirty(
    spec: &StageSpec,
    keyed: StageIdentity,
    record: StageRecord,
    reasons: Vec<Reason>,
) -> StagePlan {
    StagePlan {
        verdict: Verdict::Dirty,
        reasons,
        executed: 1,
        ..StagePlan::scanned(spec, keyed, record)
    }
}

/// The parameters of a source, paths included: the files that it reads depend on them.
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
        parent: None,
    }
}

fn key_with(mut key: StageKey, files: Digest) -> StageIdentity {
    key.inputs.insert(FILES.to_owned(), vec![InputKey::Dataset(files)]);
    StageIdentity { digest: key.digest(), key, roots: Default::default() }
}

fn scan_with(job: Job, world: &mut dyn World) -> Result<SourceOutput, StageError> {
    match job {
        Job::Source(mut source) => source.scan(world),
        Job::Item(_) | Job::Gather(_) => Err(StageError::failed("the stage is not a source")),
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
    let mut rejects = found.rejects;
    rejects.sort_by_cached_key(|(name, _)| place(name));
    Ok(StageRecord {
        outputs: [(port.to_owned(), value)].into(),
        rejects: rejects.into_iter().map(|(id, reject)| (id.into(), reject)).collect(),
        items: 1,
        notes: found.notes.into_iter().collect(),
        ..StageRecord::default()
    })
}

/// The file and the row in it of a name such as `list.csv:12`.
fn place(name: &str) -> (String, u64) {
    let row = name.rsplit_once(':').and_then(|(file, row)| Some((file, row.parse().ok()?)));
    let (file, row) = row.unwrap_or((name, 0));
    (file.to_owned(), row)
}

/// Names the files that differ, instead of only stating a difference.
fn add_file_reasons(old: &Section, new: &Section, reasons: &mut Vec<Reason>) {
    let mut changes = new.changes_from(old);
    let is_there =
        |entry: &Option<StatEntry>| entry.as_ref().is_some_and(|entry| entry.what != What::Absent);
    changes.retain(|(old, new)| is_there(old) || is_there(new));
    if changes.is_empty() {
        return;
    }
    reasons.retain(|reason| !matches!(reason, Reason::ResultGone | Reason::RejectsChanged { .. }));
    let more = changes.len().saturating_sub(EXAMPLES) as u64;
    reasons.extend(changes.into_iter().take(EXAMPLES).map(file_reason));
    if more > 0 {
        reasons.push(Reason::MoreSourceFiles { count: more });
    }
}

fn file_reason((old, new): (Option<StatEntry>, Option<StatEntry>)) -> Reason {
    let path = old.as_ref().or(new.as_ref()).map_or(String::new(), |entry| entry.path.clone());
    let short = |entry: Option<StatEntry>| {
        let entry = entry?;
        match entry.what {
            What::Absent => None,
            What::Unusable => Some("unreadable".to_owned()),
            What::File | What::Dir => Some(entry.digest.short()),
        }
    };
    Reason::SourceFileChanged { path, old: short(old), new: short(new) }
}
