//! The thread of a device: it works through the tasks of a run on a worker.

use std::time::Instant;

use crossbeam_channel::Receiver;
use stage_core::device::DeviceId;
use stage_core::{Context, Item, StageError};

use super::client::{ProcessResult, WorkerClient};
use super::process::ProcessHandle;
use crate::run::context::EngineContext;
use crate::run::gather;
use crate::run::items::quarantine_list::QuarantineList;
use crate::run::message::{Failure, GatherTask, ItemOutcome, ItemTask, JobHandle, Outcome, Task};
use crate::run::pool::outcomes;
use crate::run::shared::SharedState;

/// Serves the tasks of one device until there are none.
pub fn work(shared: SharedState, device: DeviceId, handle: ProcessHandle, tasks: Receiver<Task>) {
    let (engine, spare) = (shared.engine.clone(), shared.spare.clone());
    let client = WorkerClient::new(engine, device, spare, shared.messages.clone());
    let mut host = Host { shared, client: client.watched_by(handle) };
    for task in tasks {
        match task {
            Task::Items(task) => host.items(task),
            Task::Gather(task) => host.gather(*task),
            Task::Close(job) => host.client.close(|open| open == job),
            Task::CloseAll(held) => {
                host.client.close(|_| true);
                drop(held);
            }
        }
    }
    host.client.shut_down();
}

struct Host {
    shared: SharedState,
    client: WorkerClient,
}

impl Host {
    fn items(&mut self, task: ItemTask) {
        let mut context = self.shared.context(task.ticket, task.job.kind);
        context.finishes_batch = true;
        let (shared, job) = (self.shared.clone(), task.job.clone());
        shared.run_items(task, context, |items, context| self.run_items(&job, items, context));
    }

    fn run_items(
        &mut self,
        job: &JobHandle,
        items: &[Item],
        context: &mut EngineContext,
    ) -> Vec<ItemOutcome> {
        let started = Instant::now();
        let result = self.process(job, items, context);
        let seconds = started.elapsed().as_secs_f32();
        match result {
            Ok(results) => outcomes(items.len(), results, seconds, context),
            Err(failure) => vec![ItemOutcome::Failed(failure); items.len()],
        }
    }

    fn gather(&mut self, mut task: GatherTask) {
        task.await_devices();
        let mut context = self.shared.context(task.ticket, task.job.kind);
        context.inputs = task.inputs;
        context.training = task.training.take();
        context.aside = Some(QuarantineList::new(&task));
        context.device_stop = self.client.device.is_gpu().then(|| self.shared.gpu_stop.clone());
        let started = Instant::now();
        // A model in training needs the memory that earlier stages still hold.
        self.client.makes_room(task.job.number);
        let result = gather::input(&mut context, &task, None).map_err(Failure::Stage);
        let result = result.and_then(|input| self.client.gather(&task.job, input, &mut context));
        let record = result.and_then(|output| {
            let took = started.elapsed();
            gather::keep(&mut context, task.outputs, output, took).map_err(Failure::Stage)
        });
        self.shared.done(Outcome::Gather(record), context);
        self.client.close(|open| open == task.job.number);
    }

    fn process(
        &mut self,
        job: &JobHandle,
        items: &[Item],
        context: &mut EngineContext,
    ) -> ProcessResult {
        let blobs = blobs(items, context).map_err(Failure::Stage)?;
        self.client.process(job, items, &blobs, context)
    }
}

fn blobs(
    items: &[Item],
    context: &mut EngineContext,
) -> Result<Vec<(cache::Digest, bytes::Bytes)>, StageError> {
    let mut blobs = Vec::new();
    for blob in items.iter().flat_map(|item| item.fields.blobs()) {
        blobs.push((blob.digest, context.read(blob)?));
    }
    Ok(blobs)
}
