//! The runs of an engine: real batch threads, one for the items and one for the training of a generation. When
//! all of it is done during the storm, the next generation follows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cache::{Cache, Digest};
use crossbeam_channel::{Receiver, Sender, unbounded};
use engine::event::Event as Told;
use remote::Remote;

use crate::machine::{open, remote};
use crate::mutation::Mutation;
use crate::scheduler::Queue;
use crate::worker::{model, outcome, output};
use crate::world::{Event, SECOND, State, Time, World};
use engine::engine::StopFlag;
use engine::executor::batch::{Batch, BatchWork, ShardResult};
use engine::executor::own;
use engine::executor::split::{JobLimits, split};
use engine::pipeline::{Adapter, ExecutorSpec};
use engine::protocol::{
    BatchThread, Failure, Inputs, ItemOutcome, JobError, Message, OpenShard, Outcome,
    shards_of_earlier,
};
use engine::record::{ITEM, ItemRecord, STAGE, StageRecord, decode, encode};
use engine::store::Store;

pub const ATTEMPTS: u32 = 3;
const POLL: Time = 15 * SECOND;
const MINUTES: f64 = 900.0;
const JOBS: usize = 4;

/// The work of a generation.
#[derive(Debug)]
pub struct Generation {
    pub number: u64,
    items: Vec<(Digest, f64)>,
    work: Digest,
    training: Digest,
}

pub struct Run {
    id: u64,
    cache: Cache,
    remote: Arc<Remote>,
    batch_threads: Vec<(BatchThread, bool)>,
    messages: Receiver<Message>,
    sender: Sender<Message>,
    /// The work behind the tickets.
    tickets: BTreeMap<u64, (Digest, u32, Vec<Digest>)>,
    began_calm: bool,
}

impl Generation {
    /// No work.
    pub fn before_the_first() -> Generation {
        let (work, training) = (name("work", 0), name("training", 0));
        Generation { number: 0, items: Vec::new(), work, training }
    }
}

fn name(what: &str, number: u64) -> Digest {
    Digest::of(format!("{what} {number}").as_bytes())
}

impl State {
    /// Plans the work of the next generation. Some items kill every job, and some never end.
    pub fn next_generation(&mut self) {
        let number = self.generation.number + 1;
        let count = self.random.between(3, 14);
        let mut items = Vec::new();
        for item in 0..count {
            let key = name("item", number * 100 + item);
            let cost = self.random.between(60, 900) as f64;
            items.push((key, cost));
            match self.random.below(100) {
                0 => _ = self.cursed.insert(key),
                1 => _ = self.endless.insert(key),
                _ => {}
            }
        }
        let (work, training) = (name("work", number), name("training", number));
        if self.random.chance(30) {
            self.cursed.insert(training);
        }
        self.generation = Generation { number, items, work, training };
    }

    /// The run looks again after this time. Earlier plans for it do not count.
    pub fn look_later(&mut self, after: Time) {
        self.turn += 1;
        let turn = self.turn;
        self.later(after, Event::Run(turn));
    }

    /// An item that no job can finish.
    fn is_hopeless(&self, key: &Digest) -> bool {
        self.cursed.contains(key) || self.endless.contains(key)
    }
}

impl Run {
    /// Starts a run, or looks at the jobs of the present one.
    pub fn look(world: &World, turn: u64) {
        if world.state().turn != turn {
            return;
        }
        let present = world.run().take();
        let run = match present {
            Some(run) => Some(run),
            None => Run::start(world),
        };
        let Some(mut run) = run else { return };
        let has_ended = run.step(world);
        let mut state = world.state();
        if state.is_gone(run.id) {
            return;
        }
        if has_ended {
            run.end(&mut state);
            return;
        }
        state.look_later(POLL);
        let (kill, machine) = if state.is_calm {
            (999, 0)
        } else {
            (state.random.below(1_000), state.random.below(4) as usize)
        };
        drop(state);
        *world.run() = Some(run);
        if kill < 12 {
            world.kill(machine);
        }
    }

