//! The store as a process reaches it over a network that delays, repeats, loses and reorders requests,
//! and sometimes gives wrong answers to reads.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use cache::{Digest, Table};
use camino::Utf8Path;
use remote::{ListedFile, Outcome, Refusal, Storage};

use crate::mutation::Mutation;
use crate::world::{Event, Named, SECOND, State, World};
use engine::executor::batch::{Attempt, BATCH, ShardResult};
use engine::record::encode;

#[derive(Debug)]
pub struct Link {
    world: World,
    process: u64,
    /// Writes that a mutated process holds back.
    held: Mutex<Vec<(String, Bytes)>>,
}

/// The fate of a request.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Answered,
    /// It does not arrive.
    Lost,
    /// It is done, and the answer is lost.
    Unanswered,
    /// It is done some time later, after the process has given up.
    Late,
    /// It is done twice, and the second answer arrives.
    Repeated,
}

fn refusal() -> Refusal {
    Refusal("the request was not answered".to_owned())
}

impl Link {
    pub fn new(world: World, process: u64) -> Link {
        Link { world, process, held: Mutex::default() }
    }

    /// Waits for the network; an error if the process is gone meanwhile.
    fn request(&self) -> Result<Fate, Refusal> {
        let until = {
            let mut state = self.world.state();
            if state.is_gone(self.process) {
                return Err(refusal());
            }
            state.events += 1;
            let (is_calm, random) = (state.is_calm, &mut state.random);
            let pause = match random.below(1_000) {
                _ if is_calm => random.between(5, 50),
                0..3 => random.between(60 * SECOND, 1_200 * SECOND),
                3..60 => random.between(SECOND, 30 * SECOND),
                _ => random.between(5, 50),
            };
            state.clock + pause
        };
        self.world.advance(until);
        let mut state = self.world.state();
        if state.is_gone(self.process) || state.violation.is_some() {
            return Err(refusal());
        }
        if state.is_calm {
            return Ok(Fate::Answered);
        }
        Ok(match state.random.below(1_000) {
            0..2 => Fate::Lost,
            2..4 => Fate::Unanswered,
            4..6 => Fate::Late,
            6..16 => Fate::Repeated,
            _ => Fate::Answered,
        })
    }

    fn read(&self, name: &str) -> Result<Option<Bytes>, Refusal> {
        if matches!(self.request()?, Fate::Lost | Fate::Unanswered | Fate::Late) {
            return Err(refusal());
        }
        let mut state = self.world.state();
        let found = state.read(self.process, name);
        let found = state.lie(self.process, name, found);
        let lied = found != state.files.get(name).cloned();
        state.tell(|| {
            format!("{} reads {name}: {:?}", self.process, found.as_ref().map(Bytes::len))
        });
        Ok(if state.mutation == Mutation::SkipsChecksums && lied {
            found.map(|bytes| signed_again(&bytes))
        } else {
            found
        })
    }

