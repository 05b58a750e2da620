//! A context without a store.

use bytes::Bytes;
use cache::Digest;

use crate::context::Context;
use crate::error::{Reject, StageError};
use crate::item::{Blob, Fields};
use crate::output::Output;

/// For work that needs nothing of a run: sources, which only ask the world, and functions that are
/// tried on one recording. It has no earlier results and stores nothing.
#[derive(Clone, Debug, Default)]
pub struct Detached {
    bytes: Option<Bytes>,
}

impl Detached {
    /// Returns these bytes for every blob.
    pub fn holding(bytes: impl Into<Bytes>) -> Detached {
        Detached { bytes: Some(bytes.into()) }
    }
}

fn nothing_is_kept<T>() -> Result<T, StageError> {
    Err(StageError::failed("nothing can be kept without a store"))
}

impl Context for Detached {
    fn read(&mut self, _: &Blob) -> Result<Bytes, StageError> {
        let none = || StageError::failed("blobs cannot be read without a store");
        self.bytes.clone().ok_or_else(none)
    }

    fn recall(&mut self, _: &Digest) -> Result<Option<Fields>, StageError> {
        Ok(None)
    }

    fn remember(&mut self, _: &Digest, _: Output) -> Result<Fields, StageError> {
        nothing_is_kept()
    }

    fn keep(&mut self, _: &str, _: Bytes) -> Result<Blob, StageError> {
        nothing_is_kept()
    }

    fn checkpoint(&mut self, _: Output) -> Result<Fields, StageError> {
        nothing_is_kept()
    }

    fn last_checkpoint(&mut self) -> Result<Option<Fields>, StageError> {
        Ok(None)
    }

    fn parent(&mut self) -> Result<Option<Fields>, StageError> {
        Ok(None)
    }

    fn set_aside(&mut self, _: &str, _: Vec<(usize, Reject)>) -> Result<(), StageError> {
        nothing_is_kept()
    }

    fn metrics(&mut self, _: u64, _: &[(&str, f64)]) {}

    fn progress(&mut self, _: u64, _: u64) {}

    fn stopping(&mut self) -> bool {
        false
    }
}
