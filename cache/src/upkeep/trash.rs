//! Swept and quarantined entries, until they are deleted or restored. Each sweep has a folder named
//! after its time, with whole packs, large objects, and a list of the removed index entries.

use std::time::Duration;

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Shared};
use crate::fs::{Fs, FsError, FsResult, bytes_under, paths_in, random, size_of};
use crate::index::rows::Location;
use crate::layout::{Layout, pack_number};
use crate::pack::entry::Entry;
use crate::pack::packs::entry_at;
use crate::staging;
use crate::upkeep::recover::adopt;
use crate::{CacheError, Digest, Table};

/// The index entries that a sweep removed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Swept {
    /// Digest, pack, offset, length.
    pub packed: Vec<(Digest, u32, u32, u32)>,
    pub records: Vec<(u8, Digest, Bytes)>,
}

/// The restored entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Packs that were moved back.
    pub packs: u64,
    /// Objects that are in the index again.
    pub objects: u64,
    /// Records that are in the index again.
    pub records: u64,
    /// Entries that could not be restored, with reasons.
    pub stays: Vec<String>,
}

impl RestoreReport {
    /// True if nothing was restored; some entries may have stayed.
    pub fn is_nothing(&self) -> bool {
        self.packs == 0 && self.objects == 0 && self.records == 0
    }
}

/// The result of emptying the trash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Emptied {
    /// The bytes freed.
    pub bytes: u64,
    /// Entries that could not be removed, with reasons.
    pub stays: Vec<String>,
}

const LIST: &str = "swept";
const SECOND: i64 = 1_000_000_000;

/// A new folder for one sweep.
pub(crate) fn new_folder(fs: &dyn Fs, layout: &Layout) -> FsResult<Utf8PathBuf> {
    let seconds = fs.now().max(0) / SECOND;
    let path = layout.trash.join(format!("{seconds:012}-{:08x}", random() as u32));
    fs.create_dir_in_place(&path)?;
    Ok(path)
}

pub(crate) fn write_list(fs: &dyn Fs, folder: &Utf8Path, swept: &Swept) -> Result<(), CacheError> {
    let path = folder.join(LIST);
    let bytes = postcard::to_stdvec(swept)
        .map_err(|error| CacheError::Index { path: path.clone(), reason: error.to_string() })?;
    fs.write_durably(&path, &bytes)
        .map_err(|error| CacheError::while_writing(error, &path, bytes.len() as u64))
}

impl Cache {
    /// Deletes entries that have been in the trash for this time, and folders that could not be
    /// removed from `staging/` before.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and [`CacheError::Fs`] if the
    /// trash cannot be listed. An entry that cannot be removed is no error, but one of
    /// [`Emptied::stays`].
    pub fn empty_trash(&self, older_than: Duration) -> Result<Emptied, CacheError> {
        self.0.require_writable()?;
        let (fs, layout) = (&*self.0.fs, &self.0.layout);
        let limit = i64::try_from(older_than.as_nanos()).unwrap_or(i64::MAX);
        let now = fs.now();
        let is_old = |time: i64| now.saturating_sub(time) >= limit;
        let mut emptied = Emptied::default();
        for path in paths_in(fs, &layout.trash)? {
            if path == layout.damaged() {
                for inner in paths_in(fs, &path)? {
                    match fs.symlink_metadata(&inner) {
                        Ok(metadata) if !is_old(metadata.mtime_ns) => {}
                        _ => emptied.remove(fs, &inner)?,
                    }
                }
            } else if time_of(&path).is_none_or(is_old) {
                emptied.remove(fs, &path)?;
            }
        }
        let (bytes, stuck) = staging::remove_stuck(fs, layout)?;
        emptied.bytes += bytes;
        emptied.stays.extend(stuck);
        Ok(emptied)
    }

    /// Restores swept entries, except those that were made again since.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, [`CacheError::NoSpace`] if the
    /// disk is full, and [`CacheError::Fs`] if the trash cannot be listed. Other errors are among
    /// [`RestoreReport::stays`].
    pub fn restore_trash(&self) -> Result<RestoreReport, CacheError> {
        self.0.require_writable()?;
        let (fs, layout) = (&*self.0.fs, &self.0.layout);
        let mut report = RestoreReport::default();
        for folder in paths_in(fs, &layout.trash)? {
            if time_of(&folder).is_none() {
                continue;
            }
            match self.restore_folder(&folder, &mut report) {
                Err(error) if error.is_no_space() => return Err(error),
                Err(error) => {
                    report.stays.push(format!("`{folder}` was kept: {}", error.whole()));
                }
                Ok(()) => {}
            }
        }
        Ok(report)
    }

