//! A folder for working files of stages, created on first use.

use std::sync::{Arc, Mutex, PoisonError};

use cache::fs::Fs;
use cache::{Cache, CacheError, StagingDir};
use camino::Utf8PathBuf;

/// Shared by all threads of a run. The folder is removed with the last of them, or swept when the
/// cache is opened again.
#[derive(Clone, Default)]
pub struct Scratch(Arc<Mutex<Vec<StagingDir>>>);

impl Scratch {
    pub fn folder(&self, cache: &Cache) -> Result<Utf8PathBuf, CacheError> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let around = made.last().and_then(|folder| folder.path().parent());
        around.is_some_and(|around| fs.exists(around).is_ok_and(|is_there| !is_there))
    }
}
