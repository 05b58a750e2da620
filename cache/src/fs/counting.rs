//! Counts operations by kind, so that tests can assert costs.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use camino::Utf8Path;

use super::{Call, Fs, Interceptor, Layer};

pub type CountingFs = Layer<Counter>;

#[derive(Debug, Default)]
pub struct Counter(Mutex<BTreeMap<Call, u64>>);

impl CountingFs {
    pub fn new(below: Arc<dyn Fs>) -> CountingFs {
        Layer::over(below, Counter::default())
    }

    pub fn count(&self, call: Call) -> u64 {
        self.counts().get(&call).copied().unwrap_or(0)
    }

    pub fn counts(&self) -> BTreeMap<Call, u64> {
        self.interceptor().0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn total(&self) -> u64 {
        self.counts().values().sum()
    }

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
