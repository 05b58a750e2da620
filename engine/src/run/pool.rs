//! The threads that run stages in this process.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Receiver;
use stage_core::{Batching, Item, ItemJob, Output, Reject, StageError};
use stage_worker::shielded;

use super::context::EngineContext;
use super::gather;
use super::message::{Failure, ItemOutcome, ItemTask, Outcome, Task};
use super::shared::SharedState;
use crate::run::items::quarantine_list::QuarantineList;

/// Takes tasks until there are none.
pub fn work(shared: SharedState, tasks: Receiver<Task>) {
    for task in tasks {
        match task {
            Task::Items(task) => run_items(&shared, task),
            Task::Gather(mut task) => {
                task.await_devices();
                let mut context = shared.context(task.ticket, task.job.kind);
                context.inputs = task.inputs;
                context.training = task.training.take();
                context.aside = Some(QuarantineList::new(&task));
                let job = task.job.gather_job(&shared.engine, &mut context);
                let result = job.and_then(|mut job| {
                    let input = gather::input(&mut context, &task, Some(&*job))?;
                    let started = Instant::now();
                    let output = shielded(|| job.run(input, &mut context))?;
                    gather::keep(&mut context, task.outputs, output, started.elapsed())
                });
                let outcome = Outcome::Gather(result.map_err(Failure::Stage));
                shared.done(outcome, context);
            }
            // Jobs of this process are dropped with their stage.
            Task::Close(_) | Task::CloseAll(_) => {}
        }
    }
}

fn run_items(shared: &SharedState, task: ItemTask) {
    let mut context = shared.context(task.ticket, task.job.kind);
    context.finishes_batch = true;
    let job = task.job.clone();
    shared.run_items(task, context, |items, context| match job.item_job(&shared.engine, context) {
        Err(error) => vec![ItemOutcome::Failed(Failure::Open(error)); items.len()],
        Ok(opened) => run_batches(shared, (job.kind.batching, &opened), items, context),
    });
}

fn run_batches(
    shared: &SharedState,
    (batching, job): (Batching, &Arc<dyn ItemJob>),
    items: &[Item],
    context: &mut EngineContext,
) -> Vec<ItemOutcome> {
    let size = match batching {
        Batching::Single => 1,
        Batching::ByBytes { .. } | Batching::ByCount { .. } => items.len().max(1),
    };
    let batches = items.chunks(size).enumerate();
    let batches = batches.take_while(|(at, _)| *at == 0 || !shared.stop.is_requested());
    let done = batches.flat_map(|(_, batch)| run_batch(job, batch, context));
    let mut outcomes: Vec<ItemOutcome> = done.collect();
    outcomes.resize(items.len(), ItemOutcome::Failed(Failure::Stage(StageError::Stopped)));
    outcomes
}

fn run_batch(
    job: &Arc<dyn ItemJob>,
    items: &[Item],
    context: &mut EngineContext,
) -> Vec<ItemOutcome> {
    let (started, waited) = (Instant::now(), context.waited);
    let results = shielded(|| job.process(items, context));
    let took = started.elapsed().saturating_sub(context.waited - waited);
    outcomes(items.len(), results, took.as_secs_f32(), context)
}

/// Stores the outputs of a batch, item by item.
pub fn outcomes(
    count: usize,
    results: Result<Vec<Result<Output, Reject>>, StageError>,
    seconds: f32,
    context: &mut EngineContext,
) -> Vec<ItemOutcome> {
    let results = match results {
        Ok(results) if results.len() == count => results,
        Ok(results) => {
            let message = format!("the stage returned {} results for {count} items", results.len());
            return vec![ItemOutcome::Failed(Failure::Stage(StageError::failed(message))); count];
        }
        Err(StageError::Died { message }) => {
            return vec![ItemOutcome::Failed(Failure::Died { message }); count];
        }
        Err(error) => return vec![ItemOutcome::Failed(Failure::Stage(error)); count],
    };
    let seconds = seconds / count.max(1) as f32;
    let keep = |result: Result<Output, Reject>| match result {
        Err(reject) => ItemOutcome::Rejected(reject),
        Ok(output) => {
            let notes = output.notes.clone();
            let before = context.written;
            match context.keep_all(output) {
                Ok(fields) => {
                    let bytes = context.written - before;
                    ItemOutcome::Done { fields, notes, seconds, bytes }
                }
                Err(error) => ItemOutcome::Failed(Failure::Stage(error)),
            }
        }
    };
    results.into_iter().map(keep).collect()
}
