//! Errors of a cache, as situations that someone can act on.

use std::io::ErrorKind;

use camino::{Utf8Path, Utf8PathBuf};

use crate::Digest;
use crate::fs::{FsError, MachineFault};

/// The ways in which a cache fails.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A call to the file system failed. It concerns the machine if [`FsError::machine_fault`] says
    /// so.
    #[error(transparent)]
    Fs(FsError),

    /// The disk, a quota or the limit on file sizes leaves no space.
    #[error("{}", no_space(.path, *.needed, .source))]
    NoSpace {
        /// The file or folder that was written.
        path: Utf8PathBuf,
        /// 0 if unknown.
        needed: u64,
        /// The call that failed.
        #[source]
        source: FsError,
    },

    /// A change was requested of a cache that is open for reading.
    #[error("the cache `{dir}` is open for reading only: use another cache folder to write")]
    ReadOnly {
        /// The folder of the cache.
        dir: Utf8PathBuf,
    },

    /// The cache was written by a newer program.
    #[error(
        "the cache `{dir}` has format {found}, this program knows {known}: \
         use a newer program or another cache folder"
    )]
    NewerFormat {
        /// The folder of the cache.
        dir: Utf8PathBuf,
        /// The format that the folder has.
        found: u32,
        /// The newest format that this program can use.
        known: u32,
    },

    /// The folder has a file `FORMAT`, but not that of a cache.
    #[error(
        "`{dir}` is not a cache: its file `FORMAT` says `{found}`; use another folder, or remove \
         that file if the folder is a cache"
    )]
    NotACache {
        /// The folder.
        dir: Utf8PathBuf,
        /// The first 40 characters of that file, without control characters.
        found: String,
    },

    /// The folder seems to be a cache, but its file `FORMAT` cannot be read as one.
    #[error(
        "`{path}` is damaged: it says `{found}`; if `{dir}` is a cache, remove that file, and the \
         next run writes it again"
    )]
    DamagedMark {
        /// The folder.
        dir: Utf8PathBuf,
        /// The file `FORMAT`.
        path: Utf8PathBuf,
        /// The first 40 characters of that file, without control characters.
        found: String,
    },

    /// A folder, a link or the like is in the place of a file of the cache, or the other way round.
    #[error(
        "`{path}` is a {found}, where a {wanted} of the cache should be: move it away, then run \
         again"
    )]
    Misplaced {
        /// The path in the cache.
        path: Utf8PathBuf,
        /// The kind of entry at that path.
        found: &'static str,
        /// The kind of entry that belongs there.
        wanted: &'static str,
    },

    /// A cache that does not exist was to be opened for reading.
    #[error("there is no cache in `{dir}`")]
    NoCache {
        /// The folder.
        dir: Utf8PathBuf,
    },

    /// Another program removed, moved or replaced the folder. Nothing can be committed any more.
    #[error(
        "the cache `{dir}` was removed, moved or replaced while it was in use: uncommitted results are lost; run again"
    )]
    Gone {
        /// The folder as it was opened.
        dir: Utf8PathBuf,
    },

    /// The cache lacks an object. The caller makes it again.
    #[error("object {digest} is not in the cache")]
    Missing {
        /// The digest of the object.
        digest: Digest,
    },

    /// The bytes of an object are not those of its digest. It counts as missing from now on.
    #[error("object {digest} is damaged in {place}: it was quarantined and will be made again")]
    Damaged {
        /// The digest of the object.
        digest: Digest,
        /// The file, and for packs the offset, for people.
        place: String,
    },

    /// The index cannot be read or written. It can be built again from the packs: see
    /// [`Cache::rebuild_index`](crate::Cache::rebuild_index).
    #[error("the index `{path}` cannot be used: {reason}")]
    Index {
        /// The file of the index.
        path: Utf8PathBuf,
        /// The message of the database.
        reason: String,
    },

    /// One value exceeds the limit of a record as written, although long values are cut into parts.
    #[error("a record of {size} bytes is larger than the limit of {limit}")]
    RecordTooLarge {
        /// Bytes of the value as written.
        size: u64,
        /// The largest number of bytes.
        limit: u64,
    },

    /// A folder that does not fit the arguments.
    #[error("`{folder}` cannot be used: {reason}")]
    Archive {
        /// The folder that was named as an archive or as its target.
        folder: Utf8PathBuf,
        /// The problem with it, for people.
        reason: String,
    },

    /// A file of an archive cannot be read as one.
    #[error("`{path}` of an archive is damaged: {advice}")]
    DamagedArchive {
        /// The file.
        path: Utf8PathBuf,
        /// The remedy, such as `pack it again`.
        advice: &'static str,
    },

    /// A file of the user was written while it was hashed, so its digest means nothing.
    #[error("`{path}` changed while it was being read")]
    Changed {
        /// The file.
        path: Utf8PathBuf,
    },

    /// A folder, a pipe, a device or the like was given in place of a file.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// The path as it was given.
        path: Utf8PathBuf,
    },
}

