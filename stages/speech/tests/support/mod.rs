//! Runs stages without an engine: blobs in memory, and a world that is a map of files.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

pub mod models;
pub mod spoken;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cache::Digest;
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{
    Blob, Context, Default as Preset, Fields, FileFact, FileParts, GatherInput, GatherOutput, Item,
    Job, Kind, Listing, NewItem, NewValue, Output, ParameterValue, Parameters, PortInput,
    PortOutput, Reject, Setup, SourceOutput, Stage, StageError, Value, World,
};

#[derive(Default)]
pub struct Bench {
    pub blobs: HashMap<Digest, Bytes>,
    pub parts: HashMap<Digest, Fields>,
    pub files: BTreeMap<Utf8PathBuf, Bytes>,
    /// Blobs that are too large for memory: they can be opened but not read.
    pub large: HashMap<Digest, Arc<Zeros>>,
    pub is_stopping: bool,
    /// The time limit of an item.
    pub timeout_seconds: Option<f64>,
    /// Quarantined items, by port and position.
    pub aside: Vec<(String, usize, Reject)>,
    pub scratch: Option<tempfile::TempDir>,
}

/// A file of zeros after a few bytes, which counts the bytes read.
#[derive(Default)]
pub struct Zeros {
    pub size: u64,
    pub head: &'static [u8],
    pub read: AtomicU64,
}

impl FileParts for Zeros {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = (buffer.len() as u64).min(self.size.saturating_sub(offset)) as usize;
        let heads = self.head.iter().skip(offset as usize).copied();
        let bytes = heads.chain(std::iter::repeat(0));
        buffer[..length].iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

pub fn stage(name: &str) -> Arc<dyn Stage> {
    stage_speech::stages().into_iter().find(|stage| stage.kind().name == name).unwrap()
}

/// The parameter values of a kind for these lines of a manifest.
pub fn parameters(kind: &Kind, written: &[(&str, ParameterValue)]) -> Parameters {
    let preset = |preset: &Preset| match preset {
        Preset::Text(text) => ParameterValue::Text((*text).to_owned()),
        Preset::Integer(number) => ParameterValue::Integer(*number),
        Preset::Number(number) => ParameterValue::Number(*number),
        Preset::Flag(flag) => ParameterValue::Flag(*flag),
        Preset::Seconds(seconds) => ParameterValue::Seconds(*seconds),
        Preset::Bytes(bytes) => ParameterValue::Bytes(*bytes),
        Preset::Texts(texts) => texts_value(texts),
        Preset::Device(device) => ParameterValue::Device(*device),
        Preset::Devices(devices) => {
            ParameterValue::List(devices.iter().copied().map(ParameterValue::Device).collect())
        }
        Preset::PipelineSeed => ParameterValue::Integer(0),
        Preset::Required | Preset::Absent => ParameterValue::Absent,
    };
    let presets = kind.parameters.iter();
    let mut values: BTreeMap<String, ParameterValue> =
        presets.map(|parameter| (parameter.name.to_owned(), preset(&parameter.default))).collect();
    for (name, value) in written {
        assert!(values.contains_key(*name), "`{}` has no parameter `{name}`", kind.name);
        values.insert((*name).to_owned(), value.clone());
    }
    Parameters(values)
}

pub fn text(text: &str) -> ParameterValue {
    ParameterValue::Text(text.to_owned())
}

pub fn texts_value(texts: &[&str]) -> ParameterValue {
    ParameterValue::List(texts.iter().map(|one| text(one)).collect())
}

pub fn map(pairs: &[(&str, ParameterValue)]) -> ParameterValue {
    ParameterValue::Map(
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    )
}

impl Bench {
    pub fn blob(&mut self, kind: &str, bytes: impl Into<Bytes>) -> Value {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        let size = bytes.len() as u64;
        self.blobs.insert(digest, bytes);
        Value::Blob(Arc::new(Blob { digest, size, kind: kind.into() }))
    }

    /// A blob of this number of zeros after these bytes.
    pub fn zeros(&mut self, size: u64, head: &'static [u8]) -> (Arc<Zeros>, Value) {
        let large = Arc::new(Zeros { size, head, ..Zeros::default() });
        let digest = Digest::of(format!("{size} {head:?}").as_bytes());
        self.large.insert(digest, large.clone());
        let kind = "application/octet-stream".into();
        (large, Value::Blob(Arc::new(Blob { digest, size, kind })))
    }

