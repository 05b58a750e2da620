//! The private folder of a program: inputs in `in`, outputs in `out`, and temporary files.
//!
//! When no process of a program is left, its folder is emptied, and once none works in it, it is
//! renamed and given to another program. Removing a folder frees a block, and some file systems tell
//! the device at once, which takes longer than a small program. After a failure, and whenever a
//! process may still use the folder, it is removed.
//!
//! Reading the working directories of all processes takes a quarter of the time of a small program.
//! Where many programs run, it is done for several folders at a time.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
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
/// The largest number of emptied folders that are searched for processes at a time, and the number
/// of programs that has to run for each: removing a folder at the end may take as long as ten
/// searches. A search takes a third of the time of a small program where 130 processes run.
const AT_ONCE: usize = 16;
const FOR_EACH: usize = 32;
/// Empty folders of this process, by their parent folder. They are removed with it.
static IDLE: Mutex<BTreeMap<Utf8PathBuf, Idle>> = Mutex::new(BTreeMap::new());
/// The number of names so far: none is used twice.
static NAMES: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Idle {
    /// No process works in these.
    free: Vec<Utf8PathBuf>,
    /// A process may work in one of these.
    unsearched: Vec<Private>,
    /// The number of programs so far.
    programs: usize,
}

impl Idle {
    /// Folders to search for processes, once there are enough.
    fn take_enough(&mut self) -> Option<Vec<Private>> {
        let enough = (self.programs / FOR_EACH).clamp(1, AT_ONCE);
        (self.unsearched.len() >= enough).then(|| std::mem::take(&mut self.unsearched))
    }
}

fn idle() -> MutexGuard<'static, BTreeMap<Utf8PathBuf, Idle>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty folder in this one. None if there are too few to search them.
fn idle_in(above: &Utf8Path) -> Option<Utf8PathBuf> {
    let unsearched = {
        let mut idle = idle();
        let idle = idle.get_mut(above)?;
        if let Some(free) = idle.free.pop() {
            return Some(free);
        }
        idle.take_enough()?
    };
    let mut free = unused(above, unsearched);
    let one = free.pop();
    idle().entry(above.to_owned()).or_default().free.extend(free);
    one
}

/// Those of these folders that no process works in. The others are removed.
fn unused(above: &Utf8Path, folders: Vec<Private>) -> Vec<Utf8PathBuf> {
    let Some(worked_in) = working_directories(above.as_std_path()) else { return Vec::new() };
    let mut unused = Vec::new();
    for mut folder in folders {
        if !worked_in.iter().any(|work| work.starts_with(&folder.path)) {
            folder.stays = true;
            unused.push(folder.path.clone());
        }
    }
    unused
}

fn keep_idle(folder: Private) {
    let Some(above) = folder.path.parent().map(Utf8Path::to_owned) else { return };
    let mut idle = idle();
    if !idle.contains_key(&above) {
        // The folders of earlier runs of this process are gone.
        idle.retain(|above, _| above.exists());
    }
    let idle = idle.entry(above).or_default();
    idle.unsearched.push(folder);
    idle.programs += 1;
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

    /// Gives it to another program. Requires that the program left no process behind, and that its
    /// disk was judged after its end (`room`).
    pub fn give_back(self) {
        if self.stays {
            return;
        }
        let is_same = self.identity.is_some() && identity(self.path.as_std_path()) == self.identity;
        if !is_same {
            return;
        }
        // If it differs from a new one, it is removed.
        if matches!(empty(&self.path), Ok(true)) {
            keep_idle(self);
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

/// The working directories of processes in this folder: there they may write by relative paths,
/// under whatever name it has. Processes of other users are not seen. None if no process is seen.
fn working_directories(above: &Path) -> Option<Vec<PathBuf>> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let is_process =
        |name: &OsString| name.as_encoded_bytes().iter().all(|byte| byte.is_ascii_digit());
    let numbers = processes.map(|process| process.file_name()).filter(is_process);
    let work = numbers.filter_map(|it| fs::read_link(Path::new("/proc").join(it).join("cwd")).ok());
    let work: Vec<PathBuf> = work.collect();
    let is_seen = !work.is_empty();
    is_seen.then(|| work.into_iter().filter(|work| work.starts_with(above)).collect())
}

/// Removes all files. False if the folder differs from a new one in anything else.
fn empty(folder: &Utf8Path) -> io::Result<bool> {
    let (mut found, own) = (0, fs::symlink_metadata(folder)?);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        } else if [INPUTS, OUTPUTS].map(Some).contains(&entry.file_name().to_str()) {
            found += 1;
            if entry.metadata()?.dev() != own.dev() || !empty_below(&entry.path())? {
                return Ok(false);
            }
        } else {
            return Ok(false);
        }
    }
    Ok(found == 2 && is_own(&own))
}

fn empty_below(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            return Ok(false);
        }
        fs::remove_file(entry.path())?;
    }
    Ok(is_own(&fs::symlink_metadata(folder)?))
}

fn is_own(folder: &fs::Metadata) -> bool {
    folder.permissions().mode() & PERMISSIONS == MODE
}

/// The command runs elsewhere, and the cache may be given by a relative path.
pub fn absolute(folder: &Utf8Path) -> Result<Utf8PathBuf, StageError> {
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
    if error.is_not_found() {
        StageError::Transient { message: CacheError::from(error).whole() }
    } else {
        StageError::of_file(error)
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

    fn give_back(place: &Place, number: usize) -> Utf8PathBuf {
        let path = place.above().join(format!("command-{number}"));
        fs::rename(place.made(), &path).unwrap();
        let identity = identity(path.as_std_path());
        Private { path: path.clone(), identity, stays: false }.give_back();
        path
    }

    #[test]
    fn a_folder_that_a_process_works_in_is_removed() {
        let place = Place(tempfile::tempdir().unwrap());
        let free = give_back(&place, 0);
        let worked_in = give_back(&place, 1);
        let mut sleeper = std::process::Command::new("sleep");
        let mut sleeper = sleeper.arg("60").current_dir(worked_in.join(OUTPUTS)).spawn().unwrap();
        assert_eq!(idle_in(place.above()), Some(free));
        assert!(!worked_in.exists() && idle_in(place.above()).is_none());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn the_more_programs_run_the_more_folders_are_searched_at_a_time() {
        let place = Place(tempfile::tempdir().unwrap());
        let mut waiting = 0;
        for number in 0..2 * AT_ONCE * FOR_EACH {
            give_back(&place, number);
            waiting += 1;
            let enough = ((number + 1) / FOR_EACH).clamp(1, AT_ONCE);
            let free = std::iter::from_fn(|| idle_in(place.above())).count();
            assert_eq!(free, if waiting == enough { waiting } else { 0 }, "program {number}");
            waiting -= free;
        }
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
