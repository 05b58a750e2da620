//! What a job may ask of the engine while it works.

use bytes::Bytes;
use cache::{CacheError, Digest};
use camino::Utf8PathBuf;
use crossbeam_channel::Sender;
use stage_core::key::{HashSink, Sink};
use stage_core::{Blob, Context, Fields, Kind, Output, StageError};

use super::message::Message;
use super::scratch::Scratch;
use crate::engine::StopFlag;
use crate::record::{MEMO, decode, encode};
use crate::store::{ReadError, Store};

pub struct EngineContext {
    pub store: Store,
    pub kind: &'static Kind,
    pub ticket: u64,
    pub messages: Sender<Message>,
    pub stop: StopFlag,
    pub scratch: Scratch,
    /// Objects that turned out to be damaged or gone, and sources that changed.
    pub lost: Vec<Digest>,
}

impl EngineContext {
    /// A part's key belongs to the stage kind and its behaviour.
    fn part_key(&self, key: &Digest) -> Digest {
        let mut sink = HashSink::default();
        sink.text("part of", self.kind.name);
        sink.integer("version", i64::from(self.kind.version));
        sink.digest("key", key);
        sink.finish()
    }

    /// Keeps what was made and gives it the form of fields.
    pub fn keep(&mut self, output: Output) -> Result<Fields, StageError> {
        let mut fields = Fields::new();
        for (name, value) in output.values {
            let value = self.store.keep(value).map_err(|error| self.cannot_keep(&error))?;
            fields.set(name, value);
        }
        Ok(fields)
    }

    /// A full disk is no fault of the item: the run is told, and the item is left for later.
    pub fn cannot_keep(&self, error: &CacheError) -> StageError {
        if error.is_no_space() {
            // Nobody listens any more only when the run is over.
            let _ = self.messages.send(Message::Full { why: error.to_string() });
            return StageError::Stopped;
        }
        unsteady("an output cannot be kept: ", error)
    }
}

/// What the machine could not do now it may do a moment later.
fn unsteady(what: &str, error: &CacheError) -> StageError {
    match error {
        CacheError::Fs(error) => {
            StageError::Transient { message: format!("{what}{error}: {}", error.source) }
        }
        error => StageError::failed(format!("{what}{error}")),
    }
}

impl Context for EngineContext {
    fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError> {
        self.store.read(&blob.digest).map_err(|error| {
            if let ReadError::Lost(digest) | ReadError::Changed { digest, .. } = &error {
                self.lost.push(*digest);
            }
            match error {
                ReadError::Cache(error) => unsteady("", &error),
                error => StageError::failed(error.to_string()),
            }
        })
    }

    fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError> {
        let failed = |error: CacheError| unsteady("", &error);
        let kept = self.store.cache().get(MEMO, &self.part_key(key)).map_err(failed)?;
        let Some(fields) = kept.and_then(|bytes| decode::<Fields>(&bytes)) else {
            return Ok(None);
        };
        for blob in fields.blobs() {
            if !self.store.has(&blob.digest).map_err(failed)? {
                return Ok(None);
            }
        }
        Ok(Some(fields))
    }

    fn remember(&mut self, key: &Digest, output: Output) -> Result<Fields, StageError> {
        let fields = self.keep(output)?;
        let kept = self.store.cache().record(MEMO, &self.part_key(key), encode(&fields));
        kept.map_err(|error| self.cannot_keep(&error))?;
        Ok(fields)
    }

    fn scratch(&mut self) -> Result<Utf8PathBuf, StageError> {
        self.scratch.folder(self.store.cache()).map_err(|error| self.cannot_keep(&error))
    }

    fn progress(&mut self, done: u64, total: u64) {
        // Nobody listens any more only when the run is over.
        let _ = self.messages.send(Message::Progress { ticket: self.ticket, done, total });
    }

    fn stopping(&mut self) -> bool {
        self.stop.is_requested()
    }
}
