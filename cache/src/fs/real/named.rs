//! The file that a person named for an output: a regular file, new or old, or a stream.
//!
//! Renaming a new file to the path of a device or a pipe would put a regular file in its place.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// As many links in a row as the kernel follows.
const MOST_LINKS: usize = 40;

pub enum NamedTarget {
    /// A regular file, or nothing yet. Links to it are followed.
    File(Utf8PathBuf),
    /// A pipe, a terminal, a device or an open file: it is written to and stays where it is.
    Stream(Utf8PathBuf),
}

/// Follows links up to the first one that stands for an open file.
pub fn target(path: &Utf8Path) -> io::Result<NamedTarget> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(NamedTarget::File(path));
            }
            other => other?,
        };
        let kind = metadata.file_type();
        if kind.is_file() {
            return Ok(NamedTarget::File(path));
        }
        if kind.is_dir() {
            return Err(Errno::ISDIR.into());
        }
        if kind.is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a block device"));
        }
        if !kind.is_symlink() || is_open_file(&path) {
            return Ok(NamedTarget::Stream(path));
        }
        let link = Utf8PathBuf::try_from(fs::read_link(&path)?).map_err(io::Error::other)?;
        path = path.parent().unwrap_or(Utf8Path::new("/")).join(link);
    }
    Err(Errno::LOOP.into())
}

/// Waits for a reader if it is a pipe without one. What an open file has already stays in it.
pub fn open_stream(path: &Utf8Path) -> io::Result<File> {
    let flags = OFlags::NOCTTY.bits().cast_signed();
    OpenOptions::new().append(true).custom_flags(flags).open(path)
}

/// True for a link of the kernel to an open file of a process, such as `/proc/self/fd/1`.
fn is_open_file(link: &Utf8Path) -> bool {
    /// As in `linux/magic.h`.
    const PROC: u32 = 0x9fa0;
    let folder = link.parent().filter(|folder| !folder.as_str().is_empty());
    let found = rustix::fs::statfs(folder.unwrap_or(Utf8Path::new(".")).as_str());
    #[allow(clippy::unnecessary_cast, reason = "its type differs between processors")]
    found.is_ok_and(|found| found.f_type as u32 == PROC)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

    use super::*;
    use crate::fs::RealFs;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().canonicalize().unwrap()).unwrap();
        (folder, path)
    }

    #[test]
    fn a_regular_file_is_replaced_and_a_link_to_it_stays() {
        let (_folder, base) = folder();
        symlink("old", base.join("link")).unwrap();
        // At first the link is broken.
        for text in ["new", "newer"] {
            RealFs.write_named(&base.join("link"), text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(base.join("old")).unwrap(), text);
        }
        let before = fs::metadata(base.join("old")).unwrap().ino();
        fs::set_permissions(base.join("old"), PermissionsExt::from_mode(0o460)).unwrap();
        RealFs.write_named(&base.join("old"), b"newest").unwrap();
        let after = fs::metadata(base.join("old")).unwrap();
        assert_ne!(after.ino(), before, "replaced as a whole");
        assert_eq!(after.mode() & 0o777, 0o460, "the permissions stay");
        assert!(fs::symlink_metadata(base.join("link")).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&base).unwrap().count(), 2);
    }

    #[test]
    fn a_pipe_stays_a_pipe_and_gets_the_bytes() {
        let (_folder, base) = folder();
        let pipe = base.join("pipe");
        mknodat(CWD, pipe.as_str(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        symlink("pipe", base.join("link")).unwrap();
        for named in ["pipe", "link"] {
            // Open on both sides, so that nothing waits.
            let mut reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
            RealFs.write_named(&base.join(named), b"page").unwrap();
            let mut read = [0; 4];
            reader.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"page");
        }
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_device_stays_a_device_and_a_disk_is_refused() {
        let (_folder, base) = folder();
        let node = |name: &str, kind, device| {
            mknodat(CWD, base.join(name).as_str(), kind, Mode::RUSR | Mode::WUSR, device)
        };
        // The numbers of `/dev/null`, and of a disk that is not there.
        let made = node("null", FileType::CharacterDevice, makedev(1, 3))
            .and_then(|()| node("disk", FileType::BlockDevice, makedev(240, 77)));
        if made.is_err() {
            eprintln!("left out: only root can make devices");
            return;
        }
        // Some machines let nobody open devices outside of `/dev`.
        let written = RealFs.write_named(&base.join("null"), b"page");
        assert!(written.is_ok() || written.unwrap_err().is_denied());
        let refused = RealFs.write_named(&base.join("disk"), b"page").unwrap_err();
        assert_eq!(refused.whole(), format!("cannot open `{base}/disk`: it is a block device"));
        assert!(fs::symlink_metadata(base.join("null")).unwrap().file_type().is_char_device());
        assert!(fs::symlink_metadata(base.join("disk")).unwrap().file_type().is_block_device());
        assert_eq!(fs::read_dir(&base).unwrap().count(), 2);
    }

    #[test]
    fn an_open_file_that_is_named_by_its_number_is_gone_on_with() {
        let (_folder, base) = folder();
        fs::write(base.join("log"), "before,").unwrap();
        let log = OpenOptions::new().append(true).open(base.join("log")).unwrap();
        symlink(format!("/proc/self/fd/{}", log.as_raw_fd()), base.join("out")).unwrap();
        RealFs.write_named(&base.join("out"), b"after").unwrap();
        assert_eq!(fs::read_to_string(base.join("log")).unwrap(), "before,after");
        assert_eq!(log.metadata().unwrap().nlink(), 1, "the file itself is still there");
    }

    #[test]
    fn links_in_a_circle_and_folders_are_errors() {
        let (_folder, base) = folder();
        symlink("round", base.join("round")).unwrap();
        fs::create_dir(base.join("folder")).unwrap();
        assert!(RealFs.write_named(&base.join("round"), b"").is_err());
        assert!(RealFs.write_named(&base.join("folder"), b"").unwrap_err().is_a_folder());
    }
}
