//! Files below one folder, found from its open handle. No link below it is followed, so whatever
//! another process exchanges meanwhile, nothing leads out of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, ioctl_ficlone,
    linkat, mkdirat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::file::RealFile;
use super::regular::{self, Links};
use super::{RealFs, local, map, named, now, state, tree};
use crate::fs::link_on_path::link_on_path;
use crate::fs::{Call, DirEntry, FileKind, Fs, FsError, FsFile, FsResult, Metadata, Open};

/// The number of folders that are kept open.
const MAX_OPEN_FOLDERS: usize = 8;

/// A file system with the paths of the machine, for those below one folder. Links on the path of
/// the folder itself are followed when it is opened. Elsewhere, files can be looked at and read,
/// and be the originals of copies and links.
#[derive(Debug)]
pub struct Confined {
    root: Utf8PathBuf,
    handle: Arc<OwnedFd>,
    walk: Walk,
    /// Folders that were opened before, the last one first.
    open: Mutex<Vec<(Utf8PathBuf, Arc<OwnedFd>)>>,
}

/// The way to a folder below another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// In one call, which an older kernel or a sandbox lacks.
    AtOnce,
    /// One name after the other.
    BySteps,
}

impl Confined {
    /// Opens the folder, whose path may have links.
    ///
    /// # Errors
    ///
    /// If the folder is missing or cannot be opened.
    pub fn to(folder: &Utf8Path) -> FsResult<Confined> {
        let path = if folder.as_str().is_empty() { "." } else { folder.as_str() };
        let handle = named(Call::Open, folder, state::enter(CWD, path, Links::Followed))?;
        let walk = Walk::from(&handle);
        Ok(Confined::around(folder, handle, walk))
    }

    /// A folder below, which is opened without links.
    ///
    /// # Errors
    ///
    /// If the folder is missing or cannot be opened, or if a link is on the way: see
    /// [`FsError::is_link_on_path`](crate::fs::FsError::is_link_on_path).
    pub fn enter(&self, folder: &Utf8Path) -> FsResult<Confined> {
        let handle =
            self.at(Call::Open, folder, |above, name| state::enter(above, name, Links::Refused))?;
        Ok(Confined::around(folder, handle, self.walk))
    }

    fn around(root: &Utf8Path, handle: OwnedFd, walk: Walk) -> Confined {
        Confined { root: root.to_owned(), handle: Arc::new(handle), walk, open: Mutex::default() }
    }

    /// Removes an entry with a name that is not UTF-8, by the name that [`Fs::read_dir`] gives it:
    /// a file, or an empty folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed, or if the entry cannot be removed. A missing entry is no
    /// error.
    pub fn remove_unnameable(&self, folder: &Utf8Path, shown: &str) -> FsResult<()> {
        self.at(Call::RemoveFile, folder, |above, name| {
            let mut entries = Dir::new(state::open_folder(above, name, Links::Refused)?)?;
            while let Some(entry) = entries.read() {
                let (entry, folder) = (entry?, entries.fd()?);
                let name = entry.file_name();
                let is_meant =
                    name.to_str().is_err() && name.to_bytes().escape_ascii().to_string() == shown;
                if is_meant {
                    let how = match entry.file_type() {
                        FileType::Directory => AtFlags::REMOVEDIR,
                        _ => AtFlags::empty(),
                    };
                    return Ok(unlinkat(folder, name, how)?);
                }
            }
            Ok(())
        })
    }

