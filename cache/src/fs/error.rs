//! A failed operation: its path, its kind and its cause.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use nix::libc::{EIO, ENOLCK, EOPNOTSUPP, EROFS};

use super::{Call, MachineFault, link_on_path};

/// A failed file system operation: its path, its kind and its cause.
#[derive(Debug, thiserror::Error)]
#[error("cannot {call} `{path}`")]
pub struct FsError {
    /// The path as the caller gave it.
    pub path: Utf8PathBuf,
    /// The operation as a verb, such as `open`: see [`Call::name`].
    pub call: &'static str,
    /// The error of the operating system.
    #[source]
    pub source: io::Error,
}

impl FsError {
    /// An error of an operation on a path.
    pub fn new(call: Call, path: &Utf8Path, source: io::Error) -> FsError {
        FsError { path: path.to_owned(), call: call.name(), source }
    }

    /// The kind of the system's error, which not every errno has.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// True if there is nothing at the path.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }

    /// A folder is in the way.
    pub fn is_a_folder(&self) -> bool {
        self.kind() == io::ErrorKind::IsADirectory
    }

    /// The server of the file no longer knows the open handle.
    pub fn is_stale(&self) -> bool {
        self.kind() == io::ErrorKind::StaleNetworkFileHandle
    }

    /// A symbolic link is in the way, below a folder that confines changes.
    pub fn is_link_on_path(&self) -> bool {
        link_on_path::is_link_on_path(&self.source)
    }

    /// The disk, a quota, or the limit on file sizes leaves no space.
    pub fn is_no_space(&self) -> bool {
        self.machine_fault() == Some(MachineFault::DiskFull)
    }

    /// The message with its cause, to be shown alone.
    pub fn whole(&self) -> String {
        match MachineFault::advice(&self.source) {
            Some(advice) => format!("{self}: {}; {advice}", self.source),
            None => format!("{self}: {}", self.source),
        }
    }

    /// None if the error concerns the file itself.
    pub fn machine_fault(&self) -> Option<MachineFault> {
        MachineFault::of(&self.source)
    }

    /// The file system cannot do this at all, now or later.
    pub fn is_unsupported(&self) -> bool {
        self.kind() == io::ErrorKind::Unsupported
            || matches!(self.source.raw_os_error(), Some(ENOLCK | EOPNOTSUPP))
    }

    /// The process lacks something, such as memory: the file itself may be sound.
    pub fn is_of_the_moment(&self) -> bool {
        self.machine_fault().is_some() && !matches!(self.source.raw_os_error(), Some(EIO | EROFS))
    }

    /// True if permissions or a read-only file system prevent it.
    pub fn is_denied(&self) -> bool {
        matches!(self.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
    }
}

/// The result of an operation on a file.
pub type FsResult<T> = Result<T, FsError>;
