//! A process of a job: the real `JobRunner`, with items and trainings that need no stage.
//!
//! The output of an item is made of its key alone, and the state of a training of its steps alone, so
//! every wrong byte is noticed.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cache::{Cache, Claim, Digest};
use engine::event::{Event as Told, StageCounts, Status};
use remote::{CheckpointWrite, Fresh, Push, Remote};
use stage_core::{Blob, Catalogue, Fields, Reject, Value};

use crate::machine::{open, remote};
use crate::mutation::Mutation;
use crate::world::{Event, JobState, SECOND, State, World};
use engine::engine::{Engine, StopFlag, WorkerCommand};
use engine::executor::batch::{Attempt, BatchWork, Name, Share};
use engine::mirror;
use engine::protocol::{AttemptStart, JobRunner, RunNotes};
use engine::record::{CHECKPOINT, CheckpointRecord, ITEM, ItemRecord, STAGE, StageRecord};
use engine::record::{PortValue, decode, encode};

/// The steps of a training, and of one checkpoint.
pub const STEPS: u64 = 12;
const EVERY: u64 = 2;
/// A job ends before its time limit after this many steps or items.
const LIMIT: u64 = 5;

pub struct Process {
    id: u64,
    cache: Cache,
    remote: Arc<Remote>,
    batch: Digest,
    shard: u32,
    by: Attempt,
    phase: Phase,
    /// The steps or items that it has done.
    done: u64,
    limit: u64,
    has_saved: bool,
}

enum Phase {
    Begins,
    Items { share: Arc<Share>, number: u32, left: Vec<Digest> },
    Trains { share: Arc<Share>, number: u32, claim: Option<Claim> },
}

/// The end of a piece of work.
enum Next {
    Continue,
    End,
}

impl From<engine::engine::EngineError> for Next {
    fn from(_: engine::engine::EngineError) -> Next {
        Next::End
    }
}

impl From<remote::RemoteError> for Next {
    fn from(_: remote::RemoteError) -> Next {
        Next::End
    }
}

impl From<cache::CacheError> for Next {
    fn from(_: cache::CacheError) -> Next {
        Next::End
    }
}

/// The bytes of the output of an item, or of a state of a training.
pub fn output(of: &Digest, step: u64) -> Bytes {
    let text = format!("the output of {of} after {step} steps");
    Bytes::from(text.repeat(3))
}

fn blob(bytes: &Bytes) -> Value {
    let (digest, size) = (Digest::of(bytes), bytes.len() as u64);
    Value::Blob(Arc::new(Blob { digest, size, kind: "text/plain".into() }))
}

/// The right outcome of an item.
pub fn outcome(key: &Digest) -> ItemRecord {
    match key.as_bytes()[0] % 8 {
        0 => ItemRecord::Rejected(Reject::new("odd", format!("{key} is odd"))),
        _ => {
            let fields: Fields = [("output", blob(&output(key, 0)))].into_iter().collect();
            ItemRecord::Done { fields, notes: Vec::new(), seconds: 1.0 }
        }
    }
}

/// The right outcome of a training.
pub fn model(key: &Digest) -> StageRecord {
    let fields: Fields = [("weights", blob(&output(key, STEPS)))].into_iter().collect();
    StageRecord {
        outputs: BTreeMap::from([("model".to_owned(), PortValue::Artifact(fields))]),
        items: 1,
        seconds: 1.0,
        ..StageRecord::default()
    }
}

/// An engine of a worker: it runs no stage.
fn engine(remote: &Arc<Remote>) -> Engine {
    Engine {
        catalogue: Catalogue::of([]),
        stages: Vec::new(),
        worker: WorkerCommand::default(),
        threads: 1,
        verify: false,
        environment: BTreeMap::new(),
        secret: |_| None,
        remote: Some(remote.clone()),
    }
}

/// Reads the end of a run from its events.
fn heard(event: Told) -> RunNotes {
    let mut heard = RunNotes::default();
    heard.note(&event);
    heard
}

impl State {
    pub fn begin_process(&mut self, machine: usize) -> u64 {
        let id = self.seen.len() as u64 + 1;
        self.seen.insert(id, JobState { machine, ..JobState::default() });
        id
    }
}

impl Process {
    pub fn new(world: &World, id: u64, machine: usize, batch: Digest, shard: u32) -> Process {
        let (disk, limit) = {
            let mut state = world.state();
            (state.disks[machine].clone(), state.random.between(2, LIMIT))
        };
        let cache = open(&disk, id);
        if world.state().mutation == Mutation::ReusesNames {
            disk.set_seed(0);
            disk.set_clock(0);
        }
        let remote = remote(world, id, &cache);
        let mut name = [0; 16];
        name[..8].copy_from_slice(&id.to_le_bytes());
        let machine = format!("machine {machine}");
        let by = Attempt { id: name, machine, job: id.to_string(), begun: 0 };
        let (phase, done, has_saved) = (Phase::Begins, 0, false);
        Process { id, cache, remote, batch, shard, by, phase, done, limit, has_saved }
    }

