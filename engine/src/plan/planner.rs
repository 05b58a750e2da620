//! Makes the plan: one walk over the stages in topological order.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use crate::event::{Event, Verdict};
use bytes::Bytes;
use cache::stat::{Section, StatEntry, StatIndex, What};
use cache::{Cache, CacheError, Digest, VerifyOptions};
use camino::Utf8PathBuf;
use stage_core::key::StageKey;
use stage_core::{Blob, Fields, Value, World};

use super::earlier::Earlier;
use super::inputs::{StageInputs, arriving, names};
use super::items::{ItemPlanner, item_reads};
use super::names::with_names_of;
use super::reasons::{differences, reasons_from};
use super::source;
use super::stage::{Plan, StageKnowledge, StagePlan, main_output};
use super::sweep::Measured;
use super::value::PlannedValue;
use super::work::{StageIdentity, Work};
use crate::engine::Engine;
use crate::error::{EngineError, PlanError};
use crate::mirror::{adopt_any, scope_of, tell_notes};
use crate::options::{Mode, Sink};
use crate::pipeline::{Pipeline, StageId, StageSpec, StageWork};
use crate::reason::Reason;
use crate::record::{LAST, LastRecord, PortValue, STAGE, StageRecord, decode, last_key};
use crate::store::{ReadError, Store};
use crate::sweep::halving::Part;
use crate::world::unsaved;

/// The state for planning stages, also again during a run.
pub struct Planner<'a> {
    pub engine: &'a Engine,
    pub pipeline: &'a Pipeline,
    pub store: Store,
    pub index: Arc<StatIndex>,
    /// Replace sections of the index when the plan is done.
    pub seen: Vec<(Digest, Section)>,
    pub assets: BTreeMap<String, Fields>,
    /// The content of `File` parameters, by stage.
    pub files: Vec<BTreeMap<String, Blob>>,
    /// An object is known to be lost: check every blob.
    pub deep: bool,
    pub purpose: Purpose,
    /// The scores of trials that were looked up.
    pub measured: RefCell<HashMap<Digest, Measured>>,
}

/// The use of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is shown or measured.
    Show,
    /// It is run: its observations of files are stored as those of the last run.
    Run,
    /// The same for a shard of a stage, which waits for no scores.
    Shard,
}

impl From<&Mode> for Purpose {
    fn from(mode: &Mode) -> Purpose {
        match mode {
            Mode::Run => Purpose::Run,
            Mode::Probe { .. } => Purpose::Show,
            Mode::Shard(_) => Purpose::Shard,
        }
    }
}

/// The number of times that a plan is made again because an object turned out to be lost.
const ATTEMPTS: usize = 8;
/// The number of losses that are handled one by one; after that the whole cache is verified.
const PATIENCE: usize = 3;

/// Quarantines all damaged objects, so that everything that has to be made again is known at once.
/// Damage in one place is likely to mean damage in others.
pub fn look_through(cache: &Cache, sink: Sink) -> Result<(), CacheError> {
    if cache.is_read_only() {
        return Ok(());
    }
    let what = "a check of the whole cache, since several objects are damaged".to_owned();
    sink(Event::Waiting { what });
    let options = VerifyOptions { repair: true, read_data: true };
    cache.verify(options, &|_, _| {}).map(drop)
}

