//! The worker's side of the pipe: serves stages until the engine ends it.

pub mod wire;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use cache::fs::{Fs, Open, RealFs};
use cache::{Digest, LOOSE_SIZE};
use camino::Utf8PathBuf;

use stage_core::course::Course;
use stage_core::device::{DeviceId, Devices};
use stage_core::{
    Blob, Context, Fields, GatherInput, GatherOutput, Item, Job, NewValue, Output, PortOutput,
    Reject, Setup, Stage, StageError,
};

use crate::wire::{Answer, PROTOCOL, Question, Reply, Request, receive, send};

/// The stages and callbacks of a worker program.
pub struct Host<'a> {
    /// Name and version, for messages.
    pub program: String,
    pub stages: &'a [Box<dyn Stage>],
    /// Called once with the device and the number of threads before any stage is opened.
    pub prepare: &'a dyn Fn(DeviceId, u32) -> Result<(), StageError>,
    /// The GPUs that this process can use.
    pub devices: &'a dyn Fn() -> Devices,
    /// Called after items were processed.
    pub processed: &'a dyn Fn(),
    /// Called after a job was closed, with the number of open ones: releases what it left behind.
    pub closed: &'a dyn Fn(usize),
}

/// Answers requests until the pipe closes or a shutdown is asked for.
pub fn serve(host: &Host, input: &mut dyn Read, output: &mut dyn Write) -> io::Result<()> {
    let mut server =
        Server { host, pipe: Pipe { input, output }, jobs: HashMap::new(), prepared: Ok(()) };
    while let Some(request) = receive(&mut server.pipe.input)? {
        if matches!(request, Request::Shutdown) {
            return send(&mut server.pipe.output, &Reply::Goodbye);
        }
        let reply = server.answer(request);
        send(&mut server.pipe.output, &reply)?;
    }
    Ok(())
}

struct Pipe<'a> {
    input: &'a mut dyn Read,
    output: &'a mut dyn Write,
}

struct Server<'a> {
    host: &'a Host<'a>,
    pipe: Pipe<'a>,
    jobs: HashMap<u32, Job>,
    prepared: Result<(), StageError>,
}

impl Server<'_> {
    fn answer(&mut self, request: Request) -> Reply {
        match request {
            Request::Hello { device, threads, .. } => self.hello(device, threads),
            Request::Open { job, kind, version, setup } => {
                Reply::Opened(self.open(job, &kind, version, setup))
            }
            Request::Process { job, items, blobs } => {
                let outputs = self.process(job, &items, blobs);
                (self.host.processed)();
                Reply::Processed(outputs)
            }
            Request::Gather { job, input } => Reply::Gathered(self.gather(job, input)),
            Request::Close { job } => {
                self.close(job);
                Reply::Closed { open: self.jobs.len() as u32 }
            }
            Request::Devices => Reply::Devices((self.host.devices)()),
            Request::Answer(_) | Request::Shutdown => {
                Reply::Closed { open: self.jobs.len() as u32 }
            }
        }
    }

    fn hello(&mut self, device: DeviceId, threads: u32) -> Reply {
        self.prepared = (self.host.prepare)(device, threads);
        let kinds = self.host.stages.iter().map(|stage| stage.kind());
        Reply::Ready {
            protocol: PROTOCOL,
            program: self.host.program.clone(),
            kinds: kinds.map(|kind| (kind.name.to_owned(), kind.version)).collect(),
        }
    }

    fn open(&mut self, job: u32, kind: &str, version: u32, setup: Setup) -> Result<(), StageError> {
        self.prepared.clone()?;
        let stage = self.host.stages.iter().find(|stage| stage.kind().name == kind);
        let stage = stage.ok_or_else(|| unknown_kind(&self.host.program, kind))?;
        if stage.kind().version != version {
            return Err(other_version(&self.host.program, kind, stage.kind().version, version));
        }
        let mut context = PipeContext::new(&mut self.pipe);
        let opened = shielded(|| stage.open(setup, &mut context))?;
        self.jobs.insert(job, opened);
        Ok(())
    }

    fn close(&mut self, job: u32) {
        let closed = self.jobs.remove(&job);
        // A defect in a destructor does not end the worker: the outcome of the job is known.
        let _ = shielded(|| {
            drop(closed);
            (self.host.closed)(self.jobs.len());
            Ok(())
        });
    }

    fn process(
        &mut self,
        job: u32,
        items: &[Item],
        blobs: Vec<(Digest, Bytes)>,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let mut context = PipeContext::new(&mut self.pipe);
        context.blobs.extend(blobs);
        match self.jobs.get(&job) {
            Some(Job::Item(work)) => shielded(|| work.process(items, &mut context)),
            _ => Err(StageError::failed(format!("no item job {job} is open in the worker"))),
        }
    }

    fn gather(&mut self, job: u32, input: GatherInput) -> Result<GatherOutput, StageError> {
        let mut context = PipeContext::new(&mut self.pipe);
        match self.jobs.get_mut(&job) {
            Some(Job::Gather(work)) => {
                let output = shielded(|| work.run(input, &mut context))?;
                context.settle_output(output)
            }
            _ => Err(StageError::failed(format!("no gather job {job} is open in the worker"))),
        }
    }
}

