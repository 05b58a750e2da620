//! The simulated world: a clock with its events, the files of the store, machines, processes, and the
//! jobs of a scheduler.
//!
//! Everything happens on one thread. A process waits for an answer by letting the clock run on: other
//! processes work in between, on the same stack. So a process that hangs in the middle of a request
//! comes back when the others have moved on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cache::Digest;
use cache::fs::MemoryFs;

use crate::machine::empty_disk;
use crate::mutation::Mutation;
use crate::random::Random;
use crate::run::{Generation, Run};
use crate::scheduler::Job;
use crate::worker::Process;
use engine::executor::batch::{Batch, BatchWork, Name};

/// Milliseconds.
pub type Time = u64;
pub const SECOND: Time = 1_000;

/// The number of nodes; machine 0 is that of the engine.
const NODES: usize = 3;
/// Attempts at a shard with names that are known.
const NUMBERS: u32 = 60;

#[derive(Clone, Debug)]
pub enum Event {
    /// The engine looks at its jobs, or starts. An older turn does not count.
    Run(u64),
    /// The scheduler starts a job, for the first time or again.
    Start(usize),
    /// A process does its next piece of work.
    Work(u64),
    /// A write arrives late.
    Arrive { name: String, bytes: Bytes, by: u64 },
}

/// The name of a record of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    Result,
    Attempt,
    Report,
}

/// A process as its world sees it.
#[derive(Debug, Default)]
pub struct JobState {
    pub machine: usize,
    pub is_gone: bool,
    /// The number of wrong answers that it was given.
    pub lies: u64,
    /// The steps of its training.
    pub step: u64,
    /// The newest checkpoint that it has seen or written, by training.
    pub newest: BTreeMap<String, u64>,
}

pub struct State {
    pub random: Random,
    pub mutation: Mutation,
    pub clock: Time,
    pub is_calm: bool,
    /// Requests, and events of the clock.
    pub events: u64,
    queue: BTreeMap<(Time, u64), Event>,
    order: u64,
    pub files: BTreeMap<String, Bytes>,
    /// The process that wrote a file.
    pub writers: BTreeMap<String, u64>,
    /// The step of each checkpoint in the store.
    pub steps: BTreeMap<String, u64>,
    pub disks: Vec<MemoryFs>,
    pub seen: BTreeMap<u64, JobState>,
    pub jobs: Vec<Job>,
    /// The scheduler does not answer until then.
    pub silent_until: Time,
    pub batches: BTreeMap<Digest, Batch>,
    pub names: BTreeMap<Digest, (Named, Digest, u32)>,
    /// The number of processes at work on each shard so far.
    pub begun: BTreeMap<(Digest, u32), u64>,
    /// How often each item was computed.
    pub computed: BTreeMap<Digest, u64>,
    pub cursed: BTreeSet<Digest>,
    pub endless: BTreeSet<Digest>,
    pub generation: Generation,
    /// The number of the engine's next look.
    pub turn: u64,
    /// Items that the engine has committed.
    pub committed: BTreeSet<Digest>,
    /// The shards with a result before the engine asked the scheduler.
    pub before_look: BTreeSet<(Digest, u32)>,
    /// Batches that nobody waits for any more.
    pub closed: BTreeSet<Digest>,
    pub has_ended: bool,
    pub violation: Option<String>,
    trace: Option<Vec<String>>,
}

pub struct Shared {
    state: Mutex<State>,
    run: Mutex<Option<Box<Run>>>,
    processes: Mutex<BTreeMap<u64, Box<Process>>>,
}

#[derive(Clone)]
pub struct World(Arc<Shared>);

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("World")
    }
}

impl World {
    pub fn new(seed: u64, mutation: Mutation, is_traced: bool) -> World {
        let state = State {
            random: Random::new(seed),
            mutation,
            clock: 0,
            is_calm: false,
            events: 0,
            queue: BTreeMap::new(),
            order: 0,
            files: BTreeMap::new(),
            writers: BTreeMap::new(),
            steps: BTreeMap::new(),
            disks: (0..=NODES).map(|_| empty_disk()).collect(),
            seen: BTreeMap::new(),
            jobs: Vec::new(),
            silent_until: 0,
            batches: BTreeMap::new(),
            names: BTreeMap::new(),
            begun: BTreeMap::new(),
            computed: BTreeMap::new(),
            cursed: BTreeSet::new(),
            endless: BTreeSet::new(),
            generation: Generation::before_the_first(),
            turn: 0,
            committed: BTreeSet::new(),
            before_look: BTreeSet::new(),
            closed: BTreeSet::new(),
            has_ended: false,
            violation: None,
            trace: is_traced.then(Vec::new),
        };
        let (run, processes) = (Mutex::default(), Mutex::default());
        World(Arc::new(Shared { state: Mutex::new(state), run, processes }))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine's present run, unless it is waiting for an answer.
    pub fn run(&self) -> MutexGuard<'_, Option<Box<Run>>> {
        self.0.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn processes(&self) -> MutexGuard<'_, BTreeMap<u64, Box<Process>>> {
        self.0.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets everything happen until this time, or until something is wrong.
    pub fn advance(&self, end: Time) {
        loop {
            // The state is free while something happens.
            let next = self.state().next(end);
            let Some(event) = next else { break };
            self.happen(event);
        }
        let mut state = self.state();
        state.clock = state.clock.max(end);
    }

    fn happen(&self, event: Event) {
        match event {
            Event::Run(turn) => Run::look(self, turn),
            Event::Start(job) => self.start_job(job),
            Event::Work(id) => Process::work(self, id),
            Event::Arrive { name, bytes, by } => {
                let mut state = self.state();
                let is_new = state.apply(&name, &bytes, by);
                state.tell(|| format!("late write of {name} by {by}: {is_new}"));
            }
        }
    }

    /// Kills all processes of a machine: its disk stays.
    pub fn kill(&self, machine: usize) {
        let mut state = self.state();
        state.tell(|| format!("machine {machine} dies"));
        state.disks[machine] = state.disks[machine].kill();
        for seen in state.seen.values_mut().filter(|seen| seen.machine == machine) {
            seen.is_gone = true;
        }
        let gone: BTreeSet<u64> = state.gone().collect();
        state.end_jobs_of(&gone);
        drop(state);
        self.processes().retain(|id, _| !gone.contains(id));
        if machine == 0 {
            *self.run() = None;
            let mut state = self.state();
            let after = state.random.between(5, 600);
            state.look_later(after * SECOND);
        }
    }
}

impl State {
    fn next(&mut self, end: Time) -> Option<Event> {
        let (at, _) = *self.queue.first_key_value()?.0;
        if at > end || self.violation.is_some() {
            return None;
        }
        self.events += 1;
        self.clock = self.clock.max(at);
        self.queue.pop_first().map(|(_, event)| event)
    }

