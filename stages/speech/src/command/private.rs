//! The private folder of a program: inputs in `in`, outputs in `out`, and temporary files.
//!
//! When no process of a program is left, and none works in its folder, the folder is emptied,
//! renamed, and given to the next program. Removing a folder frees a block, and some file systems
//! tell the device at once, which takes longer than a small program. After a failure, and whenever
//! a process may still use the folder, it is removed.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cache::CacheError;
use cache::fs::{Call, Fs, FsError, RealFs};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Context, StageError};

use super::inputs;
use super::room::Disks;

pub const INPUTS: &str = "in";
pub const OUTPUTS: &str = "out";
/// Its name in the folder of a replay.
const KEPT: &str = "command";
/// Only the owner may do anything in it.
const MODE: u32 = 0o700;
const PERMISSIONS: u32 = 0o777;
/// Empty folders of this process, by their parent folder. They are removed with it.
static IDLE: Mutex<BTreeMap<Utf8PathBuf, Vec<Utf8PathBuf>>> = Mutex::new(BTreeMap::new());
/// The number of names so far: none is used twice.
static NAMES: AtomicU64 = AtomicU64::new(0);

fn idle() -> MutexGuard<'static, BTreeMap<Utf8PathBuf, Vec<Utf8PathBuf>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn idle_in(above: &Utf8Path) -> Option<Utf8PathBuf> {
    idle().get_mut(above)?.pop()
}

fn keep_idle(above: &Utf8Path, folder: &Utf8Path) {
    let mut idle = idle();
    if !idle.contains_key(above) {
        // The folders of earlier runs of this process are gone.
        idle.retain(|above, _| above.exists());
    }
    idle.entry(above.to_owned()).or_default().push(folder.to_owned());
}

/// Dropping it removes the folder, unless the stage is replayed.
pub struct Private {
    path: Utf8PathBuf,
    /// The device and the number of the folder: a program may put something else under its name.
    identity: Option<(u64, u64)>,
    stays: bool,
}

/// None if there is no folder of that name.
pub fn identity(folder: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    Some((metadata.dev(), metadata.ino()))
}

impl Private {
    pub fn new(context: &mut dyn Context) -> Result<Private, StageError> {
        if let Some(kept) = context.kept() {
            let path = kept.join(KEPT);
            create(&path.join(INPUTS))?;
            create(&path.join(OUTPUTS))?;
            return Ok(Private { path, identity: None, stays: true });
        }
        let above = absolute(&context.scratch()?)?;
        let path = above.join(format!("command-{}", NAMES.fetch_add(1, Ordering::Relaxed)));
        // A process that left the group must not find it under the old name.
        if idle_in(&above).is_some_and(|old| fs::rename(old, &path).is_ok()) {
            let identity = identity(path.as_std_path());
            return Ok(Private { path, identity, stays: false });
        }
        let mut made = Private { path, identity: None, stays: false };
        for folder in [made.path.clone(), made.path.join(INPUTS), made.path.join(OUTPUTS)] {
            let built = DirBuilder::new().mode(MODE).create(&folder);
            built.map_err(|error| own_file(FsError::new(Call::CreateDir, &folder, error)))?;
        }
        made.identity = identity(made.path.as_std_path());
        Ok(made)
    }

    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Gives it to the next program. Requires that the program left no process behind.
    pub fn give_back(mut self) {
        if self.stays {
            return;
        }
        note_disk(&self.path);
        let is_same = self.identity.is_some() && identity(self.path.as_std_path()) == self.identity;
        if !is_same || is_worked_in(self.path.as_std_path()) {
            return;
        }
        // If it differs from a new one, it is removed.
        if let (Ok(true), Some(above)) = (empty(&self.path), self.path.parent()) {
            keep_idle(above, &self.path);
            self.stays = true;
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if !self.stays {
            note_disk(&self.path);
            inputs::remove(&self.path, self.identity);
            // This includes folders without permissions for their owner. The rest is swept with the
            // parent folder.
            let _ = RealFs.remove_dir_all(&self.path);
        }
    }
}

/// Before files are removed: a concurrent program may have run out of space until now.
fn note_disk(folder: &Utf8Path) {
    Disks::shared().look(folder);
}

/// Tests if a process has this folder or one in it as its working directory: it may write there by
/// relative paths, under whatever name the folder has. Processes of other users are not seen.
fn is_worked_in(folder: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().any(|process| {
        let is_process = process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let work = || fs::read_link(process.path().join("cwd"));
        is_process && work().is_ok_and(|work| work.starts_with(folder))
    })
}

/// Removes all files. False if the folder differs from a new one in anything else.
fn empty(folder: &Utf8Path) -> io::Result<bool> {
    let mut found = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        } else if [INPUTS, OUTPUTS].map(Some).contains(&entry.file_name().to_str()) {
            found += 1;
            if entry.metadata()?.dev() != fs::symlink_metadata(folder)?.dev() {
                return Ok(false);
            }
            if !empty_below(&entry.path())? {
                return Ok(false);
            }
        } else {
            return Ok(false);
        }
    }
    Ok(found == 2 && is_own(folder.as_std_path())?)
}

fn empty_below(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            return Ok(false);
        }
        fs::remove_file(entry.path())?;
    }
    is_own(folder)
}

fn is_own(folder: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(folder)?.permissions().mode() & PERMISSIONS == MODE)
}