    /// None if the store does not answer: the next run follows.
    fn start(world: &World) -> Option<Box<Run>> {
        let (id, disk, began_calm) = {
            let mut state = world.state();
            let id = state.begin_process(0);
            state.tell(|| format!("run {id} starts"));
            (id, state.disks[0].clone(), state.is_calm)
        };
        let cache = open(&disk, id);
        let remote = remote(world, id, &cache);
        let (sender, messages) = unbounded();
        let (batch_threads, tickets) = (Vec::new(), BTreeMap::new());
        let mut run =
            Run { id, cache, remote, batch_threads, messages, sender, tickets, began_calm };
        run.require_memory(world);
        let has_begun = run.begin_items(world).is_some() && run.begin_training(world).is_some();
        let mut state = world.state();
        if state.is_gone(id) {
            return None;
        }
        if !has_begun {
            state.end_process(id);
            state.look_later(30 * SECOND);
            return None;
        }
        Some(Box::new(run))
    }

    /// Reports a violation if the cache has lost a committed record.
    fn require_memory(&self, world: &World) {
        let mut state = world.state();
        let committed: Vec<Digest> = state.committed.iter().copied().collect();
        let known = self.cache.get_many(ITEM, &committed).unwrap_or_default();
        if known.len() != committed.len() || known.iter().any(Option::is_none) {
            state.wrong("a committed item is forgotten".to_owned());
        }
    }

    /// The batches of earlier runs for this work.
    fn earlier(&self, world: &World, key: &Digest) -> Option<Vec<Batch>> {
        let batches = own::open(&self.cache, &self.remote, key, |_| false).ok()?;
        let is_forgetful = world.state().mutation == Mutation::ForgetsBatches;
        Some(if is_forgetful { Vec::new() } else { batches })
    }

    fn begin_items(&mut self, world: &World) -> Option<()> {
        let (items, work) = {
            let state = world.state();
            (state.generation.items.clone(), state.generation.work)
        };
        let mut left: HashMap<Digest, (Digest, f64)> = HashMap::new();
        for (key, cost) in items {
            if self.cache.get(ITEM, &key).ok()?.is_none() {
                left.insert(key, (key, cost));
            }
        }
        if left.is_empty() {
            return Some(());
        }
        for batch in self.earlier(world, &work)? {
            let taken = shards_of_earlier(&batch, &mut left);
            let taken =
                taken.into_iter().map(|part| part.into_iter().map(|(key, _)| key).collect());
            let taken = taken.collect();
            self.begin(world, batch, taken, None);
        }
        if left.is_empty() {
            return Some(());
        }
        let mut items: Vec<(Digest, f64)> = left.into_values().collect();
        items.sort_by_key(|(key, _)| *key);
        let costs: Vec<f64> = items.iter().map(|(_, cost)| *cost).collect();
        let shards = split(&costs, JobLimits { seconds: MINUTES, jobs: JOBS });
        let keys = shards.iter().map(|shard| shard.iter().map(|at| items[*at].0).collect());
        let keys: Vec<Vec<Digest>> = keys.collect();
        let mut batch = Batch::new(work, BatchWork::Items(keys.clone()));
        batch.begun = world.state().clock as i64;
        self.begin(world, batch, keys, Some(Inputs::default()));
        Some(())
    }

    fn begin_training(&mut self, world: &World) -> Option<()> {
        let key = world.state().generation.training;
        if self.cache.get(STAGE, &key).ok()?.is_some() {
            return Some(());
        }
        if let Some(batch) = self.earlier(world, &key)?.into_iter().next() {
            self.begin(world, batch, vec![Vec::new()], None);
            return Some(());
        }
        let mut batch = Batch::new(key, BatchWork::Training);
        batch.begun = world.state().clock as i64;
        self.begin(world, batch, vec![Vec::new()], Some(Inputs::default()));
        Some(())
    }

