//! Objects: bytes under their own digest. Puts, finds and reads them, and always checks the bytes
//! that it reads.

use std::collections::HashSet;
use std::io::ErrorKind;

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};

use crate::cache::{Cache, Shared};
use crate::fs::{Fs, FsError, Open, beside};
use crate::index::rows::Location;
use crate::pack::entry::HEADER;
use crate::pack::packs::payload_at;
use crate::pack::uncommitted::UncommittedObject;
use crate::{CacheError, Digest, hash_open};

/// Objects of this size and more are in separate files.
pub const LOOSE_SIZE: u64 = 1 << 20;

/// The location of an object.
pub(crate) enum ObjectLocation {
    Pending(UncommittedObject),
    Stored(Location),
}

impl Cache {
    /// Puts bytes; they are readable immediately and durable after the next commit.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::put_with_digest`].
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, CacheError> {
        let digest = Digest::of(bytes);
        self.put_with_digest(digest, Bytes::copy_from_slice(bytes))?;
        Ok(digest)
    }

    /// Puts bytes with a digest that the caller has computed.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading. For an object of [`LOOSE_SIZE`]
    /// or more also [`CacheError::NoSpace`], [`CacheError::Fs`] or [`CacheError::Index`], since it
    /// is looked up and written to a file at once.
    pub fn put_with_digest(&self, digest: Digest, bytes: Bytes) -> Result<(), CacheError> {
        self.0.require_writable()?;
        // Small objects are looked up in the index at the commit, many at once.
        if (bytes.len() as u64) < LOOSE_SIZE || !self.contains(&digest)? {
            self.0.put_new(digest, bytes)?;
        }
        Ok(())
    }

    /// Takes over a finished file; its old name is gone afterwards. Returns digest and size.
    ///
    /// # Errors
    ///
    /// [`CacheError::NotAFile`] if the path is no regular file, [`CacheError::Fs`] if it cannot be
    /// read or moved, and those of [`Cache::put_with_digest`].
    pub fn put_file(&self, staged: &Utf8Path) -> Result<(Digest, u64), CacheError> {
        let shared = &self.0;
        shared.require_writable()?;
        if !shared.fs.symlink_metadata(staged)?.is_file() {
            return Err(CacheError::NotAFile { path: staged.to_owned() });
        }
        let (digest, size) = hash_open(&*shared.fs.open(staged, Open::Read)?)?;
        if self.contains(&digest)? {
            shared.fs.remove_file(staged)?;
        } else if size < LOOSE_SIZE {
            self.put_with_digest(digest, Bytes::from(shared.fs.read(staged)?))?;
            shared.fs.remove_file(staged)?;
        } else {
            let path = shared.waiting_path()?;
            move_file(&*shared.fs, staged, &path)?;
            shared.enqueue(digest, UncommittedObject::File { path, size });
        }
        Ok((digest, size))
    }

    /// Tests if the index has the object, without reading its bytes.
    ///
    /// # Errors
    ///
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index cannot be read.
    pub fn contains(&self, digest: &Digest) -> Result<bool, CacheError> {
        Ok(self.0.locate(digest)?.is_some())
    }

    /// The separate file of the object, if there is one. It may be missing or damaged.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::contains`].
    pub fn file_of(&self, digest: &Digest) -> Result<Option<Utf8PathBuf>, CacheError> {
        Ok(match self.0.locate(digest)? {
            Some(ObjectLocation::Pending(UncommittedObject::File { path, .. })) => Some(path),
            Some(ObjectLocation::Stored(Location::Loose { .. })) => {
                Some(self.0.layout.object(digest))
            }
            _ => None,
        })
    }

    /// The file and the position in it at which the bytes of each object begin. None for those that
    /// the cache lacks or has not written yet.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::contains`].
    pub fn places(
        &self,
        digests: &[Digest],
    ) -> Result<Vec<Option<(Utf8PathBuf, u64)>>, CacheError> {
        let layout = &self.0.layout;
        let place = |(digest, place): (&Digest, Option<ObjectLocation>)| match place? {
            ObjectLocation::Stored(Location::Loose { .. }) => Some((layout.object(digest), 0)),
            ObjectLocation::Stored(Location::Packed { pack, offset, .. }) => {
                Some((layout.pack(pack), u64::from(offset) + HEADER as u64))
            }
            ObjectLocation::Pending(_) => None,
        };
        Ok(digests.iter().zip(self.0.locate_all(digests)?).map(place).collect())
    }

    /// The same for many objects, in their order. The index is looked into once.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::contains`].
    pub fn contains_all(&self, digests: &[Digest]) -> Result<Vec<bool>, CacheError> {
        let places = self.0.locate_all(digests)?;
        Ok(places.iter().map(Option::is_some).collect())
    }

