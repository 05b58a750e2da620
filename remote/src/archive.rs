//! Reading packs: their indexes and records as soon as a pack is known, and all of it for a pull.

use bytes::Bytes;
use cache::{ArchiveEntry, Digest, Table, archive_entries, record_parts};

use crate::error::RemoteError;
use crate::index::{self, ObjectLocation, PackIndex};
use crate::known::without_ignored;
use crate::layout;
use crate::remote::Remote;

/// The largest volume that is read; those written here are much smaller.
const MOST_VOLUME: u64 = 1 << 30;
/// The number of bytes of one request.
pub const PIECE: u64 = 8 << 20;
/// Shorter requests would cost more than they gain.
const SHORTEST: u64 = 4 << 20;
/// One thread commits once this many bytes are pending, while the others go on.
const MUCH: u64 = 32 << 20;
/// Every thread waits for a commit once this many bytes are pending.
const LARGE: u64 = 64 << 20;

type Record = (Table, Digest, Bytes);

impl Remote {
    /// Makes packs known, with their records; returns the number of new ones.
    pub(crate) fn learn(&self, packs: &[Digest]) -> Result<usize, RemoteError> {
        let mut fresh: Vec<Digest> = self.with_known(|known| {
            Ok(packs.iter().filter(|id| !known.has_pack(id)).copied().collect())
        })?;
        fresh.retain(|id| !self.state().repair.packs.contains(id));
        let mut count = 0;
        for read in self.each(&fresh, |id| self.read_head(id)) {
            let Some((index, records)) = read? else { continue };
            self.take_pack(index, records)?;
            count += 1;
        }
        Ok(count)
    }

    /// The index and the records of a pack.
    fn read_head(&self, id: &Digest) -> Result<Option<(PackIndex, Vec<Record>)>, RemoteError> {
        if !self.is_usable() {
            return Ok(None);
        }
        let name = layout::index(id);
        let found = self.answer(self.place.get(&name, index::MOST_BYTES))?;
        let Some(found) = found else { return Ok(None) };
        let index = found.and_then(PackIndex::decode).filter(|index| index.id == *id);
        let is_sane = |index: &PackIndex| index.volumes().all(|(_, size)| size <= MOST_VOLUME);
        let Some(index) = index.filter(is_sane) else {
            self.tell_wrong(&name, "it is missing, damaged, or belongs to another pack");
            return Ok(None);
        };
        let mut records = Vec::new();
        for (volume, offset, length) in index.record_parts() {
            let Some(part) = self.whole_part(id, volume, offset, length)? else { return Ok(None) };
            for entry in self.entries(id, volume, offset, &part) {
                if let ArchiveEntry::Record { table, key, written } = entry
                    && (self.rules.takes)(table)
                {
                    records.push((table, key, written));
                }
            }
        }
        Ok(Some((index, records)))
    }

    /// The valid entries of a part. Damaged ones are reported.
    pub(crate) fn entries(
        &self,
        pack: &Digest,
        volume: u32,
        offset: u64,
        part: &Bytes,
    ) -> Vec<ArchiveEntry> {
        let (entries, is_whole) = archive_entries(volume, offset, part);
        if !is_whole {
            self.tell_damaged(&layout::volume(pack, volume));
        }
        entries
    }

    /// A part of a volume, in several requests if it is long; none if the remote has less.
    pub(crate) fn whole_part(
        &self,
        pack: &Digest,
        volume: u32,
        offset: u64,
        length: u64,
    ) -> Result<Option<Bytes>, RemoteError> {
        let name = layout::volume(pack, volume);
        let mut whole: Vec<u8> = Vec::new();
        while (whole.len() as u64) < length {
            let from = offset + whole.len() as u64;
            let most = PIECE.min(length - whole.len() as u64);
            let Some(found) = self.answer(self.place.part(&name, from, most))? else {
                return Ok(None);
            };
            let Some(part) = found else {
                self.tell_wrong(&name, "it is missing");
                return Ok(None);
            };
            if part.is_empty() || part.len() as u64 > most {
                self.tell_wrong(&name, "its length differs from its index");
                return Ok(None);
            }
            if part.len() as u64 == length {
                return Ok(Some(part));
            }
            whole.extend_from_slice(&part);
        }
        Ok(Some(whole.into()))
    }

    fn take_pack(&self, index: PackIndex, records: Vec<Record>) -> Result<(), RemoteError> {
        // Long values consist of objects of the pack.
        let parts: Vec<Digest> =
            records.iter().flat_map(|(_, _, written)| record_parts(written)).collect();
        self.with_known(|known| {
            known.add_index(index.clone());
            Ok(())
        })?;
        for part in parts {
            if !self.cache.contains(&part)? {
                self.bring(&part)?;
            }
        }
        let mut hashes = Vec::with_capacity(records.len());
        for (table, key, written) in &records {
            if let Some(value) = self.cache.whole_record(written.clone())? {
                hashes.push(self.hash_of(*table, key, &value));
            }
        }
        let records = without_ignored(&self.cache, records)?;
        self.cache.take_records(records, &self.rules.prefers)?;
        self.with_known(|known| known.keep_pack(&self.cache, &self.url, index, hashes))?;
        self.commit_if_much()
    }

    pub(crate) fn commit_if_much(&self) -> Result<(), RemoteError> {
        let pending = self.cache.pending_bytes();
        let alone = (pending >= MUCH).then(|| self.committing.try_lock());
        if pending >= LARGE || matches!(alone, Some(Ok(_))) {
            self.cache.commit()?;
        }
        Ok(())
    }

