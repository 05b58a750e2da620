//! What can go wrong with a cache, as situations someone can act on.

use camino::{Utf8Path, Utf8PathBuf};

use crate::Digest;
use crate::fs::FsError;

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(transparent)]
    Fs(#[from] FsError),

    #[error("no space for {needed} bytes more at `{path}`: free some, then run again")]
    NoSpace {
        path: Utf8PathBuf,
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
        "`{dir}` is no cache: its file `FORMAT` says `{found}`; use another folder, or remove \
         that file if the folder is a cache"
    )]
    NotACache { dir: Utf8PathBuf, found: String },

    #[error("there is no cache in `{dir}`")]
    NoCache { dir: Utf8PathBuf },

    #[error("object {digest} is not in the cache")]
    Missing { digest: Digest },

    #[error("object {digest} is damaged in {place}: it was set aside and will be made again")]
    Damaged { digest: Digest, place: String },

    #[error("the index `{path}` cannot be used: {reason}")]
    Index { path: Utf8PathBuf, reason: String },

    #[error("a record of {size} bytes is too large: {limit} are allowed")]
    RecordTooLarge { size: u64, limit: u64 },

    /// A folder that is not what the arguments say.
    #[error("`{folder}` cannot be used: {reason}")]
    Archive { folder: Utf8PathBuf, reason: String },

    #[error("`{path}` of an archive is damaged: {advice}")]
    DamagedArchive { path: Utf8PathBuf, advice: &'static str },

    #[error("`{path}` changed while it was being read")]
    Changed { path: Utf8PathBuf },

    #[error("`{path}` is not a regular file")]
    NotAFile { path: Utf8PathBuf },
}

impl CacheError {
    /// Names a full disk as such, with what the failed step would have needed.
    pub(crate) fn while_writing(error: FsError, path: &Utf8Path, needed: u64) -> CacheError {
        if error.is_no_space() {
            CacheError::NoSpace { path: path.to_owned(), needed, source: error }
        } else {
            CacheError::Fs(error)
        }
    }

    /// The disk, or a quota on it, is full.
    pub fn is_no_space(&self) -> bool {
        match self {
            CacheError::NoSpace { .. } => true,
            CacheError::Fs(error) => error.is_no_space(),
            _ => false,
        }
    }

    /// Whether the object asked for has to be made again.
    pub fn is_lost_object(&self) -> bool {
        matches!(self, CacheError::Missing { .. } | CacheError::Damaged { .. })
    }
}
