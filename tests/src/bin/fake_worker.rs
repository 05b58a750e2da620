//! A worker without libtorch for the tests of the engine: it serves `test.remote` and `test.remote-train`
//! over the same protocol and misbehaves as its arguments say.
//!
//! `die-at N FILE`: ends in the middle of its N-th message, counted over all its lives in FILE.
//! `memory BYTES`: larger batches are out of memory. `hang`: never answers a batch.
//! `garbage`: writes what is no message. `holds FILE`: notes in FILE how many jobs are open whenever
//! one works, and after one was closed.
//! `gpus N FILE`: the same with this number of GPUs. `problem TEXT`: a GPU cannot be used.
//! `meets FILE`: has two GPUs, and notes in FILE when items and trainings begin and end. Items wait a
//! second for the first training to begin.
//! `slow-driver FILE`: answers that there are no GPUs once this file exists.
//! `environment FILE`: writes its environment.
//! `speaks FILE`: hums sentences for `vits.synthesize` and `fish.synthesize`, and notes in FILE how many
//! it gets at once. It hangs at the word `hang`, dies at `die`, rejects `mute`, and has memory for one
//! `heavy` sentence.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use stage_core::device::{Devices, Gpu};
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, ItemJob, Job, Kind, NewValue, Output,
    Reject, Setup, Stage, StageError,
};
use stage_worker::{Host, serve};

use stage_families::dual_ar::kinds as dual_ar;
use stage_families::vits::kinds as vits;
use throstle_tests::stages;
use throstle_tests::train::{REMOTE_TRAIN, Train};

struct Remote {
    kind: &'static Kind,
    memory: u64,
    hang: bool,
}

impl Stage for Remote {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(Remote { ..*self })))
    }
}

impl ItemJob for Remote {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        if self.hang {
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        let blobs = || items.iter().filter_map(|item| item.fields.blob("body"));
        let bytes: u64 = blobs().map(|blob| blob.size).sum();
        if bytes > self.memory {
            return Err(StageError::OutOfMemory { message: format!("{bytes} B do not fit") });
        }
        let twice = |blob: &std::sync::Arc<stage_core::Blob>, context: &mut dyn Context| {
            let text = context.read(blob)?;
            let twice = [&text[..], b" ", &text[..]].concat();
            Ok(Ok(Output::default().with("body", NewValue::bytes("text/plain", twice))))
        };
        blobs().map(|blob| twice(blob, context)).collect()
    }
}

/// Hums sentences, and misbehaves at some words.
struct Voice {
    kind: &'static Kind,
    file: String,
}

impl Stage for Voice {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(Voice { kind: self.kind, file: self.file.clone() })))
    }
}

impl ItemJob for Voice {
    fn process(
        &self,
        items: &[Item],
        _: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        note(&self.file, &format!("{} at once", items.len()));
        let texts: Vec<&str> = items.iter().filter_map(|item| item.fields.text("text")).collect();
        let has = |word: &str| texts.iter().any(|text| text.contains(word));
        if has("hang") {
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        if has("die") {
            eprintln!("told to die by a sentence");
            std::process::exit(9);
        }
        if has("heavy") && items.len() > 1 {
            return Err(StageError::OutOfMemory { message: "they do not fit".to_owned() });
        }
        let hum = |text: &&str| {
            if text.contains("mute") {
                return Err(Reject::new("silent", "the model ended before it spoke"));
            }
            let wav = throstle_tests::tone(200.0, 0.1 + text.len() as f64 / 100.0, 8_000);
            Ok(Output::default().with("audio", NewValue::bytes("audio/wav", wav)))
        };
        Ok(texts.iter().map(hum).collect())
    }
}

/// Jobs that are open now.
static HELD: AtomicUsize = AtomicUsize::new(0);

fn note(file: &str, line: &str) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// A stage with jobs that are counted while they are open.
struct Watched {
    inner: Box<dyn Stage>,
    file: String,
}

struct Held<J> {
    inner: J,
    kind: &'static str,
    file: String,
}

impl<J> Held<J> {
    fn note(&self) {
        note(&self.file, &format!("{} holds {}", self.kind, HELD.load(Ordering::SeqCst)));
    }
}

impl<J> Drop for Held<J> {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Stage for Watched {
    fn kind(&self) -> &'static Kind {
        self.inner.kind()
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        let (kind, file) = (self.kind().name, self.file.clone());
        let job = self.inner.open(setup, context)?;
        HELD.fetch_add(1, Ordering::SeqCst);
        Ok(match job {
            Job::Item(inner) => Job::Item(Box::new(Held { inner, kind, file })),
            Job::Gather(inner) => Job::Gather(Box::new(Held { inner, kind, file })),
            Job::Source(inner) => Job::Source(inner),
        })
    }
}

impl ItemJob for Held<Box<dyn ItemJob>> {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        self.note();
        self.inner.process(items, context)
    }
}

impl GatherJob for Held<Box<dyn GatherJob>> {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        self.note();
        self.inner.run(input, context)
    }
}

/// A stage with jobs that note when they begin and end.
struct Meeting {
    inner: Box<dyn Stage>,
    file: String,
}

struct Noting<J> {
    inner: J,
    file: String,
}

