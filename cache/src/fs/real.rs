//! The file system of the machine.
// The only module that touches files.
#![allow(clippy::disallowed_methods)]

mod named;
mod regular;
mod replace;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use memmap2::Mmap;

use self::named::Target;
use super::{Call, DirEntry, FileKind, Fs, FsError, FsFile, FsResult, LockKind, Metadata, Open};

#[derive(Debug, Default, Clone, Copy)]
pub struct RealFs;

fn named<T>(call: Call, path: &Utf8Path, result: io::Result<T>) -> FsResult<T> {
    result.map_err(|source| FsError::new(call, path, source))
}

impl Fs for RealFs {
    fn open(&self, path: &Utf8Path, how: Open) -> FsResult<Box<dyn FsFile>> {
        let (file, opened) = named(how.call(), path, regular::open(path, how))?;
        let opened = opened.map(|metadata| convert(&metadata));
        Ok(Box::new(RealFile { file, path: path.to_owned(), opened }))
    }

    fn metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        named(Call::Metadata, path, fs::metadata(path)).map(|metadata| convert(&metadata))
    }

    fn symlink_metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        named(Call::Metadata, path, fs::symlink_metadata(path)).map(|metadata| convert(&metadata))
    }

    fn resolve(&self, path: &Utf8Path) -> FsResult<Utf8PathBuf> {
        named(Call::Metadata, path, path.canonicalize_utf8())
    }

    fn read_dir(&self, path: &Utf8Path) -> FsResult<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in named(Call::ReadDir, path, fs::read_dir(path))? {
            let entry = named(Call::ReadDir, path, entry)?;
            entries.push(match entry.file_name().into_string() {
                Ok(name) => {
                    let kind = kind_of(named(Call::ReadDir, path, entry.file_type())?);
                    DirEntry { name, kind }
                }
                Err(name) => {
                    let name = name.as_encoded_bytes().escape_ascii().to_string();
                    DirEntry { name, kind: FileKind::Unnameable }
                }
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir(&self, path: &Utf8Path) -> FsResult<()> {
        named(Call::CreateDir, path, fs::create_dir(path))
    }

    fn remove_file(&self, path: &Utf8Path) -> FsResult<()> {
        named(Call::RemoveFile, path, fs::remove_file(path))
    }

    fn remove_dir(&self, path: &Utf8Path) -> FsResult<()> {
        named(Call::RemoveDir, path, fs::remove_dir(path))
    }

    /// Also removes names that are not UTF-8, and folders without permissions for their owner.
    fn remove_dir_all(&self, path: &Utf8Path) -> FsResult<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                open_up(path.as_std_path());
                remove_what_can_be(path.as_std_path())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => named(Call::RemoveDir, path, removed),
        }
    }

    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        named(Call::Rename, from, fs::rename(from, to))
    }

    fn hard_link(&self, original: &Utf8Path, link: &Utf8Path) -> FsResult<()> {
        named(Call::HardLink, link, fs::hard_link(original, link))
    }

    fn reflink(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        named(Call::Reflink, to, reflink_copy::reflink(from, to))?;
        // The clone has the mode of its original, which may be read-only.
        let mode = fs::metadata(from).map(|found| found.permissions().mode() | 0o200);
        let result = mode.and_then(|mode| fs::set_permissions(to, PermissionsExt::from_mode(mode)));
        named(Call::Reflink, to, result)
    }

    fn copy_unsynced(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<u64> {
        let mut source = named(Call::Open, from, File::open(from))?;
        let created = File::create_new(to);
        let mut target = named(Call::Create, to, created)?;
        // On Linux this is `copy_file_range`.
        let copied = io::copy(&mut source, &mut target);
        if copied.is_err() {
            let _ = fs::remove_file(to);
        }
        named(Call::Write, to, copied)
    }

    fn set_readonly(&self, path: &Utf8Path) -> FsResult<()> {
        named(Call::SetReadonly, path, fs::set_permissions(path, PermissionsExt::from_mode(0o444)))
    }

    fn sync_dir(&self, path: &Utf8Path) -> FsResult<()> {
        match File::open(path).and_then(|dir| dir.sync_all()) {
            // Some network file systems cannot sync a folder; nothing more can be done there.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => named(Call::SyncDir, path, result),
        }
    }

    fn now(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
        }
    }

    fn is_direct(&self) -> bool {
        true
    }

    fn is_local(&self, path: &Utf8Path) -> bool {
        local::is_local(path)
    }

    fn read_system_file(&self, path: &Utf8Path) -> FsResult<Vec<u8>> {
        named(Call::Read, path, fs::read(path))
    }

    fn map(&self, path: &Utf8Path) -> FsResult<Bytes> {
        let (file, opened) = named(Call::Open, path, regular::open(path, Open::Read))?;
        if opened.is_some_and(|metadata| metadata.len() == 0) {
            return Ok(Bytes::new());
        }
        // SAFETY: the mapping is read-only and private; callers of `Fs::map` guarantee that the
        // file does not change.
        let mapping = unsafe { Mmap::map(&file) };
        named(Call::Read, path, mapping).map(Bytes::from_owner)
    }
}

