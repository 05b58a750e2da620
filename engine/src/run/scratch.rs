//! A folder for working files of stages: in the cache, created on first use, or a given one.

use std::sync::{Arc, Mutex, PoisonError};

use cache::fs::Fs;
use cache::{Cache, CacheError, StagingDir};
use camino::{Utf8Path, Utf8PathBuf};

/// Shared by all threads of a run. The folder is removed with the last of them, or swept when the
/// cache is opened again.
#[derive(Clone, Default)]
pub struct Scratch {
    made: Arc<Mutex<Vec<StagingDir>>>,
    given: Option<Utf8PathBuf>,
}

impl Scratch {
    /// A folder that somebody else makes and removes, for a cache that is only read.
    pub fn at(folder: &Utf8Path) -> Scratch {
        Scratch { given: Some(folder.to_owned()), ..Scratch::default() }
    }

    pub fn folder(&self, cache: &Cache) -> Result<Utf8PathBuf, CacheError> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = made.last().filter(|folder| folder.is_there()) {
            return Ok(folder.path().to_owned());
        }
        // After a clean-up by somebody, programs may still work in the rest of an older folder.
        let folder = cache.staging()?;
        let path = folder.path().to_owned();
        made.push(folder);
        Ok(path)
    }

    /// True if somebody has removed the folder together with its parent, as with a cache that is
    /// moved or removed. A folder that was only cleaned up is created again.
    pub fn is_gone(&self, fs: &dyn Fs) -> bool {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let around = made.last().and_then(|folder| folder.path().parent());
        around.is_some_and(|around| fs.exists(around).is_ok_and(|is_there| !is_there))
    }
}
