//! Opening caches in memory.
#![allow(dead_code, clippy::unwrap_used)]

pub mod archive;
pub mod work;

use std::sync::Arc;

use cache::fs::{Fs, MemoryFs};
use cache::{Access, Cache};

pub const DIR: &str = "/cache";

/// Starts a machine with a boot id.
pub fn start(fs: &MemoryFs, boot: &str) {
    fs.create_dir_all("/proc/sys/kernel/random".into()).unwrap();
    fs.write_durably("/proc/sys/kernel/random/boot_id".into(), boot.as_bytes()).unwrap();
}

pub fn open(fs: &MemoryFs) -> Cache {
    open_over(Arc::new(fs.clone()))
}

pub fn open_over(fs: Arc<dyn Fs>) -> Cache {
    Cache::open(DIR.into(), fs, Access::ReadWrite).unwrap()
}

pub fn reopen(fs: &MemoryFs, cache: Cache) -> Cache {
    drop(cache);
    open(fs)
}
