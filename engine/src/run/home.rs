//! Checks that a project is still where it was when the work of a run began. After a move its
//! sources would seem to be gone, and exports would recreate its old folder.

use std::time::Duration;

use cache::CacheError;
use cache::fs::Fs;
use camino::{Utf8Path, Utf8PathBuf};

use crate::engine::EngineError;
use crate::pipeline::Pipeline;

/// Some editors remove a file for a moment while they save it.
const PATIENCE: Duration = Duration::from_millis(300);

pub struct Home {
    /// None if there was no such file: not every pipeline comes from one.
    manifest: Option<Utf8PathBuf>,
    folder: Utf8PathBuf,
    inode: Option<u64>,
}

impl Home {
    pub fn of(fs: &dyn Fs, pipeline: &Pipeline) -> Home {
        let folder = match pipeline.base.as_str() {
            "" => Utf8Path::new("."),
            _ => &pipeline.base,
        };
        Home {
            manifest: is_there(fs, &pipeline.file).then(|| pipeline.file.clone()),
            folder: folder.to_owned(),
            inode: inode(fs, folder).ok().flatten(),
        }
    }

    pub fn require(&self, fs: &dyn Fs) -> Result<(), EngineError> {
        if self.inode.is_some() && inode(fs, &self.folder)? != self.inode {
            return Err(EngineError::Moved { path: self.folder.clone() });
        }
        let Some(manifest) = self.manifest.as_ref().filter(|file| !is_there(fs, file)) else {
            return Ok(());
        };
        std::thread::sleep(PATIENCE);
        if is_there(fs, manifest) {
            Ok(())
        } else {
            Err(EngineError::Moved { path: manifest.clone() })
        }
    }
}

fn is_there(fs: &dyn Fs, file: &Utf8Path) -> bool {
    fs.exists(file).unwrap_or(true)
}

/// None if there is no such folder.
fn inode(fs: &dyn Fs, folder: &Utf8Path) -> Result<Option<u64>, CacheError> {
    match fs.metadata(folder) {
        Ok(metadata) => Ok(Some(metadata.inode)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
