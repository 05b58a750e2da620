//! Free space on a disk.
// These calls query the file system itself and touch no file.
#![allow(clippy::disallowed_methods)]

use std::io;
use std::os::unix::fs::MetadataExt;

use camino::Utf8Path;

/// Space for users without access to the blocks reserved for root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Identifies the disk.
    pub disk: u64,
    /// Bytes that this user can still write.
    pub free: u64,
    /// Bytes of the whole disk.
    pub total: u64,
    /// Free inodes; None when the file system does not count them.
    pub files: Option<u64>,
}

/// After a write failed for lack of space, less than this is left.
const FULL: u64 = 16 << 10;
/// A disk counts as nearly full when less than this fraction is free, within these bounds.
const SHARE: u64 = 100;
const LEAST: u64 = 64 << 10;
const MOST: u64 = 16 << 20;
const FEW_FILES: u64 = 16;

impl Space {
    /// The space on the disk of a folder.
    ///
    /// # Errors
    ///
    /// If the folder is missing, or if its file system does not answer.
    pub fn of(folder: &Utf8Path) -> io::Result<Space> {
        let found = rustix::fs::statvfs(folder.as_str())?;
        Ok(Space {
            disk: std::fs::metadata(folder)?.dev(),
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
            files: (found.f_files > 0).then_some(found.f_favail),
        })
    }

    /// Nothing more can be written.
    pub fn is_full(&self) -> bool {
        self.free < FULL || self.files == Some(0)
    }

    /// A program that failed here may have failed for lack of space.
    pub fn is_nearly_full(&self) -> bool {
        let few = self.files.is_some_and(|files| files < FEW_FILES);
        self.free < (self.total / SHARE).clamp(LEAST, MOST) || few
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn space(free: u64, total: u64, files: Option<u64>) -> Space {
        Space { disk: 1, free, total, files }
    }

    #[test]
    fn a_disk_is_nearly_full_at_a_share_of_its_size_within_bounds() {
        for (free, total, nearly) in [
            (60_000, 500_000, true),
            (70_000, 500_000, false),
            (900_000, 100 << 20, true),
            (2 << 20, 100 << 20, false),
            (15 << 20, 1 << 40, true),
            (17 << 20, 1 << 40, false),
        ] {
            let space = space(free, total, None);
            assert_eq!((space.is_nearly_full(), space.is_full()), (nearly, false), "{free}");
        }
        assert!(space(4_095, 1 << 40, None).is_full());
    }

    #[test]
    fn a_disk_without_room_for_another_file_is_full() {
        assert!(space(1 << 40, 1 << 41, Some(0)).is_full());
        assert!(space(1 << 40, 1 << 41, Some(3)).is_nearly_full());
        assert!(!space(1 << 40, 1 << 41, Some(1_000)).is_nearly_full());
    }

    #[test]
    fn the_space_of_a_folder_is_that_of_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let space = Space::of(path).unwrap();
        assert!(space.total > 0 && space.free <= space.total, "{space:?}");
        assert!(Space::of(&path.join("not/there")).is_err());
    }
}