    /// The next piece of work of a process. One that waits for an answer is not there.
    pub fn work(world: &World, id: u64) {
        let process = world.processes().remove(&id);
        let Some(mut process) = process else { return };
        let machine = world.state().seen[&id].machine;
        let next = process.step(world).unwrap_or_else(|end| end);
        let mut state = world.state();
        if state.is_gone(id) {
            return;
        }
        match next {
            Next::Continue => {
                let after = state.random.between(SECOND, 20 * SECOND);
                state.later(after, Event::Work(id));
                let dies = !state.is_calm && state.random.chance(8);
                drop(state);
                world.processes().insert(id, process);
                if dies {
                    world.kill(machine);
                }
            }
            Next::End => {
                state.tell(|| format!("process {id} ends"));
                state.end_process(id);
            }
        }
    }

    fn worker<'a>(&'a self, engine: &'a Engine) -> JobRunner<'a> {
        JobRunner {
            engine,
            cache: &self.cache,
            batch: self.batch,
            shard: self.shard,
            by: self.by.clone(),
            stop: StopFlag::default(),
        }
    }

    fn step(&mut self, world: &World) -> Result<Next, Next> {
        let looks = world.state().random.chance(100);
        if looks && self.remote.look_up(&Name::Cancel.of(&self.batch))?.is_some() {
            // It is asked to stop.
            self.limit = 0;
        }
        match &self.phase {
            Phase::Begins => self.begin(world),
            Phase::Items { .. } => self.next_item(world),
            Phase::Trains { .. } => self.next_step(world),
        }
    }

    fn begin(&mut self, world: &World) -> Result<Next, Next> {
        let (was_done, lies) = self.is_done(world);
        let engine = engine(&self.remote);
        let entered = self.worker(&engine).enter(&self.remote)?;
        let AttemptStart::Begun(share, number) = entered else { return Err(Next::End) };
        if was_done && self.is_done(world).1 == lies {
            let short = self.batch.short();
            world.state().wrong(format!("the finished part {} of {short} begins", self.shard));
        }
        self.phase = match share.batch.work {
            BatchWork::Items(_) => {
                self.remote.scope(&share.batch.key)?;
                let keys = share.keys().to_vec();
                let known = self.cache.get_many(ITEM, &keys)?;
                let known = keys.into_iter().zip(known);
                let left = known.filter(|(_, record)| record.is_none()).map(|(key, _)| key);
                let mut left: Vec<Digest> = left.collect();
                // The last one comes first: those that never end come at the end.
                left.sort_by_key(|key| !world.state().endless.contains(key));
                Phase::Items { left, share, number }
            }
            BatchWork::Training => Phase::Trains { share, number, claim: None },
        };
        Ok(Next::Continue)
    }

    fn is_done(&self, world: &World) -> (bool, u64) {
        let state = world.state();
        (state.is_done(&self.batch, self.shard), state.seen[&self.id].lies)
    }

    fn next_item(&mut self, world: &World) -> Result<Next, Next> {
        let Phase::Items { left, share, number } = &mut self.phase else { return Err(Next::End) };
        let (share, number) = (share.clone(), *number);
        let key = left.pop().filter(|_| self.done < self.limit);
        let (key, is_endless) = match key {
            Some(key) => (Some(key), world.state().endless.contains(&key)),
            None => (None, false),
        };
        let Some(key) = key.filter(|_| !is_endless) else {
            let is_progress = world.state().mutation == Mutation::OldItemsAreProgress;
            let executed = if is_progress { self.done.max(1) } else { self.done };
            let counts = StageCounts { executed, ..StageCounts::default() };
            let heard = heard(Told::Finished {
                status: Status::Paused,
                stages: [("stage".to_owned(), counts)].into(),
                seconds: 1.0,
            });
            self.push_items(share.keys(), &share.batch.key)?;
            let engine = engine(&self.remote);
            let status = Ok(Status::Paused);
            self.worker(&engine).leave(&self.remote, &share, number, status, heard)?;
            return Ok(Next::End);
        };
        self.compute(world, &key)?;
        let pushes = world.state().random.chance(300);
        if pushes {
            self.push_items(share.keys(), &share.batch.key)?;
        }
        Ok(Next::Continue)
    }

    fn compute(&mut self, world: &World, key: &Digest) -> Result<(), Next> {
        {
            let mut state = world.state();
            let computed = state.computed.entry(*key).or_default();
            *computed += 1;
            if state.cursed.contains(key) {
                return Err(Next::End);
            }
        }
        self.done += 1;
        self.cache.put(&output(key, 0))?;
        self.cache.record(ITEM, key, encode(&outcome(key)))?;
        self.cache.commit()?;
        Ok(())
    }

