//! A small world for engine tests: three stages on text files, and a folder to run them in.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::stages;
use cache::fs::{Fs, RealFs};
use cache::{Access, Cache};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::{Engine, RunOptions, WorkerCommand};
use engine::manifest::{FileKind, LoadOptions, load};
use engine::pipeline::Pipeline;
use engine::plan::Plan;
use stage_core::Stage;
use stage_core::event::{Event, StageCounts, Status};

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

/// A folder with a pipeline in it.
pub struct Lab {
    pub folder: tempfile::TempDir,
    pub stages: Vec<Arc<dyn Stage>>,
    pub worker: WorkerCommand,
    pub fs: Arc<dyn Fs>,
}

/// What one run did.
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

    pub fn with_fs(fs: Arc<dyn Fs>) -> Lab {
        let folder = tempfile::tempdir().unwrap();
        let lab = Lab { folder, stages: stages::all(), worker: WorkerCommand::default(), fs };
        lab.write("pipeline.toml", MANIFEST);
        lab
    }

    pub fn base(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.folder.path().to_owned()).unwrap()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.base().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        std::fs::remove_file(self.base().join(path)).unwrap();
    }

    pub fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.base().join(path)).ok()
    }

    pub fn engine(&self) -> Engine {
        let mut catalogue = stage_core::Catalogue::built_in();
        self.stages.iter().for_each(|stage| catalogue.add(stage.kind()));
        Engine {
            catalogue,
            stages: self.stages.clone(),
            worker: self.worker.clone(),
            threads: 2,
            verify: false,
            secret: |_| None,
        }
    }

    pub fn pipeline(&self) -> Pipeline {
        let file = self.base().join("pipeline.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let options = LoadOptions { set: Vec::new(), secrets: &|_| None };
        let files = |path: &Utf8Path| match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => FileKind::Folder,
            Ok(_) => FileKind::File,
            Err(_) => FileKind::Missing,
        };
        let loaded = load(&text, &file, &self.engine().catalogue, &options, &files);
        loaded.unwrap_or_else(|problems| panic!("{problems:?}")).pipeline
    }

    pub fn cache(&self) -> Cache {
        let folder = self.base().join(".throstle");
        Cache::open(&folder, self.fs.clone(), Access::ReadWrite).unwrap()
    }

    pub fn run(&self) -> Ran {
        self.run_with(&RunOptions::default())
    }

    pub fn run_with(&self, options: &RunOptions) -> Ran {
        self.try_run(&self.cache(), options).unwrap()
    }

    pub fn try_run(
        &self,
        cache: &Cache,
        options: &RunOptions,
    ) -> Result<Ran, engine::engine::EngineError> {
        let mut events = Vec::new();
        let pipeline = self.pipeline();
        let mut sink = |event| events.push(event);
        let status = self.engine().run(&pipeline, cache, options, &mut sink)?;
        let Some(Event::Finished { stages, .. }) = events.last().cloned() else {
            panic!("the last event is not `finished`: {events:?}")
        };
        Ok(Ran { status, stages, events })
    }

    pub fn plan(&self) -> Plan {
        self.engine().plan(&self.pipeline(), &self.cache(), &[], &mut |_| {}).unwrap()
    }

    /// The reasons that the present plan gives for a stage.
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