    /// The size in bytes, from the index; None if the cache lacks the object.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::contains`].
    pub fn size(&self, digest: &Digest) -> Result<Option<u64>, CacheError> {
        Ok(self.0.locate(digest)?.map(|place| match place {
            ObjectLocation::Pending(waiting) => waiting.size(),
            ObjectLocation::Stored(location) => location.size(),
        }))
    }

    /// The checked bytes of an object. A damaged object is reported once and missing from then on.
    ///
    /// # Errors
    ///
    /// [`CacheError::Missing`] or [`CacheError::Damaged`] if the cache lacks sound bytes,
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index or the file cannot be read.
    pub fn read(&self, digest: &Digest) -> Result<Bytes, CacheError> {
        self.0.read_at(digest, self.0.locate(digest)?)
    }

    /// Hands over the checked bytes of several objects with their place in the list, one after the
    /// other. The index is looked into once for all of them.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::contains`], before anything is handed over. `take` gets the error of each
    /// object.
    pub fn read_each(
        &self,
        digests: &[Digest],
        take: &mut dyn FnMut(usize, Result<Bytes, CacheError>),
    ) -> Result<(), CacheError> {
        let places = self.0.locate_all(digests)?;
        for (at, (digest, place)) in digests.iter().zip(places).enumerate() {
            take(at, self.0.read_at(digest, place));
        }
        Ok(())
    }
}

impl Shared {
    fn put_new(&self, digest: Digest, bytes: Bytes) -> Result<(), CacheError> {
        let size = bytes.len() as u64;
        let waiting = if size < LOOSE_SIZE {
            UncommittedObject::Bytes(bytes)
        } else {
            UncommittedObject::File { path: self.write_waiting(&bytes)?, size }
        };
        self.enqueue(digest, waiting);
        Ok(())
    }

    pub fn enqueue(&self, digest: Digest, waiting: UncommittedObject) {
        let mut pending = self.pending_mut();
        if pending.object(&digest).is_none() {
            pending.active.put(digest, waiting);
        } else if let UncommittedObject::File { path, .. } = waiting {
            // Another thread has put the same bytes meanwhile.
            let _ = self.fs.remove_file(&path);
        }
    }

    pub fn locate(&self, digest: &Digest) -> Result<Option<ObjectLocation>, CacheError> {
        if let Some(waiting) = self.pending().object(digest) {
            return Ok(Some(ObjectLocation::Pending(waiting)));
        }
        let found = self.ledger().read(|view| view.object(digest))?;
        Ok(self.if_readable(digest, found).map(ObjectLocation::Stored))
    }

    pub fn locate_all(
        &self,
        digests: &[Digest],
    ) -> Result<Vec<Option<ObjectLocation>>, CacheError> {
        let mut places: Vec<Option<ObjectLocation>> = {
            let pending = self.pending();
            digests
                .iter()
                .map(|digest| pending.object(digest).map(ObjectLocation::Pending))
                .collect()
        };
        let stored = self.ledger().read(|view| {
            let look = |(digest, place): (&Digest, &Option<ObjectLocation>)| match place {
                Some(_) => Ok(None),
                None => view.object(digest),
            };
            digests.iter().zip(&places).map(look).collect::<Result<Vec<_>, _>>()
        })?;
        for ((place, found), digest) in places.iter_mut().zip(stored).zip(digests) {
            if place.is_none() {
                *place = self.if_readable(digest, found).map(ObjectLocation::Stored);
            }
        }
        Ok(places)
    }

    /// Those of these objects that are in the index; pending ones do not count. They are looked up
    /// in the order of the index, so that neighbours follow each other. An empty index is not
    /// searched.
    pub fn stored(
        &self,
        objects: impl Iterator<Item = Digest> + Clone,
    ) -> Result<HashSet<Digest>, CacheError> {
        let mut there = self.ledger().read(|view| {
            if view.has_no_objects()? {
                return Ok(Vec::new());
            }
            let mut digests: Vec<Digest> = objects.clone().collect();
            digests.sort_unstable();
            let found = digests.iter().map(|digest| Ok((*digest, view.object(digest)?)));
            found.collect::<Result<Vec<_>, _>>()
        })?;
        there.retain(|(digest, found)| self.if_readable(digest, *found).is_some());
        Ok(there.into_iter().map(|(digest, _)| digest).collect())
    }

    fn if_readable(&self, digest: &Digest, found: Option<Location>) -> Option<Location> {
        let found = found.filter(|location| self.short.reaches(location.pack_end()))?;
        (!self.forgotten().contains(digest)).then_some(found)
    }

    fn read_at(&self, digest: &Digest, place: Option<ObjectLocation>) -> Result<Bytes, CacheError> {
        match place.ok_or(CacheError::Missing { digest: *digest })? {
            ObjectLocation::Pending(UncommittedObject::Bytes(bytes)) => Ok(bytes),
            ObjectLocation::Pending(UncommittedObject::File { path, size }) => {
                self.read_waiting(digest, &path, size)
            }
            ObjectLocation::Stored(location) => match self.read_stored(digest, location)? {
                Some(bytes) => Ok(bytes),
                None => self.read_again(digest, location),
            },
        }
    }

