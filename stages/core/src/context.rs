//! The services that a run gives to its jobs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache::{Digest, InputFolder};
use camino::Utf8PathBuf;

use crate::course::Course;
use crate::error::{Reject, StageError};
use crate::item::{Blob, Fields};
use crate::output::{NewValue, Output};
use crate::source::FileParts;

/// Takes the bytes of a blob by its place in a list.
pub type Take<'a> = &'a (dyn Fn(usize, Bytes) -> Result<(), StageError> + Sync);

/// The services for a job.
pub trait Context {
    /// The bytes of a blob, verified against its digest.
    ///
    /// # Errors
    ///
    /// If the bytes are missing or damaged, or cannot be read. The stage returns the error as it
    /// is: the engine then makes the bytes again if it can. It is no reason to quarantine the item.
    fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError>;

    /// Hands over the bytes of many blobs with their place in the list, in any order, and on several
    /// threads where there are some. A blob may be handed over twice.
    ///
    /// # Errors
    ///
    /// Those of [`Context::read`] and of `take`, for one of the blobs. The others may have been
    /// handed over or not.
    fn read_each(&mut self, blobs: &[&Blob], take: Take) -> Result<(), StageError> {
        blobs.iter().enumerate().try_for_each(|(at, blob)| take(at, self.read(blob)?))
    }

    /// A blob that may be too large to be read whole. According to the stat of its file, its bytes
    /// are those of its digest; if it changes while it is open, reading ends with an error.
    /// [`FileParts::verify`] makes sure, and must be called before the bytes are used for any
    /// result.
    ///
    /// # Errors
    ///
    /// Those of [`Context::read`].
    fn open(&mut self, blob: &Blob) -> Result<Arc<dyn FileParts>, StageError> {
        Ok(Arc::new(self.read(blob)?))
    }

    /// The outcome of an earlier part of this stage, stored under a key that the stage chooses.
    ///
    /// # Errors
    ///
    /// If the cache cannot be read. Missing objects of an outcome are no error, but the outcome
    /// counts as unknown.
    fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError>;

    /// Stores the outcome of a part, so that a later run with the same key recalls it.
    ///
    /// # Errors
    ///
    /// If the cache cannot be written, such as when the disk is full.
    fn remember(&mut self, key: &Digest, output: Output) -> Result<Fields, StageError>;

    /// The first text given under a key in this cache: this text, if there was none before. For
    /// facts that no input has, such as the recording with which a file was first seen.
    ///
    /// # Errors
    ///
    /// Those of [`Context::recall`] and [`Context::remember`].
    fn remember_first(&mut self, key: &Digest, text: &str) -> Result<String, StageError> {
        const TOLD: &str = "told";
        if let Some(known) = self.recall(key)?.as_ref().and_then(|fields| fields.text(TOLD)) {
            return Ok(known.to_owned());
        }
        let told = Output::default().with(TOLD, NewValue::Text(text.to_owned()));
        self.remember(key, told).map(|_| text.to_owned())
    }

    /// Stores one object immediately. A checkpoint or an output refers to it as [`NewValue::Kept`],
    /// so that a model of gigabytes is never in memory as a whole.
    ///
    /// # Errors
    ///
    /// If the cache cannot be written, such as when the disk is full.
    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError>;

    /// Makes the state of a training stage durable under the key of the stage: when this returns, a
    /// run that is killed later resumes from here. The previous state is kept too, in case this one
    /// is damaged.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the kind is not [`Work::Train`](crate::Work::Train). Other errors
    /// if the cache cannot be written, or if an object that was stored before is gone.
    fn checkpoint(&mut self, state: Output) -> Result<Fields, StageError>;

    /// The newest checkpoint of this stage's key with all objects present.
    ///
    /// # Errors
    ///
    /// If the cache cannot be read. No checkpoint is no error.
    fn last_checkpoint(&mut self) -> Result<Option<Fields>, StageError>;

    /// The artifact of this stage before its inputs changed, if the stage should continue from it:
    /// see [`crate::ON_CHANGE`].
    ///
    /// # Errors
    ///
    /// If the artifact cannot be read. No such artifact is no error.
    fn parent(&mut self) -> Result<Option<Fields>, StageError>;

    /// Quarantines items that the stage cannot use, by their position in the data set on a port. A
    /// run names and lists them like those of item stages. If there are more than the manifest
    /// allows, this is an error, which the stage returns: so a stage calls this before any long
    /// work.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if there are more than the manifest allows, if the stage is an item
    /// stage or a source, or if the data set cannot be read. Positions beyond its end are ignored.
    fn set_aside(&mut self, port: &str, rejects: Vec<(usize, Reject)>) -> Result<(), StageError>;

    /// Reports the course of a training before the first step.
    fn begins(&mut self, _course: &Course) {}

    /// Reports figures such as the loss at a training step. Shown and logged, never a result.
    fn metrics(&mut self, step: u64, values: &[(&str, f64)]);

    /// The folder for the stage's working folders and the output in them, when it is replayed for
    /// inspection.
    fn kept(&mut self) -> Option<Utf8PathBuf> {
        None
    }

    /// A folder for temporary files, which is removed after the run.
    ///
    /// # Errors
    ///
    /// If the context has no such folder, or if it cannot be created.
    fn scratch(&mut self) -> Result<Utf8PathBuf, StageError> {
        Err(StageError::failed("there is no folder for temporary files"))
    }

    /// The folder in which the inputs of a program for a whole data set stay between runs. None if it
    /// is to get new copies in its temporary folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be opened.
    fn input_folder(&mut self) -> Result<Option<InputFolder>, StageError> {
        Ok(None)
    }

    /// Reports time in which the job only waited for its turn, which is no cost of its items.
    fn waited(&mut self, _time: Duration) {}

    /// Reports the progress of a long piece of work.
    fn progress(&mut self, done: u64, total: u64);

    /// True after a request to stop: return `StageError::Stopped` soon. A training stage asks
    /// before every step, and saves a checkpoint before it returns; from these two the engine
    /// measures how long before a deadline the request has to come.
    fn stopping(&mut self) -> bool;

    /// A training asks this before each step, which also measures the duration of steps. False if
    /// it must save and end, since there is not enough time for one more step, for a validation
    /// after it if there is one, and for a save.
    fn may_begin_step(&mut self, validates: bool) -> bool {
        let _ = validates;
        !self.stopping()
    }
}
