//! The file system of the machine.
// The only module that touches files.
#![allow(clippy::disallowed_methods)]

mod confined;
mod denied;
mod file;
mod named;
mod regular;
mod replace;
mod state;
mod tree;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use memmap2::Mmap;
use rustix::fs::{AtFlags, CWD, statat};

pub use self::confined::Confined;
use self::file::RealFile;
use self::named::NamedTarget;
use self::regular::Links;
use super::{Call, DirEntry, Fs, FsFile, FsResult, Metadata, Open};

/// The files of the machine.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealFs;

fn named<T>(call: Call, path: &Utf8Path, result: Result<T, impl Into<io::Error>>) -> FsResult<T> {
    result.map_err(|source| denied::explained(call, path, source.into()))
}

impl Fs for RealFs {
    fn open(&self, path: &Utf8Path, how: Open) -> FsResult<Box<dyn FsFile>> {
        let opened = named(how.call(), path, regular::open(path, how))?;
        Ok(Box::new(RealFile::new(path, opened)))
    }

    fn metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        let found = statat(CWD, path.as_str(), AtFlags::empty());
        named(Call::Metadata, path, found).map(|found| state::of(&found))
    }

    fn symlink_metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        let found = statat(CWD, path.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        named(Call::Metadata, path, found).map(|found| state::of(&found))
    }

    fn resolve(&self, path: &Utf8Path) -> FsResult<Utf8PathBuf> {
        named(Call::Metadata, path, path.canonicalize_utf8())
    }

    fn read_dir(&self, path: &Utf8Path) -> FsResult<Vec<DirEntry>> {
        let listed = state::open_folder(CWD, path.as_str(), Links::Followed);
        named(Call::ReadDir, path, listed.and_then(state::list))
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
        tree::remove(CWD, path.as_str(), path)
    }

    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        named(Call::Rename, from, fs::rename(from, to))
    }

    fn hard_link(&self, original: &Utf8Path, link: &Utf8Path) -> FsResult<()> {
        named(Call::HardLink, link, fs::hard_link(original, link))
    }

    fn reflink(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        let original = named(Call::Open, from, regular::open(from, Open::Read))?;
        let clone = named(Call::Reflink, to, regular::open(to, Open::CreateNew))?;
        let shared = rustix::fs::ioctl_ficlone(&clone.0, &original.0);
        if shared.is_err() {
            let _ = fs::remove_file(to);
        }
        named(Call::Reflink, to, shared)
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
        let folder = state::open_folder(CWD, path.as_str(), Links::Followed);
        named(Call::SyncDir, path, folder.and_then(state::sync))
    }

    fn now(&self) -> i64 {
        now()
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
        let (file, found) = named(Call::Open, path, regular::open(path, Open::Read))?;
        map(path, &file, found.is_some_and(|found| found.st_size == 0))
    }

    fn confined_to(&self, folder: &Utf8Path) -> FsResult<Option<Arc<dyn Fs>>> {
        Ok(Some(Arc::new(Confined::to(folder)?)))
    }
}

/// The bytes of a file that the callers of `Fs::map` guarantee not to change.
fn map(path: &Utf8Path, file: &File, is_empty: bool) -> FsResult<Bytes> {
    if is_empty {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is read-only and private, and the file does not change.
    let mapping = unsafe { Mmap::map(file) };
    named(Call::Read, path, mapping).map(Bytes::from_owner)
}

fn now() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

impl RealFs {
    /// Writes the output of a command to the file that a person named for it. A regular file is
    /// replaced as a whole, and keeps its permissions and, where possible, its owner; a process
    /// that is killed meanwhile leaves no other file. A pipe, a terminal or a device such as
    /// `/dev/null` stays in its place and is written to, as is an open file that is named by its
    /// number (`/dev/stdout`).
    ///
    /// # Errors
    ///
    /// If the path cannot be opened or written. A regular file is then as it was.
    pub fn write_named(&self, path: &Utf8Path, bytes: &[u8]) -> FsResult<()> {
        match named(Call::Open, path, named::target(path))? {
            NamedTarget::File(path) => {
                let before = fs::metadata(&path).ok();
                let keep = |new: &File| before.iter().for_each(|before| keep_rights(before, new));
                replace::replace(&path, bytes, &keep)
            }
            NamedTarget::Stream(path) => {
                let mut stream = named(Call::Open, &path, named::open_stream(&path))?;
                named(Call::Write, &path, stream.write_all(bytes))
            }
        }
    }

    /// A file's bytes without a copy of them, read on access. The file must not change: objects of
    /// the store are written once and then only replaced as a whole. Bytes that the disk cannot
    /// read end the process.
    ///
    /// # Errors
    ///
    /// If the path is missing, is no regular file, or may not be read, or if the file system cannot
    /// map it.
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
