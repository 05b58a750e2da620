//! Reading packs: their indexes and records as soon as a pack is known, and all of it for a pull.

use bytes::Bytes;
use cache::{ArchiveEntry, Digest, Table, archive_entries, record_parts};

use crate::error::Trouble;
use crate::index::{self, PackIndex};
use crate::known::{record_hash, without_ignored};
use crate::layout;
use crate::remote::Remote;

/// The largest volume that is read; those written here are much smaller.
const MOST_VOLUME: u64 = 1 << 30;
/// The number of bytes of one request.
pub const PIECE: u64 = 8 << 20;
/// Commit once this many bytes are pending.
const LARGE: u64 = 64 << 20;

type Record = (Table, Digest, Bytes);

impl Remote {
    /// Makes packs known, with their records; returns the number of new ones.
    pub(crate) fn learn(&self, packs: &[Digest]) -> Result<usize, Trouble> {
        let fresh: Vec<Digest> = self.with_known(|known| {
            Ok(packs.iter().filter(|id| !known.has_pack(id)).copied().collect())
        })?;
        let mut count = 0;
        for read in self.each(&fresh, |id| self.read_head(id)) {
            let Some((index, records)) = read? else { continue };
            self.take_pack(index, records)?;
            count += 1;
        }
        Ok(count)
    }

    /// The index and the records of a pack.
    fn read_head(&self, id: &Digest) -> Result<Option<(PackIndex, Vec<Record>)>, Trouble> {
        if !self.is_usable() {
            return Ok(None);
        }
        let name = layout::index(id);
        let found = self.answer(self.place.get(&name, index::MOST_BYTES))?;
        let Some(found) = found else { return Ok(None) };
        let index = found.and_then(PackIndex::decode).filter(|index| index.id == *id);
        let is_sane = |index: &PackIndex| index.volumes().all(|(_, size)| size <= MOST_VOLUME);
        let Some(index) = index.filter(is_sane) else {
            self.tell_wrong(&name, "it is missing, damaged, or of another pack");
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

    /// The valid entries of a part; damage is reported.
    pub(crate) fn entries(
        &self,
        pack: &Digest,
        volume: u32,
        offset: u64,
        part: &Bytes,
    ) -> Vec<ArchiveEntry> {
        let (entries, is_whole) = archive_entries(volume, offset, part);
        if !is_whole {
            self.tell_wrong(&layout::volume(pack, volume), "an entry in it is damaged");
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
    ) -> Result<Option<Bytes>, Trouble> {
        let name = layout::volume(pack, volume);
        let mut whole: Vec<u8> = Vec::new();
        while (whole.len() as u64) < length {
            let from = offset + whole.len() as u64;
            let most = PIECE.min(length - whole.len() as u64);
            let Some(found) = self.answer(self.place.part(&name, from, most))? else {
                return Ok(None);
            };
            let part = found.unwrap_or_default();
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

    fn take_pack(&self, index: PackIndex, records: Vec<Record>) -> Result<(), Trouble> {
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
                hashes.push(record_hash(*table, key, &value));
            }
        }
        let records = without_ignored(&self.cache, records)?;
        self.cache.take_records(records, &self.rules.prefers)?;
        self.with_known(|known| known.keep_pack(&self.cache, &self.url, index, hashes))?;
        self.commit_if_much()
    }

    pub(crate) fn commit_if_much(&self) -> Result<(), Trouble> {
        if self.cache.pending_bytes() >= LARGE {
            self.cache.commit()?;
        }
        Ok(())
    }

    /// Fetches those of these objects that are in packs and not in the cache, by whole volumes
    /// where most of one is wanted. Returns the number of fetched objects and bytes.
    pub fn pull(
        &self,
        wanted: &[Digest],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(u64, u64), Trouble> {
        let spans = self.spans(wanted)?;
        let total: u64 = spans.iter().map(|span| span.length).sum();
        let done = std::sync::atomic::AtomicU64::new(0);
        let counts = std::sync::Mutex::new((0, 0));
        let taken = self.each(&spans, |span| {
            let taken = self.take_span(span)?;
            let before = done.fetch_add(span.length, std::sync::atomic::Ordering::Relaxed);
            progress(before + span.length, total);
            let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *counts = (counts.0 + taken.0, counts.1 + taken.1);
            Ok::<_, Trouble>(())
        });
        taken.into_iter().collect::<Result<Vec<()>, Trouble>>()?;
        let mut counts = counts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (digest, size) in self.large(wanted)? {
            if self.bring(&digest)? {
                counts = (counts.0 + 1, counts.1 + size);
            }
        }
        self.cache.commit()?;
        Ok(counts)
    }

    fn take_span(&self, span: &Span) -> Result<(u64, u64), Trouble> {
        if !self.is_usable() {
            return Ok((0, 0));
        }
        let part = self.whole_part(&span.pack, span.volume, span.offset, span.length)?;
        let Some(part) = part else { return Ok((0, 0)) };
        let mut counts = (0, 0);
        for entry in self.entries(&span.pack, span.volume, span.offset, &part) {
            if let ArchiveEntry::Object { digest, bytes } = entry {
                counts = (counts.0 + 1, counts.1 + bytes.len() as u64);
                self.cache.put_with_digest(digest, bytes)?;
            }
        }
        self.commit_if_much()?;
        Ok(counts)
    }

    /// The parts of volumes with these objects. Small gaps between them are read too.
    fn spans(&self, wanted: &[Digest]) -> Result<Vec<Span>, Trouble> {
        const GAP: u64 = 64 << 10;
        let mut places = Vec::new();
        self.with_known(|known| {
            for digest in wanted {
                if let Some((pack, index::Found::Small(place))) = known.find(digest) {
                    places.push((pack, place.volume, u64::from(place.offset), place.length));
                }
            }
            Ok(())
        })?;
        places.sort_unstable();
        let mut spans: Vec<Span> = Vec::new();
        for (pack, volume, offset, length) in places {
            let end = offset + cache::ENTRY_HEADER + u64::from(length);
            match spans.last_mut() {
                Some(span)
                    if span.pack == pack
                        && span.volume == volume
                        && offset <= span.offset + span.length + GAP
                        && end - span.offset <= PIECE =>
                {
                    span.length = end.saturating_sub(span.offset).max(span.length);
                }
                _ => spans.push(Span { pack, volume, offset, length: end - offset }),
            }
        }
        Ok(spans)
    }

    fn large(&self, wanted: &[Digest]) -> Result<Vec<(Digest, u64)>, Trouble> {
        Ok(self.with_known(|known| {
            let size = |digest: &Digest| match known.find(digest)?.1 {
                index::Found::Large { size } => Some((*digest, size)),
                index::Found::Small(_) => None,
            };
            Ok(wanted.iter().filter_map(size).collect())
        })?)
    }

    /// All objects of the known packs.
    pub fn known_objects(&self) -> Result<Vec<Digest>, Trouble> {
        Ok(self.with_known(|known| {
            let small = known.packs().flat_map(|pack| pack.small().map(|place| place.digest));
            let large = known.packs().flat_map(|pack| pack.large().map(|(digest, _)| digest));
            Ok(small.chain(large).collect())
        })?)
    }

    /// A refusal for people.
    pub(crate) fn refused(&self, why: impl Into<String>) -> Trouble {
        Trouble::Away { url: self.address.to_string(), why: why.into() }
    }
}

/// A part of a volume.
#[derive(Debug, PartialEq)]
struct Span {
    pack: Digest,
    volume: u32,
    /// Of an entry.
    offset: u64,
    length: u64,
}
