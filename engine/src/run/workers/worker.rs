//! A worker process: its start, its pipes, and the end of its stderr.

use std::collections::{HashSet, VecDeque};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::event::Event;
use cache::fs::MachineFault;
use crossbeam_channel::Sender;
use stage_core::StageError;
use stage_core::device::{DeviceName, Devices};
use stage_programs::{self as programs, Patience, Pipe, Program};
use stage_worker::wire::{Reply, Request, receive, send};

use crate::engine::Engine;
use crate::run::message::Message;

/// The number of stderr lines that are kept for the message of a worker's death.
const STDERR_LINES: usize = 20;

/// The time that a worker has to find its devices: a broken driver may hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker process, with the jobs that it has open.
pub struct Worker {
    pub program: Program,
    pub input: BufWriter<Pipe<ChildStdin>>,
    pub output: BufReader<Pipe<ChildStdout>>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
    pub open: HashSet<u32>,
}

impl Worker {
    pub fn start(engine: &Engine) -> Result<Worker, StageError> {
        let program = engine.worker.program.as_ref().ok_or_else(|| {
            StageError::with_help(
                "the worker program `throstle-torch` was not found",
                "build it with `make build`, or run `throstle doctor`",
            )
        })?;
        if let Some(lacks) = &engine.worker.lacks {
            return Err(StageError::with_help(
                lacks,
                "`throstle setup` fetches a private copy (0.6 GB), or run \
                 `pip install 'throstle[torch]'`",
            ));
        }
        let failed = |error: io::Error| {
            let message = format!("cannot start the worker `{program}`: {error}");
            if MachineFault::of(&error).is_some() {
                return StageError::of_io(message, &error);
            }
            StageError::with_help(message, "run `throstle doctor` to see what is missing")
        };
        let mut command = Command::new(program);
        command.args(&engine.worker.arguments).env_clear();
        command.envs(engine.worker.environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in a terminal is for the engine, which lets the worker finish its batch: the
        // worker has its own process group.
        let mut program = programs::start(&mut command).map_err(failed)?;
        let (Some(input), Some(output), Some(errors)) = program.pipes() else {
            return Err(StageError::failed("the worker was started without pipes"));
        };
        let (input, output) =
            (Pipe::new(input).map_err(failed)?, Pipe::new(output).map_err(failed)?);
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let kept = stderr.clone();
        let read = move || keep_last_lines(errors, &kept);
        let reader = Builder::new().name("worker errors".into()).spawn(read).map_err(failed)?;
        Ok(Worker {
            program,
            input: BufWriter::with_capacity(1 << 16, input),
            output: BufReader::with_capacity(1 << 16, output),
            stderr,
            reader: Some(reader),
            open: HashSet::new(),
        })
    }

    /// Sets the time until the next answer.
    pub fn set_patience(&mut self, patience: &Patience) {
        self.input.get_mut().patience = patience.clone();
        self.output.get_mut().patience = patience.clone();
    }

    /// The GPUs that the process can use.
    fn devices(&mut self) -> io::Result<Devices> {
        self.set_patience(&Patience::within(PATIENCE));
        send(&mut self.input, &Request::Devices)?;
        match receive(&mut self.output)? {
            Some(Reply::Devices(devices)) => Ok(devices),
            Some(_) => Err(io::Error::other("unexpected answer")),
            None => Err(io::Error::other("it closed its output")),
        }
    }

    /// Ends the process and returns how it ended.
    pub fn last_words(self, why: &str) -> String {
        let (status, words) = self.end();
        format!("the worker ended ({status}): {why}{words}")
    }

    /// Ends the process and returns its status and its last output.
    pub fn end(mut self) -> (String, String) {
        let status = self.program.end();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let status =
            status.map_or_else(|error| error.to_string(), |ended| ended.status.to_string());
        let lines = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> = lines.iter().cloned().collect();
        let words = if lines.is_empty() {
            String::new()
        } else {
            format!("; last output: {}", lines.join(" | "))
        };
        (status, words)
    }
}

fn keep_last_lines(errors: impl std::io::Read, kept: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(errors).lines().map_while(Result::ok) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == STDERR_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

/// The process that was asked for the devices, for the first task.
#[derive(Clone, Default)]
pub struct Spare(Arc<Mutex<Option<Worker>>>);

impl Spare {
    pub fn take(&self) -> Option<Worker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the process, if no task came.
    pub fn end(&self) {
        self.take().map(|worker| worker.last_words(""));
    }

    /// Asks a new worker for the GPUs of this machine. Where there is no answer, the first task says why.
    pub fn ask(&self, engine: &Engine, messages: &Sender<Message>) -> Devices {
        let Ok(mut worker) = Worker::start(engine) else { return Devices::default() };
        match worker.devices() {
            Ok(devices) => {
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker);
                devices
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                worker.last_words("");
                let problem = format!("CUDA does not answer within {} s", PATIENCE.as_secs());
                Devices { gpus: Vec::new(), problem: Some(problem) }
            }
            Err(error) => {
                let (device, message) = (DeviceName::Auto, worker.last_words(&error.to_string()));
                let _ = messages.send(Message::Event(Event::WorkerDied { device, message }));
                Devices::default()
            }
        }
    }
}
