//! The client of a worker process, for runs and for stages that stay open.
//!
//! The process is started for the first request of its device and kept. Its death is a value: the
//! current request fails with the last lines of its stderr, and the next one starts another process.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use crate::event::Event;
use bytes::Bytes;
use cache::Digest;
use cache::fs::MachineFault;
use crossbeam_channel::Sender;
use stage_core::device::DeviceId;
use stage_core::{GatherInput, GatherOutput, Item, Output, Reject, Setup, StageError};
use stage_programs::Patience;
use stage_worker::wire::{PROTOCOL, Reply, Request, receive, send};

use super::desk::{Desk, NoJob};
use super::process::ProcessHandle;
use super::worker::{Spare, Worker};
use crate::engine::Engine;
use crate::run::message::{Failure, JobHandle, Message};

/// The time that an idle worker has to exit.
const PARTING: Duration = Duration::from_secs(5);
/// The time to get ready: libtorch with CUDA has 3 GB, which may come from the disk of a network.
const GREETING: Duration = Duration::from_secs(600);

/// The worker's results for a batch.
pub type ProcessResult = Result<Result<Vec<Result<Output, Reject>>, StageError>, Failure>;

/// The limits on the time for one answer. A run has none of them, since its schedule watches the
/// process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyLimits {
    pub whole: Option<Duration>,
    /// For a time in which the worker neither says nor computes anything.
    pub silence: Option<Duration>,
}

impl ReplyLimits {
    fn patience(self, worker: &Worker) -> Patience {
        let whole = self.whole.map_or_else(Patience::default, Patience::within);
        match self.silence {
            Some(limit) => whole.unless_silent(limit, worker.program.handle()),
            None => whole,
        }
    }
}

pub struct WorkerClient {
    engine: Arc<Engine>,
    pub device: DeviceId,
    handle: ProcessHandle,
    spare: Spare,
    messages: Sender<Message>,
    /// For the requests of jobs.
    pub limits: ReplyLimits,
    /// For the present request.
    patience: Patience,
    worker: Option<Worker>,
    /// The last progress of the current request, in the worker's words.
    last_said: Option<String>,
}

impl WorkerClient {
    pub fn new(
        engine: Arc<Engine>,
        device: DeviceId,
        spare: Spare,
        messages: Sender<Message>,
    ) -> WorkerClient {
        WorkerClient {
            engine,
            device,
            handle: ProcessHandle::default(),
            spare,
            messages,
            limits: ReplyLimits::default(),
            patience: Patience::default(),
            worker: None,
            last_said: None,
        }
    }

    /// Lets others watch the process and give up on it.
    pub fn watched_by(self, handle: ProcessHandle) -> WorkerClient {
        WorkerClient { handle, ..self }
    }

    /// Processes items. If they do not fit into memory beside other open jobs, those are closed.
    pub fn process(
        &mut self,
        job: &JobHandle,
        items: &[Item],
        blobs: &[(Digest, Bytes)],
        desk: &mut dyn Desk,
    ) -> ProcessResult {
        let mut result = self.process_once(job, items, blobs, desk);
        if is_out_of_memory(&result) && self.makes_room(job.number) {
            result = self.process_once(job, items, blobs, desk);
        }
        result.map_err(|failure| without_memory(failure, items.len()))
    }

    fn process_once(
        &mut self,
        job: &JobHandle,
        items: &[Item],
        blobs: &[(Digest, Bytes)],
        desk: &mut dyn Desk,
    ) -> ProcessResult {
        self.open(job, desk)?;
        let request =
            Request::Process { job: job.number, items: items.to_vec(), blobs: blobs.to_vec() };
        match self.ask(request, desk)? {
            Reply::Processed(results) => Ok(results),
            _ => Err(self.out_of_turn()),
        }
    }

    pub fn gather(
        &mut self,
        job: &JobHandle,
        input: GatherInput,
        desk: &mut dyn Desk,
    ) -> Result<GatherOutput, Failure> {
        let work = || {
            self.open(job, desk)?;
            match self.ask(Request::Gather { job: job.number, input }, desk)? {
                Reply::Gathered(output) => output.map_err(Failure::Stage),
                _ => Err(self.out_of_turn()),
            }
        };
        work().map_err(|failure| without_memory(failure, 1))
    }

    /// Makes sure that a process is running and has the job open.
    pub fn open(&mut self, job: &JobHandle, desk: &mut dyn Desk) -> Result<(), Failure> {
        self.last_said = None;
        if self.worker.is_none() {
            self.start(desk)?;
        }
        if self.worker.as_ref().is_some_and(|worker| worker.open.contains(&job.number)) {
            return Ok(());
        }
        let setup = Setup { device: self.device, ..job.setup.clone() };
        let (kind, version) = (job.kind.name.to_owned(), job.kind.version);
        match self.ask(Request::Open { job: job.number, kind, version, setup }, desk)? {
            Reply::Opened(opened) => opened.map_err(Failure::Open)?,
            _ => return Err(self.out_of_turn()),
        }
        if let Some(worker) = &mut self.worker {
            worker.open.insert(job.number);
        }
        Ok(())
    }

    /// Closes all jobs except this one. True if there were any.
    pub fn makes_room(&mut self, job: u32) -> bool {
        let open = |worker: &Worker| worker.open.iter().any(|open| *open != job);
        let has_others = self.worker.as_ref().is_some_and(open);
        self.close(|open| open != job);
        has_others
    }