    fn begin(
        &mut self,
        world: &World,
        batch: Batch,
        parts: Vec<Vec<Digest>>,
        inputs: Option<Inputs>,
    ) {
        let id = batch.id();
        let mut state = world.state();
        state.register(&batch);
        let mut open = BTreeMap::new();
        let is_waited_for =
            |part: &Vec<Digest>| !part.is_empty() || batch.work == BatchWork::Training;
        for (shard, part) in (0..).zip(parts).filter(|(_, part)| is_waited_for(part)) {
            let ticket = self.tickets.len() as u64;
            let items = part.iter().map(|key| (*key, key.short().into())).collect();
            open.insert(shard, OpenShard::new(ticket, items));
            self.tickets.insert(ticket, (id, shard, part));
        }
        if open.is_empty() {
            return;
        }
        let attempts = match state.mutation {
            Mutation::UnlimitedAttempts => u32::MAX,
            _ => ATTEMPTS,
        };
        let spec = ExecutorSpec {
            name: "simulated".to_owned(),
            adapter: Adapter::Command(String::new()),
            max_jobs: JOBS as u32,
            shard_seconds: MINUTES,
            attempts,
            poll_seconds: 15.0,
            program: None,
            cache: None,
            cancels: !state.is_calm && state.random.chance(250),
            takes_gpus: false,
        };
        drop(state);
        let index = Arc::default();
        let remote = Some(self.remote.clone());
        let batch_thread = BatchThread {
            store: Store::with_remote(self.cache.clone(), "/".into(), index, remote),
            messages: self.sender.clone(),
            stops: [StopFlag::default(), StopFlag::default()],
            remote: self.remote.clone(),
            spec,
            pipeline: "simulated".to_owned(),
            run: self.id,
            known: BTreeSet::new(),
            logs: "/cache/jobs".into(),
            open,
            inputs,
            jobs: Box::new(Queue::new(world.clone(), id, self.id)),
            told: BTreeSet::new(),
            batch,
            id,
        };
        self.batch_threads.push((batch_thread, false));
    }

    /// One round of each batch thread; true if the run has ended.
    fn step(&mut self, world: &World) -> bool {
        let is_stopped = {
            let mut state = world.state();
            !state.is_calm && state.random.chance(8)
        };
        let mut stuck = None;
        for (batch_thread, is_published) in &mut self.batch_threads {
            if !*is_published {
                stuck = batch_thread.publish().err();
                *is_published = true;
            }
            if stuck.is_none() {
                stuck = batch_thread.round().err();
            }
            if stuck.is_some() || world.state().is_gone(self.id) {
                break;
            }
        }
        if world.state().is_gone(self.id) {
            return true;
        }
        for (batch_thread, is_published) in std::mem::take(&mut self.batch_threads) {
            match &stuck {
                _ if batch_thread.open.is_empty() => {
                    world.state().closed.insert(batch_thread.id);
                    batch_thread.end(Ok(true));
                }
                Some(_) => {
                    batch_thread.end(Err(JobError::Pause("the store does not answer".to_owned())))
                }
                None if is_stopped => batch_thread.end(Ok(false)),
                None => self.batch_threads.push((batch_thread, is_published)),
            }
        }
        self.hear(world);
        self.batch_threads.is_empty()
    }

    fn hear(&mut self, world: &World) {
        let mut done = Vec::new();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Done { ticket, outcome, .. } => {
                    let Some((batch, shard, items)) = self.tickets.remove(&ticket) else {
                        continue;
                    };
                    let kept = self.take(world, (batch, shard), &items, outcome);
                    done.extend(kept);
                }
                Message::BatchEnded(batch) => {
                    let _ = own::close(&self.cache, &batch);
                }
                Message::Event(Told::Note { message, .. }) => {
                    world.state().tell(|| format!("run {}: {message}", self.id));
                }
                _ => {}
            }
        }
        // After a kill, the disk is another one.
        if self.cache.commit().is_ok() && !world.state().is_gone(self.id) {
            world.state().committed.extend(done);
        }
    }

    /// Records the outcomes of a part; returns the items that are known now.
    fn take(
        &self,
        world: &World,
        (batch, shard): (Digest, u32),
        items: &[Digest],
        taken: Outcome,
    ) -> Vec<Digest> {
        let (mut known, mut state) = (Vec::new(), world.state());
        let part = format!("part {shard} of {}", batch.short());
        let outcomes = match taken {
            Outcome::Items(outcomes) => outcomes,
            Outcome::Gather(Ok(record)) => {
                let key = state.batches[&batch].key;
                if record.outputs != model(&key).outputs {
                    state.wrong(format!("{part} gives another model"));
                }
                let _ = self.cache.record(STAGE, &key, encode(&record));
                return known;
            }
            Outcome::Gather(Err(failure)) => {
                let is_hopeless = state.is_hopeless(&state.batches[&batch].key);
                self.judge(&mut state, &failure, is_hopeless, &part);
                return known;
            }
            // Only executors in the process of the run record outcomes themselves.
            Outcome::Results(_) => {
                state.wrong(format!("{part} is recorded by its thread"));
                return known;
            }
        };
        let is_hopeless = items.iter().any(|key| state.is_hopeless(key));
        for (key, taken) in items.iter().zip(outcomes) {
            let record = match taken {
                ItemOutcome::Done { fields, notes, seconds, .. } => {
                    ItemRecord::Done { fields, notes, seconds }
                }
                ItemOutcome::Rejected(reject) => ItemRecord::Rejected(reject),
                ItemOutcome::Failed(failure) => {
                    self.judge(&mut state, &failure, is_hopeless, &part);
                    continue;
                }
            };
            if record != outcome(key) {
                state.wrong(format!("{part} gives another outcome of item {}", key.short()));
            }
            if !state.is_done(&batch, shard) {
                state.wrong(format!("{part} is taken without a result in the store"));
            }
            known.push(*key);
            let _ = self.cache.record(ITEM, key, encode(&record));
        }
        known
    }

    /// Tests if a failure is a right end.
    fn judge(&self, state: &mut State, failure: &Failure, is_hopeless: bool, part: &str) {
        match failure {
            Failure::Stage(stage_core::StageError::Stopped) => {}
            Failure::Open(_) if is_hopeless || !self.began_calm => {}
            failure => state.wrong(format!("{part} fails: {failure:?}")),
        }
    }

    /// The run has ended: another one follows while there is work.
    fn end(&self, state: &mut State) {
        state.tell(|| format!("run {} ends", self.id));
        state.end_process(self.id);
        let is_known = |table, key: &Digest| matches!(self.cache.get(table, key), Ok(Some(_)));
        let is_done = state.generation.items.iter().all(|(key, _)| is_known(ITEM, key))
            && is_known(STAGE, &state.generation.training);
        let calm_run = state.is_calm && self.began_calm;
        let has_hopeless = state.generation.items.iter().any(|(key, _)| state.is_hopeless(key))
            || state.is_hopeless(&state.generation.training);
        if calm_run && (is_done || has_hopeless) {
            state.has_ended = true;
            return;
        }
        if !state.is_calm && (is_done || (has_hopeless && state.random.chance(300))) {
            state.next_generation();
        }
        let after = state.random.between(5, 300);
        state.look_later(after * SECOND);
    }
}

