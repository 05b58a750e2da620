//! Fetches objects from the remote into the cache when they are read.
//!
//! A small object is fetched with its neighbours in the pack, and each request fetches more of
//! them: objects were written one after the other, and are read in about the same order. The
//! transfer of a large object resumes where an earlier attempt ended.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use cache::fs::{FsFile, Open};
use cache::{ArchiveEntry, CacheError, Digest, ENTRY_HEADER, Hasher, ObjectPlace};
use camino::Utf8PathBuf;

use crate::archive::PIECE;
use crate::error::Trouble;
use crate::index::Found;
use crate::layout;
use crate::remote::Remote;

/// The first and the largest size of a request for small objects.
const FIRST_WINDOW: u64 = 256 << 10;
const LAST_WINDOW: u64 = PIECE;
/// The pieces of a large object that are read at a time.
const AT_ONCE: usize = 8;
/// The folder of unfinished large objects in the cache.
const INCOMING: &str = "incoming";

impl Remote {
    /// Fetches an object into the cache; false if the remote lacks it or has it damaged.
    pub fn bring(&self, digest: &Digest) -> Result<bool, Trouble> {
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
        let found = self.with_known(|known| Ok(known.find(digest)))?;
        let is_here = match found {
            None => return Ok(false),
            Some((pack, Found::Small(place))) => self.bring_small(&pack, place)?,
            Some((_, Found::Large { size })) => self.bring_large(digest, size)?,
        };
        if !is_here && self.is_usable() {
            self.state().wrong.insert(*digest);
        }
        Ok(is_here)
    }

    fn bring_small(&self, pack: &Digest, place: ObjectPlace) -> Result<bool, Trouble> {
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
        let part = part.unwrap_or_default();
        if (part.len() as u64) < needed || part.len() as u64 > length {
            self.tell_wrong(&name, "its length differs from its index");
            return Ok(false);
        }
        let mut is_here = false;
        for entry in self.entries(pack, place.volume, offset, &part) {
            if let ArchiveEntry::Object { digest, bytes } = entry {
                is_here |= digest == place.digest;
                // Copied, so that the whole part can be freed.
                self.cache.put_with_digest(digest, Bytes::copy_from_slice(&bytes))?;
            }
        }
        if !is_here {
            let object = place.digest.short();
            self.tell_wrong(&name, &format!("object {object} in it is missing or damaged"));
        }
        self.commit_if_much()?;
        Ok(is_here)
    }

    fn bring_large(&self, digest: &Digest, size: u64) -> Result<bool, Trouble> {
        const PATIENCE: Duration = Duration::from_secs(3_600);
        let right = Digest::of(&[b"incoming", &digest.as_bytes()[..]].concat());
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
        let fs = self.cache.fs();
        let folder = self.cache.dir().join(INCOMING);
        fs.create_dir_in_place(&folder).map_err(CacheError::from)?;
        let path = folder.join(digest.to_string());
        let file = fs.open(&path, Open::Create).map_err(CacheError::from)?;
        let (mut hasher, mut offset) = resumed(&*file, size)?;
        let name = layout::object(digest);
        while offset < size {
            let starts = (offset..size).step_by(PIECE as usize).take(AT_ONCE);
            let parts: Vec<(u64, u64)> =
                starts.map(|start| (start, PIECE.min(size - start))).collect();
            let read = self.each(&parts, |(start, length)| self.place.part(&name, *start, *length));
            for ((start, length), read) in parts.into_iter().zip(read) {
                let Some(read) = self.answer(read)? else { return Ok(false) };
                let bytes = read.unwrap_or_default();
                if bytes.len() as u64 != length {
                    self.discard(&path, &name, "it is missing or too short");
                    return Ok(false);
                }
                let failed = |error| CacheError::while_writing(error, &path, size - start);
                file.write_all_at(&bytes, start).map_err(failed)?;
                hasher.update(&bytes);
                offset = start + length;
            }
        }
        if hasher.finish() != *digest {
            self.discard(&path, &name, "its bytes differ from its digest");
            return Ok(false);
        }
        drop(file);
        self.cache.put_file(&path)?;
        self.cache.commit()?;
        Ok(true)
    }

    fn discard(&self, path: &Utf8PathBuf, name: &str, why: &str) {
        // The bytes of an earlier attempt are compared with the digest at the end.
        let _ = self.cache.fs().remove_file(path);
        self.tell_wrong(name, why);
    }
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
