//! The stage trait: a description, and a way to open a job that does the work.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use cache::Digest;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::course::Course;
use crate::error::{Reject, StageError};
use crate::item::{Blob, Fields, Item, Value};
use crate::kind::Kind;
use crate::parameter::Parameters;

/// A stage kind with its implementation.
pub trait Stage: Send + Sync {
    fn kind(&self) -> &'static Kind;

    /// Makes ready to work: checks what only the implementation can, loads models.
    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError>;
}

/// What a job is opened with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Setup {
    /// The name of the stage in the manifest, for messages.
    pub stage: String,
    pub parameters: Parameters,
    /// The artifacts on the input ports of item stages, by port; several where the port takes many.
    pub artifacts: BTreeMap<String, Vec<Fields>>,
    /// The content of `File` parameters, by parameter.
    pub files: BTreeMap<String, Blob>,
    /// The secrets, by parameter. Never stored, never printed.
    pub secrets: BTreeMap<String, String>,
    /// `cpu`, or `cuda:0`; empty for stages that run in the engine.
    pub device: String,
    /// The longest that one item, or a gather, may take.
    pub timeout_seconds: Option<f64>,
    /// What programs that the manifest names see of the environment: where programs and the
    /// user's own packages are. Workers start no such programs.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
    /// The folder of the manifest, for programs that the manifest names by a relative path.
    pub base: String,
}

/// The three shapes of work.
pub enum Job {
    Source(Box<dyn SourceJob>),
    Item(Box<dyn ItemJob>),
    Gather(Box<dyn GatherJob>),
}

/// What a job may ask of whoever runs it.
pub trait Context {
    /// The bytes of a blob, verified against its digest.
    fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError>;

    /// A blob that may be too large to be read whole. According to the stat of its file, its bytes
    /// are those of its digest; if it changes while it is open, reading ends with an error.
    /// [`FileParts::verify`] makes sure, and must be called before anything is made of the bytes.
    fn open(&mut self, blob: &Blob) -> Result<Arc<dyn FileParts>, StageError> {
        Ok(Arc::new(self.read(blob)?))
    }

    /// The outcome of an earlier part of this stage, kept under a key of the stage's choice.
    fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError>;

    /// Keeps the outcome of a part, so that a later run with the same key recalls it.
    fn remember(&mut self, key: &Digest, output: Output) -> Result<Fields, StageError>;

    /// The first text given under a key in this cache: this text, if there was none before. For
    /// facts that no input holds, such as the recording with which a file was first seen.
    fn remember_first(&mut self, key: &Digest, text: &str) -> Result<String, StageError> {
        const TOLD: &str = "told";
        if let Some(known) = self.recall(key)?.as_ref().and_then(|fields| fields.text(TOLD)) {
            return Ok(known.to_owned());
        }
        let told = Output::default().with(TOLD, NewValue::Text(text.to_owned()));
        self.remember(key, told).map(|_| text.to_owned())
    }

    /// Stores one object at once. What is made of it, a checkpoint or an output, names it as
    /// [`NewValue::Kept`], so that a model of gigabytes is never in memory as a whole.
    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError>;

    /// Makes the state of a training stage durable under the key of the stage: when this
    /// returns, a run that is killed at any later moment goes on from here. The state before
    /// it is kept as well, in case this one is damaged.
    fn checkpoint(&mut self, state: Output) -> Result<Fields, StageError>;

    /// The newest checkpoint of this stage's key whose objects are all there.
    fn last_checkpoint(&mut self) -> Result<Option<Fields>, StageError>;

    /// The artifact that this stage gave before its inputs changed, where it is to go on from
    /// there: see [`crate::catalogue::ON_CHANGE`].
    fn parent(&mut self) -> Result<Option<Fields>, StageError>;

    /// Sets items aside that the stage cannot use, by their place in the data set that arrived on a
    /// port. A run names and lists them like those of item stages. It is an error, which the stage
    /// returns, if there are more than the manifest allows: so a stage calls this before it begins
    /// anything that takes long.
    fn set_aside(&mut self, port: &str, rejects: Vec<(usize, Reject)>) -> Result<(), StageError>;

