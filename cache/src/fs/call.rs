//! The kinds of operations.

/// The kinds of operations, for counting, failing and error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// Opens an existing file.
    Open,
    /// Opens a file that may be or must be new.
    Create,
    /// Reads the metadata of a path or of an open file.
    Metadata,
    /// Lists a folder.
    ReadDir,
    /// Creates one folder.
    CreateDir,
    /// Removes a file or a link.
    RemoveFile,
    /// Removes an empty folder.
    RemoveDir,
    /// Gives a file or folder another path.
    Rename,
    /// Gives a file one more name.
    HardLink,
    /// Makes a new file that shares the blocks of another one.
    Reflink,
    /// Removes the permission to write.
    SetReadonly,
    /// Makes the names in a folder durable.
    SyncDir,
    /// Reads bytes at an offset.
    Read,
    /// Writes bytes at an offset, or frees them.
    Write,
    /// Cuts or extends a file.
    SetLen,
    /// Makes the bytes of a file durable.
    SyncData,
    /// Locks a whole file.
    Lock,
    /// Releases that lock.
    Unlock,
    /// Locks or tests one byte.
    LockRange,
    /// Releases that lock.
    UnlockRange,
}

impl Call {
    /// The operation as a verb that completes "cannot ... `path`".
    pub fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Create => "create",
            Call::Metadata => "stat",
            Call::ReadDir => "list",
            Call::CreateDir => "create folder",
            Call::RemoveFile => "remove",
            Call::RemoveDir => "remove folder",
            Call::Rename => "rename",
            Call::HardLink => "link",
            Call::Reflink => "clone",
            Call::SetReadonly => "make read-only",
            Call::SyncDir => "sync folder",
            Call::Read => "read",
            Call::Write => "write",
            Call::SetLen => "set length of",
            Call::SyncData => "sync",
            Call::Lock => "lock",
            Call::Unlock => "unlock",
            Call::LockRange => "lock a range of",
            Call::UnlockRange => "unlock a range of",
        }
    }
}
