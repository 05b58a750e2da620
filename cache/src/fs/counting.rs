//! Counts operations by kind, so that tests can assert costs.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use camino::Utf8Path;

use super::{Call, Fs, Interceptor, Layer};

/// A file system that counts calls, for tests of costs.
pub type CountingFs = Layer<Counter>;

/// The counts so far, by kind of operation.
#[derive(Debug, Default)]
pub struct Counter(Mutex<BTreeMap<Call, u64>>);

impl CountingFs {
    /// Counts the calls that reach `below` from now on.
    pub fn new(below: Arc<dyn Fs>) -> CountingFs {
        Layer::over(below, Counter::default())
    }

    /// The number of operations of one kind.
    pub fn count(&self, call: Call) -> u64 {
        self.counts().get(&call).copied().unwrap_or(0)
    }

    /// The numbers of operations by kind; kinds without any are missing.
    pub fn counts(&self) -> BTreeMap<Call, u64> {
        self.interceptor().0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of all operations.
    pub fn total(&self) -> u64 {
        self.counts().values().sum()
    }

    /// Starts counting again from 0.
    pub fn reset(&self) {
        self.interceptor().0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Interceptor for Counter {
    fn before(&self, call: Call, _path: &Utf8Path) -> io::Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(call).or_default() += 1;
        Ok(())
    }
}
