//! The right to write an archive in a folder: two writers would each take the other's volumes for
//! the remains of a dead process.

use camino::Utf8Path;

use crate::CacheError;
use crate::fs::{Fs, LockFile};

const NAME: &str = "PACKING";

pub fn take<'a>(fs: &'a dyn Fs, folder: &Utf8Path) -> Result<LockFile<'a>, CacheError> {
    let reason = || "another `pack-cache` is writing to it".to_owned();
    LockFile::take(fs, &folder.join(NAME))?
        .ok_or_else(|| CacheError::Archive { folder: folder.to_owned(), reason: reason() })
}
