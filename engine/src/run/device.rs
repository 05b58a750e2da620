//! The thread of a device, which talks to its worker process.
//!
//! The process is started for the first task of its device and kept for the run. Its death is a
//! value: the current task fails with the last lines of its stderr, and the next task starts
//! another process.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cache::fs::MachineFault;
use crossbeam_channel::Receiver;
use stage_core::event::Event;
use stage_core::programs::Handle;
use stage_core::wire::{Answer, MAX_FRAME, PROTOCOL, Question, Reply, Request, receive, send};
use stage_core::{Context, GatherInput, Item, StageError};

use super::aside::Asides;
use super::context::EngineContext;
use super::gather;
use super::message::{
    Failure, GatherTask, ItemOutcome, ItemTask, JobHandle, Message, Outcome, Task,
};
use super::pool::outcomes;
use super::shared::Shared;
use super::worker::Worker;
use crate::machine::is_gpu;

/// The time that an idle worker has to exit.
const PARTING: Duration = Duration::from_secs(5);

/// Lets the schedule watch the process of a task, and give up on it.
#[derive(Clone, Default)]
pub struct ProcessHandle(Arc<HandleState>);

#[derive(Default)]
struct HandleState {
    process: Mutex<Option<Handle>>,
    /// The latest task that was given up on. It, and one before it, may not have reached the
    /// process yet; one before it that was not given up on is retried.
    condemned: AtomicU64,
    /// The run is stopping, and the process does not.
    is_abandoned: AtomicBool,
    /// The number of messages from it.
    messages: AtomicU64,
}

impl ProcessHandle {
    pub fn end_task(&self, ticket: u64) {
        self.0.condemned.fetch_max(ticket, Ordering::SeqCst);
        self.end();
    }

    /// Ends the process because the run stops: its work is left for the next run.
    pub fn abandon(&self) {
        self.0.is_abandoned.store(true, Ordering::SeqCst);
        self.end();
    }

    fn end(&self) {
        let process = self.process().clone();
        if let Some(process) = process {
            process.end();
        }
    }

    /// Continues a process that was stopped by a signal.
    pub fn wake(&self) {
        if let Some(process) = &*self.process() {
            process.wake();
        }
    }

    /// A value that changes whenever the process has done anything.
    pub fn pulse(&self) -> (u64, Option<u64>) {
        let ticks = self.process().as_ref().and_then(Handle::ticks);
        (self.0.messages.load(Ordering::SeqCst), ticks)
    }

    fn process(&self) -> MutexGuard<'_, Option<Handle>> {
        self.0.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_process(&self, process: Option<Handle>) {
        *self.process() = process;
        // `leave` may have been called meanwhile, without seeing the process.
        if self.is_abandoned() {
            self.end();
        }
    }

    fn is_condemned(&self, ticket: u64) -> bool {
        self.0.condemned.load(Ordering::SeqCst) >= ticket
    }

    fn is_abandoned(&self) -> bool {
        self.0.is_abandoned.load(Ordering::SeqCst)
    }

    fn has_said_something(&self) {
        self.0.messages.fetch_add(1, Ordering::SeqCst);
    }
}

/// The handshake belongs to no kind.
static NO_KIND: stage_core::Kind = stage_core::Kind::BASE;

/// Serves the tasks of one device until there are none.
pub fn work(shared: Shared, device: String, handle: ProcessHandle, tasks: Receiver<Task>) {
    let mut host = Host { shared, device, handle, worker: None, last_said: None };
    for task in tasks {
        match task {
            Task::Items(task) => host.items(task),
            Task::Gather(task) => host.gather(*task),
            Task::Close(job) => host.close(|open| open == job),
            Task::CloseAll(held) => {
                host.close(|_| true);
                drop(held);
            }
        }
    }
    host.shut_down();
}

/// The worker's results for a batch.
type Processed =
    Result<Result<Vec<Result<stage_core::Output, stage_core::Reject>>, StageError>, Failure>;

