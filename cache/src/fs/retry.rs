//! Retries calls that a signal interrupted, and locks on files that a network disk has forgotten,
//! so that no caller has to.

use std::io;
use std::sync::Arc;

use camino::Utf8Path;

use super::{Call, Fs, FsError, Interceptor, Layer};

/// A file system that repeats interrupted calls.
pub type RetryFs = Layer<Retry>;

/// Repeats a call that a signal interrupted, and a lock on a file that its server has forgotten.
#[derive(Debug, Default)]
pub struct Retry;

impl RetryFs {
    /// Repeats calls to `below`.
    pub fn new(below: Arc<dyn Fs>) -> RetryFs {
        Layer::over(below, Retry)
    }
}

impl Interceptor for Retry {
    fn before(&self, _call: Call, _path: &Utf8Path) -> io::Result<()> {
        Ok(())
    }

    fn may_be_passed(&self) -> bool {
        true
    }

    fn again(&self, error: &FsError) -> bool {
        error.kind() == io::ErrorKind::Interrupted
    }

    fn opens_again(&self, error: &FsError) -> bool {
        error.is_stale()
    }
}