    /// Lets the worker drop jobs. A later request opens its job again.
    pub fn close(&mut self, is_over: impl Fn(u32) -> bool) {
        let open = self.worker.iter().flat_map(|worker| worker.open.iter().copied());
        let over: Vec<u32> = open.filter(|job| is_over(*job)).collect();
        for job in over {
            match self.ask(Request::Close { job }, &mut NoJob) {
                Ok(Reply::Closed { .. }) => {}
                Ok(_) => {
                    self.out_of_turn();
                }
                // The next request starts another process.
                Err(_) => return,
            }
            if let Some(worker) = &mut self.worker {
                worker.open.remove(&job);
            }
        }
    }

    fn start(&mut self, desk: &mut dyn Desk) -> Result<(), Failure> {
        let worker = match self.spare.take() {
            Some(worker) => worker,
            None => Worker::start(&self.engine).map_err(Failure::Open)?,
        };
        let process = worker.program.id();
        self.handle.set_process(Some(worker.program.handle()));
        self.worker = Some(worker);
        self.tell(Event::WorkerStarted { device: self.device, process });
        let (device, threads) = (self.device, self.engine.threads as u32);
        let hello = Request::Hello { protocol: PROTOCOL, device, threads };
        let limits = ReplyLimits { whole: Some(GREETING), ..ReplyLimits::default() };
        let reply = self.ask_within(limits, hello, desk).map_err(|failure| match failure {
            Failure::Stage(late @ StageError::TimedOut { .. }) => {
                Failure::Died { message: format!("the worker failed to start: {late}") }
            }
            other => without_memory(other, 1),
        });
        match reply? {
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
    fn ask(&mut self, request: Request, desk: &mut dyn Desk) -> Result<Reply, Failure> {
        self.ask_within(self.limits, request, desk)
    }

    fn ask_within(
        &mut self,
        limits: ReplyLimits,
        request: Request,
        desk: &mut dyn Desk,
    ) -> Result<Reply, Failure> {
        if let Some(worker) = &mut self.worker {
            self.patience = limits.patience(worker);
            worker.set_patience(&self.patience);
        }
        let mut message = request;
        loop {
            if desk.ticket().is_some_and(|ticket| self.handle.is_condemned(ticket)) {
                return Err(self.died("its task took too long"));
            }
            let Some(worker) = &mut self.worker else {
                return Err(Failure::Died { message: "the worker is not running".to_owned() });
            };
            if let Err(error) = send(&mut worker.input, &message) {
                return Err(self.broken(&error));
            }
            message = loop {
                let reply = receive(&mut worker.output);
                self.handle.has_said_something();
                match reply {
                    Ok(Some(Reply::Question(question))) => {
                        break Request::Answer(desk.answer(question));
                    }
                    Ok(Some(
                        report
                        @ (Reply::Progress { .. } | Reply::Begins(_) | Reply::Metrics { .. }),
                    )) => {
                        desk.hear(&report);
                        self.last_said = said(&report).or(self.last_said.take());
                    }
                    Ok(Some(reply)) => return Ok(reply),
                    Ok(None) => return Err(self.died("it closed its output")),
                    Err(error) => return Err(self.broken(&error)),
                }
            };
        }
    }

    /// The conversation cannot go on.
    fn broken(&mut self, error: &std::io::Error) -> Failure {
        match error.kind() {
            ErrorKind::TimedOut => self.late(error),
            ErrorKind::InvalidData => self.noisy(error),
            _ => self.died(&error.to_string()),
        }
    }

    /// The worker may be alive, but nobody waits for it any more.
    fn late(&mut self, error: &std::io::Error) -> Failure {
        let passed = self.patience.passed();
        let failure = self.died(&error.to_string());
        match (failure, passed) {
            (Failure::Died { message }, Some(limit)) => {
                let (seconds, said) = (limit.as_secs_f64().to_string(), format!(": {message}"));
                Failure::Stage(StageError::TimedOut { seconds, said })
            }
            (Failure::Died { message }, None) => Failure::Stage(StageError::failed(message)),
            (other, _) => other,
        }
    }

    /// The worker is alive, but its output contains data that is not a message.
    fn noisy(&mut self, error: &std::io::Error) -> Failure {
        self.gone(|worker| {
            let words = worker.end().1;
            format!(
                "stopped the worker: it wrote something other than its messages to its standard \
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
        let device = self.device.into();
        self.tell(Event::WorkerDied { device, message: message.clone() });
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

    /// Ends the worker, which is idle.
    pub fn shut_down(mut self) {
        self.handle.set_process(None);
        let Some(mut worker) = self.worker.take() else { return };
        // If it does not respond, closing its pipe ends it.
        worker.set_patience(&Patience::within(PARTING));
        let Worker { program, mut input, .. } = worker;
        let _ = send(&mut input, &Request::Shutdown);
        drop(input);
        let _ = program.ends_within(PARTING);
        let _ = program.end();
    }

    fn tell(&self, event: Event) {
        // Nobody listens beside runs.
        let _ = self.messages.send(Message::Event(event));
    }
}

/// A report in words, for the message of the worker's death.
fn said(report: &Reply) -> Option<String> {
    match report {
        Reply::Progress { done, total } => Some(format!("{done} of {total}")),
        Reply::Metrics { step, .. } => Some(format!("step {step}")),
        _ => None,
    }
}

fn is_out_of_memory(result: &ProcessResult) -> bool {
    let error = match result {
        Ok(Err(error)) | Err(Failure::Open(error) | Failure::Stage(error)) => error,
        _ => return false,
    };
    matches!(error, StageError::OutOfMemory { .. })
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