fn is_out_of_memory(result: &Processed) -> bool {
    let error = match result {
        Ok(Err(error)) | Err(Failure::Open(error) | Failure::Stage(error)) => error,
        _ => return false,
    };
    matches!(error, StageError::OutOfMemory { .. })
}

struct Host {
    shared: Shared,
    device: String,
    handle: ProcessHandle,
    worker: Option<Worker>,
    /// The last progress of the current task, in the worker's words.
    last_said: Option<String>,
}

impl Host {
    fn items(&mut self, task: ItemTask) {
        let mut context = self.shared.context(task.ticket, task.job.kind);
        context.finishes_batch = true;
        self.last_said = None;
        let started = Instant::now();
        let mut result = self.process(&task, &mut context);
        if is_out_of_memory(&result) && self.makes_room(task.job.number) {
            result = self.process(&task, &mut context);
        }
        let seconds = started.elapsed().as_secs_f32();
        let outcomes = match result {
            Ok(results) => outcomes(task.items.len(), results, seconds, &mut context),
            Err(failure) => {
                let failure = without_memory(failure, task.items.len());
                vec![ItemOutcome::Failed(failure); task.items.len()]
            }
        };
        self.shared.done(Outcome::Items(outcomes), context);
    }

    fn gather(&mut self, mut task: GatherTask) {
        task.await_devices();
        let mut context = self.shared.context(task.ticket, task.job.kind);
        context.inputs = task.inputs;
        context.training = task.training.take();
        context.aside = Some(Asides::new(task.policy.clone(), task.ports.clone()));
        context.device_stop = is_gpu(&self.device).then(|| self.shared.gpu_stop.clone());
        self.last_said = None;
        let started = Instant::now();
        // A model in training needs the memory that earlier stages still hold.
        self.makes_room(task.job.number);
        let result = gather::input(&mut context, &task, None).map_err(Failure::Stage);
        let result = result.and_then(|input| self.run_gather(&task.job, input, &mut context));
        let result = result.map_err(|failure| without_memory(failure, 1));
        let record = result.and_then(|output| {
            let took = started.elapsed();
            gather::keep(&mut context, task.outputs, output, took).map_err(Failure::Stage)
        });
        self.shared.done(Outcome::Gather(record), context);
        self.close(|open| open == task.job.number);
    }

    /// Closes all jobs except this one. True if there were any.
    fn makes_room(&mut self, job: u32) -> bool {
        let open = |worker: &Worker| worker.open.iter().any(|open| *open != job);
        let has_others = self.worker.as_ref().is_some_and(open);
        self.close(|open| open != job);
        has_others
    }

    /// Lets the worker drop jobs. A later task opens its job again.
    fn close(&mut self, is_over: impl Fn(u32) -> bool) {
        let open = self.worker.iter().flat_map(|worker| worker.open.iter().copied());
        let over: Vec<u32> = open.filter(|job| is_over(*job)).collect();
        for job in over {
            let mut context = self.shared.context(0, &NO_KIND);
            match self.ask(Request::Close { job }, &mut context) {
                Ok(Reply::Closed { .. }) => {}
                Ok(_) => {
                    self.out_of_turn();
                }
                // The next task starts another process.
                Err(_) => return,
            }
            if let Some(worker) = &mut self.worker {
                worker.open.remove(&job);
            }
        }
    }

    fn process(&mut self, task: &ItemTask, context: &mut EngineContext) -> Processed {
        if self.shared.is_late(task.ticket) {
            return Err(Failure::Stage(StageError::Stopped));
        }
        self.open(&task.job, context)?;
        let blobs = blobs(&task.items, context).map_err(Failure::Stage)?;
        let request = Request::Process { job: task.job.number, items: task.items.clone(), blobs };
        match self.ask(request, context)? {
            Reply::Processed(results) => Ok(results),
            _ => Err(self.out_of_turn()),
        }
    }

