//! The index of a pack: the position of every object in its volumes, and the large objects that
//! came with it.
//!
//! Binary, with a checksum at the end. Objects are sorted, so lookups search the bytes without
//! decoding them.

use bytes::Bytes;
use cache::{ArchivePlaces, Digest, ENTRY_HEADER, FIRST_ENTRY, ObjectPlace};

const MARK: &[u8; 16] = b"throstle index1\n";
const DIGEST: usize = 32;
/// An object: digest, volume, offset, length.
const SMALL: usize = DIGEST + 12;
/// A large object: digest, size.
const LARGE: usize = DIGEST + 8;
/// Behind the mark: the id, the position of the first record, and the numbers of volumes, small and
/// large objects.
const HEAD: usize = 16 + DIGEST + 12 + 12;
/// The longest index that is read: some 20 million objects.
pub const MOST_BYTES: u64 = 1 << 30;

/// A valid index. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PackIndex {
    bytes: Bytes,
    pub id: Digest,
    volumes: Vec<u64>,
    small: usize,
    large: usize,
    first_record: Option<(u32, u64)>,
}

/// The place of an object in a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectLocation {
    Small(ObjectPlace),
    Large { size: u64 },
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn digest(bytes: &[u8], at: usize) -> Option<Digest> {
    Some(Digest::from_bytes(bytes.get(at..at + DIGEST)?.try_into().ok()?))
}

