//! Permission that is denied since a file or its folder belongs to another user.

use std::fs::{self, Metadata};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;

use camino::Utf8Path;

use crate::fs::{Call, FsError};

/// The error of an operation. It names the owner if that is not the user of this process.
pub fn explained(call: Call, path: &Utf8Path, source: Error) -> FsError {
    if source.kind() != ErrorKind::PermissionDenied {
        return FsError::new(call, path, source);
    }
    let own = rustix::process::geteuid().as_raw();
    let there = fs::symlink_metadata(path).ok();
    // A file that exists is opened, although it would be created if it were missing.
    let call = if call == Call::Create && there.is_some() { Call::Open } else { call };
    let folder = || path.parent().filter(|folder| !folder.as_str().is_empty());
    let of_folder = || fs::metadata(folder().unwrap_or(".".into())).ok();
    let (what, owner) = match there {
        Some(file) => ("it", Some(file)),
        None => ("its folder", of_folder()),
    };
    match owner.as_ref().map(Metadata::uid).filter(|owner| *owner != own) {
        None => FsError::new(call, path, source),
        Some(owner) => {
            let message = format!(
                "permission denied: {what} belongs to {}, and this process runs as {}",
                name(owner),
                name(own)
            );
            FsError::new(call, path, Error::new(ErrorKind::PermissionDenied, message))
        }
    }
}

/// The name of a user, or the number if this machine does not know it.
fn name(user: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(user)).then(|| format!("`{}`", name.escape_debug()))
    };
    users.lines().find_map(of).unwrap_or_else(|| format!("user {user}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn told(path: &str) -> String {
        let denied = || Error::from_raw_os_error(nix::libc::EACCES);
        explained(Call::Create, Utf8Path::new(path), denied()).whole()
    }

    #[test]
    fn the_owner_of_a_file_that_denies_is_named() {
        let own = rustix::process::geteuid().as_raw();
        if own == 0 {
            // Nothing here belongs to anyone else for certain.
            let folder = tempfile::tempdir().unwrap();
            let folder = Utf8Path::from_path(folder.path()).unwrap();
            let file = folder.join("ledger");
            fs::write(&file, "").unwrap();
            std::os::unix::fs::chown(&file, Some(54_321), None).unwrap();
            let message = told(file.as_str());
            let expected =
                "permission denied: it belongs to user 54321, and this process runs as `root`";
            assert_eq!(message, format!("cannot open `{file}`: {expected}"));
            std::os::unix::fs::chown(folder, Some(54_321), None).unwrap();
            let message = told(folder.join("new").as_str());
            assert!(message.contains("its folder belongs to user 54321"), "{message}");
            assert!(message.starts_with("cannot create"), "{message}");
            return;
        }
        let message = told("/etc/passwd");
        assert!(
            message.starts_with("cannot open `/etc/passwd`: permission denied: it"),
            "{message}"
        );
        assert!(message.contains("belongs to `root`"), "{message}");
    }

    #[test]
    fn an_own_file_is_denied_by_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = Utf8Path::from_path(folder.path()).unwrap().join("own");
        fs::write(&file, "").unwrap();
        assert_eq!(
            told(file.as_str()),
            format!("cannot open `{file}`: Permission denied (os error 13)")
        );
    }
}
