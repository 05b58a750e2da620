//! A small world for engine tests: three stages on text files, and a folder to run them in.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::stages;
use cache::fs::{Fs, MemoryFs, Open, RealFs};
use cache::{Access, Cache, CacheError, VerifyOptions, VerifyReport};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::{Engine, EngineError, RunOptions, WorkerCommand};
use engine::event::{Event, StageCounts, Status};
use engine::manifest::{FileKind, LoadOptions, load};
use engine::pipeline::Pipeline;
use engine::plan::Plan;
use stage_core::Stage;

pub const MANIFEST: &str = r#"
[pipeline]
name = "words"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"
mark = "!"

[stage.twice]
use = "test.twice"
input = "loud"
export = "out/{id}.txt"

[stage.joined]
use = "test.join"
input = "twice"
export = "out/all.txt"
"#;

/// The same with a stage that makes an item of each word.
pub const SPLIT_MANIFEST: &str = r#"
[pipeline]
name = "words"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"
mark = "!"

[stage.split]
use = "test.split"
input = "loud"
export = "out/words/{id}"

[stage.twice]
use = "test.twice"
input = "split"
export = "out/{id}.txt"

[stage.joined]
use = "test.join"
input = "twice"
export = "out/all.txt"
"#;

/// A folder with a pipeline in it: a temporary one on the machine, or `/lab` of a file system in
/// memory.
pub struct Lab {
    folder: Option<tempfile::TempDir>,
    base: Utf8PathBuf,
    pub stages: Vec<Arc<dyn Stage>>,
    pub worker: WorkerCommand,
    /// The file system of the engine.
    pub fs: Arc<dyn Fs>,
    /// The file system of the test itself: no faults, the same files.
    world: Arc<dyn Fs>,
    pub threads: usize,
    /// Trust no stat.
    pub verify: bool,
}

/// The results of one run.
#[derive(Debug)]
pub struct Ran {
    pub status: Status,
    pub stages: BTreeMap<String, StageCounts>,
    pub events: Vec<Event>,
}

impl Ran {
    pub fn executed(&self, stage: &str) -> u64 {
        self.stages[stage].executed
    }

    /// Executed counts of all stages in the order of the names.
    pub fn all_executed(&self) -> Vec<(&str, u64)> {
        self.stages.iter().map(|(name, counts)| (name.as_str(), counts.executed)).collect()
    }

    /// The number of executed items in item stages.
    pub fn items_executed(&self) -> u64 {
        ["loud", "split", "twice"]
            .iter()
            .filter_map(|name| Some(self.stages.get(*name)?.executed))
            .sum()
    }

    /// The digests of objects found damaged or lost.
    pub fn damaged(&self) -> Vec<String> {
        let digest = |event: &Event| match event {
            Event::Damaged { digest, .. } => Some(digest.clone()),
            _ => None,
        };
        self.events.iter().filter_map(digest).collect()
    }

    /// The errors of failed stages.
    pub fn failures(&self) -> Vec<String> {
        let message = |event: &Event| match event {
            Event::StageFailed { message, .. } => Some(message.clone()),
            _ => None,
        };
        self.events.iter().filter_map(message).collect()
    }

