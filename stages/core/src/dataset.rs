//! Data sets: content-addressed tables of items.
//!
//! Items are spread over buckets by a hash of their id, so that a change of one item changes one
//! bucket and the short root that lists them. The same items give the same bytes in any input
//! order.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use cache::Digest;
use serde::{Deserialize, Serialize};

use crate::item::{Blob, Fields, Item, Value};

/// The largest average number of items in a bucket.
const BUCKET_ITEMS: usize = 512;
const FORMAT: u8 = 1;
/// The number of places in a chunk that are searched at a time.
const BLOCK: usize = 64;
/// Data sets of this size are encoded on two threads.
const WORTH_A_THREAD: usize = 4_096;

/// The ways in which making or reading a data set fails.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// Two items of one data set have this id.
    #[error("two items have the id `{0}`")]
    DuplicateId(Arc<str>),
    /// The bytes are damaged, or of a format that this version does not know; with the reason.
    #[error("a data set in the store cannot be read: {0}")]
    Unreadable(String),
}

/// The bucket of an item id when `2^bits` buckets are used.
pub fn bucket_of(id: &str, bits: u8) -> u32 {
    let digest = Digest::of(id.as_bytes());
    let mut head = [0; 4];
    head.copy_from_slice(&digest.as_bytes()[..4]);
    u32::from_be_bytes(head).checked_shr(32 - u32::from(bits)).unwrap_or(0)
}

/// One non-empty bucket of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The first [`Dataset::bits`] bits of the hash of its items' ids, from 0.
    pub number: u32,
    /// The digest of the encoded [`Chunk`] with its items.
    pub chunk: Digest,
    /// The number of its items, at least 1.
    pub items: u32,
}

/// The root of a data set: the list of its chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    /// Bits of the id's hash that select the bucket: there are at most `2^bits` buckets.
    pub bits: u8,
    /// Sorted by number; empty buckets are left out.
    pub buckets: Vec<Bucket>,
}

/// A data set together with its objects.
#[derive(Debug, Default)]
pub struct DatasetParts {
    /// The root, which names the chunks by their digests.
    pub dataset: Dataset,
    /// The encoded chunks, in the order of the buckets.
    pub chunks: Vec<Vec<u8>>,
}

impl Dataset {
    /// The number of bits of the id's hash that select the bucket, for this number of items.
    fn bits_for(items: usize) -> u8 {
        let buckets = items.div_ceil(BUCKET_ITEMS).max(1).next_power_of_two();
        buckets.trailing_zeros() as u8
    }

    /// Divides items into buckets and encodes them. The bytes do not depend on the order of the
    /// items.
    ///
    /// # Errors
    ///
    /// [`DatasetError::DuplicateId`] if two items have the same id.
    pub fn build(items: Vec<Item>) -> Result<DatasetParts, DatasetError> {
        let bits = Dataset::bits_for(items.len());
        let is_large = items.len() >= WORTH_A_THREAD;
        let mut buckets: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
        for item in items {
            buckets.entry(bucket_of(&item.id, bits)).or_default().push(item);
        }
        let mut first: Vec<(u32, Vec<Item>)> = buckets.into_iter().collect();
        let second = first.split_off(if is_large { first.len() / 2 } else { first.len() });
        let is_shared = !second.is_empty();
        let second = Mutex::new(second);
        let encode_second = || {
            let mut second = second.lock().unwrap_or_else(PoisonError::into_inner);
            encode_buckets(std::mem::take(&mut *second))
        };
        let encoded = std::thread::scope(|scope| {
            let start = || Builder::new().spawn_scoped(scope, encode_second).ok();
            let helper = is_shared.then(start).flatten();
            let mut encoded = encode_buckets(first)?;
            // If no thread can be started, this one encodes the rest.
            let others = match helper {
                Some(helper) => helper.join().unwrap_or_else(|panic| resume_unwind(panic)),
                None => encode_second(),
            };
            encoded.extend(others?);
            Ok::<_, DatasetError>(encoded)
        })?;
        let mut parts = DatasetParts {
            dataset: Dataset { bits, ..Dataset::default() },
            ..DatasetParts::default()
        };
        for (bucket, bytes) in encoded {
            parts.dataset.buckets.push(bucket);
            parts.chunks.push(bytes);
        }
        Ok(parts)
    }

    /// The number of items, by the counts of the buckets.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.items as usize).sum()
    }

    /// True if there is no item.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The bytes of the root, as the cache stores them.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads the bytes that [`Dataset::encode`] returned.
    ///
    /// # Errors
    ///
    /// [`DatasetError::Unreadable`] if the bytes are cut, damaged or of another format.
    pub fn decode(bytes: &[u8]) -> Result<Dataset, DatasetError> {
        decode(bytes)
    }

    /// The digest of the encoded root, which identifies the data set: equal items give equal
    /// digests.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.encode())
    }
}

