//! Files of the callers in the folder of the cache.

use camino::Utf8PathBuf;

use crate::CacheError;
use crate::cache::Cache;
use crate::upkeep::misplaced::{found_at, move_to_trash};

impl Cache {
    /// The path of a file for the caller, in a folder of this name in the cache. Something else in the
    /// place of the folder or of the file is moved into the trash. Returns the warnings.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and [`CacheError::Fs`] or
    /// [`CacheError::NoSpace`] if the folder cannot be made or something cannot be moved away.
    pub fn own_file(
        &self,
        folder: &str,
        name: &str,
    ) -> Result<(Utf8PathBuf, Vec<String>), CacheError> {
        self.0.require_writable()?;
        let (fs, layout) = (&*self.0.fs, &self.0.layout);
        let folder = layout.dir.join(folder);
        let mut told = Vec::new();
        if fs.symlink_metadata(&folder).is_ok_and(|found| !found.is_dir())
            && !fs.metadata(&folder).is_ok_and(|found| found.is_dir())
        {
            told.extend(move_to_trash(fs, layout, folder.clone(), "file", "folder")?);
        }
        fs.create_dir_in_place(&folder)?;
        let file = folder.join(name);
        if let Some(found) = found_at(fs, &file) {
            told.extend(move_to_trash(fs, layout, file.clone(), found, "file")?);
        }
        Ok((file, told))
    }
}
