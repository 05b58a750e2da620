//! Facts about files and folders, and the ways to open and lock them.

use super::Call;

/// The mode for opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// Read and write; created if missing.
    Create,
    /// Read and write; an error if it exists.
    CreateNew,
}

impl Open {
    pub(super) fn call(self) -> Call {
        match self {
            Open::Read | Open::ReadWrite => Call::Open,
            Open::Create | Open::CreateNew => Call::Create,
        }
    }
}

/// The type of a path or of an entry in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link, which is not followed.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
    /// Only in listings: the name is not UTF-8, so it has no path.
    Unnameable,
}

/// The facts about a path or an open file that `stat` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// The type; after following links except in [`symlink_metadata`](super::Fs::symlink_metadata).
    pub kind: FileKind,
    /// Bytes; for a folder a number without a meaning.
    pub size: u64,
    /// The last change of the contents, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The last change of contents, names or permissions, in nanoseconds since 1970. No program can
    /// set it.
    pub ctime_ns: i64,
    /// The number of the file on its disk, which another file may get after it is removed.
    pub inode: u64,
    /// True if nobody has the permission to write.
    pub readonly: bool,
}

impl Metadata {
    /// True for a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    /// True for a folder.
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Dir
    }
}

/// An entry in a listing of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// For an unnameable entry: escaped, for display only.
    pub name: String,
    /// The type of the entry itself: links are not followed.
    pub kind: FileKind,
}

/// The type of a lock on a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Others may have a shared lock too.
    Shared,
    /// Nobody else has a lock.
    Exclusive,
}
