//! Unpacks archives into a cache: each entry is checked by itself, and damage affects no other
//! entry. All objects are stored before the first record, so a stored record never refers to a
//! pending object. Records of overlays come first, since they are the newest.

use camino::{Utf8Path, Utf8PathBuf};

use super::assembly::Assembly;
use super::index::{Index, Volume, volume_path};
use super::merge::Merge;
use super::{UnpackCounts, Unpacking};
use crate::cache::Cache;
use crate::fs::{FsFile, Open};
use crate::pack::entry::Entry;
use crate::pack::scan::{Scan, ScannedEntry};
use crate::{CacheError, Damage, Digest, Table};

/// The number of pending bytes that triggers a commit.
const LARGE: u64 = 64 << 20;

impl Cache {
    /// Takes in everything readable of these archives. Fails before any change if one of the
    /// folders has no complete archive.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, [`CacheError::Archive`] or
    /// [`CacheError::DamagedArchive`] if an index `ARCHIVE` cannot be used, and those of
    /// [`Cache::commit`]. Damaged entries are no error: [`UnpackCounts::damages`] lists them.
    pub fn take_in(&self, how: &Unpacking) -> Result<UnpackCounts, CacheError> {
        self.0.require_writable()?;
        let fs = &*self.0.outside;
        let indexes = how.folders.iter().map(|folder| Index::read(fs, folder));
        let indexes = indexes.collect::<Result<Vec<Index>, CacheError>>()?;
        let newest_first = how.folders.iter().zip(&indexes).rev();
        let mut readings: Vec<Reading> =
            newest_first.map(|(folder, index)| Reading::new(folder, index)).collect();
        let mut unpack = Unpack::new(self, how, &indexes);
        for reading in &mut readings {
            unpack.objects(reading)?;
        }
        unpack.report.without_base = without_base(how.folders, &indexes);
        if indexes.iter().any(|index| index.has_losses) || !unpack.is_whole() {
            unpack.note_losses()?;
        }
        for reading in &mut readings {
            unpack.records(reading)?;
        }
        unpack.finish()
    }
}

/// The archives with a base that was not named.
fn without_base(folders: &[Utf8PathBuf], indexes: &[Index]) -> Vec<Utf8PathBuf> {
    let ids: Vec<Digest> = indexes.iter().map(|index| index.id).collect();
    let lacks = |index: &Index| index.bases.iter().any(|base| !ids.contains(base));
    let lacking = folders.iter().zip(indexes).filter(|(_, index)| lacks(index));
    lacking.map(|(folder, _)| folder.clone()).collect()
}

/// An archive, and the position of the reader.
struct Reading<'a> {
    folder: &'a Utf8Path,
    index: &'a Index,
    /// The next volume, counted from 0, and the position in it.
    volume: usize,
    offset: u64,
    /// The number of entries before that position.
    entries: u64,
    first_wrong: Option<u64>,
}

impl<'a> Reading<'a> {
    fn new(folder: &'a Utf8Path, index: &'a Index) -> Reading<'a> {
        Reading { folder, index, volume: 0, offset: 0, entries: 0, first_wrong: None }
    }

    fn number(&self) -> u32 {
        self.volume as u32 + 1
    }

    /// The index entry of the next volume, if there is one.
    fn expected(&self) -> Option<Volume> {
        self.index.volumes.get(self.volume).copied()
    }

    fn next_volume(&mut self) {
        *self = Reading { volume: self.volume + 1, ..Reading::new(self.folder, self.index) };
    }
}

/// The part of an archive to read.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    FirstRecord,
    End,
}

struct Unpack<'a> {
    cache: &'a Cache,
    merge: Merge<'a>,
    takes: &'a dyn Fn(Table) -> bool,
    /// The large object that is being assembled.
    assembly: Option<Assembly<'a>>,
    /// All objects that must exist in the end.
    objects: Vec<Digest>,
    report: UnpackCounts,
    progress: &'a dyn Fn(u64, u64),
    total: u64,
}