    /// Does something with a name in its folder, which is opened unless it is open already.
    fn at<T>(
        &self,
        call: Call,
        path: &Utf8Path,
        act: impl Fn(BorrowedFd<'_>, &str) -> io::Result<T>,
    ) -> FsResult<T> {
        named(call, path, self.find(path, act))
    }

    fn find<T>(
        &self,
        path: &Utf8Path,
        act: impl Fn(BorrowedFd<'_>, &str) -> io::Result<T>,
    ) -> io::Result<T> {
        let act = |folder: &OwnedFd, name: &str| {
            act(folder.as_fd(), name).map_err(|error| match error.raw_os_error() {
                Some(number) if number == Errno::LOOP.raw_os_error() => link_on_path(),
                _ => error,
            })
        };
        let below = self.below(path)?;
        let (Some(folder), Some(name)) = (below.parent(), below.file_name()) else {
            return act(&self.handle, ".");
        };
        if let Some(open) = self.opened(folder) {
            match act(&open, name) {
                Err(error) if is_stale(&open, &error) => self.forget(&self.root.join(folder)),
                result => return result,
            }
        }
        act(&*self.open_folder(folder)?, name)
    }

    /// The same for an original, which may be elsewhere.
    fn find_original<T>(
        &self,
        path: &Utf8Path,
        act: impl Fn(BorrowedFd<'_>, &str) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.below(path) {
            Ok(_) => self.find(path, act),
            Err(_) => act(CWD, path.as_str()),
        }
    }

    /// The path from the folder on.
    fn below<'p>(&self, path: &'p Utf8Path) -> io::Result<&'p Utf8Path> {
        let is_plain = |part| matches!(part, Utf8Component::Normal(_));
        // The present folder has two names.
        let path = match self.root.as_str() {
            "" => path.strip_prefix(".").unwrap_or(path),
            _ => path,
        };
        match path.strip_prefix(&self.root) {
            Ok(below) if below.components().all(is_plain) => Ok(below),
            _ => {
                let why = format!("it is not below `{}`", self.root);
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
        }
    }

    fn folders(&self) -> MutexGuard<'_, Vec<(Utf8PathBuf, Arc<OwnedFd>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self, below: &Utf8Path) -> Option<Arc<OwnedFd>> {
        if below.as_str().is_empty() {
            return Some(Arc::clone(&self.handle));
        }
        let folders = self.folders();
        let (_, handle) = folders.iter().find(|(path, _)| path == below)?;
        Some(Arc::clone(handle))
    }

    fn open_folder(&self, below: &Utf8Path) -> io::Result<Arc<OwnedFd>> {
        let opened = match self.walk.to(&self.handle, below) {
            // Nothing more can be opened, but folders can be closed.
            Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
                self.folders().clear();
                self.walk.to(&self.handle, below)
            }
            opened => opened,
        };
        let handle = Arc::new(opened?);
        let mut folders = self.folders();
        folders.truncate(MAX_OPEN_FOLDERS - 1);
        folders.insert(0, (below.to_owned(), Arc::clone(&handle)));
        Ok(handle)
    }

    /// Forgets the handles of a folder that is moved or removed, and of those below it.
    fn forget(&self, path: &Utf8Path) {
        if let Ok(gone) = self.below(path) {
            self.folders().retain(|(path, _)| !path.starts_with(gone));
        }
    }

    fn open_file(&self, path: &Utf8Path, how: Open) -> io::Result<(File, Option<Stat>)> {
        match self.below(path) {
            Err(_) if how == Open::Read => regular::open(path, how),
            _ => {
                self.find(path, |folder, name| regular::open_at(folder, name, how, Links::Refused))
            }
        }
    }

    /// A new file in the place of nothing, filled from an original.
    fn fill_new<T>(
        &self,
        from: &Utf8Path,
        to: &Utf8Path,
        call: Call,
        fill: impl Fn(&mut File, &mut File) -> io::Result<T>,
    ) -> FsResult<T> {
        let (mut original, _) = named(Call::Open, from, self.open_file(from, Open::Read))?;
        let (mut file, _) = named(Call::Create, to, self.open_file(to, Open::CreateNew))?;
        let filled = fill(&mut original, &mut file);
        if filled.is_err() {
            let _ = self.remove_file(to);
        }
        named(call, to, filled)
    }
}

/// The folder was removed, or its server no longer knows the handle.
fn is_stale(folder: &OwnedFd, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => fstat(folder).is_ok_and(|found| found.st_nlink == 0),
        io::ErrorKind::StaleNetworkFileHandle => true,
        _ => false,
    }
}

impl Walk {
    /// The fastest one that the system allows.
    fn from(root: &OwnedFd) -> Walk {
        match at_once(root, Utf8Path::new(".")) {
            Ok(_) => Walk::AtOnce,
            Err(_) => Walk::BySteps,
        }
    }

    fn to(self, root: &OwnedFd, below: &Utf8Path) -> io::Result<OwnedFd> {
        match self {
            Walk::AtOnce => at_once(root, below),
            Walk::BySteps => by_steps(root, below),
        }
    }
}

fn at_once(root: &OwnedFd, below: &Utf8Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(root, below.as_str(), flags, Mode::empty(), resolve) {
        Err(Errno::LOOP) => Err(link_on_path()),
        opened => Ok(opened?),
    }
}

