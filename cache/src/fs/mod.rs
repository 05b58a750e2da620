//! All access to files: a small trait, so that every error names its path and call, and so that
//! tests can count operations, fail them, or lose unsynced changes.
//!
//! Implementations: [`RealFs`]; [`Confined`], for changes below one of its folders; [`MemoryFs`],
//! which can be crashed; and the layers [`CountingFs`], [`FaultFs`] and [`RetryFs`] over any other.

mod contents;
mod counting;
pub mod fault;
mod layer;
mod link_on_path;
mod lock_file;
mod machine;
mod memory;
mod real;
mod retry;
mod space;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use nix::libc::{EIO, ENOLCK, EOPNOTSUPP, EROFS};

pub(crate) use contents::{bytes_under, paths_in, size_of};
pub use counting::{Counter, CountingFs};
pub use fault::{Fault, FaultFs, Faults};
pub use layer::{Interceptor, Layer};
pub use lock_file::LockFile;
pub use machine::{MachineFault, outlive_file_size_limit};
pub use memory::MemoryFs;
pub use real::{Confined, RealFs};
pub use retry::{Retry, RetryFs};
pub use space::Space;

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
    fn call(self) -> Call {
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
    /// The type; after following links except in [`Fs::symlink_metadata`].
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

/// A file system.
pub trait Fs: Debug + Send + Sync {
    /// Opens regular files only and never blocks: a pipe, a device, a socket, or a file that the
    /// kernel generates is an error.
    ///
    /// # Errors
    ///
    /// If the path is missing, exists with [`Open::CreateNew`], is no regular file, or may not be
    /// opened.
    fn open(&self, path: &Utf8Path, how: Open) -> FsResult<Box<dyn FsFile>>;
    /// Follows symbolic links.
    ///
    /// # Errors
    ///
    /// If the path is missing or a folder above it cannot be entered.
    fn metadata(&self, path: &Utf8Path) -> FsResult<Metadata>;
    /// The metadata of the path itself, which may be a symbolic link.
    ///
    /// # Errors
    ///
    /// Those of [`Fs::metadata`]; a link that leads nowhere is no error.
    fn symlink_metadata(&self, path: &Utf8Path) -> FsResult<Metadata>;
    /// The path without symbolic links; an error if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`Fs::metadata`], and a path that is not UTF-8.
    fn resolve(&self, path: &Utf8Path) -> FsResult<Utf8PathBuf>;
    /// Sorted by name.
    ///
    /// # Errors
    ///
    /// If the path is missing, is no folder, or may not be listed.
    fn read_dir(&self, path: &Utf8Path) -> FsResult<Vec<DirEntry>>;
    /// Creates a folder in an existing one. The name is not durable yet.
    ///
    /// # Errors
    ///
    /// If the path exists, or if the folder above it is missing or may not be changed.
    fn create_dir(&self, path: &Utf8Path) -> FsResult<()>;
    /// Removes a file or a link. The removal is not durable yet.
    ///
    /// # Errors
    ///
    /// If the path is missing, is a folder, or may not be removed.
    fn remove_file(&self, path: &Utf8Path) -> FsResult<()>;
    /// Removes an empty folder. The removal is not durable yet.
    ///
    /// # Errors
    ///
    /// If the path is missing, is no folder, or has entries.
    fn remove_dir(&self, path: &Utf8Path) -> FsResult<()>;
    /// Replaces a file at `to` in one step. The new name is not durable yet.
    ///
    /// # Errors
    ///
    /// If `from` is missing, if the paths are on different file systems, or if `to` is a folder and
    /// `from` is not.
    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()>;
    /// Makes `link` a second name of the file. It is not durable yet.
    ///
    /// # Errors
    ///
    /// If `link` exists, if the paths are on different file systems, or if the file system has no
    /// hard links.
    fn hard_link(&self, original: &Utf8Path, link: &Utf8Path) -> FsResult<()>;
    /// Makes `to` share the blocks of `from`, or fails without leaving anything.
    ///
    /// # Errors
    ///
    /// If `to` exists, if the paths are on different file systems, or if the file system cannot
    /// share blocks.
    fn reflink(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()>;
    /// Removes the permission to write for everybody.
    ///
    /// # Errors
    ///
    /// If the path is missing or belongs to another user.
    fn set_readonly(&self, path: &Utf8Path) -> FsResult<()>;
    /// Makes the names in a folder durable.
    ///
    /// # Errors
    ///
    /// If the folder is missing or the disk reports an error.
    fn sync_dir(&self, path: &Utf8Path) -> FsResult<()>;
    /// Nanoseconds since 1970.
    fn now(&self) -> i64;

    /// A number that differs between processes and calls; not a secret.
    fn random(&self) -> u64 {
        random()
    }

    /// Tests if its paths are those of the machine and calls are not intercepted, so that a faster
    /// way may bypass it.
    fn is_direct(&self) -> bool {
        false
    }

    /// Tests if writes to this path stay readable, synced or not, until the machine restarts. Disks
    /// of other machines may lose them earlier.
    fn is_local(&self, _path: &Utf8Path) -> bool {
        false
    }

    /// An id that differs between starts of the machine; None if the system has none.
    fn boot(&self) -> Option<String> {
        let id = self.read_system_file("/proc/sys/kernel/random/boot_id".into()).ok()?;
        Some(String::from_utf8_lossy(&id).trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// The last start of the machine in nanoseconds since 1970, to the second; None if the system does
    /// not tell.
    fn booted_ns(&self) -> Option<i64> {
        let facts = self.read_system_file("/proc/stat".into()).ok()?;
        let facts = String::from_utf8_lossy(&facts);
        let seconds = facts.lines().find_map(|line| line.strip_prefix("btime "))?;
        seconds.trim().parse::<i64>().ok()?.checked_mul(1_000_000_000)
    }

    /// The same file system for changes below an existing folder; see [`confined`]. None if it has
    /// no links, so that nothing can lead out of the folder.
    ///
    /// # Errors
    ///
    /// If the folder is missing or cannot be opened.
    fn confined_to(&self, _folder: &Utf8Path) -> FsResult<Option<Arc<dyn Fs>>> {
        Ok(None)
    }

    /// True if there is anything at the path; links are not followed.
    ///
    /// # Errors
    ///
    /// Those of [`Fs::symlink_metadata`], except for a missing path.
    fn exists(&self, path: &Utf8Path) -> FsResult<bool> {
        match self.symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a folder in an existing one; the new name is durable on return. No error if the
    /// folder exists.
    ///
    /// # Errors
    ///
    /// If the folder above it is missing or may not be changed. An existing file at the path is no
    /// error here.
    fn create_dir_in_place(&self, path: &Utf8Path) -> FsResult<()> {
        let above = path.parent().filter(|above| !above.as_str().is_empty());
        match self.create_dir(path) {
            Ok(()) => self.sync_dir(above.unwrap_or(Utf8Path::new("."))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates a folder and its parents; the new names are durable on return.
    ///
    /// # Errors
    ///
    /// If a part of the path is a file, or if a folder cannot be created or synced.
    fn create_dir_all(&self, path: &Utf8Path) -> FsResult<()> {
        match self.metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Ok(()),
            Ok(_) => {
                let source = io::Error::from(io::ErrorKind::NotADirectory);
                return Err(FsError::new(Call::CreateDir, path, source));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let above = path.parent().filter(|above| !above.as_str().is_empty());
        if let Some(above) = above {
            self.create_dir_all(above)?;
        }
        self.create_dir_in_place(path)
    }

    /// Removes a folder with its contents; it may be missing.
    ///
    /// # Errors
    ///
    /// If an entry cannot be removed. Others may be gone by then.
    fn remove_dir_all(&self, path: &Utf8Path) -> FsResult<()> {
        remove_tree(self, path)
    }

    /// The whole file in memory.
    ///
    /// # Errors
    ///
    /// Those of [`Fs::open`], and errors of the disk.
    fn read(&self, path: &Utf8Path) -> FsResult<Vec<u8>> {
        let file = self.open(path, Open::Read)?;
        let mut bytes = vec![0; usize::try_from(file.opened()?.size).unwrap_or(0)];
        let mut filled = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(filled);
        // The file grew meanwhile, or the system does not know its length.
        let mut more = [0u8; 4096];
        loop {
            let count = file.read_at(&mut more, filled as u64)?;
            if count == 0 {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&more[..count]);
            filled += count;
        }
    }

    /// The bytes of a file that the kernel generates, such as `/proc/meminfo`. Only for fixed
    /// paths, since reading some of these files never ends.
    ///
    /// # Errors
    ///
    /// If the kernel has no such file.
    fn read_system_file(&self, path: &Utf8Path) -> FsResult<Vec<u8>> {
        self.read(path)
    }

    /// The bytes of a file without a copy in memory if the file system can do that, else like
    /// [`Fs::read`]. Only for files that do not change meanwhile: the bytes would change with them,
    /// and reading past a new end is a fault that ends the process.
    ///
    /// # Errors
    ///
    /// Those of [`Fs::read`].
    fn map(&self, path: &Utf8Path) -> FsResult<Bytes> {
        self.read(path).map(Bytes::from)
    }

    /// Replaces a file: writes a new one beside it, syncs and renames it, and syncs the folder.
    ///
    /// # Errors
    ///
    /// If the new file cannot be written, synced or renamed. Then the old file is as it was, and
    /// the new one is removed. An error of the last step, the sync of the folder, leaves the new
    /// file in place.
    fn write_durably(&self, path: &Utf8Path, bytes: &[u8]) -> FsResult<()> {
        let beside = beside(path);
        let write = || {
            let file = self.open(&beside, Open::CreateNew)?;
            file.write_all_at(bytes, 0)?;
            file.sync_data()?;
            drop(file);
            self.rename(&beside, path)
        };
        let written = write();
        if written.is_err() {
            let _ = self.remove_file(&beside);
        }
        written?;
        let above = path.parent().filter(|above| !above.as_str().is_empty());
        self.sync_dir(above.unwrap_or(Utf8Path::new(".")))
    }

    /// Creates a file with these bytes and syncs it.
    ///
    /// # Errors
    ///
    /// If the path exists, or if the file cannot be written or synced. An incomplete file may stay.
    fn write_new(&self, path: &Utf8Path, bytes: &[u8]) -> FsResult<()> {
        let file = self.open(path, Open::CreateNew)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()
    }

    /// Copies the bytes of a file into a new one, and syncs it.
    ///
    /// # Errors
    ///
    /// If `from` cannot be read, if `to` exists, or if it cannot be written or synced. An
    /// incomplete file may stay.
    fn copy(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<u64> {
        let source = self.open(from, Open::Read)?;
        let target = self.open(to, Open::CreateNew)?;
        let size = pour(&*source, &*target)?;
        target.sync_data()?;
        Ok(size)
    }

    /// Like `copy`, for a file that need not be durable. The operating system copies if it can, or
    /// shares the blocks.
    ///
    /// # Errors
    ///
    /// Those of [`Fs::copy`], without those of syncing.
    fn copy_unsynced(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<u64> {
        let source = self.open(from, Open::Read)?;
        pour(&*source, &*self.open(to, Open::CreateNew)?)
    }
}

/// The file system for changes below a folder, which is opened now. Paths stay those of the machine.
/// Below the folder no symbolic link is followed, so whatever another process exchanges meanwhile,
/// nothing is changed elsewhere.
///
/// # Errors
///
/// If the folder is missing or cannot be opened.
pub fn confined(fs: &Arc<dyn Fs>, folder: &Utf8Path) -> FsResult<Arc<dyn Fs>> {
    Ok(fs.confined_to(folder)?.unwrap_or_else(|| Arc::clone(fs)))
}

/// An open file. Dropping it closes it and releases its locks.
pub trait FsFile: Debug + Send + Sync {
    /// The path with which it was opened; it may lead elsewhere by now.
    fn path(&self) -> &Utf8Path;
    /// The metadata of the open file, wherever it is by now.
    ///
    /// # Errors
    ///
    /// If the disk or its server reports an error.
    fn metadata(&self) -> FsResult<Metadata>;
    /// The metadata at the time when it was opened, which costs no call where opening reads them.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::metadata`].
    fn opened(&self) -> FsResult<Metadata> {
        self.metadata()
    }
    /// May read less than asked; 0 only at the end.
    ///
    /// # Errors
    ///
    /// If the disk reports an error, or its server no longer knows the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize>;
    /// May write less than asked.
    ///
    /// # Errors
    ///
    /// If the disk is full or reports an error, or if the file is open for reading only.
    fn write_at(&self, bytes: &[u8], offset: u64) -> FsResult<usize>;
    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::write_at`].
    fn set_len(&self, length: u64) -> FsResult<()>;
    /// Makes the bytes and the length durable. The name is durable after [`Fs::sync_dir`].
    ///
    /// # Errors
    ///
    /// If the disk reports an error. Then it is unknown which of the bytes are durable.
    fn sync_data(&self) -> FsResult<()>;
    /// Gives the space of these bytes back to the disk; they read as zeros. This needs no space
    /// itself. Not every file system can do it.
    ///
    /// # Errors
    ///
    /// If the file system cannot do it: see [`FsError::is_unsupported`].
    fn free(&self, _offset: u64, _length: u64) -> FsResult<()> {
        Err(FsError::new(Call::Write, self.path(), io::ErrorKind::Unsupported.into()))
    }
    /// Asks the system to start writing these bytes to the disk, so that a later
    /// [`sync_data`](Self::sync_data) waits less. Only a hint: it may do nothing.
    fn write_back(&self, _offset: u64, _length: u64) {}
    /// Locks the whole file against other handles; blocks.
    ///
    /// # Errors
    ///
    /// If the file system has no locks ([`FsError::is_unsupported`]), or its server reports an
    /// error.
    fn lock(&self, kind: LockKind) -> FsResult<()>;
    /// The same without blocking; false if another handle has a lock.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::lock`]. A lock of another handle is no error.
    fn try_lock(&self, kind: LockKind) -> FsResult<bool>;
    /// Releases the lock of the whole file.
    ///
    /// # Errors
    ///
    /// If the server of the file reports an error. Closing the file releases the lock as well.
    fn unlock(&self) -> FsResult<()>;
    /// Locks one byte against other handles, without blocking.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::lock`]. A byte that another handle has is no error, but false.
    fn try_lock_byte(&self, offset: u64) -> FsResult<bool>;
    /// Releases the lock of one byte.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::unlock`].
    fn unlock_byte(&self, offset: u64) -> FsResult<()>;
    /// Tests if another handle holds the byte.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::lock`].
    fn byte_is_locked(&self, offset: u64) -> FsResult<bool>;

    /// The number of bytes now.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::metadata`].
    fn len(&self) -> FsResult<u64> {
        Ok(self.metadata()?.size)
    }

    /// True if the file has no bytes now.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::metadata`].
    fn is_empty(&self) -> FsResult<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills the buffer as far as the file reaches; returns the number of bytes.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::read_at`]. An early end is no error.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let count = self.read_at(&mut buffer[filled..], offset + filled as u64)?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        Ok(filled)
    }

    /// Writes all bytes, in as many calls as it takes.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::write_at`]. Some of the bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> FsResult<()> {
        let mut written = 0;
        while written < bytes.len() {
            let count = self.write_at(&bytes[written..], offset + written as u64)?;
            if count == 0 {
                let source = io::Error::from(io::ErrorKind::WriteZero);
                return Err(FsError::new(Call::Write, self.path(), source));
            }
            written += count;
        }
        Ok(())
    }
}

/// Copies all bytes of an open file into an empty one.
fn pour(source: &dyn FsFile, target: &dyn FsFile) -> FsResult<u64> {
    let mut buffer = vec![0u8; 1 << 20];
    let mut offset = 0;
    loop {
        let count = source.read_at(&mut buffer, offset)?;
        if count == 0 {
            return Ok(offset);
        }
        target.write_all_at(&buffer[..count], offset)?;
        offset += count as u64;
    }
}

/// Removes a folder and everything in it, one entry after the other.
fn remove_tree<F: Fs + ?Sized>(fs: &F, path: &Utf8Path) -> FsResult<()> {
    let entries = match fs.read_dir(path) {
        Err(error) if error.is_not_found() => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let inner = path.join(&entry.name);
        match entry.kind {
            FileKind::Dir => remove_tree(fs, &inner)?,
            // If this fails, removing the folder fails and reports it.
            FileKind::Unnameable => {}
            _ => fs.remove_file(&inner)?,
        }
    }
    fs.remove_dir(path)
}

/// The start of such a name; the number of its process, a count and a random number follow.
const BESIDE: &str = ".throstle-";

/// A new name in the same folder, for a file that is renamed to `path` later.
pub fn beside(path: &Utf8Path) -> Utf8PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{BESIDE}{}-{count}-{:08x}", std::process::id(), random() as u32);
    path.with_file_name(name)
}

/// Tests if a name is one of [`beside`], of this process or of one that does not run on this
/// machine.
pub fn is_left_beside(fs: &dyn Fs, name: &str) -> bool {
    let mut parts = name.strip_prefix(BESIDE).unwrap_or("").split('-');
    let (process, count, random) = (parts.next(), parts.next(), parts.next());
    let Some(process) = process.and_then(|process| process.parse::<u32>().ok()) else {
        return false;
    };
    let is_ours = count.is_some_and(|count| count.parse::<u64>().is_ok())
        && random.is_some_and(|random| random.len() == 8)
        && parts.next().is_none();
    let lives = || fs.exists(Utf8Path::new(&format!("/proc/{process}"))).unwrap_or(true);
    is_ours && (process == std::process::id() || !lives())
}

/// A number that differs between processes and calls; not a secret.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