    /// Fetches those of these objects that are in packs and not in the cache, by whole volumes
    /// where most of one is wanted. [`Remote::brought`] counts them.
    ///
    /// # Errors
    ///
    /// If the remote does not answer and [`Settings::require`](crate::Settings) is set, or if the cache cannot be read
    /// or written.
    pub fn pull(
        &self,
        wanted: &[Digest],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(), RemoteError> {
        let (small, large) = self.places(wanted)?;
        let spans = spans(small, self.place.place().at_once());
        let total: u64 = spans.iter().map(|span| span.length).sum();
        let done = std::sync::atomic::AtomicU64::new(0);
        let taken = self.each(&spans, |span| {
            self.take_span(span)?;
            let before = done.fetch_add(span.length, std::sync::atomic::Ordering::Relaxed);
            progress(before + span.length, total);
            Ok(())
        });
        taken.into_iter().collect::<Result<(), RemoteError>>()?;
        for digest in large {
            self.bring(&digest)?;
        }
        self.cache.commit()?;
        Ok(())
    }

    fn take_span(&self, span: &Span) -> Result<(), RemoteError> {
        if !self.is_usable() {
            return Ok(());
        }
        let part = self.whole_part(&span.pack, span.volume, span.offset, span.length)?;
        let Some(part) = part else { return Ok(()) };
        let mut objects = Vec::new();
        for entry in self.entries(&span.pack, span.volume, span.offset, &part) {
            if let ArchiveEntry::Object { digest, bytes } = entry {
                objects.push((digest, bytes));
            }
        }
        self.keep(objects)?;
        self.commit_if_much()
    }

    /// The places of small objects in volumes, and the large objects.
    fn places(&self, wanted: &[Digest]) -> Result<(Vec<Place>, Vec<Digest>), RemoteError> {
        let (mut small, mut large) = (Vec::with_capacity(wanted.len()), Vec::new());
        self.with_known(|known| {
            for digest in wanted {
                match known.find(digest) {
                    Some((pack, ObjectLocation::Small(place))) => {
                        small.push((pack, place.volume, u64::from(place.offset), place.length));
                    }
                    Some((_, ObjectLocation::Large { .. })) => large.push(*digest),
                    None => {}
                }
            }
            Ok(())
        })?;
        Ok((small, large))
    }

    /// All objects of the known packs.
    ///
    /// # Errors
    ///
    /// If the index of the cache cannot be read.
    pub fn known_objects(&self) -> Result<Vec<Digest>, RemoteError> {
        Ok(self.with_known(|known| {
            let small = known.packs().flat_map(|pack| pack.small().map(|place| place.digest));
            let large = known.packs().flat_map(|pack| pack.large().map(|(digest, _)| digest));
            Ok(small.chain(large).collect())
        })?)
    }

    /// A refusal for people.
    pub(crate) fn refused(&self, why: impl Into<String>) -> RemoteError {
        RemoteError::Away { url: self.address.to_string(), why: why.into() }
    }
}

/// The pack, the volume, the offset and the length of a small object.
type Place = (Digest, u32, u64, u32);

/// A part of a volume.
#[derive(Debug, PartialEq)]
struct Span {
    pack: Digest,
    volume: u32,
    /// Of an entry.
    offset: u64,
    length: u64,
}

/// The parts of volumes with these objects. Small gaps between them are read too. Where little is
/// wanted, the parts are short, so that all requests and cores have a share of it.
fn spans(mut places: Vec<Place>, at_once: usize) -> Vec<Span> {
    const GAP: u64 = 64 << 10;
    let total: u64 = places.iter().map(|(.., length)| u64::from(*length)).sum();
    let longest = (total / at_once.max(1) as u64).clamp(SHORTEST, PIECE);
    places.sort_unstable_by_key(|(pack, volume, offset, _)| (pack.start(), *volume, *offset));
    let mut spans: Vec<Span> = Vec::new();
    for (pack, volume, offset, length) in places {
        let end = offset + cache::ENTRY_HEADER + u64::from(length);
        match spans.last_mut() {
            Some(span)
                if span.pack == pack
                    && span.volume == volume
                    && offset <= span.offset + span.length + GAP
                    && end - span.offset <= longest =>
            {
                span.length = end.saturating_sub(span.offset).max(span.length);
            }
            _ => spans.push(Span { pack, volume, offset, length: end - offset }),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: u32, length: u32) -> Vec<Place> {
        let offset = |number| 16 + u64::from(number) * (cache::ENTRY_HEADER + u64::from(length));
        (0..count).map(|number| (Digest::of(b"pack"), 1, offset(number), length)).collect()
    }

    #[test]
    fn every_request_has_a_share_and_none_is_long() {
        for (count, length, at_once) in [(10_000, 2_000, 16), (10, 2_000, 16), (9_000, 60_000, 4)] {
            let all = places(count, length);
            let spans = spans(all.clone(), at_once);
            let total = u64::from(count) * u64::from(length);
            assert!(
                spans.len() as u64 >= (total / PIECE).max((total / SHORTEST).min(at_once as u64))
            );
            for (_, _, offset, length) in all {
                let end = offset + cache::ENTRY_HEADER + u64::from(length);
                let covers =
                    |span: &&Span| span.offset <= offset && end <= span.offset + span.length;
                assert_eq!(spans.iter().filter(covers).count(), 1);
            }
            assert!(spans.iter().all(|span| span.length <= PIECE));
        }
    }

    #[test]
    fn a_small_gap_is_read_and_a_large_one_is_not() {
        let at = |offset| (Digest::of(b"pack"), 1, offset, 1_000);
        assert_eq!(spans(vec![at(100), at(20_000)], 1).len(), 1);
        assert_eq!(spans(vec![at(100), at(500_000)], 1).len(), 2);
    }
}