/// Reads all results with an empty cache, as a machine that comes later.
pub fn read_everything(world: &World) {
    let (id, disk, batches) = {
        let mut state = world.state();
        let id = state.begin_process(0);
        let batches: Vec<Batch> = state.batches.values().cloned().collect();
        (id, crate::machine::empty_disk(), batches)
    };
    let cache = open(&disk, id);
    let remote = remote(world, id, &cache);
    let wrong = |why: String| world.state().wrong(why);
    let is_right = |digest: &Digest, bytes: bytes::Bytes| {
        let is_here = remote.bring(digest).unwrap_or(false);
        is_here && cache.read(digest).is_ok_and(|found| found == bytes)
    };
    for batch in &batches {
        for shard in 0..batch.shards() {
            let key = match batch.work {
                BatchWork::Items(_) => engine::executor::batch::Name::Result(shard).of(&batch.id()),
                BatchWork::Training => batch.key,
            };
            if !world.state().is_done(&batch.id(), shard) {
                continue;
            }
            let bytes = remote.look_up(&key).ok().flatten().unwrap_or_default();
            let blobs: Vec<(Digest, bytes::Bytes)> = match batch.work {
                BatchWork::Training => {
                    let record = decode::<StageRecord>(&bytes);
                    if record.is_none_or(|record| record.outputs != model(&key).outputs) {
                        wrong(format!("the model {} is another one", key.short()));
                    }
                    let bytes = output(&key, crate::worker::STEPS);
                    vec![(Digest::of(&bytes), bytes)]
                }
                BatchWork::Items(_) => {
                    let result = decode::<ShardResult>(&bytes);
                    let items = result.map(|result| result.items).unwrap_or_default();
                    if items.is_empty() || items.iter().any(|(key, item)| *item != outcome(key)) {
                        wrong(format!("the result of part {shard} is another one"));
                    }
                    let done = |(key, item): &(Digest, ItemRecord)| match item {
                        ItemRecord::Done { .. } => Some(output(key, 0)),
                        ItemRecord::Rejected(_) => None,
                    };
                    let outputs = items.iter().filter_map(done);
                    outputs.map(|bytes| (Digest::of(&bytes), bytes)).collect()
                }
            };
            for (digest, bytes) in blobs {
                if !is_right(&digest, bytes) {
                    wrong(format!("the object {} of part {shard} cannot be read", digest.short()));
                }
            }
        }
    }
}
