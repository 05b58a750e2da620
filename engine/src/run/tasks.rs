//! The tasks that are handed out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use cache::Claim;

use crate::pipeline::StageId;
use crate::run::items::queue::QueuedItem;

/// The time in seconds that work may take beyond its limit: a stage that ends its program itself also
/// tells what the program said.
const OVERTIME: f64 = 1.0;

/// A task that has been handed out.
pub struct InFlight {
    pub stage: StageId,
    /// Shared with the thread that has the task.
    pub items: Arc<Vec<QueuedItem>>,
    pub claims: Vec<Claim>,
    pub started: Instant,
    /// Its time limit counts from here: until it runs, this is the last look at it.
    since: Instant,
}

/// A task that has exceeded its time limit.
pub struct Overdue {
    pub ticket: u64,
    pub limit_seconds: f64,
    /// The number of its items; 0 for a task on whole data sets.
    pub items: usize,
}

#[derive(Default)]
pub struct Tasks {
    in_flight: HashMap<u64, InFlight>,
    last_ticket: u64,
}

impl Tasks {
    pub fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Tests if no ticket was ever taken.
    pub fn is_untouched(&self) -> bool {
        self.last_ticket == 0
    }

    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub fn begin(
        &mut self,
        ticket: u64,
        stage: StageId,
        items: Arc<Vec<QueuedItem>>,
        claims: Vec<Claim>,
    ) {
        let started = Instant::now();
        let task = InFlight { stage, items, claims, started, since: started };
        self.in_flight.insert(ticket, task);
    }

    /// `None` for a task that was given up on.
    pub fn end(&mut self, ticket: u64) -> Option<InFlight> {
        self.in_flight.remove(&ticket)
    }

    pub fn stage(&self, ticket: u64) -> Option<StageId> {
        self.in_flight.get(&ticket).map(|task| task.stage)
    }

    /// The tasks that have run for longer than they may. `limit` gives the seconds for one item of a
    /// stage, or for all of its work.
    pub fn overdue(
        &mut self,
        is_running: impl Fn(u64) -> bool,
        limit: impl Fn(StageId) -> Option<f64>,
    ) -> Vec<Overdue> {
        for (_, task) in self.in_flight.iter_mut().filter(|(ticket, _)| !is_running(**ticket)) {
            task.since = Instant::now();
        }
        let overdue = |(ticket, task): (&u64, &InFlight)| {
            let items = task.items.len();
            let limit_seconds = limit(task.stage)? * items.max(1) as f64;
            let is_overdue = task.since.elapsed().as_secs_f64() > limit_seconds + OVERTIME;
            is_overdue.then_some(Overdue { ticket: *ticket, limit_seconds, items })
        };
        self.in_flight.iter().filter_map(overdue).collect()
    }
}
