//! The stage trait: a description, and a way to open a job.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache::{Digest, InputFolder};
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::course::Course;
use crate::device::DeviceId;
use crate::error::{Reject, StageError};
use crate::item::{Blob, Fields, Item, Value};
use crate::kind::Kind;
use crate::parameter::Parameters;

/// A stage kind with its implementation.
pub trait Stage: Send + Sync {
    /// The description of the stage. It must be the same in every call, and is read without opening
    /// the stage.
    fn kind(&self) -> &'static Kind;

    /// Prepares for work: makes the checks that need the implementation, and loads models.
    ///
    /// # Errors
    ///
    /// Any [`StageError`]; the stage fails with it before it gets any item.
    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError>;
}

/// The setup of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Setup {
    /// The name of the stage in the manifest, for messages.
    pub stage: String,
    /// The values of all parameters. File parameters are absent here: [`Setup::files`] has their
    /// content.
    pub parameters: Parameters,
    /// The artifacts on the input ports of item stages, by port; several if the port accepts many.
    pub artifacts: BTreeMap<String, Vec<Fields>>,
    /// The content of `File` parameters, by parameter.
    pub files: BTreeMap<String, Blob>,
    /// The secrets, by parameter. Never stored, never printed.
    pub secrets: BTreeMap<String, String>,
    /// The device of the worker; the processor for stages in the engine's process.
    pub device: DeviceId,
    /// The time limit of one item, or of a gather.
    pub timeout_seconds: Option<f64>,
    /// The environment of programs that the manifest names: the paths of programs and the user's
    /// packages. Workers start no such programs.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
    /// The folder of the manifest, for programs with relative paths.
    pub base: String,
}

/// The three types of work.
pub enum Job {
    /// For a kind with [`Work::Source`](crate::Work::Source).
    Source(Box<dyn SourceJob>),
    /// For a kind with [`Work::Item`](crate::Work::Item).
    Item(Box<dyn ItemJob>),
    /// For a kind with [`Work::Gather`](crate::Work::Gather) or
    /// [`Work::Train`](crate::Work::Train).
    Gather(Box<dyn GatherJob>),
}

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

/// Processes items; shared by the threads of a pool.
pub trait ItemJob: Send + Sync {
    /// One result per item, in order. An error concerns the whole batch.
    ///
    /// # Errors
    ///
    /// Any [`StageError`] concerns all items: none of them gets a result. A result of another
    /// length than `items` is an error too.
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError>;
}

/// Processes items one by one.
pub trait EachItem: Send + Sync {
    /// An output, or the reason to quarantine this item. It depends on the item, the parameters and
    /// the artifacts only.
    ///
    /// # Errors
    ///
    /// The outer error concerns the stage or the whole batch, such as a lost model or a full disk.
    /// It is never recorded. The inner one is the verdict on this item; it is recorded, and the
    /// item is not tried again until its content or the stage changes.
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError>;
}

impl<J: EachItem> ItemJob for J {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        items.iter().map(|item| self.one(item, context)).collect()
    }
}

/// Processes whole data sets.
pub trait GatherJob: Send {
    /// The sum over these items, for a job that adds items up. The engine passes sums that it
    /// remembers, so that a changed item costs a few items and not all: see [`GatherInput::sums`].
    /// The outcome must depend neither on the order of the items nor on how they are divided into
    /// sums. None for a job that needs the items themselves.
    fn sum(&self, _items: &[Item]) -> Option<Bytes> {
        None
    }

    /// Makes all outputs from all inputs. A training calls [`Context::may_begin_step`] before each
    /// step.
    ///
    /// # Errors
    ///
    /// Any [`StageError`]: the stage fails, and nothing downstream starts. Return
    /// [`StageError::Stopped`] soon after [`Context::stopping`] is true.
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError>;
}

/// Reads external data.
pub trait SourceJob: Send {
    /// Lists all items: for the first plan, and for each plan after something that it looked at has
    /// changed. It must look at the user's files through `world` only.
    ///
    /// # Errors
    ///
    /// Any [`StageError`]: the whole plan fails. A row or file that cannot become an item is no
    /// error, but one of [`SourceOutput::rejects`].
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError>;

    /// True if the answers of [`World::files`] for a file only become blobs, and each such digest
    /// belongs to that one file. Then new contents of files replace the old ones in the items, and
    /// nothing is scanned.
    fn passes_files_on(&self) -> bool {
        false
    }
}

/// A new value of a stage that is not stored yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NewValue {
    /// A text in UTF-8.
    Text(String),
    /// A number, which may be NaN.
    Number(f64),
    /// Bytes that the engine stores when the stage returns them.
    Bytes {
        /// Their media type, such as `audio/wav`, which tells readers and `export` the format.
        kind: String,
        /// The content.
        bytes: Bytes,
    },
    /// An existing value, blobs included.
    Kept(Value),
}

impl NewValue {
    /// An object that was stored before.
    pub fn blob(blob: Blob) -> NewValue {
        NewValue::Kept(Value::Blob(Arc::new(blob)))
    }