    fn run_gather(
        &mut self,
        job: &JobHandle,
        input: GatherInput,
        context: &mut EngineContext,
    ) -> Result<stage_core::GatherOutput, Failure> {
        self.open(job, context)?;
        match self.ask(Request::Gather { job: job.number, input }, context)? {
            Reply::Gathered(output) => output.map_err(Failure::Stage),
            _ => Err(self.out_of_turn()),
        }
    }

    /// Makes sure that a process is running and has the job open.
    fn open(&mut self, job: &JobHandle, context: &mut EngineContext) -> Result<(), Failure> {
        if self.worker.is_none() {
            self.start()?;
        }
        let has = self.worker.as_ref().is_some_and(|worker| worker.open.contains(&job.number));
        if has {
            return Ok(());
        }
        let mut setup = job.setup.clone();
        setup.device = self.device.clone();
        let (kind, version) = (job.kind.name.to_owned(), job.kind.version);
        match self.ask(Request::Open { job: job.number, kind, version, setup }, context)? {
            Reply::Opened(opened) => opened.map_err(Failure::Open)?,
            _ => return Err(self.out_of_turn()),
        }
        if let Some(worker) = &mut self.worker {
            worker.open.insert(job.number);
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Failure> {
        let worker = match self.shared.spare.take() {
            Some(worker) => worker,
            None => Worker::start(&self.shared.engine).map_err(Failure::Open)?,
        };
        let process = worker.program.id();
        self.handle.set_process(Some(worker.program.handle()));
        self.worker = Some(worker);
        self.tell(Event::WorkerStarted { device: self.device.clone(), process });
        let hello = Request::Hello {
            protocol: PROTOCOL,
            device: self.device.clone(),
            threads: self.shared.engine.threads as u32,
        };
        let mut context = self.shared.context(0, &NO_KIND);
        let reply = self.ask(hello, &mut context);
        match reply.map_err(|failure| without_memory(failure, 1))? {
            Reply::Ready { protocol: PROTOCOL, .. } => Ok(()),
            Reply::Ready { protocol, program, .. } => {
                self.end();
                Err(Failure::Open(StageError::with_help(
                    format!("{program} uses protocol {protocol}, but this program uses {PROTOCOL}"),
                    "build the worker from the same source as `throstle`",
                )))
            }
            _ => Err(self.out_of_turn()),
        }
    }

    /// Sends a request and answers the worker's questions until its final reply.
    fn ask(&mut self, request: Request, context: &mut EngineContext) -> Result<Reply, Failure> {
        let mut message = request;
        loop {
            // Number 0 is the handshake, which belongs to no task.
            if context.ticket > 0 && self.handle.is_condemned(context.ticket) {
                return Err(self.died("its task took too long"));
            }
            let Some(worker) = &mut self.worker else {
                return Err(Failure::Died { message: "the worker is not running".to_owned() });
            };
            if let Err(error) = send(&mut worker.input, &message) {
                return Err(self.died(&error.to_string()));
            }
            loop {
                let reply = receive(&mut worker.output);
                self.handle.has_said_something();
                match reply {
                    Ok(Some(Reply::Question(question))) => {
                        message = Request::Answer(answer(question, context));
                        break;
                    }
                    Ok(Some(Reply::Progress { done, total })) => {
                        context.progress(done, total);
                        self.last_said = Some(format!("{done} of {total}"));
                    }
                    Ok(Some(Reply::Begins(course))) => context.begins(&course),
                    Ok(Some(Reply::Metrics { step, values })) => {
                        let values = values.iter().map(|(name, value)| (name.as_str(), *value));
                        context.metrics(step, &values.collect::<Vec<_>>());
                        self.last_said = Some(format!("step {step}"));
                    }
                    Ok(Some(reply)) => return Ok(reply),
                    Ok(None) => return Err(self.died("it closed its output")),
                    Err(error) if error.kind() == ErrorKind::InvalidData => {
                        return Err(self.noisy(&error));
                    }
                    Err(error) => return Err(self.died(&error.to_string())),
                }
            }
        }
    }

    /// The worker is alive, but its messages cannot be told from something else.
    fn noisy(&mut self, error: &std::io::Error) -> Failure {
        self.gone(|worker| {
            let words = worker.end().1;
            format!(
                "stopped the worker, since something other than its messages is on its standard \
                 output ({error}): print to standard error instead{words}"
            )
        })
    }

    fn died(&mut self, why: &str) -> Failure {
        self.gone(|worker| worker.last_words(why))
    }

    /// The process is gone or is ended now, which the function tells.
    fn gone(&mut self, tell: impl FnOnce(Worker) -> String) -> Failure {
        if self.handle.is_abandoned() {
            self.end();
            return Failure::Stage(StageError::Stopped);
        }
        let gone = "the worker is not running".to_owned();
        let mut message = self.worker.take().map_or(gone, tell);
        if let Some(said) = self.last_said.take() {
            message.push_str(&format!("; its last progress: {said}"));
        }
        self.handle.set_process(None);
        self.tell(Event::WorkerDied { device: self.device.clone(), message: message.clone() });
        Failure::Died { message }
    }

    fn out_of_turn(&mut self) -> Failure {
        self.end();
        Failure::Died { message: "unexpected answer from the worker".to_owned() }
    }

    fn end(&mut self) {
        self.handle.set_process(None);
        if let Some(worker) = self.worker.take() {
            worker.last_words("");
        }
    }

    fn shut_down(&mut self) {
        self.handle.set_process(None);
        let Some(Worker { program, mut input, .. }) = self.worker.take() else { return };
        // It has finished a task and reads, so this does not block. If it does not respond, closing
        // its pipe ends it.
        let _ = send(&mut input, &Request::Shutdown);
        drop(input);
        let _ = program.ends_within(PARTING);
        let _ = program.end();
    }

    fn tell(&self, event: Event) {
        let _ = self.shared.messages.send(Message::Event(event));
    }
}

/// A worker that ended since the system gave it no memory: fewer items at a time may need less, and
/// nobody is to blame.
fn without_memory(failure: Failure, items: usize) -> Failure {
    match failure {
        Failure::Died { message } if MachineFault::of_last_words(&message).is_some() => {
            Failure::Stage(match items {
                0 | 1 => StageError::Machine { message },
                _ => StageError::OutOfMemory { message },
            })
        }
        other => other,
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

fn answer(question: Question, context: &mut EngineContext) -> Answer {
    match question {
        Question::Read(blob) => Answer::Bytes(context.read(&blob).and_then(fitting)),
        Question::Find(blob) => Answer::Path(context.file_of(&blob)),
        Question::Staging => Answer::Path(context.staging()),
        Question::KeepFile { kind, path } => Answer::Kept(context.keep_file(&kind, &path)),
        Question::Recall(key) => Answer::Recalled(context.recall(&key)),
        Question::Remember(key, output) => Answer::Remembered(context.remember(&key, output)),
        Question::Keep { kind, bytes } => Answer::Kept(context.keep(&kind, bytes)),
        Question::Checkpoint(state) => Answer::Saved(context.checkpoint(state)),
        Question::LastCheckpoint => Answer::Found(context.last_checkpoint()),
        Question::Parent => Answer::Found(context.parent()),
        Question::SetAside(port, rejects) => {
            let rejects = rejects.into_iter().map(|(place, reject)| (place as usize, reject));
            Answer::SetAside(context.set_aside(&port, rejects.collect()))
        }
        Question::Stopping => Answer::Stopping(context.stopping()),
        Question::MayBegin { validates } => Answer::May(context.may_begin_step(validates)),
    }
}

/// Turns a message that is too large for a frame into an error of the stage.
fn fitting(bytes: bytes::Bytes) -> Result<bytes::Bytes, StageError> {
    const HEAD: usize = 64;
    match bytes.len() + HEAD <= MAX_FRAME as usize {
        true => Ok(bytes),
        false => {
            Err(StageError::failed(format!("an object of {} B is too large here", bytes.len())))
        }
    }
}