fn encode_buckets(buckets: Vec<(u32, Vec<Item>)>) -> Result<Vec<(Bucket, Vec<u8>)>, DatasetError> {
    let encode = |(number, items): (u32, Vec<Item>)| {
        let chunk = Chunk::new(items)?;
        let bytes = chunk.encode();
        let items = chunk.items.len() as u32;
        Ok((Bucket { number, chunk: Digest::of(&bytes), items }, bytes))
    };
    buckets.into_iter().map(encode).collect()
}

/// The items of one bucket, sorted by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Sorted by id, each id once.
    pub items: Vec<Item>,
}

/// The encoded form: field names once, values with the number of their name.
#[derive(Deserialize)]
struct Packed<'a> {
    #[serde(borrow)]
    names: Vec<&'a str>,
    #[serde(borrow)]
    items: Vec<(&'a str, Vec<(u32, Value)>)>,
}

/// The same for encoding.
#[derive(Serialize)]
struct Packing<'a> {
    names: &'a [&'a str],
    items: Vec<(&'a str, Vec<(u32, &'a Value)>)>,
}

impl Chunk {
    /// Sorts the items of one bucket.
    ///
    /// # Errors
    ///
    /// [`DatasetError::DuplicateId`] if two items have the same id.
    pub fn new(mut items: Vec<Item>) -> Result<Chunk, DatasetError> {
        items.sort_by(|a, b| a.id.cmp(&b.id));
        match items.windows(2).find(|pair| pair[0].id == pair[1].id) {
            Some(pair) => Err(DatasetError::DuplicateId(pair[0].id.clone())),
            None => Ok(Chunk { items }),
        }
    }

    /// The bytes of the chunk, as the cache stores them under [`Bucket::chunk`].
    pub fn encode(&self) -> Vec<u8> {
        let names = self.names();
        let number = |name: &str| names.binary_search(&name).unwrap_or_default() as u32;
        let mut items = Vec::with_capacity(self.items.len());
        for item in &self.items {
            // Both are sorted: with equal counts, the names are equal.
            let has_all = item.fields.len() == names.len();
            let fields = item.fields.iter().enumerate().map(|(at, (name, value))| {
                if has_all { (at as u32, value) } else { (number(name), value) }
            });
            items.push((&*item.id, fields.collect()));
        }
        encode(&Packing { names: &names, items })
    }

    /// The names of all fields, sorted.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let mut before: Option<&Item> = None;
        for item in &self.items {
            // Usually an item has the same names as the one before it.
            if before.is_some_and(|before| before.fields.has_names_of(&item.fields)) {
                continue;
            }
            before = Some(item);
            for (name, _) in item.fields.iter() {
                if let Err(place) = names.binary_search(&&**name) {
                    names.insert(place, name);
                }
            }
        }
        names
    }

    /// Tests if an encoded chunk may name a blob: "no" is certain, "yes" may be a coincidence. Much
    /// faster than decoding it.
    pub fn may_name(bytes: &[u8], digest: &Digest) -> bool {
        const START: usize = 8;
        let start = &digest.as_bytes()[..START];
        let places = (bytes.len() + 1).saturating_sub(START);
        // Two bytes are compared in many places at a time, and all of them where these occur.
        (0..places).step_by(BLOCK).any(|from| {
            let to = (from + BLOCK).min(places);
            let pairs = bytes[from..to].iter().zip(&bytes[from + 1..=to]);
            let begins = |found: bool, (one, two): (&u8, &u8)| {
                found | ((*one == start[0]) & (*two == start[1]))
            };
            pairs.fold(false, begins)
                && bytes[from..to + START - 1].windows(START).any(|window| window == start)
        })
    }

    /// Replaces the contents of blobs, given by digest and size, everywhere. All at once, since two
    /// may be swapped.
    pub fn replace_blobs(&mut self, other: &dyn Fn(&Digest) -> Option<(Digest, u64)>) {
        for fields in self.items.iter_mut().map(|item| &mut item.fields) {
            let replaced = |(name, value): (&Arc<str>, &Value)| {
                let blob = value.as_blob()?;
                let (digest, size) = other(&blob.digest)?;
                Some((name.clone(), Blob { digest, size, kind: blob.kind.clone() }))
            };
            let replaced: Vec<(Arc<str>, Blob)> = fields.iter().filter_map(replaced).collect();
            for (name, blob) in replaced {
                fields.set(name, Value::Blob(Arc::new(blob)));
            }
        }
    }

    /// Reads the bytes that [`Chunk::encode`] returned.
    ///
    /// # Errors
    ///
    /// [`DatasetError::Unreadable`] if the bytes are cut, damaged or of another format.
    pub fn decode(bytes: &[u8]) -> Result<Chunk, DatasetError> {
        let packed: Packed = decode(bytes)?;
        let names: Vec<Arc<str>> = packed.names.iter().map(|name| Arc::from(*name)).collect();
        let mut items = Vec::with_capacity(packed.items.len());
        for (id, values) in packed.items {
            items.push(Item::new(id, unpack(&names, values)?));
        }
        Ok(Chunk { items })
    }
}