impl PackIndex {
    /// The large objects are sorted here.
    pub fn new(places: &ArchivePlaces, mut large: Vec<(Digest, u64)>) -> Option<PackIndex> {
        large.sort_unstable();
        let mut bytes = MARK.to_vec();
        bytes.extend_from_slice(places.id.as_bytes());
        let (volume, offset) = places.first_record.unwrap_or_default();
        bytes.extend_from_slice(&volume.to_le_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
        for count in [places.volumes.len(), places.objects.len(), large.len()] {
            bytes.extend_from_slice(&u32::try_from(count).ok()?.to_le_bytes());
        }
        places.volumes.iter().for_each(|size| bytes.extend_from_slice(&size.to_le_bytes()));
        for place in &places.objects {
            bytes.extend_from_slice(place.digest.as_bytes());
            for number in [place.volume, place.offset, place.length] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        for (digest, size) in large {
            bytes.extend_from_slice(digest.as_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
        }
        let check = Digest::of(&bytes);
        bytes.extend_from_slice(check.as_bytes());
        PackIndex::decode(bytes.into())
    }

    /// None if it is not an index, damaged, or contradicts itself.
    pub fn decode(bytes: Bytes) -> Option<PackIndex> {
        let body = bytes.len().checked_sub(DIGEST)?;
        if !bytes.starts_with(MARK) || digest(&bytes, body)? != Digest::of(&bytes[..body]) {
            return None;
        }
        let id = digest(&bytes, 16)?;
        let first_record = match (word(&bytes, 48)?, long(&bytes, 52)?) {
            (0, _) => None,
            position => Some(position),
        };
        let count = |at| Some(word(&bytes, at)? as usize);
        let (volume_count, small, large) = (count(60)?, count(64)?, count(68)?);
        let length = volume_count.checked_mul(8)?;
        let length = length.checked_add(small.checked_mul(SMALL)?)?;
        let length = length.checked_add(large.checked_mul(LARGE)?)?;
        if HEAD.checked_add(length)? != body {
            return None;
        }
        let volumes: Option<Vec<u64>> =
            (0..volume_count).map(|at| long(&bytes, HEAD + 8 * at)).collect();
        let index = PackIndex { id, volumes: volumes?, small, large, first_record, bytes };
        index.is_sound().then_some(index)
    }

    /// Every position is inside its volume.
    fn is_sound(&self) -> bool {
        let is_inside = |place: ObjectPlace| {
            let end = u64::from(place.offset) + ENTRY_HEADER + u64::from(place.length);
            self.volume(place.volume).is_some_and(|size| end <= size)
        };
        let record = self.first_record.is_none_or(|(volume, offset)| {
            offset >= FIRST_ENTRY && self.volume(volume).is_some_and(|size| offset <= size)
        });
        record && (0..self.small).all(|at| self.small_at(at).is_some_and(is_inside))
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The size of a volume, counted from 1.
    pub fn volume(&self, number: u32) -> Option<u64> {
        self.volumes.get((number as usize).checked_sub(1)?).copied()
    }

    pub fn volumes(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (1..).zip(self.volumes.iter().copied())
    }

    /// The parts of the volumes with records: volume, offset and length.
    pub fn record_parts(&self) -> Vec<(u32, u64, u64)> {
        let Some((first, offset)) = self.first_record else { return Vec::new() };
        let volumes = self.volumes().filter(|(number, _)| *number >= first);
        let from = |number| if number == first { offset } else { FIRST_ENTRY };
        volumes
            .map(|(number, size)| (number, from(number), size.saturating_sub(from(number))))
            .collect()
    }

    fn small_start(&self) -> usize {
        HEAD + 8 * self.volumes.len()
    }

    fn small_at(&self, at: usize) -> Option<ObjectPlace> {
        let start = self.small_start() + at * SMALL;
        Some(ObjectPlace {
            digest: digest(&self.bytes, start)?,
            volume: word(&self.bytes, start + DIGEST)?,
            offset: word(&self.bytes, start + DIGEST + 4)?,
            length: word(&self.bytes, start + DIGEST + 8)?,
        })
    }

    fn large_at(&self, at: usize) -> Option<(Digest, u64)> {
        let start = self.small_start() + self.small * SMALL + at * LARGE;
        Some((digest(&self.bytes, start)?, long(&self.bytes, start + DIGEST)?))
    }

    pub fn small(&self) -> impl Iterator<Item = ObjectPlace> + '_ {
        (0..self.small).filter_map(|at| self.small_at(at))
    }

    pub fn large(&self) -> impl Iterator<Item = (Digest, u64)> + '_ {
        (0..self.large).filter_map(|at| self.large_at(at))
    }

    pub fn find(&self, wanted: &Digest) -> Option<ObjectLocation> {
        let start = self.small_start();
        let small = search(self.small, wanted, |at| digest(&self.bytes, start + at * SMALL));
        if let Some(place) = small.and_then(|at| self.small_at(at)) {
            return Some(ObjectLocation::Small(place));
        }
        let start = start + self.small * SMALL;
        let large = search(self.large, wanted, |at| digest(&self.bytes, start + at * LARGE));
        large.and_then(|at| self.large_at(at)).map(|(_, size)| ObjectLocation::Large { size })
    }
}

/// The position of a digest in a sorted list.
fn search(count: usize, digest: &Digest, at: impl Fn(usize) -> Option<Digest>) -> Option<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = (low + high) / 2;
        match at(middle)?.cmp(digest) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn places() -> ArchivePlaces {
        let place = |number: u32| ObjectPlace {
            digest: Digest::of(&number.to_le_bytes()),
            volume: 1 + number % 2,
            offset: 16 + 100 * number,
            length: 40 + number,
        };
        let mut objects: Vec<ObjectPlace> = (0..9).map(place).collect();
        objects.sort_by_key(|place| place.digest);
        let volumes = vec![2_000, 3_000];
        ArchivePlaces { id: Digest::of(b"id"), volumes, objects, first_record: Some((2, 1_000)) }
    }

    fn index() -> PackIndex {
        let large = vec![(Digest::of(b"b"), 5 << 30), (Digest::of(b"a"), 2 << 20)];
        PackIndex::new(&places(), large).unwrap()
    }

    #[test]
    fn every_object_is_found_where_it_is_and_no_other() {
        let index = index();
        for place in places().objects {
            assert_eq!(index.find(&place.digest), Some(ObjectLocation::Small(place)));
        }
        assert_eq!(index.find(&Digest::of(b"b")), Some(ObjectLocation::Large { size: 5 << 30 }));
        assert_eq!(index.find(&Digest::of(b"other")), None);
        assert_eq!(index.record_parts(), [(2, 1_000, 2_000)]);
    }

    #[test]
    fn an_index_with_any_byte_changed_or_cut_off_is_refused() {
        let bytes = index().bytes().clone();
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert!(PackIndex::decode(changed.into()).is_none(), "byte {at}");
            assert!(PackIndex::decode(bytes.slice(..at)).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn positions_outside_of_their_volume_are_refused() {
        for change in [
            |places: &mut ArchivePlaces| places.objects[3].length = 1 << 20,
            |places: &mut ArchivePlaces| places.objects[3].volume = 3,
            |places: &mut ArchivePlaces| places.objects[3].volume = 0,
            |places: &mut ArchivePlaces| places.first_record = Some((2, 4_000)),
            |places: &mut ArchivePlaces| places.first_record = Some((9, 100)),
            |places: &mut ArchivePlaces| places.first_record = Some((1, 3)),
        ] {
            let mut places = places();
            change(&mut places);
            assert!(PackIndex::new(&places, Vec::new()).is_none());
        }
    }
}
