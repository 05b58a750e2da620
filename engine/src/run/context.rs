//! The engine side of a job's `Context`.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cache::{CacheError, Digest, InputFolder, LOOSE_SIZE, StagingDir, in_shares};
use camino::{Utf8Path, Utf8PathBuf};
use crossbeam_channel::Sender;
use stage_core::course::Course;
use stage_core::key::{HashSink, Sink};
use stage_core::{
    Blob, Context, Fields, FileParts, Kind, NewValue, Output, Reject, StageError, Take,
};

use super::message::{Message, ProgressReport};
use super::scratch::Scratch;
use super::training::Training;
use crate::checkpoints::is_there;
use crate::engine::StopFlag;
use crate::error::PlanError;
use crate::record::{MEMO, decode, encode};
use crate::run::items::quarantine_list::QuarantineList;
use crate::store::{MOST_PENDING, ReadError, Store};
use crate::unchanged::ScannedFile;

/// The field for the text of [`Context::remember_first`].
const TOLD: &str = "told";

pub struct EngineContext {
    pub store: Store,
    pub kind: &'static Kind,
    pub ticket: u64,
    pub messages: Sender<Message>,
    pub stop: StopFlag,
    /// Stops only work on GPUs.
    pub device_stop: Option<StopFlag>,
    /// Works on a batch, which is finished even after the time limit.
    pub finishes_batch: bool,
    /// For a training task.
    pub training: Option<Training>,
    /// The run knows that another attempt at the training is ahead.
    pub is_told: bool,
    /// The folder for large objects of the worker; removed with the task.
    pub staging: Option<StagingDir>,
    pub scratch: Scratch,
    /// The name of the folder for the inputs of a program, for a task on whole data sets.
    pub inputs: Option<Digest>,
    /// Quarantined items, for a task on whole data sets.
    pub aside: Option<QuarantineList>,
    /// The folder of a replay, which reuses nothing.
    pub kept: Option<Utf8PathBuf>,
    /// Objects that turned out to be damaged or gone, and changed sources.
    pub lost: Vec<Digest>,
    /// Files that are read in parts.
    pub opened: Vec<(Digest, Arc<ScannedFile>)>,
    /// The size of the objects that the job has made.
    pub written: u64,
    /// The time at which a thread took the task.
    pub begun: Instant,
    /// The time in which the job only waited for its turn.
    pub waited: Duration,
}

/// Smaller files are read whole, and all their bytes are verified.
const IN_PARTS: u64 = LOOSE_SIZE;
/// The blobs that a thread looks up and reads at a time.
const SHARE: usize = 16;

impl EngineContext {
    /// True if the run was asked to stop. A training may still owe a step at the end of the time.
    fn is_stopping(&self) -> bool {
        let owes = self.training.as_ref().is_some_and(|training| training.pace.owes_step());
        self.stop.is_pressing() || (self.stop.is_requested() && !owes)
    }

    /// True if another attempt at the training is ahead. The run is told once.
    fn is_overtaken(&mut self) -> bool {
        let Some(why) = self.training.as_ref().and_then(Training::overtaken) else { return false };
        if !std::mem::replace(&mut self.is_told, true) {
            // The receiver is gone only after the run.
            let _ = self.messages.send(Message::Overtaken { ticket: self.ticket, why });
        }
        true
    }

    /// A part's key belongs to the stage kind and its behaviour.
    fn part_key(&self, key: &Digest) -> Digest {
        let mut sink = HashSink::default();
        sink.text("part of", self.kind.name);
        sink.integer("version", i64::from(self.kind.version));
        sink.digest("key", key);
        sink.finish()
    }