    fn read_waiting(
        &self,
        digest: &Digest,
        path: &Utf8Path,
        size: u64,
    ) -> Result<Bytes, CacheError> {
        let bytes = match self.fs.read(path) {
            // A commit has moved it to its final path meanwhile.
            Err(error) if error.is_not_found() => {
                return match self.read_stored(digest, Location::Loose { size })? {
                    Some(bytes) => Ok(bytes),
                    None => Err(CacheError::Missing { digest: *digest }),
                };
            }
            other => Bytes::from(other?),
        };
        if Digest::of(&bytes) != *digest {
            let place = format!("`{path}`");
            return Err(CacheError::Damaged { digest: *digest, place });
        }
        Ok(bytes)
    }

    /// None if the bytes there are not the object.
    fn read_stored(
        &self,
        digest: &Digest,
        location: Location,
    ) -> Result<Option<Bytes>, CacheError> {
        let bytes = match location {
            Location::Packed { pack, offset, length } => {
                let file = self.packs.get(&*self.fs, &self.layout, pack);
                file.and_then(|file| payload_at(&*file, offset, length))
            }
            Location::Loose { .. } => self.fs.read(&self.layout.object(digest)).map(Bytes::from),
        };
        match bytes {
            Ok(bytes) => Ok((Digest::of(&bytes) == *digest).then_some(bytes)),
            Err(error) if self.is_no_object(&error, &self.layout.object(digest)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// True if an object could not be opened because nothing, a folder, a pipe or the like is in
    /// its place.
    pub fn is_no_object(&self, error: &FsError, object: &Utf8Path) -> bool {
        let is_file = |path| self.fs.metadata(path).map_or(true, |found| found.is_file());
        error.is_not_found()
            || error.is_a_folder()
            || (error.machine_fault().is_none() && !is_file(object))
    }

    /// A sweep may have moved the object: look once more before calling it damaged.
    fn read_again(&self, digest: &Digest, before: Location) -> Result<Bytes, CacheError> {
        if let Location::Packed { pack, .. } = before {
            self.packs.forget(pack);
        }
        let found = self.ledger().read(|view| view.object(digest))?;
        let Some(location) = found else {
            return Err(CacheError::Missing { digest: *digest });
        };
        match self.read_stored(digest, location)? {
            Some(bytes) => Ok(bytes),
            None => Err(self.quarantine(digest, location)),
        }
    }

    /// Removes an object with wrong bytes from the index, and keeps them for study.
    pub fn quarantine(&self, digest: &Digest, location: Location) -> CacheError {
        let (path, place) = self.describe(digest, location);
        let there = self.fs.exists(&path).unwrap_or(true);
        self.forgotten().insert(*digest);
        self.damaged().insert(*digest);
        self.note_losses();
        if self.require_writable().is_ok() {
            if there {
                // Bytes that cannot be kept for study are lost; they had no use.
                let _ = self.keep_damaged(digest, location, &path);
            }
            let told = self.ledger().write(|tables| tables.remove_object(digest, location));
            if told.is_ok() {
                self.forgotten().remove(digest);
            }
        }
        if there {
            CacheError::Damaged { digest: *digest, place }
        } else {
            CacheError::Missing { digest: *digest }
        }
    }

    pub fn describe(&self, digest: &Digest, location: Location) -> (Utf8PathBuf, String) {
        match location {
            Location::Packed { pack, offset, .. } => {
                let path = self.layout.pack(pack);
                let place = format!("`{path}` at byte {offset}");
                (path, place)
            }
            Location::Loose { .. } => {
                let path = self.layout.object(digest);
                let place = format!("`{path}`");
                (path, place)
            }
        }
    }

    fn keep_damaged(
        &self,
        digest: &Digest,
        location: Location,
        path: &Utf8Path,
    ) -> Result<(), FsError> {
        let folder = self.layout.damaged();
        self.fs.create_dir_in_place(&folder)?;
        let target = folder.join(digest.to_string());
        match location {
            Location::Loose { .. } => self.fs.rename(path, &target),
            Location::Packed { offset, length, .. } => {
                let file = self.fs.open(path, Open::Read)?;
                let bytes = payload_at(&*file, offset, length)?;
                let fresh = beside(&target);
                self.fs.write_new(&fresh, &bytes)?;
                self.fs.rename(&fresh, &target)
            }
        }
    }
}

/// Renames, or copies if the two paths are on different file systems.
fn move_file(fs: &dyn Fs, from: &Utf8Path, to: &Utf8Path) -> Result<(), CacheError> {
    match fs.rename(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let size = fs.metadata(from)?.size;
            fs.copy(from, to).map_err(|error| CacheError::while_writing(error, to, size))?;
            Ok(fs.remove_file(from)?)
        }
        result => Ok(result?),
    }
}
