//! Writes an archive: first the objects, then the records that refer to them, then the index.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::contents::Contents;
use super::index::Index;
use super::volumes::Volumes;
use super::{Archived, Archiving, Kept};
use crate::cache::{Cache, Shared};
use crate::fs::{Open, confined};
use crate::index::rows::{Known, KnownValue, Location};
use crate::long::keep_parts;
use crate::pack::entry::{Entry, checksum};
use crate::{CacheError, Digest, Hasher, Table};

/// The size of the pieces of large objects, in bytes.
const PIECE: usize = 4 << 20;
/// An archive has one value per record, so all have the same sequence number, and equal values have
/// equal entries.
const SEQUENCE: u64 = 0;

impl Cache {
    /// Writes the kept part of the cache as an archive. Damaged entries are left out and
    /// quarantined; the rest of the archive is complete.
    ///
    /// # Errors
    ///
    /// [`CacheError::Archive`] if the folder has an archive or another file with the name of a
    /// volume, if another process writes an archive there, or if a base has no complete one.
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the cache cannot be read, and
    /// [`CacheError::NoSpace`] if the disk of the archive is full.
    pub fn archive(&self, kept: &Kept, how: &Archiving) -> Result<Archived, CacheError> {
        let (home, outside) = (&self.0.fs, &self.0.outside);
        let fs = if how.folder.starts_with(self.dir()) {
            home.create_dir_all(how.folder)?;
            Arc::clone(home)
        } else {
            outside.create_dir_all(how.folder)?;
            confined(outside, how.folder)?
        };
        let volumes = Volumes::new(&*fs, how.folder, how.volume_bytes)?;
        let mut contents = Contents::default();
        how.bases.iter().try_for_each(|base| contents.add(&**outside, base))?;
        let (objects, records) = self.0.ledger().rows()?;
        let mut report = Archived::default();
        let mut parts = HashSet::new();
        for (table, key, known) in
            records.iter().filter(|(table, key, _)| (kept.record)(*table, key))
        {
            let written = self.0.written(*table, key, Some(known.clone()))?;
            keep_parts(written.as_deref(), &mut parts);
        }
        let is_kept = |digest: &Digest| (kept.object)(digest) || parts.contains(digest);
        let mut objects: Vec<(Digest, Location)> =
            objects.into_iter().filter(|(digest, _)| is_kept(digest)).collect();
        report.in_bases = objects.len() as u64;
        objects.retain(|(digest, _)| !contents.objects.contains(digest));
        report.in_bases -= objects.len() as u64;
        objects.sort_by_key(|(_, location)| location.pack_end().unwrap_or((u32::MAX, u64::MAX)));
        let total = objects.iter().map(|(_, location)| location.size()).sum();
        let mut packing = Packing { cache: self, contents: &contents, volumes, report };
        let mut done = 0;
        for (digest, location) in objects {
            packing.object(&digest, location, &|bytes| (how.progress)(done + bytes, total))?;
            done += location.size();
            (how.progress)(done, total);
        }
        for (table, key, known) in records {
            // A removed record has no value, and nothing is lost.
            if known.value != KnownValue::Gone && (kept.record)(table, &key) {
                packing.record(table, key, known)?;
            }
        }
        packing.finish(Index::new(&*fs, contents.bases.clone()))
    }
}

struct Packing<'a> {
    cache: &'a Cache,
    contents: &'a Contents,
    volumes: Volumes<'a>,
    report: Archived,
}

impl Packing<'_> {
    fn object(
        &mut self,
        digest: &Digest,
        location: Location,
        progress: &dyn Fn(u64),
    ) -> Result<(), CacheError> {
        let written = match location {
            Location::Packed { .. } => self.small(digest),
            Location::Loose { size } => self.large(digest, size, progress),
        };
        match written {
            Ok(()) => self.report.objects += 1,
            Err(error) if error.is_lost_object() => self.report.damaged.push(*digest),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn small(&mut self, digest: &Digest) -> Result<(), CacheError> {
        let bytes = self.cache.read(digest)?;
        self.volumes.add(&Entry::Object { digest: *digest, bytes })
    }

    /// Writes pieces, and then the entry that completes them, but only if they are correct.
    fn large(
        &mut self,
        digest: &Digest,
        size: u64,
        progress: &dyn Fn(u64),
    ) -> Result<(), CacheError> {
        let shared: &Shared = &self.cache.0;
        let file = match shared.fs.open(&shared.layout.object(digest), Open::Read) {
            Err(error) if error.is_not_found() => {
                return Err(shared.quarantine(digest, Location::Loose { size }));
            }
            other => other?,
        };
        let mut hasher = Hasher::new();
        let mut offset = 0;
        while offset < size {
            let mut piece = vec![0u8; PIECE.min((size - offset) as usize)];
            let filled = file.read_full_at(&mut piece, offset)?;
            piece.truncate(filled);
            if piece.is_empty() {
                break;
            }
            hasher.update(&piece);
            self.volumes.add(&Entry::Piece { of: *digest, offset, bytes: Bytes::from(piece) })?;
            offset += filled as u64;
            progress(offset);
        }
        if hasher.finish() != *digest {
            return Err(shared.quarantine(digest, Location::Loose { size }));
        }
        self.volumes.add(&Entry::Loose { digest: *digest, size })
    }

    fn record(&mut self, table: Table, key: Digest, known: Known) -> Result<(), CacheError> {
        let Some(value) = self.cache.0.written(table, &key, Some(known))? else {
            self.report.damaged.push(key);
            return Ok(());
        };
        let check = checksum(&[&SEQUENCE.to_le_bytes(), &value]);
        if self.contents.records.get(&(table, key)) == Some(&check) {
            self.report.in_bases += 1;
            return Ok(());
        }
        self.report.records += 1;
        self.volumes.add(&Entry::Record { table, key, sequence: SEQUENCE, value })
    }

    fn finish(mut self, mut index: Index) -> Result<Archived, CacheError> {
        index.has_losses = !self.report.damaged.is_empty() || self.cache.has_losses();
        let volumes = self.volumes.finish(index)?;
        self.report.volumes = volumes.len() as u64;
        self.report.bytes = volumes.iter().map(|volume| volume.bytes).sum();
        Ok(self.report)
    }
}