impl RealFs {
    /// Writes the output of a command to the file that a person named for it. A regular file is
    /// replaced as a whole, and keeps its permissions and, where possible, its owner; a process
    /// that is killed meanwhile leaves no other file. A pipe, a terminal or a device such as
    /// `/dev/null` stays in its place and is written to, as is an open file that is named by its
    /// number (`/dev/stdout`).
    pub fn write_named(&self, path: &Utf8Path, bytes: &[u8]) -> FsResult<()> {
        match named(Call::Open, path, named::target(path))? {
            Target::File(path) => {
                let before = fs::metadata(&path).ok();
                let keep = |new: &File| before.iter().for_each(|before| keep_rights(before, new));
                replace::replace(&path, bytes, &keep)
            }
            Target::Stream(path) => {
                let mut stream = named(Call::Open, &path, named::open_stream(&path))?;
                named(Call::Write, &path, stream.write_all(bytes))
            }
        }
    }

    /// Removes an entry with a name that is not UTF-8, by the name that [`Fs::read_dir`] gives it:
    /// a file, or an empty folder.
    pub fn remove_unnameable(&self, folder: &Utf8Path, shown: &str) -> FsResult<()> {
        for entry in named(Call::ReadDir, folder, fs::read_dir(folder))? {
            let entry = named(Call::ReadDir, folder, entry)?;
            let name = entry.file_name();
            let is_meant = name.to_str().is_none()
                && name.as_encoded_bytes().escape_ascii().to_string() == shown;
            if is_meant {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                return match is_folder {
                    true => named(Call::RemoveDir, folder, fs::remove_dir(entry.path())),
                    false => named(Call::RemoveFile, folder, fs::remove_file(entry.path())),
                };
            }
        }
        Ok(())
    }

    /// A file's bytes without a copy of them, read on access. The file must not change: objects of
    /// the store are written once and then only replaced as a whole. Bytes that the disk cannot
    /// read end the process.
    pub fn map(path: &Utf8Path) -> FsResult<Bytes> {
        let (file, _) = named(Call::Open, path, regular::open(path, Open::Read))?;
        // SAFETY: the bytes change only with the file, and nobody changes it.
        let map = named(Call::Read, path, unsafe { memmap2::Mmap::map(&file) })?;
        Ok(Bytes::from_owner(map))
    }
}

/// Gives a new file the permissions and the owner of the one that it replaces, as far as allowed.
fn keep_rights(before: &fs::Metadata, new: &File) {
    // Only root may give a file away; the owner may choose between their own groups.
    let group = Some(before.gid());
    let _ = fchown(new, Some(before.uid()), group).or_else(|_| fchown(new, None, group));
    let _ = new.set_permissions(before.permissions());
}

/// Gives the owner access to a folder and everything below it, as far as permissions allow. Links
/// are not followed.
fn open_up(folder: &Path) {
    const OWNER: u32 = 0o700;
    let Ok(metadata) = fs::symlink_metadata(folder) else { return };
    if !metadata.is_dir() {
        return;
    }
    let mode = metadata.mode();
    if mode & OWNER != OWNER {
        // If the mode cannot be changed, removing the folder fails and reports it.
        let _ = fs::set_permissions(folder, PermissionsExt::from_mode(mode | OWNER));
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Continues past entries that cannot be removed, and returns the first error.
fn remove_what_can_be(path: &Path) -> FsResult<()> {
    let named = |call, result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => named(call, Utf8Path::new(&path.to_string_lossy()), result),
    };
    let is_dir = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if !is_dir {
        return named(Call::RemoveFile, fs::remove_file(path));
    }
    let mut all = Ok(());
    match fs::read_dir(path) {
        Ok(entries) => {
            for entry in entries.flatten() {
                all = all.and(remove_what_can_be(&entry.path()));
            }
        }
        Err(error) => all = named(Call::ReadDir, Err(error)),
    }
    if all.is_ok() {
        all = named(Call::RemoveDir, fs::remove_dir(path));
    }
    all
}

fn kind_of(file_type: fs::FileType) -> FileKind {
    if file_type.is_file() {
        FileKind::File
    } else if file_type.is_dir() {
        FileKind::Dir
    } else if file_type.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    }
}