    fn held(&self) -> Vec<(String, Bytes)> {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A process that skips a check takes what another one would refuse.
fn signed_again(bytes: &Bytes) -> Bytes {
    match (bytes.get(..16), bytes.get(48..)) {
        (Some(mark), Some(body)) => [mark, Digest::of(body).as_bytes(), body].concat().into(),
        _ => bytes.clone(),
    }
}

impl State {
    /// The content of a file, as a process with a mutation sees it.
    fn read(&self, process: u64, name: &str) -> Option<Bytes> {
        let found = self.files.get(name).cloned();
        let is_engine = self.seen.get(&process).is_some_and(|seen| seen.machine == 0);
        let Some((named, batch, shard)) = self.named(name).filter(|_| is_engine) else {
            return match (self.mutation, self.named(name)) {
                (Mutation::ReusesAttemptNumber, Some((Named::Attempt, ..))) => None,
                _ => found,
            };
        };
        let job = self.jobs.iter().rev().find(|job| job.batch == batch && job.shard == shard);
        match (self.mutation, named) {
            (Mutation::SeesNoProgress, Named::Report) => None,
            (Mutation::StoreFirst, Named::Result) => {
                found.filter(|_| self.is_done_before_look(&batch, shard))
            }
            (Mutation::TrustsScheduler, Named::Result)
                if found.is_none() && job.is_some_and(|job| !job.is_shown(self.clock)) =>
            {
                let key = name.strip_prefix("results/")?.parse().ok()?;
                Some(empty_result(key))
            }
            (Mutation::LostIsDead, Named::Result) => {
                let writer = self.writers.get(name);
                let of = writer.and_then(|id| self.jobs.iter().find(|job| job.has_run(*id)));
                found.filter(|_| !of.is_some_and(|job| job.was_lost))
            }
            _ => found,
        }
    }

    /// Now and then, an answer is wrong.
    fn lie(&mut self, process: u64, name: &str, found: Option<Bytes>) -> Option<Bytes> {
        if self.is_calm || !self.random.chance(6) {
            return found;
        }
        let other = self.random.number() as usize;
        let lie = match (self.random.below(4), &found) {
            (0, _) | (_, None) => None,
            (1, Some(bytes)) => Some(bytes.slice(..other % bytes.len().max(1))),
            (2, Some(_)) => self.files.values().nth(other % self.files.len()).cloned(),
            (_, Some(bytes)) => {
                let mut changed = bytes.to_vec();
                let at = other % changed.len().max(1);
                changed.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
                Some(changed.into())
            }
        };
        if lie != found {
            self.tell(|| format!("a lie to {process} about {name}"));
            self.seen.entry(process).or_default().lies += 1;
        }
        lie
    }

    /// Writes a file unless its name is taken; false if it was.
    pub fn apply(&mut self, name: &str, bytes: &Bytes, by: u64) -> bool {
        if let Some(first) = self.files.get(name) {
            let replaces = match self.mutation {
                Mutation::ReplacesResults => name.starts_with("results/"),
                Mutation::ReplacesCheckpoints => name.starts_with("ckpt/"),
                _ => false,
            };
            if replaces && first != bytes {
                self.wrong(format!("`{name}` is written twice, with different bytes"));
            }
            return replaces;
        }
        self.files.insert(name.to_owned(), bytes.clone());
        self.writers.insert(name.to_owned(), by);
        self.look_at(name, bytes, by);
        true
    }

    /// Compares a new file with the promises of the protocol.
    fn look_at(&mut self, name: &str, bytes: &Bytes, by: u64) {
        if let Some(key) = name.strip_prefix("results/").and_then(|key| key.parse().ok()) {
            let packs = Outcome::decode(bytes, &key).map(|outcome| outcome.packs);
            for pack in packs.into_iter().flatten() {
                let needed =
                    ["INDEX", "volume-0001.pack"].map(|file| format!("packs/{pack}/{file}"));
                if !needed.iter().all(|file| self.files.contains_key(file)) {
                    self.wrong(format!("`{name}` names a pack that the store lacks"));
                }
            }
        }
        let Some((training, number)) = name.strip_prefix("ckpt/").and_then(|n| n.split_once('/'))
        else {
            return;
        };
        let (training, number) = (training.to_owned(), number.parse::<u64>().unwrap_or(0));
        let seen = self.seen.entry(by).or_default();
        let before = seen.newest.insert(training.clone(), number).unwrap_or(0);
        let (step, was_told_lies) = (seen.step, seen.lies > 0);
        self.steps.insert(name.to_owned(), step);
        if before + 1 != number {
            self.wrong(format!("checkpoint {number} comes from a process that continues {before}"));
        }
        let last = self.steps.get(&format!("ckpt/{training}/{:010}", number - 1));
        if last.is_some_and(|last| *last >= step) && !was_told_lies {
            self.wrong(format!("checkpoint {number} is no further than the one before it"));
        }
    }
}

fn empty_result(key: Digest) -> Bytes {
    let by = Attempt { id: [0; 16], machine: String::new(), job: String::new(), begun: 0 };
    let result = ShardResult { items: Vec::new(), failed: Vec::new(), by };
    let Table(table) = BATCH;
    let summary = result.summary();
    Outcome { key, table, summary, packs: Vec::new(), value: encode(&result) }.encode()
}

impl Storage for Link {
    fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, Refusal> {
        Ok(self.read(name)?.map(|bytes| bytes.slice(..bytes.len().min(most as usize))))
    }

    fn part(&self, name: &str, offset: u64, length: u64) -> Result<Option<Bytes>, Refusal> {
        Ok(self.read(name)?.map(|bytes| {
            let start = bytes.len().min(offset as usize);
            bytes.slice(start..bytes.len().min(start + length as usize))
        }))
    }

    fn put(&self, name: &str, bytes: Bytes) -> Result<bool, Refusal> {
        let mutation = self.world.state().mutation;
        if mutation == Mutation::RecordBeforeBytes && name.starts_with("packs/") {
            self.held.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), bytes));
            return Ok(true);
        }
        let fate = self.request()?;
        let mut state = self.world.state();
        if mutation == Mutation::ClosesWithoutCancel && state.is_cancellation(name) {
            return Ok(true);
        }
        let number = state.named(name).filter(|(named, ..)| *named == Named::Attempt);
        let is_new = match fate {
            Fate::Lost => false,
            Fate::Late => {
                let after = state.random.between(SECOND, 600 * SECOND);
                let (name, by) = (name.to_owned(), self.process);
                state.later(after, Event::Arrive { name, bytes: bytes.clone(), by });
                false
            }
            Fate::Answered | Fate::Unanswered => state.apply(name, &bytes, self.process),
            Fate::Repeated => {
                state.apply(name, &bytes, self.process);
                state.apply(name, &bytes, self.process)
            }
        };
        state.tell(|| format!("{} writes {name}: {is_new}", self.process));
        if matches!(fate, Fate::Lost | Fate::Late | Fate::Unanswered) {
            return Err(refusal());
        }
        for (name, bytes) in self.held() {
            state.apply(&name, &bytes, self.process);
        }
        Ok(is_new
            || (mutation == Mutation::IgnoresFence && name.starts_with("ckpt/"))
            || (mutation == Mutation::ReusesAttemptNumber && number.is_some()))
    }

    fn put_file(&self, name: &str, _: &Utf8Path) -> Result<(), Refusal> {
        // All objects are small.
        Err(Refusal(format!("`{name}` is too large for a simulation")))
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Refusal> {
        Ok(self.read(name)?.map(|bytes| bytes.len() as u64))
    }

    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, Refusal> {
        if matches!(self.request()?, Fate::Lost | Fate::Unanswered | Fate::Late) {
            return Err(refusal());
        }
        let mut state = self.world.state();
        let inside = format!("{folder}/");
        let is_inside = |name: &&String| folder.is_empty() || name.starts_with(&inside);
        let mut names: Vec<String> = state.files.keys().filter(is_inside).cloned().collect();
        let training = folder.strip_prefix("ckpt/");
        let is_stale = !state.is_calm && state.random.chance(20);
        if (is_stale || state.mutation == Mutation::ContinuesFromOlder) && training.is_some() {
            names.pop();
        }
        if let Some(training) = training {
            let number = |name: &String| name.rsplit('/').next()?.parse().ok();
            let newest = names.last().and_then(number).unwrap_or(0);
            let seen = state.seen.entry(self.process).or_default();
            seen.newest.insert(training.to_owned(), newest);
        }
        let size = |name: &String| state.files.get(name).map_or(0, |bytes| bytes.len() as u64);
        let listed = names.iter().map(|name| (size(name), name.clone()));
        Ok(listed.map(|(size, name)| ListedFile { name, size, modified: 0 }).collect())
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        Err(Refusal(format!("`{name}` stays")))
    }

    fn at_once(&self) -> usize {
        1
    }
}
