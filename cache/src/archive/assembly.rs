//! A large object, assembled in the cache from the pieces in an archive.

use crate::cache::{Cache, Shared};
use crate::fs::{FsError, FsFile, Open};
use crate::pack::uncommitted::UncommittedObject;
use crate::{CacheError, Digest, Hasher};

/// A large object that is assembled from its pieces.
pub struct Assembly<'a> {
    shared: &'a Shared,
    pub of: Digest,
    hasher: Hasher,
    /// The number of bytes so far.
    pub size: u64,
    /// None if the cache has the object already.
    file: Option<Box<dyn FsFile>>,
}

impl<'a> Assembly<'a> {
    pub fn begin(cache: &'a Cache, of: Digest) -> Result<Assembly<'a>, CacheError> {
        let shared: &Shared = &cache.0;
        let file = if cache.contains(&of)? {
            None
        } else {
            Some(shared.fs.open(&shared.waiting_path()?, Open::CreateNew)?)
        };
        Ok(Assembly { shared, of, hasher: Hasher::new(), size: 0, file })
    }

    pub fn add(&mut self, bytes: &[u8]) -> Result<(), CacheError> {
        if let Some(file) = &self.file {
            let failed =
                |error: FsError| CacheError::while_writing(error, file.path(), bytes.len() as u64);
            file.write_all_at(bytes, self.size).map_err(failed)?;
            self.hasher.update(bytes);
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Hands the object over if it is complete and correct; else returns false.
    pub fn finish(mut self, size: u64) -> bool {
        let Some(file) = &self.file else { return true };
        if self.size != size || self.hasher.finish() != self.of {
            return false;
        }
        let path = file.path().to_owned();
        self.file = None;
        self.shared.enqueue(self.of, UncommittedObject::File { path, size });
        true
    }
}

impl Drop for Assembly<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // A file that cannot be removed is removed with its folder.
            let _ = self.shared.fs.remove_file(file.path());
        }
    }
}
