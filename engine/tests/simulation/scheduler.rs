//! A scheduler that starts jobs, and now and then forgets one, starts it twice, reports it wrongly, or
//! does not answer.

use std::collections::{BTreeMap, BTreeSet};

use cache::Digest;

use crate::mutation::Mutation;
use crate::worker::Process;
use crate::world::{Event, SECOND, State, Time, World};
use engine::executor::decide::JobState;
use engine::executor::jobs::Jobs;

/// The scheduler starts a job again after its machine has died.
const REQUEUE: u64 = 400;

#[derive(Debug)]
pub struct Job {
    pub batch: Digest,
    pub shard: u32,
    /// The run that submitted it.
    pub run: u64,
    state: Phase,
    /// The scheduler has forgotten it: it may run on.
    pub is_forgotten: bool,
    /// It was forgotten, or its machine died, before it ended.
    pub was_lost: bool,
    /// An ended job is reported as running until then.
    shown_until: Time,
    processes: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Waiting,
    Running,
    Ended,
}

impl Job {
    /// Tests if the scheduler reports it.
    pub fn is_shown(&self, now: Time) -> bool {
        !self.is_forgotten && (self.state != Phase::Ended || now < self.shown_until)
    }

    pub fn has_run(&self, process: u64) -> bool {
        self.processes.contains(&process)
    }

    fn is_active(&self) -> bool {
        !self.is_forgotten && self.state != Phase::Ended
    }
}

/// The jobs of a batch, for an engine.
pub struct Queue {
    world: World,
    batch: Digest,
    run: u64,
    /// The shards with jobs, and those with results, at the last look.
    active: BTreeSet<u32>,
    done: BTreeSet<u32>,
}

impl Queue {
    pub fn new(world: World, batch: Digest, run: u64) -> Queue {
        let (active, done) = (BTreeSet::new(), BTreeSet::new());
        Queue { world, batch, run, active, done }
    }

    fn require_sense(&self, state: &mut State, shard: u32) {
        let (short, lies) = (self.batch.short(), state.seen[&self.run].lies);
        if self.active.contains(&shard) {
            state.wrong(format!("part {shard} of {short} gets a second job"));
        }
        if self.done.contains(&shard) && lies == 0 {
            state.wrong(format!("the finished part {shard} of {short} is submitted"));
        }
        let items: BTreeSet<Digest> = state.items(&self.batch, shard).iter().copied().collect();
        let others = state.jobs.iter().filter(|job| job.is_active() && job.batch != self.batch);
        let is_over = |job: &Job| {
            let is_done = state.is_done(&job.batch, job.shard);
            is_done || state.is_cancelled(&job.batch) || state.closed.contains(&job.batch)
        };
        let mut others = others.filter(|job| !is_over(job));
        let takes =
            |job: &Job| state.items(&job.batch, job.shard).iter().any(|i| items.contains(i));
        if others.any(takes) {
            state.wrong(format!("items of part {shard} of {short} are in a job of another batch"));
        }
        let jobs = |job: &&Job| (job.run, job.batch, job.shard) == (self.run, self.batch, shard);
        let jobs = state.jobs.iter().filter(jobs).count() as u64;
        let most = crate::run::ATTEMPTS as u64 * (state.progress(&self.batch, shard) + 1);
        if jobs > most + 1 {
            state.wrong(format!("part {shard} of {short} gets {jobs} jobs: {most} are allowed"));
        }
    }
}

impl Jobs for Queue {
    fn submit(&mut self, shards: &[u32]) -> Result<String, String> {
        let mut state = self.world.state();
        for shard in shards {
            self.require_sense(&mut state, *shard);
        }
        let fate = if state.is_calm { 999 } else { state.random.below(1_000) };
        if fate < 30 {
            return Err("no answer, and no job".to_owned());
        }
        for shard in shards {
            let job = Job {
                batch: self.batch,
                shard: *shard,
                run: self.run,
                state: Phase::Waiting,
                is_forgotten: false,
                was_lost: false,
                shown_until: 0,
                processes: BTreeSet::new(),
            };
            let number = state.jobs.len();
            state.tell(|| format!("job {number}: part {shard} of {}", self.batch.short()));
            state.jobs.push(job);
            let after = state.random.between(SECOND, 60 * SECOND);
            state.later(after, Event::Start(number));
        }
        if fate < 60 { Err("no answer, but a job".to_owned()) } else { Ok("jobs".to_owned()) }
    }

