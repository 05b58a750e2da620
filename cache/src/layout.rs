//! Paths in a cache folder, and the mark of a cache.

use std::io::ErrorKind;

use camino::{Utf8Path, Utf8PathBuf};

use crate::fs::{FileKind, Fs, FsResult, paths_in};
use crate::pack::entry::checksum;
use crate::{CacheError, Digest, upkeep::misplaced};

/// The format that is written, and the newest one that is understood. Format 1 differs in that its
/// index is always synced, so programs that know only format 1 would trust an index of format 2
/// after a power cut.
pub const FORMAT: u32 = 2;

const MARK: &str = "FORMAT";
const FORMAT_PREFIX: &str = "throstle cache ";
const TAG_NAME: &str = "CACHEDIR.TAG";
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n\
# This folder is a cache of throstle. It can be made again; backups may skip it.\n";

/// The content of the file. No flipped bit turns one of the first two formats into the other; later
/// ones carry a checksum, so that damage never looks like a newer format.
fn mark(format: u32) -> String {
    match format {
        1 | 2 => format!("{FORMAT_PREFIX}{format}\n"),
        _ => {
            let start = format!("{FORMAT_PREFIX}{format} ");
            let check = u64::from_be_bytes(checksum(&[start.as_bytes()]));
            format!("{start}{check:016x}\n")
        }
    }
}

fn later_format(bytes: &[u8]) -> Option<u32> {
    let rest = std::str::from_utf8(bytes).ok()?.strip_prefix(FORMAT_PREFIX)?;
    let format = rest.split(' ').next()?.parse().ok()?;
    (format > FORMAT && bytes == mark(format).as_bytes()).then_some(format)
}

/// True if it differs from a mark in at most two bytes, or is the beginning of one.
fn is_like_a_mark(bytes: &[u8]) -> bool {
    let whole = mark(FORMAT);
    let differing = bytes.iter().zip(whole.as_bytes()).filter(|(own, right)| own != right).count();
    !bytes.is_empty() && bytes.len() <= whole.len() && differing <= 2
}

/// True when the folder is marked as a cache of this program.
fn is_tagged(fs: &dyn Fs, folder: &Utf8Path) -> bool {
    fs.read(&folder.join(TAG_NAME)).is_ok_and(|bytes| bytes == TAG)
}

/// The cache that has this path in it.
pub fn cache_around(fs: &dyn Fs, path: &Utf8Path) -> Option<Utf8PathBuf> {
    path.ancestors().find(|folder| is_tagged(fs, folder)).map(Utf8Path::to_owned)
}

#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub dir: Utf8PathBuf,
    pub objects: Utf8PathBuf,
    pub packs: Utf8PathBuf,
    pub ledger: Utf8PathBuf,
    pub stat_index: Utf8PathBuf,
    pub losses: Utf8PathBuf,
    pub staging: Utf8PathBuf,
    pub inputs: Utf8PathBuf,
    pub locks: Utf8PathBuf,
    pub trash: Utf8PathBuf,
}

impl Layout {
    pub fn new(dir: &Utf8Path) -> Layout {
        Layout {
            dir: dir.to_owned(),
            objects: dir.join("objects"),
            packs: dir.join("packs"),
            ledger: dir.join("ledger.redb"),
            stat_index: dir.join("stat.idx"),
            losses: dir.join("LOSSES"),
            staging: dir.join("staging"),
            inputs: dir.join("inputs"),
            locks: dir.join("locks"),
            trash: dir.join("trash"),
        }
    }