    /// Reports the course of a training before the first step.
    fn begins(&mut self, _course: &Course) {}

    /// Tells figures such as the loss at a step of training. Shown and logged, never a result.
    fn metrics(&mut self, step: u64, values: &[(&str, f64)]);

    /// Where a stage that works in folders of its own leaves them, with what was said in them,
    /// when it is replayed for somebody to look at.
    fn kept(&mut self) -> Option<Utf8PathBuf> {
        None
    }

    /// A folder for files that are needed while the stage works and are gone after the run.
    fn scratch(&mut self) -> Result<Utf8PathBuf, StageError> {
        Err(StageError::failed("there is no folder for files here"))
    }

    /// Says how far a long piece of work has come.
    fn progress(&mut self, done: u64, total: u64);

    /// True when the run has been asked to stop: return `StageError::Stopped` soon. A training
    /// stage asks before every step, and saves a checkpoint before it returns; from these two the
    /// engine measures how long before a deadline it has to say so.
    fn stopping(&mut self) -> bool;

    /// A training asks this before each step, which also shows how long steps take. False if it
    /// must save and end, since there is no time for one more step, for a validation after it if
    /// there is to be one, and for a save.
    fn may_begin_step(&mut self, validates: bool) -> bool {
        let _ = validates;
        !self.stopping()
    }
}

/// Works on items; shared by the threads of a pool.
pub trait ItemJob: Send + Sync {
    /// One result for each item, in order. An error is about the whole batch.
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError>;
}

/// Works on whole data sets.
pub trait GatherJob: Send {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError>;
}

/// Reads the world.
pub trait SourceJob: Send {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError>;

    /// Whether what [`World::files`] says of a file goes into blobs and nowhere else, and no blob
    /// has the digest of such a file that is not that file. Then new contents of files take the
    /// place of the old ones in the items, and nothing is scanned.
    fn passes_files_on(&self) -> bool {
        false
    }
}

/// A value that a stage has made and that is not yet kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NewValue {
    Text(String),
    Number(f64),
    Bytes {
        kind: String,
        bytes: Bytes,
    },
    /// A value that was there before, blobs included.
    Kept(Value),
}

impl NewValue {
    /// An object that was stored before.
    pub fn blob(blob: Blob) -> NewValue {
        NewValue::Kept(Value::Blob(Arc::new(blob)))
    }

    pub fn bytes(kind: impl Into<String>, bytes: impl Into<Bytes>) -> NewValue {
        NewValue::Bytes { kind: kind.into(), bytes: bytes.into() }
    }
}

/// What a stage made of one item, or the content of an artifact: named values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    pub values: Vec<(String, NewValue)>,
    /// What was noticed, such as `odd-byte` or `quotes replaced`, and how often; summed in reports.
    pub notes: Vec<(String, u64)>,
}

impl Output {
    pub fn with(mut self, name: impl Into<String>, value: NewValue) -> Output {
        self.values.push((name.into(), value));
        self
    }

    pub fn note(&mut self, name: impl Into<String>, count: u64) {
        self.notes.push((name.into(), count));
    }
}

/// An item of a data set that a stage makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewItem {
    pub id: String,
    pub values: Vec<(String, NewValue)>,
}

impl NewItem {
    /// An item as it was, with all its fields.
    pub fn kept(item: &Item) -> NewItem {
        let keep =
            |(name, value): (&Arc<str>, &Value)| (name.to_string(), NewValue::Kept(value.clone()));
        NewItem { id: item.id.to_string(), values: item.fields.iter().map(keep).collect() }
    }

    pub fn with(mut self, name: &str, value: NewValue) -> NewItem {
        self.values.retain(|(own, _)| own != name);
        self.values.push((name.to_owned(), value));
        self
    }
}

