//! The batches of the next step, made by a separate thread while a step computes.
//!
//! The thread is one step ahead at most, which bounds the memory for batches. It has no state: a
//! batch follows from its rows and its seed. So a training that stops loses nothing, and a batch
//! that is no longer wanted, because micro-batches became smaller, is dropped.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};

use super::data::{Data, Purpose};
use crate::error::{TorchError, caught};
use crate::train::order::Row;

/// The batches of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepBatches {
    pub rows: Vec<Row>,
    /// The largest number of rows in a micro-batch.
    pub most: usize,
    pub purpose: Purpose,
}

type LoadedBatches<B> = Result<Vec<B>, TorchError>;

pub(super) struct Loader<'a, B> {
    data: &'a dyn Data<B>,
    is_for_gpu: bool,
    thread: Option<(Sender<StepBatches>, Receiver<LoadedBatches<B>>)>,
    /// The request that the thread works on.
    ahead: Option<StepBatches>,
}

impl<'a, B: Send> Loader<'a, B> {
    /// Without a thread: batches are made when they are taken.
    pub fn new(data: &'a dyn Data<B>, is_for_gpu: bool) -> Self {
        Loader { data, is_for_gpu, thread: None, ahead: None }
    }

    /// Starts the thread, which ends with [`Self::end`] or on drop. If it cannot start, nothing is
    /// made ahead.
    pub fn start<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        B: 'scope,
        'a: 'scope,
    {
        let (requests, wanted) = channel::<StepBatches>();
        let (results, made) = channel();
        let (data, is_for_gpu) = (self.data, self.is_for_gpu);
        // A new thread starts with libtorch's default number of threads, which may round
        // differently.
        let threads = tch::get_num_threads();
        let work = move || {
            tch::set_num_threads(threads);
            for wanted in wanted {
                if results.send(make(data, &wanted, is_for_gpu)).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("loader".into()).spawn_scoped(scope, work);
        self.thread = thread.ok().map(|_| (requests, made));
    }

    pub fn end(&mut self) {
        (self.thread, self.ahead) = (None, None);
    }

    /// Lets the thread make batches that will be taken next.
    pub fn prepare(&mut self, wanted: StepBatches) {
        let Some((requests, _)) = self.thread.as_ref().filter(|_| self.ahead.is_none()) else {
            return;
        };
        self.ahead = requests.send(wanted.clone()).is_ok().then_some(wanted);
    }

    /// The batches, made ahead or now.
    pub fn take(&mut self, wanted: &StepBatches) -> LoadedBatches<B> {
        if let (Some(ahead), Some((_, made))) = (self.ahead.take(), &self.thread) {
            // Waits for the thread even if its batches are not wanted, so that it is one step ahead
            // at most.
            match made.recv() {
                Ok(made) if ahead == *wanted => return made,
                _ => {}
            }
        }
        self.make(wanted)
    }

    /// The batches, made now.
    pub fn make(&self, wanted: &StepBatches) -> LoadedBatches<B> {
        make(self.data, wanted, self.is_for_gpu)
    }
}

fn make<B>(data: &dyn Data<B>, wanted: &StepBatches, is_for_gpu: bool) -> LoadedBatches<B> {
    let batch = |rows: &[Row]| data.stage(data.batch(rows, wanted.purpose)?, is_for_gpu);
    caught(|| wanted.rows.chunks(wanted.most.max(1)).map(batch).collect())
}
