//! A place with a time limit for each operation, which also counts operations: a network share may
//! block a reader for ever when its server is down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use bytes::Bytes;
use camino::Utf8Path;

use crate::storage::{ListedFile, Refusal, Storage};

/// The number of operations that were begun, by kind.
#[derive(Debug, Default)]
pub struct Requests {
    /// Reads of files and sizes.
    pub read: AtomicU64,
    /// Writes and removals.
    pub written: AtomicU64,
    /// Listings.
    pub listed: AtomicU64,
}

impl Requests {
    /// The number of all operations.
    pub fn all(&self) -> u64 {
        [&self.read, &self.written, &self.listed]
            .map(|one| one.load(Ordering::Relaxed))
            .iter()
            .sum()
    }
}

#[derive(Debug)]
pub struct TimedStorage {
    place: Arc<dyn Storage>,
    limit: Duration,
    pub requests: Requests,
}

/// In addition to its time limit, an operation gets a second for this many bytes.
const BYTES_A_SECOND: u64 = 1 << 20;

impl TimedStorage {
    pub fn new(place: Arc<dyn Storage>, limit: Duration) -> TimedStorage {
        TimedStorage { place, limit, requests: Requests::default() }
    }

    pub fn place(&self) -> &dyn Storage {
        &*self.place
    }

    /// An operation that does not end in time is abandoned. Without a limit, it runs on this thread.
    fn within<T: Send + 'static>(
        &self,
        bytes: u64,
        work: impl FnOnce(&dyn Storage) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        if self.limit == Duration::MAX {
            return work(&*self.place);
        }
        let (sender, receiver) = channel();
        let place = Arc::clone(&self.place);
        let work = move || drop(sender.send(work(&*place)));
        let started = Builder::new().name("remote".into()).spawn(work);
        started.map_err(|error| Refusal(format!("cannot start a thread: {error}")))?;
        let limit = self.limit + Duration::from_secs(bytes / BYTES_A_SECOND);
        receiver.recv_timeout(limit).unwrap_or_else(|error| {
            Err(Refusal(match error {
                RecvTimeoutError::Timeout => format!("no answer within {} s", limit.as_secs_f32()),
                RecvTimeoutError::Disconnected => "the request ended without an answer".to_owned(),
            }))
        })
    }

    pub fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, Refusal> {
        self.requests.read.fetch_add(1, Ordering::Relaxed);
        let name = name.to_owned();
        self.within(0, move |place| place.get(&name, most))
    }

    pub fn part(&self, name: &str, offset: u64, length: u64) -> Result<Option<Bytes>, Refusal> {
        self.requests.read.fetch_add(1, Ordering::Relaxed);
        let name = name.to_owned();
        self.within(length, move |place| place.part(&name, offset, length))
    }

    pub fn put(&self, name: &str, bytes: Bytes) -> Result<bool, Refusal> {
        self.requests.written.fetch_add(1, Ordering::Relaxed);
        let name = name.to_owned();
        self.within(bytes.len() as u64, move |place| place.put(&name, bytes))
    }

    pub fn replace(&self, name: &str, bytes: Bytes) -> Result<(), Refusal> {
        self.requests.written.fetch_add(1, Ordering::Relaxed);
        let name = name.to_owned();
        self.within(bytes.len() as u64, move |place| place.replace(&name, bytes))
    }

    pub fn put_file(&self, name: &str, file: &Utf8Path, size: u64) -> Result<(), Refusal> {
        self.requests.written.fetch_add(1, Ordering::Relaxed);
        let (name, file) = (name.to_owned(), file.to_owned());
        self.within(size, move |place| place.put_file(&name, &file))
    }

    pub fn size(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.requests.read.fetch_add(1, Ordering::Relaxed);
        let name = name.to_owned();
        self.within(0, move |place| place.size(&name))
    }

    pub fn list(&self, folder: &str) -> Result<Vec<ListedFile>, Refusal> {
        self.requests.listed.fetch_add(1, Ordering::Relaxed);
        let folder = folder.to_owned();
        self.within(0, move |place| place.list(&folder))
    }

    pub fn odd(&self) -> Result<Vec<String>, Refusal> {
        self.requests.listed.fetch_add(1, Ordering::Relaxed);
        self.within(0, |place| place.odd())
    }

    pub fn remove(&self, name: &str) -> Result<(), Refusal> {
        self.requests.written.fetch_add(1, Ordering::Relaxed);
        let name = name.to_owned();
        self.within(0, move |place| place.remove(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Never answers.
    #[derive(Debug)]
    struct Hanging;

    impl Storage for Hanging {
        fn get(&self, _: &str, _: u64) -> Result<Option<Bytes>, Refusal> {
            loop {
                std::thread::park();
            }
        }
        fn part(&self, name: &str, _: u64, most: u64) -> Result<Option<Bytes>, Refusal> {
            self.get(name, most)
        }
        fn put(&self, _: &str, _: Bytes) -> Result<bool, Refusal> {
            Ok(false)
        }
        fn put_file(&self, _: &str, _: &Utf8Path) -> Result<(), Refusal> {
            Ok(())
        }
        fn size(&self, _: &str) -> Result<Option<u64>, Refusal> {
            Ok(None)
        }
        fn list(&self, _: &str) -> Result<Vec<ListedFile>, Refusal> {
            Ok(Vec::new())
        }
        fn remove(&self, _: &str) -> Result<(), Refusal> {
            Ok(())
        }
    }

    #[test]
    fn an_operation_that_does_not_end_is_given_up() {
        let patient = TimedStorage::new(Arc::new(Hanging), Duration::from_millis(20));
        let refusal = patient.get("x", 1).err();
        assert_eq!(refusal, Some(Refusal("no answer within 0.02 s".to_owned())));
        assert_eq!(patient.requests.all(), 1);
    }
}
