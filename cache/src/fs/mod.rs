//! All access to files: a small trait, so that every error names its path and call, and so that
//! tests can count operations, fail them, or lose unsynced changes.
//!
//! Implementations: [`RealFs`]; [`Confined`], for changes below one of its folders; [`MemoryFs`],
//! which can be crashed; and the layers [`CountingFs`], [`FaultFs`] and [`RetryFs`] over any other.

mod beside;
mod call;
mod contents;
mod counting;
mod error;
pub mod fault;
mod file;
mod layer;
mod link_on_path;
mod lock_file;
mod machine;
mod memory;
mod metadata;
mod real;
mod retry;
mod space;
mod system;

pub(crate) use beside::random;
pub use beside::{beside, is_left_beside};
pub use call::Call;
pub(crate) use contents::{bytes_under, paths_in, size_of};
pub use counting::{Counter, CountingFs};
pub use error::{FsError, FsResult};
pub use fault::{Fault, FaultFs, Faults};
pub use file::FsFile;
pub use layer::{Interceptor, Layer};
pub use lock_file::LockFile;
pub use machine::{MachineFault, outlive_file_size_limit};
pub use memory::MemoryFs;
pub use metadata::{DirEntry, FileKind, LockKind, Metadata, Open};
pub use real::{Confined, RealFs};
pub use retry::{Retry, RetryFs};
pub use space::Space;
pub use system::{Fs, confined};