impl<'a> Unpack<'a> {
    fn new(cache: &'a Cache, how: &Unpacking<'a>, indexes: &[Index]) -> Unpack<'a> {
        let volumes = indexes.iter().flat_map(|index| &index.volumes);
        Unpack {
            cache,
            merge: Merge::new(cache, how.prefers),
            takes: how.takes,
            assembly: None,
            objects: Vec::new(),
            report: UnpackCounts::default(),
            progress: how.progress,
            total: volumes.fold(0, |sum, volume| sum.saturating_add(volume.bytes)),
        }
    }

    /// Reads the part of an archive before its first record.
    fn objects(&mut self, reading: &mut Reading) -> Result<(), CacheError> {
        self.read(reading, Until::FirstRecord)?;
        self.assembly = None;
        self.commit()
    }

    fn records(&mut self, reading: &mut Reading) -> Result<(), CacheError> {
        self.read(reading, Until::End)?;
        self.assembly = None;
        self.merge.flush()?;
        self.commit()
    }

    fn is_whole(&self) -> bool {
        self.report.damages.is_empty() && self.report.without_base.is_empty()
    }

    /// Durable before the records, which may refer to missing objects.
    fn note_losses(&self) -> Result<(), CacheError> {
        self.cache.0.note_losses();
        Ok(self.cache.0.fs.sync_dir(self.cache.dir())?)
    }

    fn finish(mut self) -> Result<UnpackCounts, CacheError> {
        self.report.records = self.merge.taken;
        // A sweep by another process, before the records were stored, found no reference to them.
        self.cache.refresh()?;
        self.objects.sort_unstable();
        let is_there = self.cache.contains_all(&self.objects)?;
        if !self.is_whole() || is_there.contains(&false) {
            self.note_losses()?;
        }
        Ok(self.report)
    }

    fn read(&mut self, reading: &mut Reading, until: Until) -> Result<(), CacheError> {
        while let Some(expected) = reading.expected() {
            let (before, from) = (self.report.bytes, reading.offset);
            let path = volume_path(reading.folder, reading.number());
            match self.cache.0.outside.open(&path, Open::Read) {
                Ok(file) => {
                    if self.volume(&*file, reading, until)? == Until::FirstRecord {
                        self.report.bytes = before.saturating_add(reading.offset - from);
                        return Ok(());
                    }
                    self.compare(&*file, reading, expected)?;
                }
                Err(error) => self.damage(&path, None, &error.whole()),
            }
            self.report.bytes = before.saturating_add(expected.bytes.saturating_sub(from));
            reading.next_volume();
        }
        Ok(())
    }

    /// Reads a volume from the current position; returns the new position.
    fn volume(
        &mut self,
        file: &dyn FsFile,
        reading: &mut Reading,
        until: Until,
    ) -> Result<Until, CacheError> {
        let (before, from) = (self.report.bytes, reading.offset);
        let mut scan = Scan::new(file, reading.number(), from)?;
        loop {
            let at = scan.position();
            match scan.next() {
                Ok(None) => return Ok(Until::End),
                Ok(Some(ScannedEntry::Entry { entry: Entry::Record { .. }, .. }))
                    if until == Until::FirstRecord =>
                {
                    reading.offset = at;
                    return Ok(Until::FirstRecord);
                }
                Ok(Some(ScannedEntry::Entry { entry, .. })) => {
                    reading.entries += 1;
                    self.entry(entry, file.path(), at)?;
                }
                Ok(Some(ScannedEntry::Damaged | ScannedEntry::Garbage)) => {
                    _ = reading.first_wrong.get_or_insert(at);
                }
                Err(error) => {
                    self.damage(file.path(), Some(at), &error.whole());
                    scan.step_over();
                }
            }
            let done = before.saturating_add(scan.position().saturating_sub(from));
            (self.progress)(done, self.total);
        }
    }

    /// A volume of another length belongs to another archive, or is truncated.
    fn compare(
        &mut self,
        file: &dyn FsFile,
        reading: &Reading,
        expected: Volume,
    ) -> Result<(), CacheError> {
        let length = file.len()?;
        let (entries, first_wrong) = (reading.entries, reading.first_wrong);
        if entries != expected.entries || first_wrong.is_some() || length != expected.bytes {
            let what = format!(
                "{entries} of {} entries could be read in {length} of {} bytes",
                expected.entries, expected.bytes
            );
            self.damage(file.path(), first_wrong, &what);
        }
        Ok(())
    }

    fn entry(&mut self, entry: Entry, path: &Utf8Path, at: u64) -> Result<(), CacheError> {
        match entry {
            Entry::Object { digest, bytes } => {
                // Copied, so that the whole buffer can be freed.
                self.cache.put_with_digest(digest, bytes.to_vec().into())?;
                self.objects.push(digest);
            }
            Entry::Piece { of, offset, bytes } => self.piece(of, offset, &bytes)?,
            Entry::Loose { digest, size } => self.close(digest, size, path, at),
            Entry::Record { table, key, value, .. } if (self.takes)(table) => {
                self.merge.add(table, key, value)?;
            }
            Entry::Record { .. } => {}
            // No archive has them.
            Entry::Gone { .. } => {}
        }
        if self.cache.pending_bytes() >= LARGE { self.commit() } else { Ok(()) }
    }

    fn piece(&mut self, of: Digest, offset: u64, bytes: &[u8]) -> Result<(), CacheError> {
        if offset == 0 {
            self.assembly = Some(Assembly::begin(self.cache, of)?);
        }
        let Some(assembly) = &mut self.assembly else { return Ok(()) };
        if assembly.of == of && assembly.size == offset {
            assembly.add(bytes)?;
        }
        Ok(())
    }

    /// Checks that all pieces of a large object are there.
    fn close(&mut self, digest: Digest, size: u64, path: &Utf8Path, at: u64) {
        let assembly = self.assembly.take().filter(|assembly| assembly.of == digest);
        if assembly.is_some_and(|assembly| assembly.finish(size)) {
            self.objects.push(digest);
            return;
        }
        let what = "pieces of a large object are missing".to_owned();
        let (path, offset, object) = (path.to_owned(), Some(at), Some(digest));
        self.report.damages.push(Damage { path, offset, object, record: None, what });
    }

    fn commit(&mut self) -> Result<(), CacheError> {
        self.report.objects += self.cache.commit()?.objects;
        Ok(())
    }

    fn damage(&mut self, path: &Utf8Path, offset: Option<u64>, what: &str) {
        let (path, what) = (path.to_owned(), what.to_owned());
        self.report.damages.push(Damage { path, offset, object: None, record: None, what });
    }
}
