//! A folder for the files of stages while they work, made when the first of them asks.

use std::sync::{Arc, Mutex, PoisonError};

use cache::fs::Fs;
use cache::{Cache, CacheError, StagingDir};
use camino::Utf8PathBuf;

/// Shared by all threads of a run; the folder goes with the last of them, or is swept when the
/// cache is opened again.
#[derive(Clone, Default)]
pub struct Scratch(Arc<Mutex<Option<StagingDir>>>);

impl Scratch {
    pub fn folder(&self, cache: &Cache) -> Result<Utf8PathBuf, CacheError> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some(folder) => Ok(folder.path().to_owned()),
            None => Ok(made.insert(cache.staging()?).path().to_owned()),
        }
    }

    /// True when somebody else has removed the folder.
    pub fn is_gone(&self, fs: &dyn Fs) -> bool {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.as_ref().is_some_and(|folder| fs.exists(folder.path()).is_ok_and(|is_there| !is_there))
    }
}
