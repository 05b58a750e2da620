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
use nix::libc::{ENOLCK, EOPNOTSUPP};

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
    pub path: Utf8PathBuf,
    pub call: &'static str,
    #[source]
    pub source: io::Error,
}

impl FsError {
    pub fn new(call: Call, path: &Utf8Path, source: io::Error) -> FsError {
        FsError { path: path.to_owned(), call: call.name(), source }
    }

    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

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

    pub fn is_denied(&self) -> bool {
        matches!(self.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
    }
}

pub type FsResult<T> = Result<T, FsError>;

/// The kinds of operations, for counting, failing and error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    Open,
    Create,
    Metadata,
    ReadDir,
    CreateDir,
    RemoveFile,
    RemoveDir,
    Rename,
    HardLink,
    Reflink,
    SetReadonly,
    SyncDir,
    Read,
    Write,
    SetLen,
    SyncData,
    Lock,
    Unlock,
    LockRange,
    UnlockRange,
}

impl Call {
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
    Read,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Dir,
    Symlink,
    Other,
    /// Only in listings: the name is not UTF-8, so it has no path.
    Unnameable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    pub kind: FileKind,
    pub size: u64,
    pub mtime_ns: i64,
    pub ctime_ns: i64,
    pub inode: u64,
    pub readonly: bool,
}

impl Metadata {
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Dir
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// For an unnameable entry: escaped, for display only.
    pub name: String,
    pub kind: FileKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    Shared,
    Exclusive,
}

/// A file system.
pub trait Fs: Debug + Send + Sync {
    /// Opens regular files only and never blocks: a pipe, a device, a socket, or a file that the
    /// kernel generates is an error.
    fn open(&self, path: &Utf8Path, how: Open) -> FsResult<Box<dyn FsFile>>;
    /// Follows symbolic links.
    fn metadata(&self, path: &Utf8Path) -> FsResult<Metadata>;
    fn symlink_metadata(&self, path: &Utf8Path) -> FsResult<Metadata>;
    /// The path without symbolic links; an error if it does not exist.
    fn resolve(&self, path: &Utf8Path) -> FsResult<Utf8PathBuf>;
    /// Sorted by name.
    fn read_dir(&self, path: &Utf8Path) -> FsResult<Vec<DirEntry>>;
    fn create_dir(&self, path: &Utf8Path) -> FsResult<()>;
    fn remove_file(&self, path: &Utf8Path) -> FsResult<()>;
    fn remove_dir(&self, path: &Utf8Path) -> FsResult<()>;
    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()>;
    fn hard_link(&self, original: &Utf8Path, link: &Utf8Path) -> FsResult<()>;
    /// Makes `to` share the blocks of `from`, or fails without leaving anything.
    fn reflink(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()>;
    fn set_readonly(&self, path: &Utf8Path) -> FsResult<()>;
    /// Makes the names in a folder durable.
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
    fn confined_to(&self, _folder: &Utf8Path) -> FsResult<Option<Arc<dyn Fs>>> {
        Ok(None)
    }

    fn exists(&self, path: &Utf8Path) -> FsResult<bool> {
        match self.symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a folder in an existing one; the new name is durable on return. No error if the
    /// folder exists.
    fn create_dir_in_place(&self, path: &Utf8Path) -> FsResult<()> {
        let above = path.parent().filter(|above| !above.as_str().is_empty());
        match self.create_dir(path) {
            Ok(()) => self.sync_dir(above.unwrap_or(Utf8Path::new("."))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates a folder and its parents; the new names are durable on return.
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
    fn remove_dir_all(&self, path: &Utf8Path) -> FsResult<()> {
        remove_tree(self, path)
    }

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
    fn read_system_file(&self, path: &Utf8Path) -> FsResult<Vec<u8>> {
        self.read(path)
    }

    /// The bytes of a file without a copy in memory if the file system can do that, else like
    /// [`Fs::read`]. Only for files that do not change meanwhile: the bytes would change with them,
    /// and reading past a new end is a fault that ends the process.
    fn map(&self, path: &Utf8Path) -> FsResult<Bytes> {
        self.read(path).map(Bytes::from)
    }

    /// Replaces a file: writes a new one beside it, syncs and renames it, and syncs the folder.
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
    fn write_new(&self, path: &Utf8Path, bytes: &[u8]) -> FsResult<()> {
        let file = self.open(path, Open::CreateNew)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()
    }

    /// Copies the bytes of a file into a new one, and syncs it.
    fn copy(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<u64> {
        let source = self.open(from, Open::Read)?;
        let target = self.open(to, Open::CreateNew)?;
        let size = pour(&*source, &*target)?;
        target.sync_data()?;
        Ok(size)
    }

    /// Like `copy`, for a file that need not be durable. The operating system copies if it can, or
    /// shares the blocks.
    fn copy_unsynced(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<u64> {
        let source = self.open(from, Open::Read)?;
        pour(&*source, &*self.open(to, Open::CreateNew)?)
    }
}

/// The file system for changes below a folder, which is opened now. Paths stay those of the machine.
/// Below the folder no symbolic link is followed, so whatever another process exchanges meanwhile,
/// nothing is changed elsewhere.
pub fn confined(fs: &Arc<dyn Fs>, folder: &Utf8Path) -> FsResult<Arc<dyn Fs>> {
    Ok(fs.confined_to(folder)?.unwrap_or_else(|| Arc::clone(fs)))
}

/// An open file. Dropping it closes it and releases its locks.
pub trait FsFile: Debug + Send + Sync {
    fn path(&self) -> &Utf8Path;
    fn metadata(&self) -> FsResult<Metadata>;
    /// The metadata at the time when it was opened, which costs no call where opening reads them.
    fn opened(&self) -> FsResult<Metadata> {
        self.metadata()
    }
    /// May read less than asked; 0 only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize>;
    /// May write less than asked.
    fn write_at(&self, bytes: &[u8], offset: u64) -> FsResult<usize>;
    fn set_len(&self, length: u64) -> FsResult<()>;
    fn sync_data(&self) -> FsResult<()>;
    /// Gives the space of these bytes back to the disk; they read as zeros. This needs no space
    /// itself. Not every file system can do it.
    fn free(&self, _offset: u64, _length: u64) -> FsResult<()> {
        Err(FsError::new(Call::Write, self.path(), io::ErrorKind::Unsupported.into()))
    }
    /// Asks the system to start writing these bytes to the disk, so that a later
    /// [`sync_data`](Self::sync_data) waits less. Only a hint: it may do nothing.
    fn write_back(&self, _offset: u64, _length: u64) {}
    /// Locks the whole file against other handles; blocks.
    fn lock(&self, kind: LockKind) -> FsResult<()>;
    /// The same without blocking; false if another handle has a lock.
    fn try_lock(&self, kind: LockKind) -> FsResult<bool>;
    fn unlock(&self) -> FsResult<()>;
    /// Locks one byte against other handles, without blocking.
    fn try_lock_byte(&self, offset: u64) -> FsResult<bool>;
    fn unlock_byte(&self, offset: u64) -> FsResult<()>;
    /// Tests if another handle holds the byte.
    fn byte_is_locked(&self, offset: u64) -> FsResult<bool>;

    fn len(&self) -> FsResult<u64> {
        Ok(self.metadata()?.size)
    }

    fn is_empty(&self) -> FsResult<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills the buffer as far as the file reaches; returns the number of bytes.
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
