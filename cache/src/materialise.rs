//! Objects as files of the user: copies, which share their blocks with the store if the file system
//! can do that, and are left alone if they are correct already. Hard links to the object itself are
//! made only on request, since root could change the object through them.

use camino::{Utf8Path, Utf8PathBuf};

use crate::cache::{Cache, Shared};
use crate::fs::{Fs, FsError, FsResult, Open, beside, confined};
use crate::index::rows::Location;
use crate::objects::ObjectLocation;
use crate::pack::uncommitted::UncommittedObject;
use crate::{CacheError, Digest, hash_open};

/// The relation between a user's file and a large object.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// A separate file.
    #[default]
    Copy,
    /// A hard link to the read-only object, if both are on one file system.
    Hard,
}

/// The way in which a file was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Materialised {
    /// A copy that shares its blocks with the store.
    Reflinked,
    /// Another name of the read-only object.
    Linked,
    /// A copy with blocks of its own.
    Copied,
    /// It was correct already.
    Unchanged,
}

/// The place of a file of the user, in a folder that exists.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Confined to a folder that the file may be in.
    pub fs: &'a dyn Fs,
    /// The path of the file. Something else there is replaced.
    pub path: &'a Utf8Path,
}

impl Cache {
    /// Writes the checked object to a path, completely or not at all. Missing folders are made.
    ///
    /// # Errors
    ///
    /// [`CacheError::Missing`] or [`CacheError::Damaged`] if the cache lacks sound bytes,
    /// [`CacheError::NoSpace`] if the disk of the path is full, and [`CacheError::Fs`] if the path
    /// cannot be written. The path is then as it was.
    pub fn materialise(
        &self,
        digest: &Digest,
        path: &Utf8Path,
        link: Link,
    ) -> Result<Materialised, CacheError> {
        let size = self.size(digest)?.ok_or(CacheError::Missing { digest: *digest })?;
        let folder = path.parent().unwrap_or(Utf8Path::new(""));
        if !folder.as_str().is_empty() {
            self.0.outside.create_dir_all(folder)?;
        }
        let fs = &*confined(&self.0.outside, folder)?;
        let target = Target { fs, path };
        if target.has(digest, size)? && self.is_linked_at(link, digest, target)? {
            return Ok(Materialised::Unchanged);
        }
        self.materialise_at(digest, target, link)
    }

    /// The same for a place in a folder that exists. What is there is replaced in any case.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::materialise`]; a missing folder is one of them.
    pub fn materialise_at(
        &self,
        digest: &Digest,
        target: Target<'_>,
        link: Link,
    ) -> Result<Materialised, CacheError> {
        let place = self.0.locate(digest)?.ok_or(CacheError::Missing { digest: *digest })?;
        let path = beside(target.path);
        let fresh = Target { path: &path, ..target };
        let made = self.fill(digest, place, fresh, link).and_then(|how| {
            target.fs.rename(fresh.path, target.path)?;
            Ok(how)
        });
        if made.is_err() {
            let _ = target.fs.remove_file(fresh.path);
        }
        made
    }

    /// True if a file with the content of an object is a hard link to it exactly when requested.
    ///
    /// # Errors
    ///
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index cannot be read.
    pub fn is_linked_as(
        &self,
        link: Link,
        digest: &Digest,
        path: &Utf8Path,
    ) -> Result<bool, CacheError> {
        self.is_linked_at(link, digest, Target { fs: &*self.0.outside, path })
    }

    /// The same for a place.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::is_linked_as`].
    pub fn is_linked_at(
        &self,
        link: Link,
        digest: &Digest,
        target: Target<'_>,
    ) -> Result<bool, CacheError> {
        let Some(ObjectLocation::Stored(Location::Loose { .. })) = self.0.locate(digest)? else {
            return Ok(true);
        };
        let inode =
            |fs: &dyn Fs, path: &Utf8Path| fs.symlink_metadata(path).map(|found| found.inode).ok();
        let object = inode(&*self.0.fs, &self.0.layout.object(digest));
        let is_its_name = object.is_some() && object == inode(target.fs, target.path);
        Ok(is_its_name == (link == Link::Hard))
    }

    fn fill(
        &self,
        digest: &Digest,
        place: ObjectLocation,
        fresh: Target<'_>,
        link: Link,
    ) -> Result<Materialised, CacheError> {
        if let ObjectLocation::Stored(location @ Location::Loose { .. }) = place {
            let object = self.0.layout.object(digest);
            if !self.0.is_sound(digest, &object)? {
                return Err(self.0.quarantine(digest, location));
            }
            return share(&self.0, &object, fresh, link);
        }
        if let ObjectLocation::Pending(UncommittedObject::File { path, .. }) = &place {
            // Not linked: the file still has to be made read-only.
            return share(&self.0, path, fresh, Link::Copy);
        }
        let bytes = self.read(digest)?;
        let written = fresh.fs.open(fresh.path, Open::CreateNew);
        written
            .and_then(|file| file.write_all_at(&bytes, 0))
            .map_err(|error| CacheError::while_writing(error, fresh.path, bytes.len() as u64))?;
        Ok(Materialised::Copied)
    }
}

fn share(
    shared: &Shared,
    object: &Utf8Path,
    Target { fs, path: fresh }: Target<'_>,
    link: Link,
) -> Result<Materialised, CacheError> {
    // The cache may be behind a link in the folder that the target is confined to.
    let object = &shared.outside.resolve(object)?;
    if link == Link::Hard && fs.hard_link(object, fresh).is_ok() {
        return Ok(Materialised::Linked);
    }
    if fs.reflink(object, fresh).is_ok() {
        return Ok(Materialised::Reflinked);
    }
    let size = shared.outside.metadata(object)?.size;
    fs.copy_unsynced(object, fresh)
        .map_err(|error| CacheError::while_writing(error, fresh, size))?;
    Ok(Materialised::Copied)
}

impl Target<'_> {
    fn has(&self, digest: &Digest, size: u64) -> FsResult<bool> {
        match self.fs.symlink_metadata(self.path) {
            Ok(metadata) if metadata.is_file() && metadata.size == size => {
                let file = self.fs.open(self.path, Open::Read)?;
                Ok(hash_open(&*file)?.0 == *digest)
            }
            Ok(_) => Ok(false),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Shared {
    /// Tests if a large object's file has the right bytes; false if it is missing.
    pub fn is_sound(&self, digest: &Digest, object: &Utf8PathBuf) -> Result<bool, FsError> {
        match self.fs.open(object, Open::Read) {
            Ok(file) => Ok(hash_open(&*file)?.0 == *digest),
            Err(error) if self.is_no_object(&error, object) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