    /// Writes objects and records to the remote during the run, as `push = "always"` does.
    fn push_items(&self, keys: &[Digest], scope: &Digest) -> Result<(), Next> {
        self.remote.scope(scope)?;
        let (mut objects, mut records) = (Vec::new(), Vec::new());
        for (key, record) in keys.iter().zip(self.cache.get_many(ITEM, keys)?) {
            let Some(bytes) = record else { continue };
            if let Some(ItemRecord::Done { fields, .. }) = decode(&bytes) {
                objects.extend(fields.blobs().map(|blob| (blob.digest, blob.size)));
            }
            records.push((ITEM, *key, bytes));
        }
        self.remote.push(Push { objects, records, ..Push::nothing() })?;
        Ok(())
    }

    fn next_step(&mut self, world: &World) -> Result<Next, Next> {
        let Phase::Trains { share, number, claim } = &mut self.phase else { return Err(Next::End) };
        let (share, number, key) = (share.clone(), *number, share.batch.key);
        if claim.is_none() {
            *claim = self.cache.claim(&key)?;
            if claim.is_none() {
                // Another process of this machine is at it.
                return Ok(Next::Continue);
            }
            mirror::adopt(&self.cache, &self.remote, &key)?;
            let step = self.saved(&key)?;
            world.state().seen.entry(self.id).or_default().step = step;
            return Ok(Next::Continue);
        }
        let mut step = world.state().seen[&self.id].step;
        let is_cursed = world.state().cursed.contains(&key);
        if is_cursed {
            return Err(Next::End);
        }
        let mut is_behind = false;
        if step < STEPS && self.done < self.limit {
            (step, self.done) = (step + 1, self.done + 1);
            world.state().seen.entry(self.id).or_default().step = step;
            if !step.is_multiple_of(EVERY) && self.done < self.limit {
                return Ok(Next::Continue);
            }
            is_behind = self.save(&key, step)?;
            if !is_behind && step < STEPS && self.done < self.limit {
                return Ok(Next::Continue);
            }
        }
        if !is_behind && step == STEPS {
            self.finish(&key)?;
        }
        let (stage, bytes, seconds) = ("stage".to_owned(), 1, 1.0);
        let heard = if self.has_saved {
            heard(Told::CheckpointKept { stage, bytes, seconds })
        } else {
            RunNotes::default()
        };
        let engine = engine(&self.remote);
        let worker = self.worker(&engine);
        worker.leave(&self.remote, &share, number, Ok(Status::Paused), heard)?;
        Ok(Next::End)
    }

    /// The step of the newest checkpoint on this machine.
    fn saved(&self, key: &Digest) -> Result<u64, Next> {
        let record = self.cache.get(CHECKPOINT, key)?;
        let record = record.and_then(|bytes| decode::<CheckpointRecord>(&bytes));
        let Some(state) = record.and_then(|record| record.states.into_iter().next()) else {
            return Ok(0);
        };
        let step = state.number("step").unwrap_or(0.0) as u64;
        for blob in state.blobs() {
            if !self.remote.bring(&blob.digest)?
                || self.cache.read(&blob.digest)? != output(key, step)
            {
                return Err(Next::End);
            }
        }
        Ok(step)
    }

    /// True if another attempt is ahead.
    fn save(&mut self, key: &Digest, step: u64) -> Result<bool, Next> {
        let bytes = output(key, step);
        self.cache.put(&bytes)?;
        let fields = [("step", Value::Number(step as f64)), ("weights", blob(&bytes))];
        let states = vec![fields.into_iter().collect()];
        let (pipeline, run, parent, seconds) = ("simulated".to_owned(), 1, None, 1.0);
        let record = CheckpointRecord { pipeline, run, parent, states, seconds };
        self.cache.record(CHECKPOINT, key, encode(&record))?;
        self.cache.commit()?;
        self.has_saved = true;
        Ok(mirror::put(&self.cache, &self.remote, key)? == Some(CheckpointWrite::Taken))
    }

    fn finish(&self, key: &Digest) -> Result<(), Next> {
        let bytes = output(key, STEPS);
        let digest = Digest::of(&bytes);
        let model = model(key);
        let fresh = Fresh {
            key: *key,
            name: "training".to_owned(),
            table: STAGE,
            value: encode(&model).into(),
            summary: Digest::of(&encode(&model.outputs)),
            objects: vec![digest],
        };
        let objects = vec![(digest, bytes.len() as u64)];
        self.remote.push(Push { objects, outcomes: vec![fresh], ..Push::nothing() })?;
        Ok(())
    }
}
