//! A folder of files that appears under its name when it is whole.

use cache::fs::{Fs, RealFs, beside};
use camino::{Utf8Path, Utf8PathBuf};
use view::escape::clean;

use crate::error::CliError;
use crate::named;

/// Its files are lost unless it is finished.
pub struct Folder {
    /// The folder in which the files are written.
    pub staging: Utf8PathBuf,
    to: Utf8PathBuf,
}

impl Folder {
    /// A new folder, or one in the place of an empty one.
    pub fn new(to: &Utf8Path) -> Result<Folder, CliError> {
        named::refuse_caches(to)?;
        let trimmed: Utf8PathBuf = to.components().collect();
        match RealFs.read_dir(to) {
            Ok(entries) if !entries.is_empty() => {
                return Err(CliError::usage(
                    format!("`{}` is not empty", clean(to.as_str())),
                    "choose a new folder: nothing is overwritten",
                ));
            }
            // A folder that cannot be removed could not be replaced at the end.
            Ok(_) => RealFs.remove_dir(&trimmed)?,
            Err(_) if RealFs.metadata(to).is_ok_and(|found| !found.is_dir()) => {
                return Err(CliError::usage(
                    format!("`{}` is not a folder", clean(to.as_str())),
                    "choose a new folder: nothing is overwritten",
                ));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let folder = Folder { staging: beside(&trimmed), to: trimmed };
        RealFs.create_dir_all(&folder.staging)?;
        Ok(folder)
    }

    pub fn finish(self) -> Result<(), CliError> {
        Ok(RealFs.rename(&self.staging, &self.to)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After the rename, nothing is there.
        let _ = RealFs.remove_dir_all(&self.staging);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;

    fn names(folder: &Utf8Path) -> Vec<String> {
        let names = RealFs.read_dir(folder).unwrap().into_iter();
        names.map(|entry| entry.name.to_string()).collect()
    }

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let temporary = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(temporary.path()).unwrap();
        let to = base.join("set");
        let folder = Folder::new(&to).unwrap();
        std::fs::write(folder.staging.join("a"), "1").unwrap();
        assert!(!to.exists());
        drop(folder);
        assert_eq!(names(base), [""; 0]);
        std::fs::create_dir(&to).unwrap();
        let folder = Folder::new(&base.join("set/")).unwrap();
        std::fs::write(folder.staging.join("a"), "1").unwrap();
        folder.finish().unwrap();
        assert_eq!((names(base), names(&to)), (vec!["set".to_owned()], vec!["a".to_owned()]));
        let refused = |place: &Utf8Path| Folder::new(place).err().unwrap();
        assert_eq!(refused(&to).code(), 2);
        let file = to.join("a");
        assert_eq!((refused(&file).code(), std::fs::read(&file).unwrap()), (2, b"1".to_vec()));
    }
}
