//! A folder of files that appears under its name when it is whole.

use std::sync::Arc;

use cache::fs::{Confined, FileKind, Fs, FsFile, FsResult, Open, RealFs, beside};
use camino::{Utf8Path, Utf8PathBuf};
use view::escape::clean;

use crate::error::CliError;
use crate::named;

/// Its files are lost unless it is finished. They are written through the handle of the folder,
/// wherever its path leads meanwhile.
pub struct DeliveryFolder {
    /// The folder around it.
    above: Confined,
    /// The folder in which the files are written.
    inside: Arc<dyn Fs>,
    staging: Utf8PathBuf,
    to: Utf8PathBuf,
}

impl DeliveryFolder {
    /// A new folder, or one in the place of an empty one.
    pub fn new(to: &Utf8Path) -> Result<DeliveryFolder, CliError> {
        named::refuse_caches(to)?;
        let is_link =
            RealFs.symlink_metadata(to).is_ok_and(|found| found.kind == FileKind::Symlink);
        let to = if is_link { RealFs.resolve(to)? } else { to.components().collect() };
        let around = to.parent().unwrap_or(Utf8Path::new(""));
        if !around.as_str().is_empty() {
            RealFs.create_dir_all(around)?;
        }
        let above = Confined::to(around)?;
        match RealFs.read_dir(&to) {
            Ok(entries) if !entries.is_empty() => {
                return Err(CliError::usage(
                    format!("`{}` is not empty", clean(to.as_str())),
                    "choose a new folder: nothing is overwritten",
                ));
            }
            // A folder that cannot be removed could not be replaced at the end.
            Ok(_) => above.remove_dir(&to)?,
            Err(_) if RealFs.metadata(&to).is_ok_and(|found| !found.is_dir()) => {
                return Err(CliError::usage(
                    format!("`{}` is not a folder", clean(to.as_str())),
                    "choose a new folder: nothing is overwritten",
                ));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let staging = beside(&to);
        above.create_dir(&staging)?;
        let inside: Arc<dyn Fs> = Arc::new(above.enter(&staging)?);
        Ok(DeliveryFolder { above, inside, staging, to })
    }

    /// A new file in the folder.
    pub fn create(&self, name: &str) -> Result<Box<dyn FsFile>, CliError> {
        Ok(self.inside.open(&self.staging.join(name), Open::CreateNew)?)
    }

    /// Writes a file; its path may name folders below.
    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<(), CliError> {
        let file = self.staging.join(path);
        self.inside.create_dir_all(file.parent().unwrap_or(&self.staging))?;
        Ok(self.inside.write_new(&file, bytes)?)
    }

    pub fn finish(self) -> Result<(), CliError> {
        self.sync(&self.staging)?;
        self.above.rename(&self.staging, &self.to)?;
        Ok(self.above.sync_dir(self.to.parent().unwrap_or(&self.to))?)
    }

    /// Makes the names in a folder and in those below it durable.
    fn sync(&self, folder: &Utf8Path) -> FsResult<()> {
        for entry in self.inside.read_dir(folder)? {
            if entry.kind == FileKind::Dir {
                self.sync(&folder.join(entry.name))?;
            }
        }
        self.inside.sync_dir(folder)
    }
}

impl Drop for DeliveryFolder {
    fn drop(&mut self) {
        // After the rename, nothing is there.
        let _ = self.above.remove_dir_all(&self.staging);
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
        let folder = DeliveryFolder::new(&to).unwrap();
        folder.write("a", b"1").unwrap();
        assert!(!to.exists());
        drop(folder);
        assert_eq!(names(base), [""; 0]);
        std::fs::create_dir(&to).unwrap();
        let folder = DeliveryFolder::new(&base.join("set/")).unwrap();
        folder.write("a", b"1").unwrap();
        folder.finish().unwrap();
        assert_eq!((names(base), names(&to)), (vec!["set".to_owned()], vec!["a".to_owned()]));
        // The folder itself may be behind a link.
        let (real, link) = (base.join("real"), base.join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let folder = DeliveryFolder::new(&link).unwrap();
        folder.write("a", b"1").unwrap();
        folder.finish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(names(&real), ["a"]);
        // A link in its place leads nothing elsewhere.
        let folder = DeliveryFolder::new(&base.join("other")).unwrap();
        let (staging, moved) = (folder.staging.clone(), base.join("moved"));
        std::fs::rename(&staging, &moved).unwrap();
        std::os::unix::fs::symlink(&to, &staging).unwrap();
        folder.write("below/b", b"2").unwrap();
        assert_eq!((names(&to), names(&moved.join("below"))), (vec!["a".into()], vec!["b".into()]));
        drop(folder);
        assert_eq!(names(&to), ["a"]);
        let refused = |place: &Utf8Path| DeliveryFolder::new(place).err().unwrap();
        assert_eq!(refused(&to).code(), 2);
        let file = to.join("a");
        assert_eq!((refused(&file).code(), std::fs::read(&file).unwrap()), (2, b"1".to_vec()));
    }
}
