//! Fails chosen operations: the n-th, all of a kind, or all from some point on.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use camino::Utf8Path;

use super::{Call, Fs, Interceptor, Layer};

pub use nix::libc::{
    EACCES, EDQUOT, EFBIG, EINTR, EIO, EMFILE, ENFILE, ENOLCK, ENOMEM, ENOSPC, EOPNOTSUPP, EROFS,
    ESTALE,
};

/// A file system that fails chosen calls, for tests of faults.
pub type FaultFs = Layer<Faults>;

/// The fault. Operations are counted from 0; `error` is an errno.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Only this operation fails.
    Nth {
        /// The number of the operation, from 0.
        operation: u64,
        /// The errno that the caller sees.
        error: i32,
    },
    /// This operation and all later ones fail, as if the process had been killed.
    From {
        /// The number of the first one that fails, from 0.
        operation: u64,
        /// The errno that the caller sees.
        error: i32,
    },
    /// The n-th operation of one kind fails.
    NthOf {
        /// The kind of operation.
        call: Call,
        /// The number of the operation among those of this kind, from 0.
        operation: u64,
        /// The errno that the caller sees.
        error: i32,
    },
    /// Every operation of one kind fails.
    Every {
        /// The kind of operation.
        call: Call,
        /// The errno that the caller sees.
        error: i32,
    },
    /// Every write fails that exceeds this total number of bytes.
    Space {
        /// The bytes that fit.
        bytes: u64,
        /// The errno that the caller sees, such as [`ENOSPC`].
        error: i32,
    },
    /// A write takes at most this number of bytes.
    ShortWrites {
        /// Bytes of one write, at least 1.
        limit: usize,
    },
}

/// The faults that are set, and the counts since then.
#[derive(Debug, Default)]
pub struct Faults {
    faults: Mutex<Vec<Fault>>,
    operations: AtomicU64,
    of_kind: Mutex<std::collections::BTreeMap<Call, u64>>,
    written: AtomicU64,
    struck: AtomicU64,
}

impl FaultFs {
    /// Passes everything on to `below` until faults are set.
    pub fn new(below: Arc<dyn Fs>) -> FaultFs {
        Layer::over(below, Faults::default())
    }

    /// Replaces the faults and restarts counting.
    pub fn set(&self, faults: Vec<Fault>) {
        let inner = self.interceptor();
        *inner.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
        inner.of_kind.lock().unwrap_or_else(PoisonError::into_inner).clear();
        inner.operations.store(0, Ordering::SeqCst);
        inner.written.store(0, Ordering::SeqCst);
        inner.struck.store(0, Ordering::SeqCst);
    }

    /// The number of operations since `set`.
    pub fn operations(&self) -> u64 {
        self.interceptor().operations.load(Ordering::SeqCst)
    }

    /// The number of failed operations since `set`.
    pub fn struck(&self) -> u64 {
        self.interceptor().struck.load(Ordering::SeqCst)
    }
}

impl Faults {
    fn error_for(&self, call: Call) -> Option<i32> {
        let operation = self.operations.fetch_add(1, Ordering::SeqCst);
        let of_kind = {
            let mut counts = self.of_kind.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(call).or_default();
            *count += 1;
            *count - 1
        };
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().find_map(|fault| match *fault {
            Fault::Nth { operation: nth, error } if nth == operation => Some(error),
            Fault::From { operation: first, error } if operation >= first => Some(error),
            Fault::NthOf { call: kind, operation: nth, error }
                if kind == call && nth == of_kind =>
            {
                Some(error)
            }
            Fault::Every { call: kind, error } if kind == call => Some(error),
            Fault::Space { bytes, error }
                if call == Call::Write && self.written.load(Ordering::SeqCst) >= bytes =>
            {
                Some(error)
            }
            _ => None,
        })
    }
}

impl Interceptor for Faults {
    fn before(&self, call: Call, _path: &Utf8Path) -> io::Result<()> {
        match self.error_for(call) {
            Some(error) => {
                self.struck.fetch_add(1, Ordering::SeqCst);
                Err(io::Error::from_raw_os_error(error))
            }
            None => Ok(()),
        }
    }

    fn write_limit(&self, length: usize) -> usize {
        let mut limit = length;
        for fault in self.faults.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            match *fault {
                Fault::ShortWrites { limit: most } => limit = limit.min(most.max(1)),
                // A full disk takes the part that still fits.
                Fault::Space { bytes, .. } => {
                    let left = bytes.saturating_sub(self.written.load(Ordering::SeqCst));
                    limit = limit.min(usize::try_from(left).unwrap_or(usize::MAX));
                }
                _ => {}
            }
        }
        self.written.fetch_add(limit as u64, Ordering::SeqCst);
        limit
    }
}
