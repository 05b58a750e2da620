//! Opens regular files only: a path from a user may be a pipe, a terminal or a file of the kernel,
//! and opening or reading one of these can block for ever or have side effects.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use camino::Utf8Path;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::{Errno, retry_on_intr};

use crate::fs::Open;
use crate::fs::link_on_path::link_on_path;

/// The reason why a file is not opened; continues "cannot open `x`:".
#[derive(Debug, thiserror::Error)]
#[error("it is {0}, not a regular file")]
struct NotRegular(&'static str);

/// A link at the name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Followed,
    Refused,
}

/// Opens a regular file without blocking. Returns its state too, unless it is new.
pub fn open(path: &Utf8Path, how: Open) -> io::Result<(File, Option<Stat>)> {
    open_at(CWD, path.as_str(), how, Links::Followed)
}

/// The same for a name in an open folder.
pub fn open_at(
    folder: BorrowedFd<'_>,
    name: &str,
    how: Open,
    links: Links,
) -> io::Result<(File, Option<Stat>)> {
    let (no_link, of_name) = match links {
        Links::Followed => (OFlags::empty(), AtFlags::empty()),
        Links::Refused => (OFlags::NOFOLLOW, AtFlags::SYMLINK_NOFOLLOW),
    };
    let flags = OFlags::CLOEXEC | no_link | flags(how);
    let open =
        |more| retry_on_intr(|| openat(folder, name, flags | more, Mode::from_raw_mode(0o666)));
    // A newly created file is a regular file.
    if how == Open::CreateNew {
        return Ok((open(OFlags::empty())?.into(), None));
    }
    // Opening some devices has side effects, so they are refused before.
    match statat(folder, name, of_name) {
        Ok(found) => check(&found)?,
        Err(Errno::NOENT) if how == Open::Create => {}
        Err(error) => return Err(error.into()),
    }
    let file = match open(OFlags::NONBLOCK | OFlags::NOCTTY) {
        // Another process has a lease on the file, and is being asked to release it.
        Err(Errno::WOULDBLOCK) => open(OFlags::NOCTTY)?,
        other => other?,
    };
    // Another file may be at the path by now.
    let file = File::from(file);
    let found = fstat(&file)?;
    check(&found)?;
    // Files that the kernel generates occupy no blocks, unlike most others.
    if found.st_blocks == 0 && made_up::is_made_up(&file) {
        Err(not_regular("a file of the kernel (`proc`, `sysfs` or the like)"))
    } else {
        Ok((file, Some(found)))
    }
}

fn flags(how: Open) -> OFlags {
    match how {
        Open::Read => OFlags::RDONLY,
        Open::ReadWrite => OFlags::RDWR,
        Open::Create => OFlags::RDWR | OFlags::CREATE,
        Open::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
    }
}

fn check(found: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Symlink => Err(link_on_path()),
        FileType::Fifo => Err(not_regular("a named pipe")),
        FileType::Socket => Err(not_regular("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice => Err(not_regular("a device")),
        FileType::Unknown => Err(not_regular("something else")),
    }
}

fn not_regular(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, NotRegular(what))
}

/// File systems that contain only generated files, some of them endless.
mod made_up {
    use std::fs::File;

    /// From `linux/magic.h`: proc, sysfs, debugfs, tracefs, securityfs, both kinds of cgroups, bpf,
    /// configfs, pstore, efivarfs, selinuxfs, smackfs, binfmt_misc, devpts, mqueue, nsfs,
    /// apparmorfs, resctrl, fusectl.
    const KNOWN: [u32; 20] = [
        0x9fa0,
        0x6265_6572,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x0027_e0eb,
        0x6367_7270,
        0xcafe_4a11,
        0x6265_6570,
        0x6165_676c,
        0xde5e_81e4,
        0xf97c_ff8c,
        0x4341_5d53,
        0x4249_4e4d,
        0x1cd1,
        0x1980_0202,
        0x6e73_6673,
        0x5a3c_69f0,
        0x0765_5821,
        0x6573_5543,
    ];

    #[allow(clippy::unnecessary_cast, reason = "its type differs between processors")]
    pub fn is_made_up(file: &File) -> bool {
        rustix::fs::fstatfs(file).is_ok_and(|found| KNOWN.contains(&(found.f_type as u32)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixListener;

    use rustix::fs::mknodat;

    use super::*;
    use crate::fs::{FileKind, Fs, RealFs};

    fn refused(path: &Utf8Path) -> String {
        let waits_for_nobody = [Open::Read, Open::ReadWrite, Open::Create];
        let mut said = waits_for_nobody.map(|how| open(path, how).unwrap_err().to_string());
        said.sort();
        assert_eq!(said[0], said[2], "{path}");
        assert!(RealFs.read(path).is_err() && Fs::map(&RealFs, path).is_err(), "{path}");
        said[0].clone()
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        let path = |name: &str| base.join(name);
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, path("pipe").as_str(), FileType::Fifo, mode, 0).unwrap();
        let _listener = UnixListener::bind(path("socket")).unwrap();
        let links = [("log", "/proc/kmsg"), ("null", "/dev/null"), ("tty", "/dev/tty")];
        let links = links.into_iter().chain([("round", "round"), ("to_pipe", "pipe")]);
        for (name, target) in links {
            std::os::unix::fs::symlink(target, path(name)).unwrap();
        }
        for (name, what) in [
            ("pipe", "a named pipe"),
            ("to_pipe", "a named pipe"),
            ("socket", "a socket"),
            ("null", "a device"),
            ("tty", "a device"),
        ] {
            assert_eq!(refused(&path(name)), format!("it is {what}, not a regular file"));
        }
        assert!(refused(&path("round")).contains("os error 40"));
        assert!(refused(base).contains("os error 21"));
    }

    #[test]
    fn files_of_the_kernel_are_read_on_purpose_alone() {
        // Without permission this is an error; with permission a read would wait for the next
        // kernel message.
        assert!(open("/proc/kmsg".into(), Open::Read).is_err());
        let error = RealFs.read("/proc/self/status".into()).unwrap_err();
        assert!(error.source.to_string().contains("a file of the kernel"), "{error:?}");
        assert!(!RealFs.read_system_file("/proc/self/status".into()).unwrap().is_empty());
    }

    #[test]
    fn files_without_a_byte_and_files_that_are_not_there_are_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("file");
        assert_eq!(open(&path, Open::Read).unwrap_err().kind(), io::ErrorKind::NotFound);
        open(&path, Open::Create).unwrap();
        assert_eq!(RealFs.read(&path).unwrap(), b"");
        assert_eq!(open(&path, Open::CreateNew).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_name_that_is_not_utf8_is_listed_and_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        fs::write(base.join("a"), "").unwrap();
        let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.wav");
        fs::write(folder.path().join(odd), "").unwrap();
        let listed = RealFs.read_dir(base).unwrap();
        let listed: Vec<_> = listed.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
        assert_eq!(listed, [("a", FileKind::File), ("caf\\xe9.wav", FileKind::Unnameable)]);
    }
}