    /// The reasons of quarantined items.
    pub fn set_aside(&self) -> Vec<String> {
        let reason = |event: &Event| match event {
            Event::ItemQuarantined { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        self.events.iter().filter_map(reason).collect()
    }

    /// The reason why it began to stop.
    pub fn stopping(&self) -> Vec<String> {
        let why = |event: &Event| match event {
            Event::Stopping { why } => Some(why.clone()),
            _ => None,
        };
        self.events.iter().filter_map(why).collect()
    }

    pub fn nothing_executed(&self) -> bool {
        self.stages.values().all(|counts| counts.executed == 0)
    }
}

impl Default for Lab {
    fn default() -> Lab {
        Lab::new()
    }
}

impl Lab {
    pub fn new() -> Lab {
        Lab::with_fs(Arc::new(RealFs))
    }

    /// On the machine's files, through this file system.
    pub fn with_fs(fs: Arc<dyn Fs>) -> Lab {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        let lab = Lab { folder: Some(folder), ..Lab::at(base, fs, Arc::new(RealFs)) };
        lab.write("pipeline.toml", MANIFEST);
        lab
    }

    /// In memory, with the engine on the same file system.
    pub fn in_memory(memory: &MemoryFs) -> Lab {
        Lab::through(memory, Arc::new(memory.clone()))
    }

    /// In memory, with the engine on a layer over it. Existing files stay.
    pub fn through(memory: &MemoryFs, fs: Arc<dyn Fs>) -> Lab {
        let lab = Lab::at("/lab".into(), fs, Arc::new(memory.clone()));
        if lab.read("pipeline.toml").is_none() {
            lab.write("pipeline.toml", MANIFEST);
        }
        lab
    }

    fn at(base: Utf8PathBuf, fs: Arc<dyn Fs>, world: Arc<dyn Fs>) -> Lab {
        let worker = WorkerCommand::default();
        Lab {
            folder: None,
            base,
            stages: stages::all(),
            worker,
            fs,
            world,
            threads: 2,
            verify: false,
        }
    }

    /// In an existing folder, with its files.
    pub fn in_folder(base: &Utf8Path) -> Lab {
        Lab::at(base.to_owned(), Arc::new(RealFs), Arc::new(RealFs))
    }

    pub fn base(&self) -> Utf8PathBuf {
        self.base.clone()
    }

    /// Writes in place, like some editors, and durably.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.base.join(path);
        let folder = path.parent().unwrap();
        self.world.create_dir_all(folder).unwrap();
        let file = self.world.open(&path, Open::Create).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        if self.folder.is_none() {
            file.sync_data().unwrap();
            self.world.sync_dir(folder).unwrap();
        }
    }

    pub fn remove(&self, path: &str) {
        let path = self.base.join(path);
        self.world.remove_file(&path).unwrap();
        if self.folder.is_none() {
            self.world.sync_dir(path.parent().unwrap()).unwrap();
        }
    }

    pub fn rename(&self, from: &str, to: &str) {
        self.world.rename(&self.base.join(from), &self.base.join(to)).unwrap();
        if self.folder.is_none() {
            self.world.sync_dir(self.base.join(to).parent().unwrap()).unwrap();
        }
    }

    pub fn read(&self, path: &str) -> Option<String> {
        let bytes = self.world.read(&self.base.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// All files below a folder by their path in it.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![String::new()];
        while let Some(below) = waiting.pop() {
            let path = self.base.join(folder).join(&below);
            for entry in self.world.read_dir(&path).unwrap_or_default() {
                let name = match below.as_str() {
                    "" => entry.name.clone(),
                    below => format!("{below}/{}", entry.name),
                };
                match entry.kind {
                    cache::fs::FileKind::Dir => waiting.push(name),
                    _ => {
                        let bytes = self.world.read(&path.join(&entry.name)).unwrap();
                        found.insert(name, bytes);
                    }
                }
            }
        }
        found
    }

    /// The exports of the usual manifest.
    pub fn exports(&self) -> BTreeMap<String, Vec<u8>> {
        self.files("out")
    }

    pub fn engine(&self) -> Engine {
        let mut catalogue = stage_speech::catalogue();
        self.stages.iter().for_each(|stage| catalogue.add(stage.kind()));
        Engine {
            catalogue,
            stages: self.stages.clone(),
            worker: self.worker.clone(),
            threads: self.threads,
            verify: self.verify,
            environment: Default::default(),
            secret: |_| None,
            remote: None,
        }
    }

    pub fn pipeline(&self) -> Pipeline {
        self.try_pipeline().unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// The pipeline, or all problems of its manifest.
    pub fn try_pipeline(&self) -> Result<Pipeline, String> {
        let file = self.base.join("pipeline.toml");
        let text = self.read("pipeline.toml").unwrap();
        let options = LoadOptions::default();
        let files = |path: &Utf8Path| match self.world.metadata(path) {
            Ok(metadata) if metadata.is_dir() => FileKind::Folder,
            Ok(_) => FileKind::File,
            Err(_) => FileKind::Missing,
        };
        let loaded = load(&text, &file, &self.engine().catalogue, &options, &files);
        loaded.map(|loaded| loaded.pipeline).map_err(|problems| format!("{problems:?}"))
    }

    pub fn cache(&self) -> Cache {
        self.open_cache().unwrap()
    }

    pub fn open_cache(&self) -> Result<Cache, CacheError> {
        Cache::open(&self.base.join(".throstle"), self.fs.clone(), Access::ReadWrite)
    }

    /// Opens the cache and runs; errors are values.
    pub fn attempt(&self, pipeline: &Pipeline, options: &RunOptions) -> Result<Ran, EngineError> {
        self.run_pipeline(pipeline, &self.open_cache()?, options)
    }

    pub fn run(&self) -> Ran {
        self.run_with(&RunOptions::default())
    }

    pub fn run_with(&self, options: &RunOptions) -> Ran {
        self.try_run(&self.cache(), options).unwrap()
    }

    pub fn try_run(&self, cache: &Cache, options: &RunOptions) -> Result<Ran, EngineError> {
        self.run_pipeline(&self.pipeline(), cache, options)
    }

    fn run_pipeline(
        &self,
        pipeline: &Pipeline,
        cache: &Cache,
        options: &RunOptions,
    ) -> Result<Ran, EngineError> {
        let mut events = Vec::new();
        let mut sink = |event| events.push(event);
        let status = self.engine().run(pipeline, cache, options, &mut sink)?;
        let Some(Event::Finished { stages, .. }) = events.last().cloned() else {
            panic!("the last event is not `finished`: {events:?}")
        };
        Ok(Ran { status, stages, events })
    }

    /// The number of stored outcomes of items.
    pub fn item_records(&self) -> u64 {
        self.cache().scan(engine::record::ITEM).unwrap().len() as u64
    }

    /// Finds damage anywhere in the cache.
    pub fn verify(&self) -> VerifyReport {
        let options = VerifyOptions { read_data: true, ..VerifyOptions::default() };
        self.cache().verify(options, &|_, _| {}).unwrap()
    }

    pub fn plan(&self) -> Plan {
        self.engine().plan(&self.pipeline(), &self.cache(), &[], &mut |_| {}).unwrap()
    }

    /// The present plan's reasons for a stage.
    pub fn reasons(&self, stage: &str) -> Vec<String> {
        let pipeline = self.pipeline();
        let id = pipeline.find(stage).unwrap().id;
        self.plan().stage(id).reasons.iter().map(ToString::to_string).collect()
    }

    /// Makes every file older, so that its stat can be trusted.
    pub fn age(&self) {
        std::thread::sleep(std::time::Duration::from_millis(120));
    }
}
