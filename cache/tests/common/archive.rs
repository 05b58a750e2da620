//! A packed cache, and the expected contents of its archive.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use cache::fs::{Fs, MemoryFs};
use cache::{
    Access, Archived, Archiving, Cache, CacheError, Digest, Kept, UnpackCounts, Unpacking,
};
use cache::{Table, VerifyOptions};
use camino::Utf8PathBuf;

pub const RECORDS: Table = Table(3);
/// Its records are not unpacked.
pub const FOREIGN: Table = Table(4);
/// Large enough for one piece of a large object, and too small for two.
pub const VOLUME: u64 = 9 << 19;
pub const LARGE: usize = 5 << 20;

/// Hard to compress, and different for every seed.
pub fn large(seed: u32) -> Vec<u8> {
    let word = |at: u32| (at ^ seed).wrapping_mul(0x9e37_79b9).to_le_bytes();
    (0..LARGE as u32 / 4).flat_map(word).collect()
}

pub fn fill(cache: &Cache, seed: u32) {
    let object = cache.put(&large(seed)).unwrap();
    cache.record(RECORDS, &object, seed.to_le_bytes().to_vec()).unwrap();
    fill_small(cache, seed);
}

/// Objects and their records.
pub fn fill_small(cache: &Cache, seed: u32) {
    for number in 0..20 {
        let object = cache.put(format!("small {seed} {number}").as_bytes()).unwrap();
        cache.record(RECORDS, &object, vec![number; 100]).unwrap();
    }
    cache.commit().unwrap();
}

pub fn pack_to(cache: &Cache, folder: &str, bases: &[&str]) -> Result<Archived, CacheError> {
    pack_in_volumes_of(VOLUME, cache, folder, bases)
}

pub fn pack_in_volumes_of(
    volume_bytes: u64,
    cache: &Cache,
    folder: &str,
    bases: &[&str],
) -> Result<Archived, CacheError> {
    let bases: Vec<Utf8PathBuf> = bases.iter().map(Utf8PathBuf::from).collect();
    let kept = Kept { object: &|_| true, record: &|_, _| true };
    let folder = folder.into();
    cache.archive(&kept, &Archiving { folder, bases: &bases, volume_bytes, progress: &|_, _| {} })
}

pub fn unpack_into(cache: &Cache, folders: &[&str]) -> Result<UnpackCounts, CacheError> {
    unpack_watched(cache, folders, &|_, _| {})
}

pub fn unpack_watched(
    cache: &Cache,
    folders: &[&str],
    progress: &dyn Fn(u64, u64),
) -> Result<UnpackCounts, CacheError> {
    let folders: Vec<Utf8PathBuf> = folders.iter().map(Utf8PathBuf::from).collect();
    let prefers = |_: Table, own: &[u8], other: &[u8]| other > own;
    let takes = |table: Table| table != FOREIGN;
    cache.take_in(&Unpacking { folders: &folders, prefers: &prefers, takes: &takes, progress })
}

pub fn elsewhere(fs: &MemoryFs) -> Cache {
    Cache::open("/elsewhere".into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap()
}

pub fn assert_has(cache: &Cache, seed: u32) {
    let object = Digest::of(&large(seed));
    assert_eq!(cache.read(&object).unwrap(), large(seed));
    assert_eq!(cache.get(RECORDS, &object).unwrap().unwrap(), seed.to_le_bytes()[..]);
    assert_has_small(cache, seed);
}

pub fn assert_has_small(cache: &Cache, seed: u32) {
    for number in 0..20u8 {
        let bytes = format!("small {seed} {number}");
        assert_eq!(cache.read(&Digest::of(bytes.as_bytes())).unwrap(), bytes.as_bytes());
        let record = cache.get(RECORDS, &Digest::of(bytes.as_bytes())).unwrap();
        assert_eq!(record.unwrap(), vec![number; 100]);
    }
}

pub fn assert_sound(cache: &Cache) {
    let options = VerifyOptions { read_data: true, ..VerifyOptions::default() };
    let report = cache.verify(options, &|_, _| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.damages);
}

/// In place of the file there is one with a bit flipped.
pub fn flip(fs: &MemoryFs, path: &str, at: u64) {
    let mut bytes = fs.read(path.into()).unwrap();
    bytes[at as usize] ^= 1;
    fs.remove_file(path.into()).unwrap();
    fs.write_new(path.into(), &bytes).unwrap();
}