    pub fn later(&mut self, after: Time, event: Event) {
        self.order += 1;
        self.queue.insert((self.clock + after, self.order), event);
    }

    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        let clock = self.clock;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", clock as f64 / 1e3, line()));
        }
    }

    pub fn trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    pub fn wrong(&mut self, why: String) {
        self.tell(|| format!("WRONG: {why}"));
        self.violation.get_or_insert(why);
    }

    fn gone(&self) -> impl Iterator<Item = u64> {
        self.seen.iter().filter(|(_, seen)| seen.is_gone).map(|(id, _)| *id)
    }

    pub fn is_gone(&self, process: u64) -> bool {
        self.seen.get(&process).is_none_or(|seen| seen.is_gone)
    }

    pub fn register(&mut self, batch: &Batch) {
        let id = batch.id();
        for shard in 0..batch.shards() {
            let result = match batch.work {
                BatchWork::Items(_) => Name::Result(shard).of(&id),
                BatchWork::Training => batch.key,
            };
            self.names.insert(result, (Named::Result, id, shard));
            for number in 0..NUMBERS {
                let attempt = Name::Attempt(shard, number).of(&id);
                self.names.insert(attempt, (Named::Attempt, id, shard));
                let report = Name::Report(shard, number).of(&id);
                self.names.insert(report, (Named::Report, id, shard));
            }
        }
        self.batches.insert(id, batch.clone());
    }

    /// The record of a batch that a file holds.
    pub fn named(&self, name: &str) -> Option<(Named, Digest, u32)> {
        let key: Digest = name.strip_prefix("results/")?.parse().ok()?;
        self.names.get(&key).copied()
    }

    /// Tests if the result of a shard is in the store.
    pub fn is_done(&self, batch: &Digest, shard: u32) -> bool {
        let Some(of) = self.batches.get(batch) else { return false };
        let key = match of.work {
            BatchWork::Items(_) => Name::Result(shard).of(batch),
            BatchWork::Training => of.key,
        };
        self.files.contains_key(&format!("results/{key}"))
    }

    pub fn is_done_before_look(&self, batch: &Digest, shard: u32) -> bool {
        self.before_look.contains(&(*batch, shard))
    }

    /// All shards with a result.
    pub fn results(&self) -> BTreeSet<(Digest, u32)> {
        let all = self.batches.values().flat_map(|batch| {
            let id = batch.id();
            (0..batch.shards()).map(move |shard| (id, shard))
        });
        all.filter(|(batch, shard)| self.is_done(batch, *shard)).collect()
    }

    /// The number of reports on a shard: each may tell of progress.
    pub fn progress(&self, batch: &Digest, shard: u32) -> u64 {
        let is_report = |name: &u32| {
            let key = Name::Report(shard, *name).of(batch);
            self.files.contains_key(&format!("results/{key}"))
        };
        (0..NUMBERS)
            .take_while(|number| self.has_attempt(batch, shard, *number))
            .filter(is_report)
            .count() as u64
    }

    fn has_attempt(&self, batch: &Digest, shard: u32, number: u32) -> bool {
        let key = Name::Attempt(shard, number).of(batch);
        self.files.contains_key(&format!("results/{key}"))
    }

    pub fn is_cancelled(&self, batch: &Digest) -> bool {
        self.files.contains_key(&format!("results/{}", Name::Cancel.of(batch)))
    }

    /// Tests if a file cancels a batch.
    pub fn is_cancellation(&self, name: &str) -> bool {
        let cancels = |batch| format!("results/{}", Name::Cancel.of(batch)) == name;
        self.batches.keys().any(cancels)
    }

    /// The items of a shard.
    pub fn items(&self, batch: &Digest, shard: u32) -> &[Digest] {
        match self.batches.get(batch).map(|batch| &batch.work) {
            Some(BatchWork::Items(shards)) => &shards[shard as usize],
            _ => &[],
        }
    }
}