    /// The remembered values of a key, if all of them exist.
    fn recorded(&self, key: &Digest) -> Result<Option<Fields>, StageError> {
        let failed = |error: CacheError| StageError::of_cache("", &error);
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

    /// Stores outputs, and returns them as fields.
    pub fn keep_all(&mut self, output: Output) -> Result<Fields, StageError> {
        let mut fields = Fields::new();
        for (name, value) in output.values {
            if let NewValue::Bytes { bytes, .. } = &value {
                self.written += bytes.len() as u64;
            }
            let value = self.store.keep(value).map_err(|error| self.cannot_keep(&error))?;
            fields.set(name, value);
        }
        Ok(fields)
    }

    /// Items that could not be used, including files that changed while they were read.
    pub fn all_lost(&mut self) -> Vec<Digest> {
        let changed = self.opened.drain(..).filter(|(_, file)| file.check().is_err());
        let changed: Vec<Digest> = changed.map(|(digest, _)| digest).collect();
        for digest in &changed {
            // This also quarantines a damaged object of the cache.
            let _ = self.store.read(digest);
        }
        self.lost.extend(changed);
        std::mem::take(&mut self.lost)
    }

    /// The file of a large object, for a worker that shares the files of this process.
    pub fn file_of(&self, blob: &Blob) -> Option<Utf8PathBuf> {
        let cache = self.store.cache();
        // A failed look-up is reported when the bytes are requested.
        if !cache.contains(&blob.digest).unwrap_or(true) {
            let _ = self.store.bring(&blob.digest);
        }
        cache.file_of(&blob.digest).ok().flatten().filter(|_| cache.fs().is_direct())
    }

    /// The folder for files that the worker passes to [`EngineContext::keep_file`].
    pub fn staging(&mut self) -> Option<Utf8PathBuf> {
        if let Some(training) = &mut self.training {
            training.pace.storing();
        }
        let cache = self.store.cache();
        if self.staging.is_none() && cache.fs().is_direct() {
            self.staging = cache.staging().ok();
        }
        self.staging.as_ref().map(|staging| staging.path().to_owned())
    }

    /// Takes over a file that the worker has written.
    pub fn keep_file(&mut self, kind: &str, path: &Utf8Path) -> Result<Blob, StageError> {
        let is_ours = |staging: &StagingDir| path.parent() == Some(staging.path());
        if !self.staging.as_ref().is_some_and(is_ours) {
            return Err(StageError::failed(format!("`{path}` is not an open output file")));
        }
        let kept = self.store.cache().put_file(path);
        let (digest, size) = kept.map_err(|error| self.cannot_keep(&error))?;
        self.written += size;
        Ok(Blob { digest, size, kind: kind.into() })
    }

    /// An object stored a while ago may have been collected before anything referred to it.
    fn require(&self, fields: &Fields) -> Result<(), StageError> {
        match is_there(&self.store, fields.clone())
            .map_err(|error| StageError::of_cache("", &error))?
        {
            Some(_) => Ok(()),
            None => {
                let message = "an object that was just stored is gone".to_owned();
                Err(StageError::Transient { message })
            }
        }
    }

    fn report(&self, report: ProgressReport) {
        // The receiver is gone only after the run.
        let _ = self.messages.send(Message::Report { ticket: self.ticket, report });
    }

    /// A full disk is no fault of the item: the run is told, and the item is tried again later.
    pub fn cannot_keep(&self, error: &CacheError) -> StageError {
        if error.is_no_space() {
            // The receiver is gone only after the run.
            let _ = self.messages.send(Message::Full { why: error.to_string() });
            return StageError::Stopped;
        }
        StageError::of_cache("cannot store an output: ", error)
    }
}

impl Context for EngineContext {
    fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError> {
        self.store.read(&blob.digest).map_err(|error| {
            self.lost.extend(error.lost());
            error.into()
        })
    }

