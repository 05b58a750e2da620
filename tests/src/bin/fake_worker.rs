//! A worker without libtorch for the tests of the engine: it serves `test.remote` and `test.remote-train`
//! over the same protocol and misbehaves as its arguments say.
//!
//! `die-at N FILE`: ends in the middle of its N-th message, counted over all its lives in FILE.
//! `memory BYTES`: larger batches are out of memory. `hang`: never answers a batch.
//! `garbage`: writes what is no message.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::{self, Read, Write};

use stage_core::worker::{Host, serve};
use stage_core::{
    Context, Item, ItemJob, Job, Kind, NewValue, Output, Reject, Setup, Stage, StageError,
};

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

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut output = Doomed { inner: io::stdout(), dies_at: None, message: Vec::new() };
    let mut remote = Remote { kind: &stages::REMOTE, memory: u64::MAX, hang: false };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["die-at", number, file] => {
            output.dies_at = Some((number.parse().unwrap(), (*file).to_owned()));
        }
        ["memory", bytes] => remote.memory = bytes.parse().unwrap(),
        ["hang"] => remote.hang = true,
        ["garbage"] => {
            io::stdout().write_all(b"this is no message at all")?;
            io::stdout().flush()?;
            io::stdin().read_to_end(&mut Vec::new())?;
            return Ok(());
        }
        _ => {}
    }
    let counted = Remote { kind: &stages::COUNTED, ..remote };
    let stages: Vec<Box<dyn Stage>> =
        vec![Box::new(remote), Box::new(counted), Box::new(Train(&REMOTE_TRAIN))];
    let host = Host { program: "fake-worker".to_owned(), stages: &stages, prepare: &|_, _| Ok(()) };
    serve(&host, &mut io::stdin().lock(), &mut output)
}