fn unknown_kind(program: &str, kind: &str) -> StageError {
    StageError::with_help(
        format!("{program} has no stage kind `{kind}`"),
        "build the worker from the same source as `throstle`",
    )
}

fn other_version(program: &str, kind: &str, has: u32, wants: u32) -> StageError {
    StageError::with_help(
        format!("{program} has version {has} of `{kind}`, but version {wants} is needed"),
        "build the worker from the same source as `throstle`",
    )
}

/// Runs a stage's code; a panic in it becomes an error of the stage.
pub fn shielded<T>(work: impl FnOnce() -> Result<T, StageError>) -> Result<T, StageError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let defect = |text: String| {
            let help = "this is a bug of the stage: please report it";
            StageError::with_help(format!("the stage panicked: {text}"), help)
        };
        Err(StageError::of_panic(text.unwrap_or("no message"), defect))
    })
}

/// A context that asks the engine over the pipe.
struct PipeContext<'a, 'p> {
    pipe: &'a mut Pipe<'p>,
    blobs: HashMap<Digest, Bytes>,
    /// The number of files written for the engine.
    written: u64,
}

impl<'a, 'p> PipeContext<'a, 'p> {
    fn new(pipe: &'a mut Pipe<'p>) -> PipeContext<'a, 'p> {
        PipeContext { pipe, blobs: HashMap::new(), written: 0 }
    }

    fn ask(&mut self, question: Question) -> Result<Answer, StageError> {
        let lost = |error: io::Error| StageError::failed(format!("lost the engine: {error}"));
        send(&mut self.pipe.output, &Reply::Question(question)).map_err(lost)?;
        match receive(&mut self.pipe.input).map_err(lost)? {
            Some(Request::Answer(answer)) => Ok(answer),
            Some(_) => Err(StageError::failed("unexpected answer from the engine")),
            None => Err(StageError::failed("lost the engine: the pipe is closed")),
        }
    }

    fn ask_path(&mut self, question: Question) -> Result<Option<Utf8PathBuf>, StageError> {
        match self.ask(question)? {
            Answer::Path(path) => Ok(path),
            _ => out_of_turn(),
        }
    }

    /// A large object from its file, if its digest is right. Otherwise the engine finds the reason.
    fn read_file(&mut self, blob: &Blob) -> Result<Option<Bytes>, StageError> {
        if blob.size < LOOSE_SIZE {
            return Ok(None);
        }
        let path = self.ask_path(Question::Find(blob.clone()))?;
        let bytes = path.and_then(|path| RealFs::map(&path).ok());
        Ok(bytes.filter(|bytes| Digest::of(bytes) == blob.digest))
    }

    /// A large object as a file that the engine takes over; `None` if that fails.
    fn keep_file(&mut self, kind: &str, bytes: &Bytes) -> Result<Option<Blob>, StageError> {
        if (bytes.len() as u64) < LOOSE_SIZE {
            return Ok(None);
        }
        let Some(staging) = self.ask_path(Question::Staging)? else { return Ok(None) };
        self.written += 1;
        let path = staging.join(format!("object-{}", self.written));
        let file = RealFs.open(&path, Open::CreateNew);
        if file.and_then(|file| file.write_all_at(bytes, 0)).is_err() {
            // The engine will find the problem of the disk.
            let _ = RealFs.remove_file(&path);
            return Ok(None);
        }
        match self.ask(Question::KeepFile { kind: kind.to_owned(), path })? {
            Answer::Kept(blob) => blob.map(Some),
            _ => out_of_turn(),
        }
    }

    /// Sends large objects ahead, one by one, so that no message contains a whole model.
    fn settled(&mut self, mut output: Output) -> Result<Output, StageError> {
        self.settle(&mut output.values)?;
        Ok(output)
    }