    fn read_each(&mut self, blobs: &[&Blob], take: Take) -> Result<(), StageError> {
        let digests: Vec<Digest> = blobs.iter().map(|blob| blob.digest).collect();
        let share = |range: Range<usize>| {
            let (first, mut results) = (range.start, Vec::with_capacity(range.len()));
            let looked = self.store.read_each(&digests[range], &mut |at, read| {
                results.push(match read {
                    Ok(bytes) => take(first + at, bytes).map_err(|error| (None, error)),
                    Err(error) => Err((error.lost(), error.into())),
                });
            });
            results.extend(looked.err().map(|error| Err((error.lost(), error.into()))));
            results
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        // If a thread panicked, this one does the work.
        let results =
            in_shares(blobs.len(), SHARE, threads, share).unwrap_or_else(|| share(0..blobs.len()));
        self.lost.extend(results.iter().filter_map(|result| result.as_ref().err()?.0));
        results.into_iter().try_for_each(|result| result.map_err(|(_, error)| error))
    }

    fn open(&mut self, blob: &Blob) -> Result<Arc<dyn FileParts>, StageError> {
        if blob.size >= IN_PARTS
            && let Some(file) = self.store.open(&blob.digest)?
        {
            self.opened.push((blob.digest, file.clone()));
            return Ok(file);
        }
        Ok(Arc::new(self.read(blob)?))
    }

    fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError> {
        if self.kept.is_some() { Ok(None) } else { self.recorded(key) }
    }

    fn remember_first(&mut self, key: &Digest, text: &str) -> Result<String, StageError> {
        // A replay stores nothing, and gets the same answers as a run.
        let known = self.recorded(key)?;
        if let Some(known) = known.as_ref().and_then(|fields| fields.text(TOLD)) {
            return Ok(known.to_owned());
        }
        let told = Output::default().with(TOLD, NewValue::Text(text.to_owned()));
        self.remember(key, told).map(|_| text.to_owned())
    }

    fn remember(&mut self, key: &Digest, output: Output) -> Result<Fields, StageError> {
        let fields = self.keep_all(output)?;
        if self.kept.is_some() {
            return Ok(fields);
        }
        let kept = self.store.cache().record(MEMO, &self.part_key(key), encode(&fields));
        kept.map_err(|error| self.cannot_keep(&error))?;
        Ok(fields)
    }

    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError> {
        if let Some(training) = &mut self.training {
            training.pace.storing();
        }
        let size = bytes.len() as u64;
        let digest = self.store.put(bytes).map_err(|error| self.cannot_keep(&error))?;
        self.written += size;
        // The objects of one item may be more than the memory.
        if self.store.cache().pending_bytes() >= MOST_PENDING {
            self.store.cache().commit().map_err(|error| self.cannot_keep(&error))?;
        }
        Ok(Blob { digest, size, kind: kind.into() })
    }

    fn checkpoint(&mut self, state: Output) -> Result<Fields, StageError> {
        match &mut self.training {
            Some(training) => training.pace.storing(),
            None => return Err(StageError::failed("only stages that train keep checkpoints")),
        }
        let state = self.keep_all(state)?;
        self.require(&state)?;
        let Some(training) = &mut self.training else { return Ok(state) };
        let saved = match training.keep(&self.store, state.clone()) {
            Ok(saved) => saved,
            Err(error) => return Err(self.cannot_keep(&error)),
        };
        self.report(ProgressReport::CheckpointKept(saved));
        Ok(state)
    }

    fn last_checkpoint(&mut self) -> Result<Option<Fields>, StageError> {
        let Some(training) = &mut self.training else { return Ok(None) };
        if let Some(message) = training.adopt(&self.store)? {
            let _ = self.messages.send(Message::Note { ticket: self.ticket, message });
        }
        let states =
            training.states(&self.store).map_err(|error| StageError::of_cache("", &error))?;
        Ok(states.into_iter().next())
    }

    fn parent(&mut self) -> Result<Option<Fields>, StageError> {
        let parent = self.training.as_ref().and_then(|training| training.parent.as_ref());
        Ok(parent.map(|(_, fields)| fields.clone()))
    }

    fn set_aside(&mut self, port: &str, rejects: Vec<(usize, Reject)>) -> Result<(), StageError> {
        let Some(aside) = &mut self.aside else {
            return Err(StageError::failed(
                "only stages that work on all items may quarantine items this way",
            ));
        };
        let new = aside.add(&self.store, port, rejects).map_err(|error| {
            if let PlanError::Read(ReadError::Lost(digest)) = &error {
                self.lost.push(*digest);
            }
            StageError::failed(error.to_string())
        })?;
        let checked = aside.check();
        self.report(ProgressReport::SetAside(new));
        checked
    }

    fn begins(&mut self, course: &Course) {
        self.report(ProgressReport::Begins(course.clone()));
    }

    fn metrics(&mut self, step: u64, values: &[(&str, f64)]) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.report(ProgressReport::Metrics { step, values });
    }

    fn kept(&mut self) -> Option<Utf8PathBuf> {
        self.kept.clone()
    }

    fn scratch(&mut self) -> Result<Utf8PathBuf, StageError> {
        if let Some(kept) = &self.kept {
            return Ok(kept.clone());
        }
        self.scratch.folder(self.store.cache()).map_err(|error| self.cannot_keep(&error))
    }

    fn input_folder(&mut self) -> Result<Option<InputFolder>, StageError> {
        match self.inputs.filter(|_| self.kept.is_none()) {
            Some(name) => {
                let opened = self.store.cache().input_folder(&name);
                opened.map_err(|error| StageError::of_cache("", &error))
            }
            None => Ok(None),
        }
    }

    fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.report(ProgressReport::Progress { done, total });
    }

    fn may_begin_step(&mut self, validates: bool) -> bool {
        let is_stopping = self.is_stopping();
        let is_time = match &mut self.training {
            Some(training) => training.pace.may_begin(Instant::now(), validates),
            None => true,
        };
        let device = self.device_stop.as_ref().is_some_and(StopFlag::is_requested);
        is_time && !device && !is_stopping && !self.is_overtaken()
    }

    fn stopping(&mut self) -> bool {
        let is_stopping = self.is_stopping();
        let is_time = match &mut self.training {
            Some(training) => training.pace.is_time_to_save(Instant::now()),
            None => false,
        };
        if self.finishes_batch {
            self.stop.is_pressing()
        } else {
            let device = self.device_stop.as_ref().is_some_and(StopFlag::is_requested);
            is_time || device || is_stopping || self.is_overtaken()
        }
    }
}