/// The command runs elsewhere, and the cache may be given by a relative path.
fn absolute(folder: &Utf8Path) -> Result<Utf8PathBuf, StageError> {
    let failed =
        |why: String| StageError::failed(format!("failed to make a folder for the command: {why}"));
    let absolute = std::path::absolute(folder).map_err(|error| failed(error.to_string()))?;
    Utf8PathBuf::from_path_buf(absolute).map_err(|_| failed("its path is not UTF-8".to_owned()))
}

pub fn create(folder: &Utf8Path) -> Result<(), StageError> {
    fs::create_dir_all(folder)
        .map_err(|error| own_file(FsError::new(Call::CreateDir, folder, error)))
}

pub fn write(file: &Utf8Path, bytes: &[u8]) -> Result<(), StageError> {
    fs::write(file, bytes).map_err(|error| {
        let error = FsError::new(Call::Write, file, error);
        if error.is_not_found() {
            return own_file(error);
        }
        StageError::of_cache("", &CacheError::while_writing(error, file, bytes.len() as u64))
    })
}

/// An error of a file in the private folder. If the folder is gone, somebody has removed it.
fn own_file(error: FsError) -> StageError {
    match error.is_not_found() {
        true => StageError::Transient { message: CacheError::from(error).whole() },
        false => StageError::of_file(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn above(&self) -> &Utf8Path {
            Utf8Path::from_path(self.0.path()).unwrap()
        }

        fn made(&self) -> Utf8PathBuf {
            let folder = self.above().join("command");
            for folder in [folder.clone(), folder.join(INPUTS), folder.join(OUTPUTS)] {
                DirBuilder::new().mode(MODE).create(folder).unwrap();
            }
            folder
        }
    }

    fn names(folder: &Utf8Path) -> Vec<String> {
        let entries = folder.read_dir_utf8().unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_emptied_folder_has_nothing_of_its_program() {
        let place = Place(tempfile::tempdir().unwrap());
        let folder = place.made();
        let theirs = place.above().join("theirs");
        fs::write(&theirs, "x").unwrap();
        for file in ["in/audio.wav", "out/result.txt", "out/.more", "temporary", "script"] {
            fs::write(folder.join(file), "x").unwrap();
        }
        symlink(&theirs, folder.join("out/link")).unwrap();
        symlink(place.above(), folder.join("folder")).unwrap();
        assert!(empty(&folder).unwrap());
        assert_eq!(names(&folder), [INPUTS, OUTPUTS]);
        assert!(names(&folder.join(INPUTS)).is_empty() && names(&folder.join(OUTPUTS)).is_empty());
        assert_eq!(fs::read_to_string(theirs).unwrap(), "x");
    }

    #[test]
    fn what_is_put_under_the_name_of_a_folder_is_not_emptied() {
        let place = Place(tempfile::tempdir().unwrap());
        let (path, theirs) = (place.made(), place.above().join("theirs"));
        let own = |path: &Utf8Path| Private {
            path: path.to_owned(),
            identity: identity(path.as_std_path()),
            stays: false,
        };
        let private = own(&path);
        for folder in [&theirs, &theirs.join(INPUTS), &theirs.join(OUTPUTS)] {
            DirBuilder::new().mode(MODE).create(folder).unwrap();
        }
        fs::write(theirs.join("precious"), "x").unwrap();
        fs::rename(&path, place.above().join("moved")).unwrap();
        symlink(&theirs, &path).unwrap();
        private.give_back();
        assert_eq!(fs::read_to_string(theirs.join("precious")).unwrap(), "x");
        assert!(!path.is_symlink() && idle_in(place.above()).is_none());
    }

    #[test]
    fn a_folder_that_a_process_works_in_is_removed() {
        let place = Place(tempfile::tempdir().unwrap());
        let path = place.made();
        let mut sleeper = std::process::Command::new("sleep");
        let mut sleeper = sleeper.arg("60").current_dir(path.join(OUTPUTS)).spawn().unwrap();
        let identity = identity(path.as_std_path());
        Private { path: path.clone(), identity, stays: false }.give_back();
        assert!(!path.exists() && idle_in(place.above()).is_none());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn a_folder_that_is_not_as_it_was_made_is_not_used_again() {
        let changes: [fn(&Utf8Path); 6] = [
            |folder| fs::create_dir(folder.join("more")).unwrap(),
            |folder| fs::create_dir(folder.join("out/more")).unwrap(),
            |folder| fs::remove_dir(folder.join(INPUTS)).unwrap(),
            |folder| fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap(),
            |folder| {
                let open = fs::Permissions::from_mode(0o777);
                fs::set_permissions(folder.join(OUTPUTS), open).unwrap();
            },
            |folder| {
                fs::remove_dir(folder.join(OUTPUTS)).unwrap();
                symlink(folder.parent().unwrap().join("theirs"), folder.join(OUTPUTS)).unwrap();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let place = Place(tempfile::tempdir().unwrap());
            let theirs = place.above().join("theirs");
            fs::create_dir(&theirs).unwrap();
            fs::write(theirs.join("file"), "x").unwrap();
            let folder = place.made();
            change(&folder);
            assert!(!matches!(empty(&folder), Ok(true)), "change {number}");
            assert!(theirs.join("file").exists(), "change {number}");
        }
    }
}
