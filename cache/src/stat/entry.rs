//! The state of one file when it was last read.

use camino::Utf8Path;

use crate::fs::{Fs, Metadata, Open};
use crate::{CacheError, Digest, hash_up_to};

/// The subject of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// The bytes of a regular file.
    File,
    /// The names in a folder.
    Dir,
    /// The absence of a file.
    Absent,
    /// The file cannot be read; the digest is that of the reason. Never trusted, since no stat
    /// shows if the file is readable now.
    Unusable,
}

/// The state of a path at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatEntry {
    /// Relative to the base folder of the check.
    pub path: String,
    /// Bytes; 0 for an entry without a stat.
    pub size: u64,
    /// The last change of the contents, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The last change of contents or metadata, in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// The number of the file on its disk.
    pub inode: u64,
    /// The time at which reading it began.
    pub hashed_ns: i64,
    /// The digest of the bytes, of the names in the folder, or of the reason.
    pub digest: Digest,
    /// The subject: a file, a folder, or their absence.
    pub what: What,
    /// Only the digest and the size of the file were requested.
    pub by_digest: bool,
}

/// A file with changed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewContent {
    /// The digest before the change.
    pub old: Digest,
    /// The digest now.
    pub new: Digest,
    /// Bytes now.
    pub size: u64,
}

const SECOND: i64 = 1_000_000_000;

impl StatEntry {
    /// An entry from metadata that were read before `digest` was computed; `hashed_ns` is the time
    /// at which reading began.
    pub fn new(
        path: String,
        metadata: &Metadata,
        hashed_ns: i64,
        digest: Digest,
        what: What,
    ) -> StatEntry {
        StatEntry {
            path,
            size: metadata.size,
            mtime_ns: metadata.mtime_ns,
            ctime_ns: metadata.ctime_ns,
            inode: metadata.inode,
            hashed_ns,
            digest,
            what,
            by_digest: false,
        }
    }

    /// An entry for a missing file.
    pub fn absent(path: String, digest: Digest) -> StatEntry {
        StatEntry::without_stat(path, digest, What::Absent)
    }

    /// An entry for an unreadable file, with the digest of the reason.
    pub fn unusable(path: String, reason: Digest) -> StatEntry {
        StatEntry::without_stat(path, reason, What::Unusable)
    }

    fn without_stat(path: String, digest: Digest, what: What) -> StatEntry {
        StatEntry {
            path,
            size: 0,
            mtime_ns: 0,
            ctime_ns: 0,
            inode: 0,
            hashed_ns: 0,
            digest,
            what,
            by_digest: false,
        }
    }

    /// Tests if a file's metadata are still those of this entry.
    pub fn describes(&self, metadata: &Metadata) -> bool {
        metadata.size == self.size
            && metadata.mtime_ns == self.mtime_ns
            && metadata.ctime_ns == self.ctime_ns
            && metadata.inode == self.inode
    }

    /// Tests if an edit after the hashing would be detectable: the file was clearly older by then.
    pub fn trusted(&self) -> bool {
        trusted(self.what, self.mtime_ns, self.ctime_ns, self.hashed_ns)
    }
}

/// Times without sub-second digits come from file systems without finer ones.
pub(super) fn trusted(what: What, mtime_ns: i64, ctime_ns: i64, hashed_ns: i64) -> bool {
    let old_enough = |time: i64| {
        let margin = if time % SECOND == 0 { 2 * SECOND } else { SECOND / 10 };
        hashed_ns.saturating_sub(time) >= margin
    };
    what == What::Absent || (old_enough(mtime_ns) && old_enough(ctime_ns))
}

/// Hashes a file; an error if it changed meanwhile. The entry has the path as given.
///
/// # Errors
///
/// [`CacheError::NotAFile`] for a folder or the like, [`CacheError::Changed`] if the metadata
/// changed meanwhile, and [`CacheError::Fs`] if the file cannot be read.
pub fn hash_file(fs: &dyn Fs, path: &Utf8Path) -> Result<(Digest, StatEntry), CacheError> {
    let hashed_ns = fs.now();
    let file = fs.open(path, Open::Read)?;
    let before = file.opened()?;
    if !before.is_file() {
        return Err(CacheError::NotAFile { path: path.to_owned() });
    }
    let (digest, size) = hash_up_to(&*file, before.size)?;
    let after = file.metadata()?;
    if before != after || size != after.size {
        return Err(CacheError::Changed { path: path.to_owned() });
    }
    Ok((digest, StatEntry::new(path.to_string(), &after, hashed_ns, digest, What::File)))
}