    pub fn file(&mut self, path: &str, bytes: impl Into<Bytes>) {
        self.files.insert(path.into(), bytes.into());
    }

    pub fn open(&mut self, name: &str, setup: Setup) -> Result<Job, StageError> {
        stage(name).open(setup, self)
    }

    pub fn scan(
        &mut self,
        name: &str,
        written: &[(&str, ParameterValue)],
    ) -> Result<SourceOutput, StageError> {
        let parameters = parameters(stage(name).kind(), written);
        let Job::Source(mut job) = self.open(name, Setup { parameters, ..Setup::default() })?
        else {
            panic!("`{name}` is no source");
        };
        job.scan(self)
    }

    pub fn process(
        &mut self,
        name: &str,
        written: &[(&str, ParameterValue)],
        items: &[Item],
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let parameters = parameters(stage(name).kind(), written);
        let timeout_seconds = self.timeout_seconds;
        let setup = Setup { parameters, timeout_seconds, ..Setup::default() };
        let Job::Item(job) = self.open(name, setup)? else {
            panic!("`{name}` works on no items");
        };
        job.process(items, self)
    }

    /// Quarantined items: port, position and code.
    pub fn set_aside(&self) -> Vec<String> {
        let one = |(port, place, reject): &(String, usize, Reject)| {
            format!("{port} {place} {}", reject.code)
        };
        self.aside.iter().map(one).collect()
    }

    pub fn gather(
        &mut self,
        name: &str,
        written: &[(&str, ParameterValue)],
        inputs: Vec<PortInput>,
    ) -> Result<GatherOutput, StageError> {
        self.gather_ports(name, written, vec![("input", inputs)])
    }

    /// The output of a check that passed, or its failure.
    pub fn judge(
        &mut self,
        name: &str,
        written: &[(&str, ParameterValue)],
        ports: Vec<(&str, Vec<PortInput>)>,
    ) -> Result<GatherOutput, StageError> {
        let output = self.gather_ports(name, written, ports)?;
        match output.failure {
            Some(failure) => Err(failure),
            None => Ok(output),
        }
    }

    pub fn gather_ports(
        &mut self,
        name: &str,
        written: &[(&str, ParameterValue)],
        ports: Vec<(&str, Vec<PortInput>)>,
    ) -> Result<GatherOutput, StageError> {
        let parameters = parameters(stage(name).kind(), written);
        self.gather_with(name, Setup { parameters, ..Setup::default() }, ports)
    }

    /// A gather of several ports, or with files.
    pub fn gather_with(
        &mut self,
        name: &str,
        setup: Setup,
        ports: Vec<(&str, Vec<PortInput>)>,
    ) -> Result<GatherOutput, StageError> {
        let Job::Gather(mut job) = self.open(name, setup)? else {
            panic!("`{name}` gathers nothing");
        };
        let ports = ports.into_iter().map(|(port, inputs)| (port.to_owned(), inputs)).collect();
        let output = job.run(GatherInput { ports }, self)?;
        let declared: Vec<&str> = stage(name).kind().outputs.iter().map(|port| port.name).collect();
        let mut given: Vec<&str> = output.ports.keys().map(String::as_str).collect();
        given.sort_by_key(|port| declared.iter().position(|name| name == port));
        assert_eq!(given, declared, "`{name}` gives other ports than it declares");
        Ok(output)
    }

    pub fn keep_value(&mut self, value: NewValue) -> Value {
        match value {
            NewValue::Text(text) => Value::text(text),
            NewValue::Number(number) => Value::Number(number),
            NewValue::Bytes { kind, bytes } => self.blob(&kind, bytes),
            NewValue::Kept(value) => value,
        }
    }
}

pub fn dataset(stage: &str, items: Vec<Item>) -> PortInput {
    PortInput::Dataset { stage: stage.to_owned(), items, rejects: Vec::new() }
}

pub fn item(id: &str, fields: &[(&str, Value)]) -> Item {
    Item::new(id, fields.iter().map(|(name, value)| (*name, value.clone())).collect())
}

/// The items on a port of a gather's output.
pub fn items<'a>(output: &'a GatherOutput, port: &str) -> &'a [NewItem] {
    match &output.ports[port] {
        PortOutput::Dataset(items) => items,
        PortOutput::Artifact(_) => panic!("`{port}` is an artifact"),
    }
}

