//! Objects as files of the user: copies, which share their blocks with the store if the file system
//! can do that, and are left alone if they are correct already. Hard links to the object itself are
//! made only on request, since root could change the object through them.

use camino::{Utf8Path, Utf8PathBuf};

use crate::cache::{Cache, Shared};
use crate::fs::{FsError, FsResult, Open, beside};
use crate::objects::Place;
use crate::pending::Waiting;
use crate::rows::Location;
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
    Copied,
    /// It was correct already.
    Unchanged,
}

impl Cache {
    /// Writes the checked object to `target`, completely or not at all.
    pub fn materialise(
        &self,
        digest: &Digest,
        target: &Utf8Path,
        link: Link,
    ) -> Result<Materialised, CacheError> {
        let place = self.0.locate(digest)?.ok_or(CacheError::Missing { digest: *digest })?;
        let size = match &place {
            Place::Pending(waiting) => waiting.size(),
            Place::Stored(location) => location.size(),
        };
        if self.0.is_right(target, digest, size)? && self.is_linked_as(link, digest, target)? {
            return Ok(Materialised::Unchanged);
        }
        if let Some(parent) = target.parent().filter(|parent| !parent.as_str().is_empty()) {
            self.0.fs.create_dir_all(parent)?;
        }
        let fresh = beside(target);
        let made = self.fill(digest, place, &fresh, link).and_then(|how| {
            self.0.fs.rename(&fresh, target)?;
            Ok(how)
        });
        if made.is_err() {
            let _ = self.0.fs.remove_file(&fresh);
        }
        made
    }

    /// True if a file with the content of an object is a hard link to it exactly when requested.
    pub fn is_linked_as(
        &self,
        link: Link,
        digest: &Digest,
        target: &Utf8Path,
    ) -> Result<bool, CacheError> {
        let Some(Place::Stored(Location::Loose { .. })) = self.0.locate(digest)? else {
            return Ok(true);
        };
        let inode =
            |path: &Utf8Path| self.0.fs.symlink_metadata(path).map(|found| found.inode).ok();
        let object = inode(&self.0.layout.object(digest));
        let is_its_name = object.is_some() && object == inode(target);
        Ok(is_its_name == (link == Link::Hard))
    }

    fn fill(
        &self,
        digest: &Digest,
        place: Place,
        fresh: &Utf8Path,
        link: Link,
    ) -> Result<Materialised, CacheError> {
        let fs = &*self.0.fs;
        if let Place::Stored(location @ Location::Loose { .. }) = place {
            let object = self.0.layout.object(digest);
            if !self.0.is_sound(digest, &object)? {
                return Err(self.0.set_aside(digest, location));
            }
            return share(&self.0, &object, fresh, link);
        }
        if let Place::Pending(Waiting::File { path, .. }) = &place {
            // Not linked: the file still has to be made read-only.
            return share(&self.0, path, fresh, Link::Copy);
        }
        let bytes = self.read(digest)?;
        fs.open(fresh, Open::CreateNew)
            .and_then(|file| file.write_all_at(&bytes, 0))
            .map_err(|error| CacheError::while_writing(error, fresh, bytes.len() as u64))?;
        Ok(Materialised::Copied)
    }
}

fn share(
    shared: &Shared,
    object: &Utf8Path,
    fresh: &Utf8Path,
    link: Link,
) -> Result<Materialised, CacheError> {
    let fs = &*shared.fs;
    if link == Link::Hard && fs.hard_link(object, fresh).is_ok() {
        return Ok(Materialised::Linked);
    }
    if fs.reflink(object, fresh).is_ok() {
        return Ok(Materialised::Reflinked);
    }
    let size = fs.metadata(object)?.size;
    fs.copy_unsynced(object, fresh)
        .map_err(|error| CacheError::while_writing(error, fresh, size))?;
    Ok(Materialised::Copied)
}

impl Shared {
    fn is_right(&self, target: &Utf8Path, digest: &Digest, size: u64) -> FsResult<bool> {
        match self.fs.symlink_metadata(target) {
            Ok(metadata) if metadata.is_file() && metadata.size == size => {
                let file = self.fs.open(target, Open::Read)?;
                Ok(hash_open(&*file)?.0 == *digest)
            }
            Ok(_) => Ok(false),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tests if a large object's file has the right bytes; false if it is missing.
    pub fn is_sound(&self, digest: &Digest, object: &Utf8PathBuf) -> Result<bool, FsError> {
        match self.fs.open(object, Open::Read) {
            Ok(file) => Ok(hash_open(&*file)?.0 == *digest),
            Err(error) if self.is_no_object(&error, object) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