    /// Checks the format mark and returns it, if there is one.
    pub fn check(&self, fs: &dyn Fs) -> Result<Option<u32>, CacheError> {
        let path = self.mark();
        let bytes = match fs.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => {
                return Err(match misplaced::found_at(fs, &path) {
                    Some(found) => CacheError::Misplaced { path, found, wanted: "file" },
                    None => error.into(),
                });
            }
        };
        let known = (1..=FORMAT).find(|format| bytes == mark(*format).as_bytes());
        if known.is_some() {
            return Ok(known);
        }
        let dir = self.dir.clone();
        if let Some(found) = later_format(&bytes) {
            return Err(CacheError::NewerFormat { dir, found, known: FORMAT });
        }
        let text = String::from_utf8_lossy(&bytes);
        let found = text.chars().filter(|letter| !letter.is_control()).take(40).collect();
        if is_like_a_mark(&bytes) || self.is_tagged(fs) {
            Err(CacheError::DamagedMark { dir, path, found })
        } else {
            Err(CacheError::NotACache { dir, found })
        }
    }

    pub fn mark(&self) -> Utf8PathBuf {
        self.dir.join(MARK)
    }

    pub fn is_tagged(&self, fs: &dyn Fs) -> bool {
        is_tagged(fs, &self.dir)
    }

    /// Creates missing folders, then the mark: a marked folder is complete. The mark of an older
    /// format is replaced.
    pub fn create(&self, fs: &dyn Fs, found: Option<u32>) -> Result<(), CacheError> {
        for dir in [&self.objects, &self.packs, &self.staging, &self.locks, &self.trash] {
            self.create_folder(fs, dir)?;
        }
        if found.is_none() {
            fs.write_durably(&self.dir.join(TAG_NAME), TAG)?;
        }
        if found != Some(FORMAT) {
            fs.write_durably(&self.mark(), mark(FORMAT).as_bytes())?;
        }
        Ok(())
    }

    /// Creates one of its folders, if it is missing.
    pub fn create_folder(&self, fs: &dyn Fs, dir: &Utf8Path) -> Result<(), CacheError> {
        let misplaced =
            |found| Err(CacheError::Misplaced { path: dir.to_owned(), found, wanted: "folder" });
        match fs.create_dir_all(dir) {
            Err(error) if error.path != dir => Err(error.into()),
            Err(error) if error.is_link_on_path() => misplaced("symbolic link"),
            Err(error) if error.kind() == ErrorKind::NotADirectory => misplaced("file"),
            created => Ok(created?),
        }
    }

    pub fn ledger_lock(&self) -> Utf8PathBuf {
        self.locks.join("ledger")
    }

    pub fn claims(&self) -> Utf8PathBuf {
        self.locks.join("claims")
    }

    pub fn damaged(&self) -> Utf8PathBuf {
        self.trash.join("damaged")
    }

    pub fn pack(&self, number: u32) -> Utf8PathBuf {
        self.packs.join(format!("{number:06}.pack"))
    }

    pub fn object(&self, digest: &Digest) -> Utf8PathBuf {
        let text = digest.to_string();
        self.objects.join(&text[..2]).join(&text[2..])
    }

    /// The numbers of the existing packs, in order.
    pub fn pack_numbers(&self, fs: &dyn Fs) -> FsResult<Vec<u32>> {
        let entries = match fs.read_dir(&self.packs) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            other => other?,
        };
        let number = |name: &str| name.strip_suffix(".pack")?.parse().ok();
        let files = entries.iter().filter(|entry| entry.kind != FileKind::Dir);
        let mut numbers: Vec<u32> =
            files.filter_map(|entry| number(&entry.name)).filter(|n| *n > 0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// The packs in the trash, with their numbers.
    pub fn packs_in_trash(&self, fs: &dyn Fs) -> FsResult<Vec<(Utf8PathBuf, u32)>> {
        let mut found = Vec::new();
        for folder in paths_in(fs, &self.trash)? {
            for path in paths_in(fs, &folder)? {
                found.extend(pack_number(&path).map(|number| (path, number)));
            }
        }
        Ok(found)
    }
}

/// The number of a pack, from its name.
pub(crate) fn pack_number(path: &Utf8Path) -> Option<u32> {
    path.file_name()?.strip_suffix(".pack")?.parse().ok()
}