/// The values of an artifact.
pub fn artifact<'a>(output: &'a GatherOutput, port: &str) -> BTreeMap<&'a str, &'a NewValue> {
    match &output.ports[port] {
        PortOutput::Artifact(values) => {
            values.iter().map(|(name, value)| (name.as_str(), value)).collect()
        }
        PortOutput::Dataset(_) => panic!("`{port}` is a data set"),
    }
}

/// A text, or bytes as one.
pub fn shown(value: &NewValue) -> String {
    match value {
        NewValue::Text(text) => text.clone(),
        NewValue::Bytes { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}

impl Context for Bench {
    fn open(&mut self, blob: &Blob) -> Result<Arc<dyn FileParts>, StageError> {
        match self.large.get(&blob.digest).cloned() {
            Some(large) => Ok(large),
            None => Ok(Arc::new(Context::read(self, blob)?)),
        }
    }

    fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError> {
        self.blobs.get(&blob.digest).cloned().ok_or_else(|| StageError::failed("no such blob"))
    }

    fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError> {
        Ok(self.parts.get(key).cloned())
    }

    fn remember(&mut self, key: &Digest, output: Output) -> Result<Fields, StageError> {
        let values = output.values.into_iter();
        let fields: Fields = values.map(|(name, value)| (name, self.keep_value(value))).collect();
        self.parts.insert(*key, fields.clone());
        Ok(fields)
    }

    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError> {
        World::keep(self, kind, bytes)
    }

    fn checkpoint(&mut self, _: Output) -> Result<Fields, StageError> {
        Err(StageError::failed("nothing is kept here"))
    }

    fn last_checkpoint(&mut self) -> Result<Option<Fields>, StageError> {
        Ok(None)
    }

    fn parent(&mut self) -> Result<Option<Fields>, StageError> {
        Ok(None)
    }

    fn set_aside(&mut self, port: &str, rejects: Vec<(usize, Reject)>) -> Result<(), StageError> {
        let rejects = rejects.into_iter();
        self.aside.extend(rejects.map(|(place, reject)| (port.to_owned(), place, reject)));
        Ok(())
    }

    fn metrics(&mut self, _: u64, _: &[(&str, f64)]) {}

    fn scratch(&mut self) -> Result<Utf8PathBuf, StageError> {
        let folder = self.scratch.get_or_insert_with(|| tempfile::tempdir().unwrap());
        Ok(Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap())
    }

    fn progress(&mut self, _: u64, _: u64) {}

    fn stopping(&mut self) -> bool {
        self.is_stopping
    }
}

impl World for Bench {
    fn read_one(&mut self, path: &Utf8Path) -> Result<Result<Bytes, Reject>, StageError> {
        let missing = || Reject::new("missing", format!("no file `{path}`"));
        Ok(self.files.get(path).cloned().ok_or_else(missing))
    }

    fn list(&mut self, folder: &Utf8Path) -> Result<Listing, StageError> {
        let folder = if folder == "." { Utf8Path::new("") } else { folder };
        let below = |path: &Utf8PathBuf| path.strip_prefix(folder).ok().map(Utf8Path::to_owned);
        let files = self.files.keys().filter_map(below).collect();
        Ok(Listing { files, ..Listing::default() })
    }

    fn exists(&mut self, path: &Utf8Path) -> bool {
        self.files.contains_key(path)
    }

    fn files(
        &mut self,
        paths: &[Utf8PathBuf],
    ) -> Result<Vec<Result<FileFact, Reject>>, StageError> {
        let fact = |path: &Utf8PathBuf| match self.files.get(path) {
            Some(bytes) => Ok(FileFact { digest: Digest::of(bytes), size: bytes.len() as u64 }),
            None => Err(Reject::new("missing-file", format!("`{path}` is not there"))),
        };
        Ok(paths.iter().map(fact).collect())
    }

    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError> {
        match self.blob(kind, bytes) {
            Value::Blob(blob) => Ok((*blob).clone()),
            other => panic!("{other} is no blob"),
        }
    }
}
