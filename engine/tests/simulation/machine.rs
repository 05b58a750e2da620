//! Simulated machines: a cache on the disk of each, and remotes over the simulated network.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cache::fs::{Fs, MemoryFs};
use cache::{Access, Cache, Digest};
use remote::{Address, Pushing, Remote, Settings};

use crate::place::Link;
use crate::world::World;
use engine::mirror;

const CACHE: &str = "/cache";

/// A disk with an empty cache, which is made only once.
static EMPTY: LazyLock<MemoryFs> = LazyLock::new(|| {
    let fs = MemoryFs::new();
    drop(open(&fs, 0));
    fs
});

pub fn empty_disk() -> MemoryFs {
    EMPTY.duplicate()
}

/// The cache of a process with this id.
pub fn open(disk: &MemoryFs, process: u64) -> Cache {
    disk.set_seed(process);
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    Cache::open(CACHE.into(), fs, Access::ReadWrite).expect("a disk in memory")
}

/// The remote as a process sees it.
pub fn remote(world: &World, process: u64, cache: &Cache) -> Arc<Remote> {
    let address: Address = "file:///shared".parse().expect("an address");
    let settings = Settings { push: Pushing::Always, require: false, timeout: Duration::MAX };
    let place = Arc::new(Link::new(world.clone(), process));
    let remote = Remote::at(place, address, settings, mirror::rules(), cache.clone());
    Arc::new(remote.with_attempt(Digest::of(&process.to_le_bytes())))
}