fn by_steps(root: &OwnedFd, below: &Utf8Path) -> io::Result<OwnedFd> {
    let mut last = None;
    for name in below.components() {
        let folder = last.as_ref().unwrap_or(root).as_fd();
        last = Some(state::enter(folder, name.as_str(), Links::Refused)?);
    }
    last.ok_or_else(|| Errno::NOENT.into())
}

impl Fs for Confined {
    fn open(&self, path: &Utf8Path, how: Open) -> FsResult<Box<dyn FsFile>> {
        let opened = named(how.call(), path, self.open_file(path, how))?;
        Ok(Box::new(RealFile::new(path, opened)))
    }

    /// A link is an error.
    fn metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        let found = self.symlink_metadata(path)?;
        match found.kind {
            FileKind::Symlink => Err(FsError::new(Call::Metadata, path, link_on_path())),
            _ => Ok(found),
        }
    }

    fn symlink_metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        let look = |folder: BorrowedFd<'_>, name: &str| {
            Ok(state::of(&statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
        };
        named(Call::Metadata, path, self.find_original(path, look))
    }

    fn resolve(&self, path: &Utf8Path) -> FsResult<Utf8PathBuf> {
        self.metadata(path).map(|_| path.to_owned())
    }

    fn read_dir(&self, path: &Utf8Path) -> FsResult<Vec<DirEntry>> {
        self.at(Call::ReadDir, path, |folder, name| {
            state::list(state::open_folder(folder, name, Links::Refused)?)
        })
    }

    fn create_dir(&self, path: &Utf8Path) -> FsResult<()> {
        let mode = Mode::from_raw_mode(0o777);
        self.at(Call::CreateDir, path, |folder, name| Ok(mkdirat(folder, name, mode)?))
    }

    fn remove_file(&self, path: &Utf8Path) -> FsResult<()> {
        self.at(Call::RemoveFile, path, |folder, name| {
            Ok(unlinkat(folder, name, AtFlags::empty())?)
        })
    }

    fn remove_dir(&self, path: &Utf8Path) -> FsResult<()> {
        self.forget(path);
        self.at(Call::RemoveDir, path, |folder, name| {
            Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
        })
    }

    /// Also removes names that are not UTF-8, and folders without permissions for their owner.
    fn remove_dir_all(&self, path: &Utf8Path) -> FsResult<()> {
        self.forget(path);
        let removed = self.find(path, |folder, name| Ok(tree::remove(folder, name, path)));
        match named(Call::RemoveDir, path, removed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed?,
        }
    }

    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        self.forget(from);
        self.forget(to);
        self.at(Call::Rename, from, |source, old| {
            self.find(to, |target, new| Ok(renameat(source, old, target, new)?))
        })
    }

    fn hard_link(&self, original: &Utf8Path, link: &Utf8Path) -> FsResult<()> {
        self.at(Call::HardLink, link, |target, new| {
            self.find_original(original, |source, old| {
                Ok(linkat(source, old, target, new, AtFlags::empty())?)
            })
        })
    }

    fn reflink(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        self.fill_new(from, to, Call::Reflink, |from, to| Ok(ioctl_ficlone(to, from)?))
    }

    fn copy_unsynced(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<u64> {
        // On Linux this is `copy_file_range`.
        self.fill_new(from, to, Call::Write, io::copy)
    }

    fn set_readonly(&self, path: &Utf8Path) -> FsResult<()> {
        let (file, _) = named(Call::SetReadonly, path, self.open_file(path, Open::Read))?;
        named(Call::SetReadonly, path, fchmod(&file, Mode::from_raw_mode(0o444)))
    }

    fn sync_dir(&self, path: &Utf8Path) -> FsResult<()> {
        self.at(Call::SyncDir, path, |folder, name| {
            state::sync(state::open_folder(folder, name, Links::Refused)?)
        })
    }

    fn now(&self) -> i64 {
        now()
    }

    fn is_local(&self, path: &Utf8Path) -> bool {
        local::is_local(path)
    }

    fn read_system_file(&self, path: &Utf8Path) -> FsResult<Vec<u8>> {
        RealFs.read_system_file(path)
    }

    fn map(&self, path: &Utf8Path) -> FsResult<Bytes> {
        let (file, found) = named(Call::Open, path, self.open_file(path, Open::Read))?;
        map(path, &file, found.is_some_and(|found| found.st_size == 0))
    }

    fn confined_to(&self, folder: &Utf8Path) -> FsResult<Option<Arc<dyn Fs>>> {
        Ok(Some(Arc::new(self.enter(folder)?)))
    }
}

#[cfg(test)]
mod tests;
