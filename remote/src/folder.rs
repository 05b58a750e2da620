//! A shared folder as a place. On a file system without hard links, a file may be visible before it
//! is complete.

use bytes::Bytes;
use cache::fs::{Confined, FileKind, Fs, FsError, FsResult, Open, RealFs, beside};
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

use crate::layout;
use crate::storage::{ListedFile, Refusal, Storage};

/// The system's number of an error of a disk.
const EIO: i32 = 5;

#[derive(Debug)]
pub struct Folder {
    root: Utf8PathBuf,
    /// The names of files and folders that could not be read, with the reasons.
    unreadable: Mutex<BTreeMap<String, String>>,
}

impl From<FsError> for Refusal {
    fn from(error: FsError) -> Refusal {
        Refusal(error.whole())
    }
}

impl Folder {
    pub fn new(root: Utf8PathBuf) -> Folder {
        Folder { root, unreadable: Mutex::default() }
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        self.root.join(name)
    }

    /// The file system for changes below the root, which follows no link, and the path of a name
    /// without links. A link out of the remote is refused.
    fn spot(&self, name: &str) -> Result<(Confined, Utf8PathBuf), Refusal> {
        // People create the folder of the remote: a share that is not mounted must not be created
        // here.
        self.require_folder()?;
        let (confined, path) = (Confined::to(&self.root)?, self.path(name));
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => match confined.metadata(folder) {
                Err(error) if error.is_link_on_path() => {
                    Ok((confined, self.without_links(folder)?.join(name)))
                }
                _ => Ok((confined, path)),
            },
            _ => Ok((confined, path)),
        }
    }

    /// Notes a file or folder that cannot be read, if the reason may concern it alone. Returns any
    /// other error.
    fn note_unreadable(&self, name: &str, error: FsError) -> Result<(), Refusal> {
        let why = match error.source.raw_os_error() {
            Some(EIO) => "it cannot be read: its disk is damaged",
            _ if error.is_denied() => "it cannot be read: permission denied",
            _ => return Err(error.into()),
        };
        if name.is_empty() || RealFs.read_dir(&self.root).is_err() {
            return Err(error.into());
        }
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.insert(name.to_owned(), why.to_owned());
        Ok(())
    }

    /// Fails unless the remote is a folder.
    fn require_folder(&self) -> Result<(), Refusal> {
        match RealFs.metadata(&self.root) {
            Ok(about) if about.is_dir() => Ok(()),
            Ok(_) => Err(Refusal(format!("`{}` is not a folder", self.root))),
            Err(error) if error.is_not_found() => {
                Err(Refusal(format!("there is no folder `{}`", self.root)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The path of a folder with the links in its existing part resolved; they must not lead out of
    /// the remote.
    fn without_links(&self, folder: &Utf8Path) -> Result<Utf8PathBuf, Refusal> {
        let mut there = folder;
        while !RealFs.exists(there)? {
            there = there.parent().unwrap_or(&self.root);
        }
        let missing = folder.strip_prefix(there).unwrap_or(Utf8Path::new(""));
        match RealFs.resolve(there)?.strip_prefix(RealFs.resolve(&self.root)?) {
            Ok(below) => Ok(self.root.join(below).join(missing)),
            Err(_) => Err(Refusal(format!("the link `{there}` leads outside it"))),
        }
    }

    /// Writes a file under its name as a whole; false if the name is taken.
    fn write(
        &self,
        name: &str,
        fill: impl FnOnce(&Confined, &Utf8Path) -> FsResult<()>,
    ) -> Result<bool, Refusal> {
        let (fs, path) = self.spot(name)?;
        fs.create_dir_all(path.parent().unwrap_or(&self.root))?;
        let fresh = beside(&path);
        if let Err(error) = fill(&fs, &fresh) {
            let _ = fs.remove_file(&fresh);
            return Err(error.into());
        }
        self.appear(&fs, &fresh, &path)
    }

    /// Gives finished bytes their name; false if it is taken.
    fn appear(&self, fs: &Confined, fresh: &Utf8Path, path: &Utf8Path) -> Result<bool, Refusal> {
        let linked = fs.hard_link(fresh, path);
        let appeared = match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            // Without hard links, a copy: another machine may see a part of it, which every check
            // rejects.
            Err(error) if error.is_unsupported() || error.is_denied() => {
                match fs.copy(fresh, path) {
                    Ok(_) => Ok(true),
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        let _ = fs.remove_file(fresh);
        let appeared = appeared?;
        fs.sync_dir(path.parent().unwrap_or(&self.root))?;
        Ok(appeared)
    }

    /// The kind of an entry. A link to a file is a file, and no other link is followed.
    fn kind(&self, name: &str, kind: FileKind) -> FileKind {
        let is_file = || RealFs.metadata(&self.path(name)).is_ok_and(|about| about.is_file());
        match kind {
            FileKind::Symlink if is_file() => FileKind::File,
            kind => kind,
        }
    }

    /// Tests if there is something other than a file, such as a link that leads back to itself.
    fn is_odd(&self, name: &str) -> bool {
        let path = self.path(name);
        let about = RealFs.metadata(&path).or_else(|_| RealFs.symlink_metadata(&path));
        about.is_ok_and(|about| !about.is_file())
    }

    /// The names in a folder, from the root of the remote; none if it does not exist.
    fn entries(&self, folder: &str) -> Result<Vec<(String, FileKind)>, Refusal> {
        let entries = match RealFs.read_dir(&self.path(folder)) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            Err(error) => return self.note_unreadable(folder, error).map(|()| Vec::new()),
            Ok(entries) => entries,
        };
        let name = |name: String| match folder {
            "" => name,
            folder => format!("{folder}/{name}"),
        };
        Ok(entries.into_iter().map(|entry| (name(entry.name), entry.kind)).collect())
    }

    fn odd_in(&self, folder: &str, found: &mut Vec<String>) -> Result<(), Refusal> {
        for (name, kind) in self.entries(folder)? {
            match (self.kind(&name, kind), layout::is_folder(&name)) {
                (FileKind::Dir, true) => self.odd_in(&name, found)?,
                (FileKind::File, false) => {}
                _ if layout::is_own(&name) => found.push(name),
                _ => {}
            }
        }
        Ok(())
    }

    fn list_in(&self, folder: &str, found: &mut Vec<ListedFile>) -> Result<(), Refusal> {
        for (name, kind) in self.entries(folder)? {
            match self.kind(&name, kind) {
                FileKind::Dir => self.list_in(&name, found)?,
                FileKind::File => {
                    let Ok(about) = RealFs.metadata(&self.path(&name)) else { continue };
                    let modified = about.mtime_ns / 1_000_000_000;
                    found.push(ListedFile { name, size: about.size, modified });
                }
                FileKind::Symlink | FileKind::Other | FileKind::Unnameable => {}
            }
        }
        Ok(())
    }
}

impl Storage for Folder {
    fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, Refusal> {
        let found = self.part(name, 0, most.saturating_add(1))?;
        match found {
            Some(bytes) if bytes.len() as u64 > most => Ok(Some(Bytes::new())),
            found => Ok(found),
        }
    }

    fn part(&self, name: &str, offset: u64, length: u64) -> Result<Option<Bytes>, Refusal> {
        let file = match RealFs.open(&self.path(name), Open::Read) {
            Err(error) if error.is_not_found() => {
                // An empty answer may only mean that the share is not mounted.
                return self.require_folder().map(|()| None);
            }
            Err(_) if self.is_odd(name) => return Ok(Some(Bytes::new())),
            // Such as a file in the place of the folder.
            Err(error) => {
                self.require_folder()?;
                return self.note_unreadable(name, error).map(|()| Some(Bytes::new()));
            }
            Ok(file) => file,
        };
        let left = file.len()?.saturating_sub(offset).min(length);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
        match file.read_full_at(&mut bytes, offset) {
            Ok(filled) => bytes.truncate(filled),
            Err(error) => return self.note_unreadable(name, error).map(|()| Some(Bytes::new())),
        }
        Ok(Some(bytes.into()))
    }

    fn put(&self, name: &str, bytes: Bytes) -> Result<bool, Refusal> {
        self.write(name, |fs, fresh| fs.write_new(fresh, &bytes))
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<(), Refusal> {
        let (fs, path) = self.spot(name)?;
        Ok(fs.write_durably(&path, &bytes)?)
    }

    fn put_file(&self, name: &str, file: &Utf8Path) -> Result<(), Refusal> {
        self.write(name, |fs, fresh| fs.copy(file, fresh).map(drop)).map(drop)
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match RealFs.metadata(&self.path(name)) {
            Ok(about) if about.is_file() => Ok(Some(about.size)),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(_) if self.is_odd(name) => Ok(None),
            Err(error) => self.note_unreadable(name, error).map(|()| None),
        }
    }

    fn unreadable(&self) -> BTreeMap<String, String> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, Refusal> {
        self.require_folder()?;
        let mut found = Vec::new();
        self.list_in(folder, &mut found)?;
        Ok(found)
    }

    fn odd(&self) -> Result<Vec<String>, Refusal> {
        self.require_folder()?;
        let mut found = Vec::new();
        self.odd_in("", &mut found)?;
        Ok(found)
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        if !RealFs.exists(&self.root)? {
            return Ok(());
        }
        let (fs, path) = self.spot(name)?;
        let is_folder = fs.symlink_metadata(&path).is_ok_and(|about| about.is_dir());
        let removed = if is_folder { fs.remove_dir(&path) } else { fs.remove_file(&path) };
        match removed {
            // It may be gone, or an odd entry with a name that is no text.
            Err(error) if error.is_not_found() => match (path.parent(), path.file_name()) {
                (Some(folder), Some(shown)) => match fs.remove_unnameable(folder, shown) {
                    Err(error) if error.is_not_found() => Ok(()),
                    other => Ok(other?),
                },
                _ => Ok(()),
            },
            other => Ok(other?),
        }
    }
}