    /// Bytes with their media type, such as `audio/wav`.
    pub fn bytes(kind: impl Into<String>, bytes: impl Into<Bytes>) -> NewValue {
        NewValue::Bytes { kind: kind.into(), bytes: bytes.into() }
    }
}

/// The output of a stage for one item, or the content of an artifact: named values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Names and values. A name that occurs twice has its last value.
    pub values: Vec<(String, NewValue)>,
    /// Notes, such as `odd-byte` or `quotes replaced`, with their counts; summed in reports.
    pub notes: Vec<(String, u64)>,
}

impl Output {
    /// Adds a value, such as a field that the kind [writes](crate::OutputPort::writes).
    pub fn with(mut self, name: impl Into<String>, value: NewValue) -> Output {
        self.values.push((name.into(), value));
        self
    }

    /// Adds a note about this item; `count` is the number of occurrences.
    pub fn note(&mut self, name: impl Into<String>, count: u64) {
        self.notes.push((name.into(), count));
    }
}

/// An output item of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewItem {
    /// Unique within the output data set; for a child of an item, the name among its siblings.
    pub id: String,
    /// All fields of the item: nothing is passed on from the input.
    pub values: Vec<(String, NewValue)>,
}

impl NewItem {
    /// An unchanged item, with all its fields.
    pub fn kept(item: &Item) -> NewItem {
        let keep =
            |(name, value): (&Arc<str>, &Value)| (name.to_string(), NewValue::Kept(value.clone()));
        NewItem { id: item.id.to_string(), values: item.fields.iter().map(keep).collect() }
    }

    /// Adds a value, or replaces the one of the same name.
    pub fn with(mut self, name: &str, value: NewValue) -> NewItem {
        self.values.retain(|(own, _)| own != name);
        self.values.push((name.to_owned(), value));
        self
    }
}

/// The data of one reference of a port. The stage name is empty if the port does not read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PortInput {
    /// With all fields and sorted by id if the port reads everything; else with the fields that the
    /// port reads, and if it does not read the id, in an order independent of it and with empty
    /// ids.
    Dataset {
        /// The name of the upstream stage.
        stage: String,
        /// The items that were not quarantined.
        items: Vec<Item>,
        /// Items quarantined by the upstream stage, if the port reads them.
        rejects: Vec<(String, Reject)>,
    },
    /// An artifact, whole.
    Artifact {
        /// The name of the upstream stage.
        stage: String,
        /// Its fields; those with files have a blob.
        fields: Fields,
    },
    /// A data set as [`GatherJob::sum`] has added it up, in parts.
    Sums {
        /// The name of the upstream stage.
        stage: String,
        /// Sums over disjoint parts of the items, in any order.
        sums: Vec<Bytes>,
        /// Items quarantined by the upstream stage with their ids, if the port reads them.
        rejects: Vec<(String, Reject)>,
    },
}

/// The inputs of a gather, by port; several if the port accepts many.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatherInput {
    /// By the names of the kind's input ports. An optional port without a reference is missing.
    pub ports: BTreeMap<String, Vec<PortInput>>,
}

impl GatherInput {
    /// The items on a port that accepts one data set.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the port has no reference, an artifact, or sums.
    pub fn items(&self, port: &str) -> Result<&[Item], StageError> {
        match self.ports.get(port).and_then(|inputs| inputs.first()) {
            Some(PortInput::Dataset { items, .. }) => Ok(items),
            _ => Err(StageError::failed(format!("no data set arrived on port `{port}`"))),
        }
    }

    /// The sums on a port that takes one data set, for a job that adds items up.
    ///
    /// # Errors
    ///
    /// Those of [`GatherInput::items`].
    pub fn sums(&self, port: &str, job: &dyn GatherJob) -> Result<Vec<Bytes>, StageError> {
        match self.ports.get(port).and_then(|inputs| inputs.first()) {
            Some(PortInput::Sums { sums, .. }) => Ok(sums.clone()),
            _ => Ok(job.sum(self.items(port)?).into_iter().collect()),
        }
    }

    /// The artifact on a port that accepts one, if there is any.
    pub fn artifact(&self, port: &str) -> Option<&Fields> {
        match self.ports.get(port).and_then(|inputs| inputs.first()) {
            Some(PortInput::Artifact { fields, .. }) => Some(fields),
            _ => None,
        }
    }
}

/// The data that a gather or training returns on an output port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PortOutput {
    /// The items of a data set, in any order.
    Dataset(Vec<NewItem>),
    /// The fields of an artifact, by name.
    Artifact(Vec<(String, NewValue)>),
}

/// The result of a gather or a training.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatherOutput {
    /// By the names of the kind's output ports, each of which must be there.
    pub ports: BTreeMap<String, PortOutput>,
    /// Notes, such as `clips left out`, with their counts; shown in reports.
    pub notes: Vec<(String, u64)>,
    /// Content parameters that were left to the machine, with the selected values. The output is
    /// also recorded under the key with these values.
    pub settled: BTreeMap<String, String>,
    /// The reason why the stage fails all the same: its output is exported and can be listed, but it is no
    /// result, so nothing downstream starts, and the next run does the work again.
    pub failure: Option<StageError>,
}