impl Stage for Meeting {
    fn kind(&self) -> &'static Kind {
        self.inner.kind()
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        let file = self.file.clone();
        Ok(match self.inner.open(setup, context)? {
            Job::Item(inner) => Job::Item(Box::new(Noting { inner, file })),
            Job::Gather(inner) => Job::Gather(Box::new(Noting { inner, file })),
            Job::Source(inner) => Job::Source(inner),
        })
    }
}

impl ItemJob for Noting<Box<dyn ItemJob>> {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        note(&self.file, "items begin");
        for _ in 0..200 {
            if std::fs::read_to_string(&self.file).unwrap().contains("training begins") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let results = self.inner.process(items, context);
        note(&self.file, "items end");
        results
    }
}

impl GatherJob for Noting<Box<dyn GatherJob>> {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        note(&self.file, "training begins");
        let result = self.inner.run(input, context);
        note(&self.file, "training ends");
        result
    }
}

/// Passes messages on and dies in the middle of the selected one.
struct Doomed<W> {
    inner: W,
    dies_at: Option<(u64, String)>,
    message: Vec<u8>,
}

impl<W: Write> Write for Doomed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.message.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let message = std::mem::take(&mut self.message);
        if let Some((dies_at, file)) = &self.dies_at {
            let count = std::fs::read_to_string(file).ok().and_then(|text| text.parse().ok());
            let count = count.unwrap_or(0u64) + 1;
            std::fs::write(file, count.to_string())?;
            if count == *dies_at {
                self.inner.write_all(&message[..message.len() / 2])?;
                self.inner.flush()?;
                eprintln!("told to die at message {count}");
                std::process::exit(9);
            }
        }
        self.inner.write_all(&message)?;
        self.inner.flush()
    }
}

/// Long, since each way to misbehave sets a few of these variables.
fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut output = Doomed { inner: io::stdout(), dies_at: None, message: Vec::new() };
    let (mut holds, mut gpus, mut problem) = (None, 0, None);
    let (mut awaited, mut meets, mut speaks) = (None, None, None);
    let mut remote = Remote { kind: &stages::REMOTE, memory: u64::MAX, hang: false };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["die-at", number, file] => {
            output.dies_at = Some((number.parse().unwrap(), (*file).to_owned()));
        }
        ["memory", bytes] => remote.memory = bytes.parse().unwrap(),
        ["hang"] => remote.hang = true,
        ["speaks", file] => speaks = Some((*file).to_owned()),
        ["holds", file] => holds = Some((*file).to_owned()),
        ["slow-driver", file] => awaited = Some((*file).to_owned()),
        ["gpus", number, file] => {
            (gpus, holds) = (number.parse().unwrap(), Some((*file).to_owned()));
        }
        ["meets", file] => (gpus, meets) = (2, Some((*file).to_owned())),
        ["environment", file] => {
            let variables = std::env::vars().map(|(name, value)| format!("{name}={value}\n"));
            std::fs::write(file, variables.collect::<String>())?;
        }
        ["problem", text] => problem = Some((*text).to_owned()),
        ["garbage"] => {
            io::stdout().write_all(b"this is no message at all")?;
            io::stdout().flush()?;
            io::stdin().read_to_end(&mut Vec::new())?;
            return Ok(());
        }
        _ => {}
    }
    let counted = Remote { kind: &stages::COUNTED, ..remote };
    let mut stages: Vec<Box<dyn Stage>> =
        vec![Box::new(remote), Box::new(counted), Box::new(Train(&REMOTE_TRAIN))];
    if let Some(file) = speaks {
        let kinds = [&vits::SYNTHESIZE, &dual_ar::SYNTHESIZE];
        let voice = |kind| Box::new(Voice { kind, file: file.clone() }) as Box<dyn Stage>;
        stages.extend(kinds.map(voice));
    }
    if let Some(file) = &holds {
        let watched = |inner| Box::new(Watched { inner, file: file.clone() }) as Box<dyn Stage>;
        stages = stages.into_iter().map(watched).collect();
    }
    if let Some(file) = &meets {
        let meeting = |inner| Box::new(Meeting { inner, file: file.clone() }) as Box<dyn Stage>;
        stages = stages.into_iter().map(meeting).collect();
    }
    let devices = || {
        if let Some(file) = &awaited {
            note(&format!("{file}.asked"), "asked for devices");
        }
        while awaited.as_ref().is_some_and(|file| !std::path::Path::new(file).exists()) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        if let Some(file) = &holds {
            note(file, "asked for devices");
        }
        Devices { gpus: vec![Gpu::default(); gpus], problem: problem.clone() }
    };
    let closed = |open: usize| {
        if let Some(file) = &holds {
            note(file, &format!("{open} left, {} held", HELD.load(Ordering::SeqCst)));
        }
    };
    let host = Host {
        program: "fake-worker".to_owned(),
        stages: &stages,
        prepare: &|device, _| match &problem {
            Some(problem) if device.is_gpu() => Err(StageError::failed(problem)),
            _ => Ok(()),
        },
        devices: &devices,
        processed: &|| {},
        closed: &closed,
    };
    serve(&host, &mut io::stdin().lock(), &mut output)
}