/// The bytes needed, the place, and advice.
fn no_space(path: &Utf8Path, needed: u64, source: &FsError) -> String {
    let (what, advice) = match source.kind() {
        ErrorKind::FileTooLarge => ("the limit on file sizes leaves no space", "raise it"),
        ErrorKind::QuotaExceeded => ("the disk quota leaves no space", "free some"),
        _ => ("no space", "free some"),
    };
    match needed {
        0 => format!("{what} for at least one block more at `{path}`: {advice}, then run again"),
        _ => format!("{what} for {needed} bytes more at `{path}`: {advice}, then run again"),
    }
}

/// A full disk is always named as such.
impl From<FsError> for CacheError {
    fn from(error: FsError) -> CacheError {
        let path = error.path.clone();
        CacheError::while_writing(error, &path, 0)
    }
}

impl CacheError {
    /// Names a full disk as such, with the space that the failed step needed.
    pub fn while_writing(error: FsError, path: &Utf8Path, needed: u64) -> CacheError {
        if error.is_no_space() {
            CacheError::NoSpace { path: path.to_owned(), needed, source: error }
        } else {
            CacheError::Fs(error)
        }
    }

    /// The disk, or a quota on it, is full.
    pub fn is_no_space(&self) -> bool {
        self.machine_fault() == Some(MachineFault::DiskFull)
    }

    /// None if the error concerns the stored data, or the folder.
    pub fn machine_fault(&self) -> Option<MachineFault> {
        match self {
            CacheError::NoSpace { .. } => Some(MachineFault::DiskFull),
            CacheError::Fs(error) => error.machine_fault(),
            _ => None,
        }
    }

    /// The message with its cause, to be shown alone.
    pub fn whole(&self) -> String {
        match self {
            CacheError::Fs(error) => error.whole(),
            error => error.to_string(),
        }
    }

    /// Tests if the requested object has to be made again.
    pub fn is_lost_object(&self) -> bool {
        matches!(self, CacheError::Missing { .. } | CacheError::Damaged { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::fs::Call;
    use crate::fs::fault::{EDQUOT, EFBIG, EIO, ENOSPC};

    fn failed(number: i32) -> FsError {
        FsError::new(Call::Write, "/c/x".into(), io::Error::from_raw_os_error(number))
    }

    #[test]
    fn a_full_disk_is_told_with_what_was_needed() {
        let while_writing =
            |number| CacheError::while_writing(failed(number), "/c".into(), 7).whole();
        assert_eq!(
            while_writing(ENOSPC),
            "no space for 7 bytes more at `/c`: free some, then run again"
        );
        assert_eq!(
            while_writing(EDQUOT),
            "the disk quota leaves no space for 7 bytes more at `/c`: free some, then run again"
        );
        assert_eq!(
            while_writing(EFBIG),
            "the limit on file sizes leaves no space for 7 bytes more at `/c`: raise it, then run \
             again"
        );
        assert_eq!(
            CacheError::from(failed(ENOSPC)).whole(),
            "no space for at least one block more at `/c/x`: free some, then run again"
        );
        assert!(CacheError::from(failed(EIO)).whole().starts_with("cannot write `/c/x`: "));
    }
}
