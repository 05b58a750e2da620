//! The engine in this process.

use std::path::Path;
use std::sync::Arc;

use cache::fs::RealFs;
use cache::{Access, Cache};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::{Engine, WorkerCommand};
use engine::manifest::{FileKind, LoadOptions, load};
use engine::pipeline::Pipeline;
use stage_core::Stage;

pub fn engine(stages: Vec<Arc<dyn Stage>>) -> Engine {
    let mut catalogue = stage_speech::catalogue();
    stages.iter().for_each(|stage| catalogue.add(stage.kind()));
    Engine {
        catalogue,
        stages,
        worker: WorkerCommand::default(),
        threads: 2,
        verify: false,
        environment: Default::default(),
        secret: |_| None,
        remote: None,
    }
}

/// The pipeline of a manifest's text, as if it were in this folder.
pub fn pipeline(engine: &Engine, folder: &Path, text: &str, set: &[String]) -> Pipeline {
    let file = utf8(folder).join("pipeline.toml");
    let options = LoadOptions { set: set.to_vec(), ..LoadOptions::default() };
    let files = |path: &Utf8Path| match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => FileKind::Folder,
        Ok(_) => FileKind::File,
        Err(_) => FileKind::Missing,
    };
    match load(text, &file, &engine.catalogue, &options, &files) {
        Ok(loaded) => loaded.pipeline,
        Err(problems) => panic!("{problems:?}"),
    }
}

pub fn cache(folder: &Path) -> Cache {
    Cache::open(&utf8(folder).join(".throstle"), Arc::new(RealFs), Access::ReadWrite).unwrap()
}

fn utf8(folder: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(folder.to_owned()).unwrap()
}
