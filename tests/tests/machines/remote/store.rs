//! A remote in memory, with requests that can be held up and counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cache::Cache;
use camino::Utf8Path;
use engine::mirror;
use remote::{ListedFile, Pushing, Refusal, Remote, Settings, Storage};

#[derive(Debug, Default)]
pub struct Memory {
    files: Mutex<BTreeMap<String, Bytes>>,
    /// The folders that were listed.
    pub listed: Mutex<Vec<String>>,
    /// Writes of names with this end wait.
    held: Mutex<Option<String>>,
    released: Condvar,
}

impl Memory {
    pub fn names(&self, folder: &str) -> Vec<String> {
        let files = self.files.lock().unwrap();
        files.keys().filter(|name| name.starts_with(folder)).cloned().collect()
    }
}

/// The view of one machine, with writes that may be held up.
#[derive(Debug)]
pub struct View {
    pub memory: Arc<Memory>,
    pub is_slow: bool,
}

impl Memory {
    /// From now on, slow machines cannot write these names.
    pub fn hold(&self, end: &str) {
        *self.held.lock().unwrap() = Some(end.to_owned());
    }

    pub fn release(&self) {
        *self.held.lock().unwrap() = None;
        self.released.notify_all();
    }
}

/// The remote of a machine. Checkpoints are written at once.
pub fn remote(memory: &Arc<Memory>, is_slow: bool, cache: &Cache) -> Arc<Remote> {
    let place = Arc::new(View { memory: Arc::clone(memory), is_slow });
    let address = "file:///memory".parse().unwrap();
    let timeout = Duration::from_secs(600);
    let settings = Settings { push: Pushing::Always, timeout, ..Settings::default() };
    Arc::new(Remote::at(place, address, settings, mirror::rules(), cache.clone()))
}

impl Storage for View {
    fn get(&self, name: &str, _: u64) -> Result<Option<Bytes>, Refusal> {
        Ok(self.memory.files.lock().unwrap().get(name).cloned())
    }

    fn part(&self, name: &str, offset: u64, length: u64) -> Result<Option<Bytes>, Refusal> {
        let Some(whole) = self.get(name, u64::MAX)? else { return Ok(None) };
        let at = |offset: u64| (offset as usize).min(whole.len());
        Ok(Some(whole.slice(at(offset)..at(offset + length))))
    }

    fn put(&self, name: &str, bytes: Bytes) -> Result<bool, Refusal> {
        if self.is_slow {
            let held = self.memory.held.lock().unwrap();
            let is_held = |held: &mut Option<String>| {
                held.as_ref().is_some_and(|end| name.ends_with(end.as_str()))
            };
            drop(self.memory.released.wait_while(held, is_held).unwrap());
        }
        let mut files = self.memory.files.lock().unwrap();
        if files.contains_key(name) {
            return Ok(false);
        }
        files.insert(name.to_owned(), bytes);
        Ok(true)
    }

    fn put_file(&self, name: &str, file: &Utf8Path) -> Result<(), Refusal> {
        self.put(name, std::fs::read(file).unwrap().into()).map(drop)
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Refusal> {
        Ok(self.get(name, u64::MAX)?.map(|bytes| bytes.len() as u64))
    }

    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, Refusal> {
        self.memory.listed.lock().unwrap().push(folder.to_owned());
        let files = self.memory.files.lock().unwrap();
        let is_in = |name: &str| {
            folder.is_empty() || name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
        };
        let of = |(name, bytes): (&String, &Bytes)| ListedFile {
            name: name.clone(),
            size: bytes.len() as u64,
            modified: 0,
        };
        Ok(files.iter().filter(|(name, _)| is_in(name)).map(of).collect())
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        self.memory.files.lock().unwrap().remove(name);
        Ok(())
    }
}
