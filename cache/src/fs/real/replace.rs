//! Replaces a regular file as a whole.
//!
//! The new file has no name until its bytes are on the disk, so a process that is killed meanwhile
//! leaves nothing beside the old one. A name cannot be given in the place of another one in one
//! step: between the link and the rename there is a hidden file, for microseconds.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use camino::Utf8Path;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::regular::Links;
use super::state;
use crate::fs::{Call, FsError, FsResult, beside};

const MODE: Mode = Mode::from_raw_mode(0o666);

/// `prepare` gets the new file while it is still empty. The folder is opened once, so that all this
/// happens in one folder.
pub fn replace(path: &Utf8Path, bytes: &[u8], prepare: &dyn Fn(&File)) -> FsResult<()> {
    let failed = |call| move |source: io::Error| FsError::new(call, path, source);
    let above = path.parent().filter(|above| !above.as_str().is_empty());
    let above = above.unwrap_or(Utf8Path::new("."));
    let folder = state::enter(CWD, above.as_str(), Links::Followed).map_err(failed(Call::Open))?;
    let name = path.file_name().ok_or_else(|| failed(Call::Create)(Errno::ISDIR.into()))?;
    let beside = beside(path);
    let fresh = beside.file_name().unwrap_or_default();
    let fill = |mut file: &File| {
        prepare(file);
        file.write_all(bytes).map_err(failed(Call::Write))?;
        file.sync_data().map_err(failed(Call::SyncData))
    };
    let is_linked = match unnamed(&folder) {
        Ok(file) => {
            fill(&file)?;
            link(&file, &folder, fresh).is_ok()
        }
        Err(_) => false,
    };
    let write = || {
        // Not every file system has files without a name, and `/proc` may be missing.
        if !is_linked {
            fill(&create(&folder, fresh).map_err(failed(Call::Create))?)?;
        }
        renameat(&folder, fresh, &folder, name).map_err(|error| failed(Call::Rename)(error.into()))
    };
    let written = write();
    if written.is_err() {
        let _ = unlinkat(&folder, fresh, AtFlags::empty());
    }
    written?;
    let synced = state::open_folder(folder.as_fd(), ".", Links::Refused).and_then(state::sync);
    synced.map_err(|source| FsError::new(Call::SyncDir, above, source))
}

fn unnamed(folder: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(openat(folder, ".", flags, MODE)?.into())
}

fn create(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, MODE)?.into())
}

fn link(file: &File, folder: &OwnedFd, name: &str) -> io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, open, folder, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn nothing_lies_beside_the_file_while_its_new_bytes_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("pipeline.toml");
        fs::write(&path, "old").unwrap();
        let above = path.parent().unwrap().as_str();
        if unnamed(&state::enter(CWD, above, Links::Followed).unwrap()).is_err() {
            eprintln!("left out: no files without a name here");
            return;
        }
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let seen = std::cell::Cell::new(0);
        replace(&path, b"new", &|file| {
            assert_eq!(file.metadata().unwrap().len(), 0);
            seen.set(names());
        })
        .unwrap();
        assert_eq!((seen.get(), names()), (1, 1));
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
