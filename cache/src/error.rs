//! Errors of a cache, as situations that someone can act on.

use std::io::ErrorKind;

use camino::{Utf8Path, Utf8PathBuf};

use crate::Digest;
use crate::fs::{FsError, MachineFault};

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(transparent)]
    Fs(FsError),

    #[error("{}", no_space(.path, *.needed, .source))]
    NoSpace {
        path: Utf8PathBuf,
        /// 0 if unknown.
        needed: u64,
        #[source]
        source: FsError,
    },

    #[error("the cache `{dir}` is open for reading only: use another cache folder to write")]
    ReadOnly { dir: Utf8PathBuf },

    #[error(
        "the cache `{dir}` has format {found}, this program knows {known}: \
         use a newer program or another cache folder"
    )]
    NewerFormat { dir: Utf8PathBuf, found: u32, known: u32 },

    #[error(
        "`{dir}` is not a cache: its file `FORMAT` says `{found}`; use another folder, or remove \
         that file if the folder is a cache"
    )]
    NotACache { dir: Utf8PathBuf, found: String },

    #[error(
        "`{path}` is damaged: it says `{found}`; if `{dir}` is a cache, remove that file, and the \
         next run writes it again"
    )]
    DamagedMark { dir: Utf8PathBuf, path: Utf8PathBuf, found: String },

    #[error(
        "`{path}` is a {found}, where a {wanted} of the cache should be: move it away, then run \
         again"
    )]
    Misplaced { path: Utf8PathBuf, found: &'static str, wanted: &'static str },

    #[error("there is no cache in `{dir}`")]
    NoCache { dir: Utf8PathBuf },

    #[error(
        "the cache `{dir}` was removed, moved or replaced while it was in use: uncommitted results are lost; run again"
    )]
    Gone { dir: Utf8PathBuf },

    #[error("object {digest} is not in the cache")]
    Missing { digest: Digest },

    #[error("object {digest} is damaged in {place}: it was quarantined and will be made again")]
    Damaged { digest: Digest, place: String },

    #[error("the index `{path}` cannot be used: {reason}")]
    Index { path: Utf8PathBuf, reason: String },

    #[error("a record of {size} bytes is larger than the limit of {limit}")]
    RecordTooLarge { size: u64, limit: u64 },

    /// A folder that does not fit the arguments.
    #[error("`{folder}` cannot be used: {reason}")]
    Archive { folder: Utf8PathBuf, reason: String },

    #[error("`{path}` of an archive is damaged: {advice}")]
    DamagedArchive { path: Utf8PathBuf, advice: &'static str },

    #[error("`{path}` changed while it was being read")]
    Changed { path: Utf8PathBuf },

    #[error("`{path}` is not a regular file")]
    NotAFile { path: Utf8PathBuf },
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