impl<'a> Planner<'a> {
    pub fn new(
        engine: &'a Engine,
        pipeline: &'a Pipeline,
        cache: &Cache,
    ) -> Result<Planner<'a>, CacheError> {
        let index = Arc::new(StatIndex::load(cache)?);
        let is_apart = engine.remote.is_none() && remote::lacks_objects(cache)?;
        Ok(Planner {
            engine,
            pipeline,
            store: Store::with_remote(
                cache.clone(),
                &pipeline.base,
                index.clone(),
                engine.remote.clone(),
            ),
            index,
            seen: Vec::new(),
            assets: BTreeMap::new(),
            files: vec![BTreeMap::new(); pipeline.stages.len()],
            deep: is_apart || cache.has_losses(),
            purpose: Purpose::Show,
            measured: RefCell::default(),
        })
    }

    /// Plans the targets and their upstream stages; everything if there are no targets.
    pub fn plan(&mut self, targets: &[StageId], sink: Sink) -> Result<Plan, EngineError> {
        for at in 1..ATTEMPTS {
            if at == PATIENCE {
                look_through(self.store.cache(), sink)?;
            }
            match self.attempt(targets, sink) {
                Err((_, PlanError::Read(ReadError::Lost(digest)))) => {
                    self.store.lost("", &digest).into_iter().for_each(&mut *sink);
                    self.deep = true;
                }
                other => return other.map_err(|(stage, error)| error.at(stage)),
            }
        }
        self.attempt(targets, sink).map_err(|(stage, error)| error.at(stage))
    }

    fn attempt(&mut self, targets: &[StageId], sink: Sink) -> Result<Plan, (String, PlanError)> {
        let started = Instant::now();
        let wanted = match targets {
            [] => self.pipeline.ids().collect(),
            targets => self.pipeline.with_upstream(targets),
        };
        self.look_at_files(&wanted, sink)?;
        let mut stages: Vec<StagePlan> = Vec::with_capacity(self.pipeline.stages.len());
        for spec in &self.pipeline.stages {
            let plan = if wanted.contains(&spec.id) {
                self.stage(spec, &stages, sink)
            } else {
                Ok(StagePlan::unwanted())
            };
            stages.push(plan.map_err(|error| (spec.name.clone(), error))?);
        }
        tell_notes(self.store.remote(), sink);
        if let Some(trouble) = StatIndex::take_trouble(self.store.cache()) {
            let message = format!("{trouble}: files are read again, and it is written anew");
            sink(Event::Note { stage: None, message });
        }
        match self.save_index() {
            // The next scan hashes it again.
            Err(error) if error.machine_fault().is_some() => {
                if self.purpose != Purpose::Show {
                    sink(unsaved(&error));
                }
            }
            other => other.map_err(|error| (String::new(), error.into()))?,
        }
        Ok(Plan { stages, seconds: started.elapsed().as_secs_f64() })
    }

    /// Plans one stage from the plans of those before it.
    pub fn stage(
        &mut self,
        spec: &'a StageSpec,
        stages: &[impl AsRef<StageKnowledge>],
        sink: Sink,
    ) -> Result<StagePlan, PlanError> {
        let last = self.last(spec)?;
        let before = last.as_ref().map(|last| (last.key.clone(), last.roots.clone()));
        let started = Instant::now();
        let mut plan = self.stage_from(spec, stages, last, sink)?;
        if let Work::Scanned(_) = plan.work {
            plan.scan_seconds = started.elapsed().as_secs_f64();
        }
        let now = plan.known.keyed.as_ref().map(|keyed| (&keyed.key, &keyed.roots));
        plan.unchanged = plan.verdict == Verdict::Fresh
            && before.as_ref().map(|(key, roots)| (key, roots)) == now;
        Ok(plan)
    }

    fn stage_from(
        &mut self,
        spec: &'a StageSpec,
        stages: &[impl AsRef<StageKnowledge>],
        last: Option<LastRecord>,
        sink: Sink,
    ) -> Result<StagePlan, PlanError> {
        let pipeline = self.pipeline;
        if let Some(path) = pipeline.absent_file(spec) {
            return Ok(StagePlan::without_file(path));
        }
        if self.purpose != Purpose::Shard
            && let Some(plan) = self.gated(spec, stages)?
        {
            return Ok(plan);
        }
        if spec.work == StageWork::Source {
            return source::plan(self, spec, last, sink);
        }
        let arriving = arriving(pipeline, stages, &self.assets, spec);
        if let Some(plan) = arriving.left_out() {
            return Ok(plan);
        }
        let missing = arriving.missing(spec.work == StageWork::Item);
        if !missing.is_empty() {
            return Ok(StagePlan::waiting(names(pipeline, &missing), &arriving));
        }
        match spec.work {
            StageWork::Item => self.item_stage(spec, &arriving, last),
            _ => self.gather(spec, &arriving, last),
        }
    }

    fn gather(
        &mut self,
        spec: &StageSpec,
        arriving: &StageInputs,
        last: Option<LastRecord>,
    ) -> Result<StagePlan, PlanError> {
        let mut keyed = arriving.key(&self.store, &self.file_digests(spec), false)?;
        let mut lost = Vec::new();
        let mut known = self.known_outcome(spec, &keyed, &mut lost)?;
        if known.is_none() {
            self.store.scope_elsewhere(&scope_of(&self.pipeline.name, &spec.name))?;
        }
        if known.is_none()
            && let Some(parent) = self.parent_of(spec, &keyed, last.as_ref())?
        {
            keyed = keyed.with_parent(parent);
            lost.clear();
            known = self.known_outcome(spec, &keyed, &mut lost)?;
        }
        if known.is_none()
            && let Some(plan) = self.failure(spec, &keyed)?
        {
            return Ok(plan);
        }
        let mut reasons = match known.map(|record| (exceeded(spec, &record), record)) {
            Some((None, record)) => {
                if let Some(remote) = self.store.remote() {
                    remote.note_finished_scope(&scope_of(&self.pipeline.name, &spec.name));
                }
                return Ok(StagePlan::fresh(spec, keyed, record));
            }
            Some((Some(reason), _)) => vec![reason],
            None => self.reasons(spec, last.as_ref(), &keyed, &lost, 1),
        };
        if spec.work == StageWork::Train {
            if let Some(remote) = self.store.remote() {
                let prefixes = self.prefixes(spec, &keyed);
                adopt_any(self.store.cache(), remote, &keyed.digest, &prefixes)
                    .map_err(ReadError::from)?;
            }
            self.tell_of_checkpoint(spec, &keyed, &mut reasons)?;
        }
        let seconds = last.and_then(|last| self.seconds(&last)).unwrap_or(0.0);
        Ok(StagePlan {
            verdict: Verdict::Dirty,
            reasons,
            executed: 1,
            seconds,
            known: StageKnowledge { keyed: Some(keyed), ..StageKnowledge::default() },
            work: Work::Whole,
            ..StagePlan::unwanted()
        })
    }

    fn item_stage(
        &mut self,
        spec: &StageSpec,
        arriving: &StageInputs,
        last: Option<LastRecord>,
    ) -> Result<StagePlan, PlanError> {
        let files = self.file_digests(spec);
        let input = arriving.items().cloned().unwrap_or(PlannedValue::Unknown);
        let keyed = match input {
            PlannedValue::Root { .. } => Some(arriving.key(&self.store, &files, true)?),
            _ => None,
        };
        let (job, mut lost) = (arriving.job_key(&files), Vec::new());
        if let Some(keyed) = &keyed
            && let Some(plan) = self.decided(spec, keyed, &job, &mut lost)?
        {
            return Ok(plan);
        }
        let (work, counts) = self.item_planner(spec, &job, last.as_ref())?.plan(&input)?;
        lost.extend(&counts.lost);
        lost.sort_unstable();
        lost.dedup();
        let (quarantined, is_settled) = (counts.rejects.len() as u64, work.is_settled());
        // A stage that fails by its quarantine limit has no settled outcome.
        let limit = spec.policy.quarantine;
        let is_exceeded = is_settled && limit.is_exceeded(quarantined, counts.reused);
        if let (Some(keyed), true, false) = (&keyed, is_settled, is_exceeded) {
            let seconds = last.as_ref().and_then(|last| self.seconds(last)).unwrap_or(0.0);
            let record = work.settle(&self.store, spec, &counts, seconds)?;
            return Ok(StagePlan::fresh(spec, keyed.clone(), record));
        }
        let compared = keyed.as_ref().zip(last.as_ref());
        let differences =
            compared.map(|(keyed, last)| (last.run, differences(&self.store, spec, last, keyed)));
        let items = counts.reused;
        let reasons = match &keyed {
            Some(_) if is_exceeded => vec![Reason::TooManyQuarantined { quarantined, items }],
            Some(_) => reasons_from(spec, differences.as_ref(), &lost, counts.todo),
            None => self.pending_reasons(spec, last.as_ref(), arriving, &job, &lost),
        };
        let is_dirty = counts.todo > 0 || is_exceeded;
        Ok(StagePlan {
            unchanged: false,
            differences,
            verdict: if is_dirty { Verdict::Dirty } else { Verdict::Unknown },
            reasons,
            executed: counts.todo,
            pending: counts.pending,
            reused: counts.reused,
            quarantined,
            seconds: self.item_seconds(last.as_ref(), counts.todo + counts.pending),
            scan_seconds: 0.0,
            known: StageKnowledge {
                keyed,
                outputs: main_output(spec, PlannedValue::Partial(Arc::new(work.output()))),
                rejects: counts.rejects,
                part: Part::In,
            },
            work: Work::Items(work),
        })
    }

    /// The plan of an item stage with a known outcome, or with a known failure.
    fn decided(
        &self,
        spec: &StageSpec,
        keyed: &StageIdentity,
        job: &StageKey,
        lost: &mut Vec<Digest>,
    ) -> Result<Option<StagePlan>, PlanError> {
        let is_exceeded = |record: &StageRecord| {
            spec.policy.quarantine.is_exceeded(record.rejects.len() as u64, record.items)
        };
        match self.known(&keyed.digest, lost)?.filter(|record| !is_exceeded(record)) {
            Some(record) => {
                if let Some(remote) = self.store.remote() {
                    remote.note_finished_scope(&job.digest());
                }
                Ok(Some(StagePlan::fresh(spec, keyed.clone(), record)))
            }
            None => {
                // A failure may be one of another machine.
                self.store.scope_elsewhere(&job.digest())?;
                self.failure(spec, keyed)
            }
        }
    }

    fn item_planner(
        &self,
        spec: &StageSpec,
        job: &StageKey,
        last: Option<&LastRecord>,
    ) -> Result<ItemPlanner<'_>, PlanError> {
        let job = job.digest();
        self.store.scope_elsewhere(&job)?;
        // The children of an item are known by its own record.
        let earlier = if self.deep || spec.kind.expands.is_some() {
            None
        } else {
            Earlier::new(&self.store, job, last)?
        };
        Ok(ItemPlanner {
            store: &self.store,
            job,
            reads: item_reads(spec),
            expands: spec.kind.expands,
            earlier,
            deep: self.deep,
        })
    }

    /// A stored outcome with all its objects.
    pub fn known(
        &self,
        key: &Digest,
        lost: &mut Vec<Digest>,
    ) -> Result<Option<StageRecord>, PlanError> {
        let stored = self.store.cache().get(STAGE, key)?;
        let known = self.with_objects(stored, lost)?;
        if known.is_some() {
            return Ok(known);
        }
        match self.store.outcome_elsewhere(key)? {
            None => Ok(None),
            Some(elsewhere) => {
                lost.clear();
                let known = self.with_objects(Some(elsewhere.clone()), lost)?;
                match known {
                    Some(known) if self.store.accept(key, elsewhere)? => Ok(Some(known)),
                    _ => Ok(None),
                }
            }
        }
    }

    /// The outcome, if all its objects exist.
    fn with_objects(
        &self,
        record: Option<Bytes>,
        lost: &mut Vec<Digest>,
    ) -> Result<Option<StageRecord>, PlanError> {
        let Some(record) = record.and_then(|bytes| decode::<StageRecord>(&bytes)) else {
            return Ok(None);
        };
        for value in record.outputs.values() {
            self.look_for(value, lost)?;
        }
        Ok(lost.is_empty().then_some(record))
    }

    /// The stored outcome of a stage on whole data sets, with the present names of its items.
    fn known_outcome(
        &self,
        spec: &StageSpec,
        keyed: &StageIdentity,
        lost: &mut Vec<Digest>,
    ) -> Result<Option<StageRecord>, PlanError> {
        let known = self.known(&keyed.digest, lost)?;
        known.map(|record| with_names_of(&self.store, spec, keyed, record)).transpose()
    }

    /// The same, unless more items were quarantined than the stage allows.
    pub fn known_whole(
        &self,
        spec: &StageSpec,
        keyed: &StageIdentity,
        lost: &mut Vec<Digest>,
    ) -> Result<Option<StageRecord>, PlanError> {
        let known = self.known_outcome(spec, keyed, lost)?;
        Ok(known.filter(|record| exceeded(spec, record).is_none()))
    }

    fn look_for(&self, value: &PortValue, lost: &mut Vec<Digest>) -> Result<(), PlanError> {
        let mut look = |digest: &Digest| -> Result<bool, PlanError> {
            let there = self.store.has(digest)?;
            if !there {
                lost.push(*digest);
            }
            Ok(there)
        };
        match value {
            PortValue::Artifact(fields) => {
                for blob in fields.blobs() {
                    look(&blob.digest)?;
                }
            }
            PortValue::Dataset { root, .. } => {
                if look(root)? && self.deep {
                    for bucket in self.store.dataset(root)?.buckets {
                        if look(&bucket.chunk)? {
                            for item in self.store.chunk(&bucket.chunk)?.items {
                                for blob in item.fields.blobs() {
                                    look(&blob.digest)?;
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    pub fn last(&self, spec: &StageSpec) -> Result<Option<LastRecord>, PlanError> {
        let key = last_key(&self.pipeline.name, &spec.name);
        let record = self.store.cache().get(LAST, &key)?;
        Ok(record.and_then(|bytes| decode(&bytes)))
    }

    fn seconds(&self, last: &LastRecord) -> Option<f64> {
        let record = self.store.cache().get(STAGE, &last.key.digest()).ok()??;
        Some(decode::<StageRecord>(&record)?.seconds)
    }

    /// The time for this number of items at the pace of the last run.
    fn item_seconds(&self, last: Option<&LastRecord>, items: u64) -> f64 {
        let record = last.and_then(|last| {
            let record = self.store.cache().get(STAGE, &last.key.digest()).ok()??;
            decode::<StageRecord>(&record)
        });
        record.map_or(0.0, |record| record.seconds / record.items.max(1) as f64 * items as f64)
    }

    pub fn file_digests(&self, spec: &StageSpec) -> BTreeMap<String, Digest> {
        let files = self.files[spec.id.0].iter();
        files.map(|(name, blob)| (name.clone(), blob.digest)).collect()
    }

    /// Assets and `File` parameters: their content, from the stat index if it is valid.
    fn look_at_files(
        &mut self,
        wanted: &BTreeSet<StageId>,
        sink: Sink,
    ) -> Result<(), (String, PlanError)> {
        let used = self.pipeline.assets_of(wanted);
        for (name, asset) in &self.pipeline.assets {
            if !used.contains(name.as_str()) || self.is_absent(&asset.path) {
                continue;
            }
            let fields = self.look_at(&asset.path, sink);
            let mut fields = fields.map_err(|error| (format!("assets.{name}"), error))?;
            if let Some(commit) = &asset.commit {
                fields.set(COMMIT, Value::text(commit.as_str()));
            }
            self.assets.insert(name.clone(), fields);
        }
        for spec in self.pipeline.stages.iter().filter(|spec| wanted.contains(&spec.id)) {
            let files = spec.kind.parameters.iter().filter(|parameter| parameter.is_of_files());
            for (name, path) in files.flat_map(|file| file.paths(spec.parameters.get(file.name))) {
                let path = Utf8PathBuf::from(path);
                if self.is_absent(&path) || self.is_omitted(spec, &name, &path) {
                    continue;
                }
                let fields = self.look_at(&path, sink);
                let fields = fields.map_err(|error| (spec.name.clone(), error))?;
                if let Some(blob) = fields.blobs().next() {
                    let blob = Blob::clone(blob);
                    self.files[spec.id.0].insert(name, blob);
                }
            }
        }
        Ok(())
    }

    /// A file, or all files of a folder by their relative path, as the fields of an artifact.
    fn look_at(&mut self, path: &Utf8PathBuf, sink: Sink) -> Result<Fields, PlanError> {
        let scan = Digest::of(format!("files {path}").as_bytes());
        let mut look = |world: &mut dyn World| {
            if world.exists(path) {
                world.files(std::slice::from_ref(path)).map(drop)
            } else {
                let files = world.list(path)?.files;
                let files: Vec<Utf8PathBuf> = files.iter().map(|file| path.join(file)).collect();
                world.files(&files).map(drop)
            }
        };
        source::observe(self, scan, sink, &mut look, &|| false)?;
        let seen = source::entries(self, &scan);
        let above = seen.iter().filter_map(|entry| Some(entry.path.rsplit_once('/')?.0));
        let mut folders: Vec<&str> = above.collect();
        folders.dedup();
        let is_empty = |entry: &StatEntry| !folders.contains(&entry.path.as_str());
        let field = |entry: &StatEntry| {
            let is_inside = entry.path.len() > path.as_str().len();
            let value = match entry.what {
                What::File => {
                    let kind = "application/octet-stream".into();
                    Value::Blob(Arc::new(Blob { digest: entry.digest, size: entry.size, kind }))
                }
                _ if !is_inside => return None,
                // A text in the place of a file, so that a stage does not take it for missing.
                What::Unusable => Value::text("something that cannot be read"),
                What::Dir if is_empty(entry) => Value::text("an empty folder"),
                What::Absent => Value::text("a link to nothing"),
                What::Dir => return None,
            };
            Some((asset_name(path, entry), value))
        };
        Ok(seen.iter().filter_map(field).collect())
    }

    /// Takes observations that are to replace a section of the index. Objects in these files are
    /// found from now on.
    pub fn saw(&mut self, key: Digest, section: Section) {
        self.store.saw(&section);
        self.seen.push((key, section));
    }

    fn save_index(&mut self) -> Result<(), CacheError> {
        if self.seen.is_empty() || self.store.cache().is_read_only() {
            return Ok(());
        }
        let mut index = StatIndex::default();
        for (scan, section) in self.seen.drain(..) {
            index.put_section(scan, section);
        }
        // Objects that are stored already are reused.
        let saved = index.save(self.store.cache());
        let index = Arc::new(index);
        let (cache, remote) = (self.store.cache().clone(), self.store.remote().cloned());
        self.store = Store::with_remote(cache, &self.pipeline.base, index.clone(), remote);
        self.index = index;
        saved
    }
}

/// The field with the commit of a model of the Hugging Face Hub: no file has this name.
const COMMIT: &str = "/commit";

fn asset_name(path: &Utf8PathBuf, entry: &StatEntry) -> String {
    let relative = entry.path.strip_prefix(path.as_str()).unwrap_or(&entry.path);
    match relative.trim_start_matches('/') {
        "" => path.file_name().unwrap_or("file").to_owned(),
        inside => inside.to_owned(),
    }
}

/// The reason why an outcome does not count for a stage with a lower limit.
fn exceeded(spec: &StageSpec, record: &StageRecord) -> Option<Reason> {
    let (quarantined, items) = record.aside.as_ref()?.counted(&record.rejects);
    let is_exceeded = spec.policy.quarantine.is_exceeded(quarantined, items);
    is_exceeded.then_some(Reason::TooManyQuarantined { quarantined, items })
}

impl StagePlan {
    /// A stage with inputs that an earlier stage has yet to make.
    fn waiting(stages: Vec<String>, arriving: &StageInputs) -> StagePlan {
        let pending = match (arriving.spec.work, arriving.items()) {
            (StageWork::Item, Some(PlannedValue::Root { items, .. })) => *items,
            (StageWork::Item, Some(PlannedValue::Partial(partial))) => partial.items(),
            (StageWork::Item, _) => 0,
            _ => 1,
        };
        StagePlan {
            pending,
            reasons: vec![Reason::WaitsFor { stages }],
            work: Work::AwaitsInputs,
            ..StagePlan::unwanted()
        }
    }
}