impl GatherOutput {
    /// Adds what leaves on a port, or replaces it.
    pub fn with(mut self, port: &str, output: PortOutput) -> GatherOutput {
        self.ports.insert(port.to_owned(), output);
        self
    }
}

/// The findings of a source.
#[derive(Clone, Debug, Default)]
pub struct SourceOutput {
    /// The items, in any order. Their ids must differ.
    pub items: Vec<Item>,
    /// Rows and files that cannot become items, with their names.
    pub rejects: Vec<(String, Reject)>,
    /// Notes about all files, with their counts; shown in reports.
    pub notes: Vec<(String, u64)>,
}

/// The identity of the content of one of the user's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFact {
    /// The BLAKE3 digest of its bytes.
    pub digest: Digest,
    /// Its number of bytes.
    pub size: u64,
}

/// A file that is read in parts.
pub trait FileParts: Send + Sync {
    /// The number of bytes of the whole file.
    fn size(&self) -> u64;

    /// May read less than asked; 0 only at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has changed since it was opened. Past the end is no error, but
    /// reads 0 bytes.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads the whole file, and returns an error if its digest is wrong. Does nothing if the
    /// digest is known to be right.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or if its bytes are not those that were expected.
    fn verify(&self) -> io::Result<()> {
        Ok(())
    }
}

impl FileParts for Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        rest.unwrap_or_default().read(buffer)
    }
}

/// The entries below a folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Everything except folders, sorted, relative to the folder. An entry that is not a regular
    /// file is reported when it is read.
    pub files: Vec<Utf8PathBuf>,
    /// The folders, sorted, relative to the folder; also links to folders, which are not followed.
    pub folders: Vec<Utf8PathBuf>,
    /// Names without a path, and folders that cannot be listed.
    pub rejects: Vec<(String, Reject)>,
}

/// The user's files as a source sees them. All questions are recorded, so that the next plan knows
/// from the files' stat alone if the answers would be the same.
pub trait World {
    /// The bytes of one file of many; if it cannot be read, only it is quarantined. Paths are
    /// relative to the manifest, or absolute.
    ///
    /// # Errors
    ///
    /// If the machine is to blame and not the file, such as too many open files: the plan ends, and
    /// nothing is recorded.
    fn read_one(&mut self, path: &Utf8Path) -> Result<Result<Bytes, Reject>, StageError>;

    /// The bytes of a file that the stage cannot work without.
    ///
    /// # Errors
    ///
    /// If the file is missing or cannot be read.
    fn read(&mut self, path: &Utf8Path) -> Result<Bytes, StageError> {
        self.read_one(path)?.map_err(|reject| StageError::failed(reject.reason))
    }

    /// One file of many that is too large to be read whole. It must not change while it is open; a
    /// change ends the reading with an error.
    ///
    /// # Errors
    ///
    /// Those of [`World::read_one`].
    fn open_one(
        &mut self,
        path: &Utf8Path,
    ) -> Result<Result<Arc<dyn FileParts>, Reject>, StageError> {
        Ok(self.read_one(path)?.map(|bytes| Arc::new(bytes) as Arc<dyn FileParts>))
    }

    /// The entries below a folder.
    ///
    /// # Errors
    ///
    /// If there is no such folder, or if it cannot be listed. Folders below it that cannot be
    /// listed are among the rejects.
    fn list(&mut self, folder: &Utf8Path) -> Result<Listing, StageError>;

    /// The entries below a folder; None if there is no such folder.
    ///
    /// # Errors
    ///
    /// If there is something else than a folder, or if it cannot be listed.
    fn list_if_any(&mut self, folder: &Utf8Path) -> Result<Option<Listing>, StageError> {
        self.list(folder).map(Some)
    }

    /// Tests if there is such a file.
    fn exists(&mut self, path: &Utf8Path) -> bool;

    /// Digest and size of many files, hashed in parallel unless they are known.
    ///
    /// # Errors
    ///
    /// Those of [`World::read_one`]; a file that is missing or cannot be read has a verdict of its
    /// own in its place.
    fn files(&mut self, paths: &[Utf8PathBuf])
    -> Result<Vec<Result<FileFact, Reject>>, StageError>;

    /// Stores bytes that have no file of their own.
    ///
    /// # Errors
    ///
    /// If the cache cannot be written, such as when the disk is full.
    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError>;

    /// The fields that were remembered under a key, if all of their objects exist.
    ///
    /// # Errors
    ///
    /// If the cache cannot be read.
    fn recall(&mut self, _key: &Digest) -> Result<Option<Fields>, StageError> {
        Ok(None)
    }

    /// Remembers fields that follow from the key alone, which includes the contents of files.
    ///
    /// # Errors
    ///
    /// If the cache cannot be written. Without the record, the next plan works again.
    fn remember(&mut self, _key: &Digest, _fields: &Fields) -> Result<(), StageError> {
        Ok(())
    }

    /// Reports what the user waits for.
    fn waiting(&mut self, _what: String) {}
}
