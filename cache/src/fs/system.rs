//! The operations on paths.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};

use super::file::pour;
use super::{Call, DirEntry, FileKind, FsError, FsFile, FsResult, Metadata, Open, beside, random};

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

/// Removes a folder and everything in it, one entry after the other.
pub(super) fn remove_tree<F: Fs + ?Sized>(fs: &F, path: &Utf8Path) -> FsResult<()> {
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