fn convert(metadata: &fs::Metadata) -> Metadata {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
    Metadata {
        kind: kind_of(metadata.file_type()),
        size: metadata.len(),
        mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        inode: metadata.ino(),
        readonly: metadata.permissions().readonly(),
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    path: Utf8PathBuf,
    /// None for a file that was created.
    opened: Option<Metadata>,
}

impl RealFile {
    fn named<T>(&self, call: Call, result: io::Result<T>) -> FsResult<T> {
        named(call, &self.path, result)
    }
}

impl FsFile for RealFile {
    fn path(&self) -> &Utf8Path {
        &self.path
    }

    fn metadata(&self) -> FsResult<Metadata> {
        self.named(Call::Metadata, self.file.metadata()).map(|metadata| convert(&metadata))
    }

    fn opened(&self) -> FsResult<Metadata> {
        self.opened.map_or_else(|| self.metadata(), Ok)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize> {
        self.named(Call::Read, self.file.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> FsResult<usize> {
        self.named(Call::Write, self.file.write_at(bytes, offset))
    }

    fn set_len(&self, length: u64) -> FsResult<()> {
        self.named(Call::SetLen, self.file.set_len(length))
    }

    fn sync_data(&self) -> FsResult<()> {
        self.named(Call::SyncData, self.file.sync_data())
    }

    fn free(&self, offset: u64, length: u64) -> FsResult<()> {
        use rustix::fs::FallocateFlags;
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let freed = rustix::fs::fallocate(&self.file, how, offset, length);
        self.named(Call::Write, freed.map_err(std::io::Error::from))
    }

    fn write_back(&self, offset: u64, length: u64) {
        // For this advice Linux starts to write bytes that are not on the disk yet, without
        // waiting, and keeps them in memory meanwhile. It is only a hint, so errors do not matter.
        let length = std::num::NonZeroU64::new(length);
        let _ = rustix::fs::fadvise(&self.file, offset, length, rustix::fs::Advice::DontNeed);
    }

    fn lock(&self, kind: LockKind) -> FsResult<()> {
        let result = match kind {
            LockKind::Shared => self.file.lock_shared(),
            LockKind::Exclusive => self.file.lock(),
        };
        self.named(Call::Lock, result)
    }

    fn try_lock(&self, kind: LockKind) -> FsResult<bool> {
        let result = match kind {
            LockKind::Shared => self.file.try_lock_shared(),
            LockKind::Exclusive => self.file.try_lock(),
        };
        match result {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => self.named(Call::Lock, Err(source)),
        }
    }

    fn unlock(&self) -> FsResult<()> {
        self.named(Call::Unlock, self.file.unlock())
    }

    fn try_lock_byte(&self, offset: u64) -> FsResult<bool> {
        match byte_lock::set(&self.file, offset, true) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            result => self.named(Call::LockRange, result).map(|()| true),
        }
    }

    fn unlock_byte(&self, offset: u64) -> FsResult<()> {
        self.named(Call::UnlockRange, byte_lock::set(&self.file, offset, false))
    }

    fn byte_is_locked(&self, offset: u64) -> FsResult<bool> {
        self.named(Call::LockRange, byte_lock::held_by_another(&self.file, offset))
    }
}

/// The file systems that keep their contents on this machine.
mod local {
    use camino::Utf8Path;

    /// The magic numbers of ext2 to ext4, xfs, btrfs, f2fs, bcachefs, zfs, overlayfs and tmpfs,
    /// from `linux/magic.h` and from the sources of the two that are not part of it.
    const KNOWN: [u32; 8] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0xf2f5_2010,
        0xca45_1a4e,
        0x2fc1_2fc1,
        0x794c_7630,
        0x0102_1994,
    ];

    #[allow(clippy::unnecessary_cast, reason = "its type differs between processors")]
    pub fn is_local(path: &Utf8Path) -> bool {
        let found = rustix::fs::statfs(path.as_str());
        found.is_ok_and(|found| KNOWN.contains(&(found.f_type as u32)))
    }
}

/// Locks of single bytes that belong to the open file, not to the process: they end with the handle
/// and also exclude other handles of the same process.
mod byte_lock {
    use std::fs::File;
    use std::io;

    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;

    fn describe(offset: u64, kind: libc::c_int) -> io::Result<libc::flock> {
        let start = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        Ok(libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: start,
            l_len: 1,
            l_pid: 0,
        })
    }

    pub fn set(file: &File, offset: u64, locked: bool) -> io::Result<()> {
        let lock = describe(offset, if locked { libc::F_WRLCK } else { libc::F_UNLCK })?;
        match fcntl(file, FcntlArg::F_OFD_SETLK(&lock)) {
            Err(nix::Error::EACCES) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            result => result.map(drop).map_err(io::Error::from),
        }
    }

    pub fn held_by_another(file: &File, offset: u64) -> io::Result<bool> {
        let mut lock = describe(offset, libc::F_WRLCK)?;
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
    }
}
