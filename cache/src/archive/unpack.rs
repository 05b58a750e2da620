//! Takes archives into a cache: each entry is checked by itself, and what is damaged costs nothing
//! else. The archive that builds on the others comes first, since its records are the newest.

use camino::{Utf8Path, Utf8PathBuf};

use super::index::{Index, Volume, volume_path};
use super::merge::Merge;
use super::{TakenIn, Unpacking};
use crate::cache::{Cache, Shared};
use crate::entry::Entry;
use crate::fs::{FsError, FsFile, Open};
use crate::pending::Waiting;
use crate::scan::{Found, Scan};
use crate::verify::describe;
use crate::{CacheError, Damage, Digest, Hasher};

/// So much pending is committed at once.
const LARGE: u64 = 64 << 20;

impl Cache {
    /// Takes in all that can be read of these archives. An error where one of the folders has no
    /// whole archive, before anything is changed.
    pub fn take_in(&self, how: &Unpacking) -> Result<TakenIn, CacheError> {
        self.0.require_writable()?;
        let fs = &*self.0.fs;
        let indexes = how.folders.iter().map(|folder| Index::read(fs, folder));
        let indexes = indexes.collect::<Result<Vec<Index>, CacheError>>()?;
        let archives: Vec<(&Utf8PathBuf, Index)> = how.folders.iter().zip(indexes).collect();
        // Records come in before objects of the archives below: until those are there, nothing is
        // believed without a look at its objects.
        let had_losses = self.has_losses();
        self.0.note_losses();
        fs.sync_dir(self.dir())?;
        let volumes = archives.iter().flat_map(|(_, index)| &index.volumes);
        let total = volumes.fold(0u64, |sum, volume| sum.saturating_add(volume.bytes));
        let mut unpack = Unpack {
            cache: self,
            merge: Merge::new(self, how.prefers),
            assembly: None,
            report: TakenIn::default(),
            progress: &|done| (how.progress)(done, total),
        };
        for (folder, index) in archives.iter().rev() {
            unpack.archive(folder, index)?;
        }
        let mut report = unpack.report;
        report.records = unpack.merge.taken;
        let ids: Vec<Digest> = archives.iter().map(|(_, index)| index.id).collect();
        let lacks = |index: &Index| index.bases.iter().any(|base| !ids.contains(base));
        report.without_base = archives
            .iter()
            .filter(|(_, index)| lacks(index))
            .map(|(folder, _)| (*folder).clone())
            .collect();
        let is_whole = archives.iter().all(|(_, index)| !index.has_losses);
        if !had_losses && is_whole && report.damages.is_empty() && report.without_base.is_empty() {
            self.clear_losses()?;
        }
        Ok(report)
    }
}

struct Unpack<'a> {
    cache: &'a Cache,
    merge: Merge<'a>,
    /// The large object whose pieces are coming in.
    assembly: Option<Assembly<'a>>,
    report: TakenIn,
    progress: &'a dyn Fn(u64),
}

impl<'a> Unpack<'a> {
    fn archive(&mut self, folder: &Utf8Path, index: &Index) -> Result<(), CacheError> {
        for (number, volume) in (1..).zip(&index.volumes) {
            let path = volume_path(folder, number);
            let before = self.report.bytes;
            match self.cache.0.fs.open(&path, Open::Read) {
                Ok(file) => self.volume(&*file, number, *volume)?,
                Err(error) => self.damage(&path, None, &describe(&error)),
            }
            self.report.bytes = before.saturating_add(volume.bytes);
        }
        self.assembly = None;
        self.merge.flush()?;
        self.commit()
    }

    fn volume(&mut self, file: &dyn FsFile, number: u32, volume: Volume) -> Result<(), CacheError> {
        let before = self.report.bytes;
        let length = file.len()?;
        let mut scan = Scan::new(file, number, 0)?;
        let (mut entries, mut first_wrong) = (0, None);
        loop {
            let at = scan.position();
            match scan.next() {
                Ok(None) => break,
                Ok(Some(Found::Entry { entry, .. })) => {
                    entries += 1;
                    self.entry(entry, file.path(), at)?;
                }
                Ok(Some(Found::Damaged | Found::Garbage)) => _ = first_wrong.get_or_insert(at),
                Err(error) => {
                    self.damage(file.path(), Some(at), &describe(&error));
                    scan.step_over();
                }
            }
            (self.progress)(before.saturating_add(scan.position()));
        }
        // Of another length it is the volume of another archive, or a part of this one.
        if entries != volume.entries || first_wrong.is_some() || length != volume.bytes {
            let what = format!(
                "{entries} of {} entries could be read in {length} of {} bytes",
                volume.entries, volume.bytes
            );
            self.damage(file.path(), first_wrong, &what);
        }
        Ok(())
    }

    fn entry(&mut self, entry: Entry, path: &Utf8Path, at: u64) -> Result<(), CacheError> {
        match entry {
            Entry::Object { digest, bytes } => {
                // Copied, or it would keep the whole buffer it was read into.
                self.cache.put_with_digest(digest, bytes.to_vec().into())?;
            }
            Entry::Piece { of, offset, bytes } => self.piece(of, offset, &bytes)?,
            Entry::Loose { digest, size } => {
                let assembly = self.assembly.take().filter(|assembly| assembly.of == digest);
                if !assembly.is_some_and(|assembly| assembly.finish(size)) {
                    let what = "pieces of a large object are missing".to_owned();
                    let (path, offset) = (path.to_owned(), Some(at));
                    let object = Some(digest);
                    self.report.damages.push(Damage { path, offset, object, record: None, what });
                }
            }
            Entry::Record { table, key, value, .. } => self.merge.add(table, key, value)?,
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

    fn commit(&mut self) -> Result<(), CacheError> {
        self.report.objects += self.cache.commit()?.objects;
        Ok(())
    }

    fn damage(&mut self, path: &Utf8Path, offset: Option<u64>, what: &str) {
        let (path, what) = (path.to_owned(), what.to_owned());
        self.report.damages.push(Damage { path, offset, object: None, record: None, what });
    }
}

/// A large object that is put together again from its pieces.
struct Assembly<'a> {
    shared: &'a Shared,
    of: Digest,
    hasher: Hasher,
    size: u64,
    /// None where the cache has the object already.
    file: Option<Box<dyn FsFile>>,
}

impl<'a> Assembly<'a> {
    fn begin(cache: &'a Cache, of: Digest) -> Result<Assembly<'a>, CacheError> {
        let shared: &Shared = &cache.0;
        let file = match cache.contains(&of)? {
            true => None,
            false => Some(shared.fs.open(&shared.waiting_path()?, Open::CreateNew)?),
        };
        Ok(Assembly { shared, of, hasher: Hasher::new(), size: 0, file })
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), CacheError> {
        if let Some(file) = &self.file {
            let failed =
                |error: FsError| CacheError::while_writing(error, file.path(), bytes.len() as u64);
            file.write_all_at(bytes, self.size).map_err(failed)?;
            self.hasher.update(bytes);
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Hands the object over if it is whole and right; false where it is not.
    fn finish(mut self, size: u64) -> bool {
        let Some(file) = &self.file else { return true };
        if self.size != size || self.hasher.finish() != self.of {
            return false;
        }
        let path = file.path().to_owned();
        self.file = None;
        self.shared.enqueue(self.of, Waiting::File { path, size });
        true
    }
}

impl Drop for Assembly<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // What cannot be removed now goes with the folder it is in.
            let _ = self.shared.fs.remove_file(file.path());
        }
    }
}