    fn restore_folder(
        &self,
        folder: &Utf8Path,
        report: &mut RestoreReport,
    ) -> Result<(), CacheError> {
        let fs = &*self.0.fs;
        for path in paths_in(fs, folder)? {
            if pack_number(&path).is_some() {
                report.packs += self.0.restore_pack(&path)?;
            }
        }
        report.objects += self.0.restore_files(&folder.join("objects"))?;
        self.restore_list(folder, report)?;
        // The list is removed last: until then this can be repeated.
        self.commit()?;
        Ok(fs.remove_dir_all(folder)?)
    }

    fn restore_list(
        &self,
        folder: &Utf8Path,
        report: &mut RestoreReport,
    ) -> Result<(), CacheError> {
        let bytes = match self.0.fs.read(&folder.join(LIST)) {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        // A damaged list restores nothing, and its entries can be made again.
        let swept: Swept = postcard::from_bytes(&bytes).unwrap_or_default();
        report.objects += self.0.restore_packed(&swept)?;
        for (table, key, value) in swept.records {
            if self.get(Table(table), &key)?.is_none() {
                self.record_as_written(Table(table), &key, value)?;
                report.records += 1;
            }
        }
        Ok(())
    }
}

impl Emptied {
    fn remove(&mut self, fs: &dyn Fs, path: &Utf8Path) -> FsResult<()> {
        let is_dir = fs.symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
        let (bytes, removed) = if is_dir {
            (bytes_under(fs, path)?, fs.remove_dir_all(path))
        } else {
            (size_of(fs, path)?, fs.remove_file(path))
        };
        match removed {
            Ok(()) => self.bytes += bytes,
            Err(error) if error.is_not_found() => {}
            Err(error) => self.stays.push(format!("`{path}` was kept: {}", error.whole())),
        }
        Ok(())
    }
}

/// The time of a sweep, from the name of its folder.
fn time_of(path: &Utf8Path) -> Option<i64> {
    let (seconds, _) = path.file_name()?.split_once('-')?;
    seconds.parse::<i64>().ok()?.checked_mul(SECOND)
}

impl Shared {
    fn restore_pack(&self, path: &Utf8Path) -> Result<u64, CacheError> {
        let (fs, layout) = (&*self.fs, &self.layout);
        let Some(number) = pack_number(path) else {
            return Ok(0);
        };
        let target = layout.pack(number);
        if fs.exists(&target)? {
            return Ok(0);
        }
        let ledger = self.ledger();
        // None of it is indexed now: all of it is read as a tail.
        ledger.write(|tables| tables.remove_pack(number))?;
        fs.rename(path, &target)?;
        fs.sync_dir(&layout.packs)?;
        adopt(ledger, number)?;
        Ok(1)
    }

    fn restore_files(&self, folder: &Utf8Path) -> Result<u64, CacheError> {
        let (fs, layout) = (&*self.fs, &self.layout);
        let mut entries = Vec::new();
        for path in paths_in(fs, folder)? {
            let Some(Ok(digest)) = path.file_name().map(str::parse::<Digest>) else {
                continue;
            };
            let target = layout.object(&digest);
            if fs.exists(&target)? {
                continue;
            }
            if let Some(dir) = target.parent() {
                fs.create_dir_in_place(dir)?;
                fs.rename(&path, &target)?;
                fs.sync_dir(dir)?;
            }
            entries.push(Entry::Loose { digest, size: fs.metadata(&target)?.size });
        }
        self.writer().append_durably(self.ledger(), &entries)?;
        Ok(entries.len() as u64)
    }

    fn restore_packed(&self, swept: &Swept) -> Result<u64, CacheError> {
        let mut sound = Vec::new();
        for (digest, pack, offset, length) in &swept.packed {
            let file = match self.packs.get(&*self.fs, &self.layout, *pack) {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            let entry = entry_at(&*file, *pack, *offset, *length)?;
            if matches!(entry, Some(Entry::Object { digest: found, .. }) if found == *digest) {
                let (pack, offset, length) = (*pack, *offset, *length);
                sound.push((*digest, Location::Packed { pack, offset, length }));
            }
        }
        self.ledger().write(|tables| {
            let mut restored = 0;
            for (digest, location) in &sound {
                if tables.object(digest)?.is_none() {
                    tables.put_object(digest, *location)?;
                    restored += 1;
                }
            }
            Ok(restored)
        })
    }

    /// Moves an object's file into a sweep's folder.
    pub fn discard_file(&self, digest: &Digest, folder: &Utf8Path) -> Result<(), FsError> {
        let objects = folder.join("objects");
        self.fs.create_dir_in_place(&objects)?;
        match self.fs.rename(&self.layout.object(digest), &objects.join(digest.to_string())) {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }
}
