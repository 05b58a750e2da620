//! Replaces a regular file as a whole.
//!
//! The new file has no name until its bytes are on the disk, so a process that is killed meanwhile
//! leaves nothing beside the old one. A name cannot be given in the place of another one in one
//! step: between the link and the rename there is a hidden file, for microseconds.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use camino::Utf8Path;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::fs::{Call, Fs, FsError, FsResult, RealFs, beside};

/// `prepare` gets the new file while it is still empty.
pub fn replace(path: &Utf8Path, bytes: &[u8], prepare: &dyn Fn(&File)) -> FsResult<()> {
    let above = path.parent().filter(|above| !above.as_str().is_empty());
    let above = above.unwrap_or(Utf8Path::new("."));
    let fresh = beside(path);
    let failed = |call| move |source| FsError::new(call, path, source);
    let fill = |mut file: &File| {
        prepare(file);
        file.write_all(bytes).map_err(failed(Call::Write))?;
        file.sync_data().map_err(failed(Call::SyncData))
    };
    let is_linked = match unnamed(above) {
        Ok(file) => {
            fill(&file)?;
            link(&file, &fresh).is_ok()
        }
        Err(_) => false,
    };
    let write = || {
        // Not every file system has files without a name, and `/proc` may be missing.
        if !is_linked {
            fill(&File::create_new(&fresh).map_err(failed(Call::Create))?)?;
        }
        fs::rename(&fresh, path).map_err(failed(Call::Rename))
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written?;
    RealFs.sync_dir(above)
}

fn unnamed(folder: &Utf8Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    Ok(rustix::fs::open(folder.as_str(), flags, mode)?.into())
}

fn link(file: &File, name: &Utf8Path) -> io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, open, CWD, name.as_str(), AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nothing_lies_beside_the_file_while_its_new_bytes_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("pipeline.toml");
        fs::write(&path, "old").unwrap();
        if unnamed(path.parent().unwrap()).is_err() {
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