/// The data that arrives on one reference of a port. The stage name is empty if the port does not
/// read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PortInput {
    /// With all fields and sorted by id where the port reads everything; else with the fields
    /// that the port reads, and where it does not read the id, in an order that does not
    /// depend on it and with empty ids.
    Dataset {
        stage: String,
        items: Vec<Item>,
        /// Set aside by that stage, where the port reads that.
        rejects: Vec<(String, Reject)>,
    },
    Artifact {
        stage: String,
        fields: Fields,
    },
}

/// The inputs of a gather, by port; several where the port takes many.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatherInput {
    pub ports: BTreeMap<String, Vec<PortInput>>,
}

impl GatherInput {
    /// The items on a port that takes one data set.
    pub fn items(&self, port: &str) -> Result<&[Item], StageError> {
        match self.ports.get(port).and_then(|inputs| inputs.first()) {
            Some(PortInput::Dataset { items, .. }) => Ok(items),
            _ => Err(StageError::failed(format!("no data set arrived on port `{port}`"))),
        }
    }

    /// The artifact on a port that takes one, if there is any.
    pub fn artifact(&self, port: &str) -> Option<&Fields> {
        match self.ports.get(port).and_then(|inputs| inputs.first()) {
            Some(PortInput::Artifact { fields, .. }) => Some(fields),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PortOutput {
    Dataset(Vec<NewItem>),
    Artifact(Vec<(String, NewValue)>),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatherOutput {
    pub ports: BTreeMap<String, PortOutput>,
    pub notes: Vec<(String, u64)>,
}

impl GatherOutput {
    pub fn with(mut self, port: &str, output: PortOutput) -> GatherOutput {
        self.ports.insert(port.to_owned(), output);
        self
    }
}

/// What a source found.
#[derive(Clone, Debug, Default)]
pub struct SourceOutput {
    pub items: Vec<Item>,
    /// Rows and files that cannot become items, with what names them.
    pub rejects: Vec<(String, Reject)>,
    pub notes: Vec<(String, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFact {
    pub digest: Digest,
    pub size: u64,
}

/// A file that is read in parts.
pub trait FileParts: Send + Sync {
    fn size(&self) -> u64;

    /// May read less than asked; 0 only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads the whole file, and returns an error if its digest is wrong. Does nothing if the
    /// digest is known to be right.
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
    /// Everything except folders, sorted, relative to the folder. An entry that is no regular file
    /// is reported when it is read.
    pub files: Vec<Utf8PathBuf>,
    /// Names that no path leads to, and folders that cannot be listed.
    pub rejects: Vec<(String, Reject)>,
}

/// The user's files as a source sees them. All that is asked is written down, so that the next
/// plan knows from the files' stat alone whether the answers would be the same.
pub trait World {
    /// The bytes of one file of many; if it cannot be read, it alone is set aside. Paths are
    /// relative to the manifest, or absolute.
    fn read_one(&mut self, path: &Utf8Path) -> Result<Result<Bytes, Reject>, StageError>;

    /// The bytes of a file without which the stage cannot work.
    fn read(&mut self, path: &Utf8Path) -> Result<Bytes, StageError> {
        self.read_one(path)?.map_err(|reject| StageError::failed(reject.reason))
    }

    /// One file of many that is too large to be read whole. It must not change while it is open; a
    /// change ends the reading with an error.
    fn open_one(
        &mut self,
        path: &Utf8Path,
    ) -> Result<Result<Arc<dyn FileParts>, Reject>, StageError> {
        Ok(self.read_one(path)?.map(|bytes| Arc::new(bytes) as Arc<dyn FileParts>))
    }

    /// The entries below a folder.
    fn list(&mut self, folder: &Utf8Path) -> Result<Listing, StageError>;

    /// Whether there is such a file.
    fn exists(&mut self, path: &Utf8Path) -> bool;

    /// Digest and size of many files, hashed in parallel where no memo helps.
    fn files(&mut self, paths: &[Utf8PathBuf])
    -> Result<Vec<Result<FileFact, Reject>>, StageError>;

    /// Puts bytes that are no file of their own into the store.
    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError>;
}