fn unpack(names: &[Arc<str>], values: Vec<(u32, Value)>) -> Result<Fields, DatasetError> {
    let mut fields = Fields::new();
    for (number, value) in values {
        let name = names
            .get(number as usize)
            .ok_or_else(|| DatasetError::Unreadable(format!("field {number} has no name")))?;
        fields.set(name.clone(), value);
    }
    Ok(fields)
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Serialising plain structs to memory cannot fail in postcard.
    postcard::to_extend(value, vec![FORMAT]).unwrap_or_default()
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DatasetError> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => {
            postcard::from_bytes(rest).map_err(|error| DatasetError::Unreadable(error.to_string()))
        }
        _ => Err(DatasetError::Unreadable("unknown format".into())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn item(number: usize) -> Item {
        let fields = [("text", Value::text(format!("line {number}")))].into_iter().collect();
        Item::new(format!("clip{number:05}"), fields)
    }

    #[test]
    fn order_of_items_does_not_change_the_bytes() {
        let forward = Dataset::build((0..2000).map(item).collect()).unwrap();
        let backward = Dataset::build((0..2000).rev().map(item).collect()).unwrap();
        assert_eq!(forward.dataset, backward.dataset);
        assert_eq!(forward.chunks, backward.chunks);
        assert_eq!(forward.dataset.len(), 2000);
    }

    #[test]
    fn one_changed_item_changes_one_chunk() {
        let before = Dataset::build((0..2000).map(item).collect()).unwrap().dataset;
        let mut items: Vec<Item> = (0..2000).map(item).collect();
        items[77].fields.set("text", Value::text("other"));
        let after = Dataset::build(items).unwrap().dataset;
        let changed = before.buckets.iter().zip(&after.buckets).filter(|(a, b)| a != b).count();
        assert_eq!((before.buckets.len(), changed), (4, 1));
    }

    #[test]
    fn chunks_survive_a_round_trip() {
        let mut first = item(1);
        first.fields.set("seconds", Value::Number(f64::NAN));
        let chunk = Chunk::new(vec![item(2), first]).unwrap();
        assert_eq!(Chunk::decode(&chunk.encode()).unwrap(), chunk);
    }

    /// Two items with recordings of these contents.
    fn recordings(contents: [&[u8]; 2]) -> Chunk {
        let item = |(number, content): (usize, &[u8])| {
            let mut item = item(number);
            let (digest, size) = (Digest::of(content), content.len() as u64);
            let blob = Blob { digest, size, kind: "audio/wav".into() };
            item.fields.set("audio", Value::Blob(Arc::new(blob)));
            item
        };
        Chunk::new(contents.into_iter().enumerate().map(item).collect()).unwrap()
    }

    #[test]
    fn a_blob_is_found_in_the_encoded_chunk() {
        let bytes = recordings([b"first", b"second"]).encode();
        assert!(Chunk::may_name(&bytes, &Digest::of(b"second")));
        assert!(!Chunk::may_name(&bytes, &Digest::of(b"third")));
    }

    #[test]
    fn a_blob_is_found_in_every_place() {
        let digest = Digest::of(b"first");
        for length in 8..200 {
            for at in 0..=length - 8 {
                let mut bytes = vec![digest.as_bytes()[0]; length];
                bytes[at..at + 8].copy_from_slice(&digest.as_bytes()[..8]);
                assert!(Chunk::may_name(&bytes, &digest), "at {at} of {length}");
                bytes[at + 7] ^= 1;
                assert!(!Chunk::may_name(&bytes, &digest), "at {at} of {length}");
            }
        }
        (0..8).for_each(|length| assert!(!Chunk::may_name(&vec![0; length], &digest)));
    }

    #[test]
    fn blobs_are_replaced_at_once_so_that_two_may_change_places() {
        let mut chunk = recordings([b"first", b"second"]);
        chunk.replace_blobs(&|digest| {
            let other: &[u8] = if *digest == Digest::of(b"first") { b"second" } else { b"first" };
            Some((Digest::of(other), other.len() as u64))
        });
        assert_eq!(chunk.encode(), recordings([b"second", b"first"]).encode());
    }

    #[test]
    fn a_duplicate_id_is_an_error() {
        let error = Dataset::build(vec![item(1), item(1)]).unwrap_err();
        assert_eq!(error.to_string(), "two items have the id `clip00001`");
    }

    #[test]
    fn cut_bytes_are_an_error() {
        let bytes = Chunk::new(vec![item(1)]).unwrap().encode();
        for length in 0..bytes.len() {
            assert!(Chunk::decode(&bytes[..length]).is_err());
        }
    }
}