    fn settle(&mut self, values: &mut [(String, NewValue)]) -> Result<(), StageError> {
        for (_, value) in values {
            if let NewValue::Bytes { kind, bytes } = value
                && bytes.len() as u64 >= LOOSE_SIZE
            {
                *value = NewValue::blob(self.keep(kind, std::mem::take(bytes))?);
            }
        }
        Ok(())
    }

    fn settle_output(&mut self, mut output: GatherOutput) -> Result<GatherOutput, StageError> {
        for port in output.ports.values_mut() {
            match port {
                PortOutput::Artifact(values) => self.settle(values)?,
                PortOutput::Dataset(items) => {
                    items.iter_mut().try_for_each(|item| self.settle(&mut item.values))?;
                }
            }
        }
        Ok(output)
    }
}

fn out_of_turn<T>() -> Result<T, StageError> {
    Err(StageError::failed("the engine sent an unexpected answer"))
}

impl Context for PipeContext<'_, '_> {
    fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError> {
        if let Some(bytes) = self.blobs.get(&blob.digest) {
            return Ok(bytes.clone());
        }
        if let Some(bytes) = self.read_file(blob)? {
            return Ok(bytes);
        }
        match self.ask(Question::Read(blob.clone()))? {
            Answer::Bytes(bytes) => bytes,
            _ => out_of_turn(),
        }
    }

    fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError> {
        match self.ask(Question::Recall(*key))? {
            Answer::Recalled(fields) => fields,
            _ => out_of_turn(),
        }
    }

    fn remember(&mut self, key: &Digest, output: Output) -> Result<Fields, StageError> {
        let output = self.settled(output)?;
        match self.ask(Question::Remember(*key, output))? {
            Answer::Remembered(fields) => fields,
            _ => out_of_turn(),
        }
    }

    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError> {
        if let Some(blob) = self.keep_file(kind, &bytes)? {
            return Ok(blob);
        }
        match self.ask(Question::Keep { kind: kind.to_owned(), bytes })? {
            Answer::Kept(blob) => blob,
            _ => out_of_turn(),
        }
    }

    fn checkpoint(&mut self, state: Output) -> Result<Fields, StageError> {
        let state = self.settled(state)?;
        match self.ask(Question::Checkpoint(state))? {
            Answer::Saved(fields) => fields,
            _ => out_of_turn(),
        }
    }

    fn last_checkpoint(&mut self) -> Result<Option<Fields>, StageError> {
        match self.ask(Question::LastCheckpoint)? {
            Answer::Found(fields) => fields,
            _ => out_of_turn(),
        }
    }

    fn parent(&mut self) -> Result<Option<Fields>, StageError> {
        match self.ask(Question::Parent)? {
            Answer::Found(fields) => fields,
            _ => out_of_turn(),
        }
    }

    fn set_aside(&mut self, port: &str, rejects: Vec<(usize, Reject)>) -> Result<(), StageError> {
        let rejects = rejects.into_iter().map(|(place, reject)| (place as u64, reject)).collect();
        match self.ask(Question::SetAside(port.to_owned(), rejects))? {
            Answer::SetAside(result) => result,
            _ => out_of_turn(),
        }
    }

    fn begins(&mut self, course: &Course) {
        // A lost engine is noticed at the next question.
        let _ = send(&mut self.pipe.output, &Reply::Begins(course.clone()));
    }

    fn metrics(&mut self, step: u64, values: &[(&str, f64)]) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        // A lost engine is noticed at the next question.
        let _ = send(&mut self.pipe.output, &Reply::Metrics { step, values });
    }

    fn scratch(&mut self) -> Result<Utf8PathBuf, StageError> {
        let folder = self.ask_path(Question::Staging)?;
        let none =
            || StageError::Machine { message: "cannot make a folder for temporary files".into() };
        folder.ok_or_else(none)
    }

    fn progress(&mut self, done: u64, total: u64) {
        // A lost engine is noticed at the next question.
        let _ = send(&mut self.pipe.output, &Reply::Progress { done, total });
    }

    fn may_begin_step(&mut self, validates: bool) -> bool {
        matches!(self.ask(Question::MayBegin { validates }), Ok(Answer::May(true)))
    }

    fn stopping(&mut self) -> bool {
        matches!(self.ask(Question::Stopping), Ok(Answer::Stopping(true)) | Err(_))
    }
}