    fn look(&mut self) -> Result<BTreeMap<u32, JobState>, String> {
        let mutation = {
            let mut state = self.world.state();
            if state.mutation == Mutation::StoreFirst {
                state.before_look = state.results();
            }
            state.mutation
        };
        if mutation == Mutation::StoreFirst {
            let until = self.world.state().clock + 20 * SECOND;
            self.world.advance(until);
        }
        let mut state = self.world.state();
        let now = state.clock;
        if !state.is_calm && state.random.chance(20) {
            let silent = state.random.between(SECOND, 300 * SECOND);
            state.silent_until = now + silent;
        }
        let is_silent = !state.is_calm && now < state.silent_until;
        let of_batch = |job: &&Job| job.batch == self.batch;
        let active = state.jobs.iter().filter(of_batch).filter(|job| job.is_active());
        self.active = active.map(|job| job.shard).collect();
        let shards = state.batches.get(&self.batch).map_or(0, |batch| batch.shards());
        self.done = (0..shards).filter(|shard| state.is_done(&self.batch, *shard)).collect();
        if is_silent && mutation == Mutation::SilenceIsUnknown {
            return Ok(BTreeMap::new());
        }
        if is_silent {
            return Err("it does not answer".to_owned());
        }
        let mut seen = BTreeMap::new();
        for job in state.jobs.iter().filter(of_batch).filter(|job| job.is_shown(now)) {
            match job.state {
                Phase::Waiting => _ = seen.entry(job.shard).or_insert(JobState::Waiting),
                Phase::Running | Phase::Ended => _ = seen.insert(job.shard, JobState::Running),
            }
        }
        Ok(seen)
    }

    fn cancel(&mut self) -> Result<(), String> {
        let mut state = self.world.state();
        if !state.is_calm && state.random.chance(200) {
            return Err("it does not answer".to_owned());
        }
        let jobs: Vec<usize> =
            (0..state.jobs.len()).filter(|at| state.jobs[*at].batch == self.batch).collect();
        for job in jobs {
            state.jobs[job].state = Phase::Ended;
            for process in state.jobs[job].processes.clone() {
                state.seen.entry(process).or_default().is_gone = true;
            }
        }
        Ok(())
    }

    fn last_words(&self, _: u32) -> Option<String> {
        None
    }
}

impl World {
    /// A job starts on some node, unless it was cancelled.
    pub fn start_job(&self, number: usize) {
        let mut state = self.state();
        let nodes = state.disks.len() as u64 - 1;
        let machine = 1 + state.random.below(nodes) as usize;
        let job = &mut state.jobs[number];
        if job.state == Phase::Ended && job.processes.is_empty() {
            return;
        }
        job.state = Phase::Running;
        let (batch, shard) = (job.batch, job.shard);
        let id = state.begin_process(machine);
        state.jobs[number].processes.insert(id);
        *state.begun.entry((batch, shard)).or_default() += 1;
        state.tell(|| format!("job {number} starts as process {id} on machine {machine}"));
        if !state.is_calm {
            let after = state.random.between(SECOND, 120 * SECOND);
            if state.random.chance(60) {
                // Twice: the first copy works on.
                state.later(after, Event::Start(number));
            }
            if state.random.chance(60) {
                state.jobs[number].is_forgotten = true;
                state.jobs[number].was_lost = true;
            }
        }
        state.later(SECOND, Event::Work(id));
        drop(state);
        let process = Process::new(self, id, machine, batch, shard);
        self.processes().insert(id, Box::new(process));
    }
}

impl State {
    /// The process of a job has ended.
    pub fn end_process(&mut self, process: u64) {
        self.seen.entry(process).or_default().is_gone = true;
        let gone = BTreeSet::from([process]);
        self.end_jobs(&gone, false);
    }

    /// A machine has died: the scheduler may start its jobs again.
    pub fn end_jobs_of(&mut self, gone: &BTreeSet<u64>) {
        self.end_jobs(gone, true);
    }

    fn end_jobs(&mut self, gone: &BTreeSet<u64>, has_died: bool) {
        for number in 0..self.jobs.len() {
            let job = &self.jobs[number];
            let newest = job.processes.last();
            if job.state != Phase::Running || !newest.is_some_and(|newest| gone.contains(newest)) {
                continue;
            }
            let (wait, wrong) = (self.random.between(10, 180), self.random.between(1, 600));
            if has_died && !self.is_calm && self.random.chance(REQUEUE) {
                self.jobs[number].state = Phase::Waiting;
                self.later(wait * SECOND, Event::Start(number));
                continue;
            }
            let is_shown = !self.is_calm && self.random.chance(100);
            let shown_until = if is_shown { self.clock + wrong * SECOND } else { 0 };
            let job = &mut self.jobs[number];
            (job.state, job.shown_until) = (Phase::Ended, shown_until);
            job.was_lost |= has_died;
        }
    }
}
