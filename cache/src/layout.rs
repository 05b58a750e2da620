//! Where things lie in a cache folder, and the mark that it is one.

use camino::{Utf8Path, Utf8PathBuf};

use crate::fs::{Fs, FsResult};
use crate::{CacheError, Digest};

/// The format written and the newest one understood. Format 1 differs in that its index is always
/// synced, so programs that know no other would believe an index of format 2 after a power cut.
pub const FORMAT: u32 = 2;

const FORMAT_PREFIX: &str = "throstle cache ";
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n\
# This folder is a cache of throstle. It can be made again; backups may skip it.\n";

#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub dir: Utf8PathBuf,
    pub objects: Utf8PathBuf,
    pub packs: Utf8PathBuf,
    pub ledger: Utf8PathBuf,
    pub stat_index: Utf8PathBuf,
    pub losses: Utf8PathBuf,
    pub staging: Utf8PathBuf,
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
            locks: dir.join("locks"),
            trash: dir.join("trash"),
        }
    }

    /// Checks the format mark and gives it, if there is one.
    pub fn check(&self, fs: &dyn Fs) -> Result<Option<u32>, CacheError> {
        let text = match fs.read(&self.dir.join("FORMAT")) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = text.strip_prefix(FORMAT_PREFIX).and_then(|rest| rest.trim().parse().ok());
        match found {
            Some(found @ 1..=FORMAT) => Ok(Some(found)),
            Some(found @ 1..) => {
                Err(CacheError::NewerFormat { dir: self.dir.clone(), found, known: FORMAT })
            }
            _ => Err(CacheError::NotACache {
                dir: self.dir.clone(),
                found: text.chars().filter(|letter| !letter.is_control()).take(40).collect(),
            }),
        }
    }

    /// Makes the folders that are missing, then the mark: a marked folder is a whole one. The
    /// mark of an older format is replaced.
    pub fn create(&self, fs: &dyn Fs, found: Option<u32>) -> Result<(), CacheError> {
        for dir in [&self.dir, &self.objects, &self.packs, &self.staging, &self.locks, &self.trash]
        {
            fs.create_dir_all(dir)?;
        }
        if found.is_none() {
            fs.write_durably(&self.dir.join("CACHEDIR.TAG"), TAG)?;
        }
        if found != Some(FORMAT) {
            let mark = format!("{FORMAT_PREFIX}{FORMAT}\n");
            fs.write_durably(&self.dir.join("FORMAT"), mark.as_bytes())?;
        }
        Ok(())
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

    /// The numbers of the packs there are, in order.
    pub fn pack_numbers(&self, fs: &dyn Fs) -> FsResult<Vec<u32>> {
        let entries = match fs.read_dir(&self.packs) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            other => other?,
        };
        let number = |name: &str| name.strip_suffix(".pack")?.parse().ok();
        let mut numbers: Vec<u32> =
            entries.iter().filter_map(|entry| number(&entry.name)).filter(|n| *n > 0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }
}
