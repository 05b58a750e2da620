//! A project with long recordings, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cache::fs::{Fs, MemoryFs};
use engine::event::Status;
use engine::plan::PlannedValue;
use engine::store::Store;
use stage_core::{Fields, Item, Stage};
use stage_speech::audio::{Clip, wav};
use throstle_tests::{Lab, Ran};

/// The lowest rate, so that an hour is short.
pub const RATE: u32 = 4_000;

pub struct World {
    memory: MemoryFs,
    manifest: &'static str,
    /// Stands for the recogniser.
    recogniser: Arc<dyn Stage>,
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Everything that the stages have given: the items and the artifacts of each port, and the
/// quarantined items of each stage.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    pub items: BTreeMap<String, Vec<Item>>,
    pub artifacts: BTreeMap<String, Fields>,
    /// Stage, item, code and reason.
    pub rejects: BTreeSet<(String, String, String, String)>,
}

impl World {
    pub fn new(manifest: &'static str, recogniser: Arc<dyn Stage>) -> World {
        let memory = MemoryFs::new();
        let world = World { memory, manifest, recogniser, files: BTreeMap::new() };
        world.lab().write("pipeline.toml", manifest);
        world.lab().write("data/none.md", "no recording");
        world
    }

    pub fn lab(&self) -> Lab {
        let mut lab = Lab::in_memory(&self.memory);
        lab.stages.extend(stage_speech::stages());
        lab.stages.push(self.recogniser.clone());
        lab
    }

    /// Writes a file in `data`.
    pub fn write(&mut self, name: &str, bytes: Vec<u8>) {
        self.memory.write_durably(format!("/lab/data/{name}").as_str().into(), &bytes).unwrap();
        self.files.insert(name.to_owned(), bytes);
    }

    pub fn record(&mut self, name: &str, samples: &[i16]) {
        let (bytes, _) = wav::write(Clip::mono(RATE, samples.to_vec())).unwrap();
        self.write(name, bytes);
    }

    pub fn remove(&mut self, name: &str) {
        if self.files.remove(name).is_some() {
            self.memory.remove_file(format!("/lab/data/{name}").as_str().into()).unwrap();
        }
    }

    pub fn run(&self) -> Ran {
        let ran = self.lab().run();
        assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
        ran
    }

    /// The items of a stage after a run.
    pub fn items(&self, stage: &str) -> Vec<Item> {
        self.outcome().items.remove(&format!("{stage}.output")).unwrap()
    }

    /// The outcome of the last run.
    pub fn outcome(&self) -> Outcome {
        let lab = self.lab();
        let (pipeline, plan) = (lab.pipeline(), lab.plan());
        let index = cache::stat::StatIndex::load(&lab.cache()).unwrap();
        let store = Store::new(lab.cache(), "/lab".into(), Arc::new(index));
        let mut outcome = Outcome::default();
        for id in pipeline.ids() {
            let name = &pipeline.stage(id).name;
            let known = &plan.stage(id).known;
            for (port, value) in &known.outputs {
                let port = format!("{name}.{port}");
                match value {
                    PlannedValue::Root { root, .. } => {
                        outcome.items.insert(port, store.items(root).unwrap());
                    }
                    PlannedValue::Artifact(fields) => {
                        outcome.artifacts.insert(port, fields.clone());
                    }
                    PlannedValue::Partial(_) | PlannedValue::Unknown => {
                        panic!("`{port}` has no outcome")
                    }
                }
            }
            let rejects = known.rejects.iter().map(|(item, reject)| {
                let (code, reason) = (reject.code.to_string(), reject.reason.to_string());
                (name.to_string(), item.to_string(), code, reason)
            });
            outcome.rejects.extend(rejects);
        }
        outcome
    }

    /// The segments: id and digest of the sound.
    pub fn segments(&self) -> BTreeSet<(String, String)> {
        let one = |item: Item| {
            (item.id.to_string(), item.fields.blob("audio").unwrap().digest.to_string())
        };
        self.items("segments").into_iter().map(one).collect()
    }

    /// The same files without a cache.
    pub fn afresh(&self) -> World {
        let mut other = World::new(self.manifest, self.recogniser.clone());
        self.files.iter().for_each(|(name, bytes)| other.write(name, bytes.clone()));
        other
    }
}
