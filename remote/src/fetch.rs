//! Fetches objects from the remote into the cache when they are read.
//!
//! A small object is fetched with its neighbours in the pack, and each request fetches more of
//! them: objects were written one after the other, and are read in about the same order. The
//! transfer of a large object resumes where an earlier attempt ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cache::fs::{FsFile, Open};
use cache::{ArchiveEntry, Cache, CacheError, Digest, ENTRY_HEADER, Hasher, ObjectPlace};
use camino::Utf8PathBuf;

use crate::archive::PIECE;
use crate::error::RemoteError;
use crate::index::ObjectLocation;
use crate::layout;
use crate::remote::Remote;

/// The first and the largest size of a request for small objects.
const FIRST_WINDOW: u64 = 256 << 10;
const LAST_WINDOW: u64 = PIECE;
/// The pieces of a large object that are read at a time.
const AT_ONCE: usize = 8;
/// The folder of unfinished large objects in the cache.
const INCOMING: &str = "incoming";

/// The objects that were fetched so far.
#[derive(Debug, Default)]
pub(crate) struct FetchCounts {
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Remote {
    /// Fetches an object into the cache; false if the remote lacks it or has it damaged.
    ///
    /// # Errors
    ///
    /// If the remote does not answer and [`Settings::require`](crate::Settings) is set, or if the cache cannot be read
    /// or written.
    pub fn bring(&self, digest: &Digest) -> Result<bool, RemoteError> {
        if self.cache.contains(digest)? {
            return Ok(true);
        }
        let is_wrong = {
            let state = self.state();
            state.wrong.contains(digest)
        };
        if is_wrong || !self.is_usable() {
            return Ok(false);
        }
        let find = || self.with_known(|known| Ok(known.find(digest)));
        let found = match find()? {
            None if self.catches_up()? => find()?,
            found => found,
        };
        let is_here = match found {
            None => return Ok(false),
            Some((pack, ObjectLocation::Small(place))) => self.bring_small(&pack, place)?,
            Some((_, ObjectLocation::Large { size })) => self.bring_large(digest, size)?,
        };
        if !is_here && self.is_usable() {
            self.state().wrong.insert(*digest);
        }
        Ok(is_here)
    }

    fn bring_small(&self, pack: &Digest, place: ObjectPlace) -> Result<bool, RemoteError> {
        let volume = self.with_known(|known| {
            Ok(known.pack(pack).and_then(|index| index.volume(place.volume)).unwrap_or(0))
        })?;
        let offset = u64::from(place.offset);
        let needed = ENTRY_HEADER + u64::from(place.length);
        let window = self.window.load(Ordering::Relaxed).max(FIRST_WINDOW);
        self.window.store((window * 2).min(LAST_WINDOW), Ordering::Relaxed);
        let length = window.max(needed).min(volume.saturating_sub(offset));
        let name = layout::volume(pack, place.volume);
        let Some(part) = self.answer(self.place.part(&name, offset, length))? else {
            return Ok(false);
        };
        let Some(part) = part else {
            self.tell_wrong(&name, "it is missing");
            return Ok(false);
        };
        if (part.len() as u64) < needed || part.len() as u64 > length {
            self.tell_wrong(&name, "its length differs from its index");
            return Ok(false);
        }
        let mut objects = Vec::new();
        for entry in self.entries(pack, place.volume, offset, &part) {
            if let ArchiveEntry::Object { digest, bytes } = entry {
                // Copied, so that the whole part can be freed.
                objects.push((digest, Bytes::copy_from_slice(&bytes)));
            }
        }
        let is_here = objects.iter().any(|(digest, _)| *digest == place.digest);
        self.keep(objects)?;
        if !is_here {
            self.tell_damaged(&name);
        }
        self.commit_if_much()?;
        Ok(is_here)
    }

    /// Stores fetched objects, and counts those that the cache lacked.
    pub(crate) fn keep(&self, objects: Vec<(Digest, Bytes)>) -> Result<(), CacheError> {
        let digests: Vec<Digest> = objects.iter().map(|(digest, _)| *digest).collect();
        let there = self.cache.contains_all(&digests)?;
        for ((digest, bytes), _) in objects.into_iter().zip(there).filter(|(_, there)| !there) {
            self.count(bytes.len() as u64);
            self.cache.put_with_digest(digest, bytes)?;
        }
        Ok(())
    }

    fn count(&self, bytes: u64) {
        self.brought.objects.fetch_add(1, Ordering::Relaxed);
        self.brought.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of objects that this process has fetched into the cache, and their bytes.
    pub fn brought(&self) -> (u64, u64) {
        let FetchCounts { objects, bytes } = &self.brought;
        (objects.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn bring_large(&self, digest: &Digest, size: u64) -> Result<bool, RemoteError> {
        const PATIENCE: Duration = Duration::from_secs(3_600);
        let right = right(digest);
        let _claim = loop {
            match self.cache.claim(&right)? {
                Some(claim) => break claim,
                // Another process or thread is fetching it.
                None => {
                    self.cache.wait_for(&right, PATIENCE)?;
                    self.cache.refresh()?;
                    if self.cache.contains(digest)? {
                        return Ok(true);
                    }
                }
            }
        };
        if self.cache.contains(digest)? {
            return Ok(true);
        }
        let fs = self.cache.home();
        let (path, told) = self.cache.own_file(INCOMING, &digest.to_string())?;
        self.state().notes.extend(told);
        let name = layout::object(digest);
        loop {
            let file = match fs.open(&path, Open::Create) {
                // Left by another user, for example.
                Err(error) if error.is_denied() && fs.remove_file(&path).is_ok() => {
                    fs.open(&path, Open::Create)
                }
                opened => opened,
            };
            let file = file.map_err(CacheError::from)?;
            let (mut hasher, begun) = resumed(&*file, size)?;
            if !self.fetch_rest(&*file, (&path, &name), &mut hasher, (begun, size))? {
                return Ok(false);
            }
            if hasher.finish() == *digest {
                break;
            }
            if begun == 0 {
                self.discard(&path, &name, "its bytes differ from its digest");
                return Ok(false);
            }
            // The bytes of the earlier attempt may be damaged: all of them are fetched again.
            drop(file);
            fs.remove_file(&path).map_err(CacheError::from)?;
        }
        self.cache.put_file(&path)?;
        self.cache.commit()?;
        self.count(size);
        Ok(true)
    }

    /// Fetches a large object from this byte on; false if it could not be fetched.
    fn fetch_rest(
        &self,
        file: &dyn FsFile,
        (path, name): (&Utf8PathBuf, &str),
        hasher: &mut Hasher,
        (mut offset, size): (u64, u64),
    ) -> Result<bool, RemoteError> {
        while offset < size {
            let starts = (offset..size).step_by(PIECE as usize).take(AT_ONCE);
            let parts: Vec<(u64, u64)> =
                starts.map(|start| (start, PIECE.min(size - start))).collect();
            let read = self.each(&parts, |(start, length)| self.place.part(name, *start, *length));
            for ((start, length), read) in parts.into_iter().zip(read) {
                let Some(read) = self.answer(read)? else { return Ok(false) };
                let bytes = read.unwrap_or_default();
                if bytes.len() as u64 != length {
                    self.discard(path, name, "it is missing or too short");
                    return Ok(false);
                }
                let failed = |error| CacheError::while_writing(error, path, size - start);
                file.write_all_at(&bytes, start).map_err(failed)?;
                hasher.update(&bytes);
                offset = start + length;
            }
        }
        Ok(true)
    }

    fn discard(&self, path: &Utf8PathBuf, name: &str, why: &str) {
        let _ = self.cache.home().remove_file(path);
        self.tell_wrong(name, why);
    }
}

/// Removes the files of interrupted fetches that are at least this old, unless a process continues
/// them now. Returns the number of bytes.
///
/// # Errors
///
/// If the folder of the cache cannot be read or changed.
pub fn remove_unfinished(cache: &Cache, age: Duration) -> Result<u64, CacheError> {
    let (fs, folder) = (cache.home(), cache.dir().join(INCOMING));
    let entries = match fs.read_dir(&folder) {
        Err(error) if error.is_not_found() => return Ok(0),
        other => other?,
    };
    let mut removed = 0;
    for entry in entries {
        let Ok(digest) = entry.name.parse::<Digest>() else { continue };
        let Some(_claim) = cache.claim(&right(&digest))? else { continue };
        let path = folder.join(&entry.name);
        let Ok(about) = fs.metadata(&path) else { continue };
        if about.is_file() && about.mtime_ns.saturating_add(age.as_nanos() as i64) <= fs.now() {
            fs.remove_file(&path)?;
            removed += about.size;
        }
    }
    Ok(removed)
}

/// The key of the claim that the only fetch of a large object holds.
fn right(digest: &Digest) -> Digest {
    Digest::of(&[b"incoming", &digest.as_bytes()[..]].concat())
}

/// The hash and the length of the bytes that an earlier attempt left.
fn resumed(file: &dyn FsFile, size: u64) -> Result<(Hasher, u64), CacheError> {
    let (mut hasher, mut offset) = (Hasher::new(), 0);
    let length = file.len()?;
    // The last piece may have been written only in part.
    let usable = if length > size { 0 } else { length / PIECE * PIECE };
    let mut buffer = vec![0; 1 << 20];
    while offset < usable {
        let most = buffer.len().min((usable - offset) as usize);
        let count = file.read_full_at(&mut buffer[..most], offset)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        offset += count as u64;
    }
    file.set_len(offset)?;
    Ok((hasher, offset))
}
