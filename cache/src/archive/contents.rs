//! The contents of an archive according to the headers of its entries; payloads are not read.

use std::collections::{HashMap, HashSet};

use camino::Utf8Path;

use super::index::{Index, volume_path};
use crate::fs::{Fs, Open};
use crate::pack::entry::{HEADER, Header, PACK_MARK};
use crate::{CacheError, Digest, Table};

/// The checksum that a record's payload begins with.
const CHECK: usize = 8;

/// The contents of all bases of an archive.
#[derive(Default)]
pub struct Contents {
    pub bases: Vec<Digest>,
    pub objects: HashSet<Digest>,
    /// Records with the checksum of their values. The latest base counts.
    pub records: HashMap<(Table, Digest), [u8; CHECK]>,
}

impl Contents {
    pub fn add(&mut self, fs: &dyn Fs, folder: &Utf8Path) -> Result<(), CacheError> {
        let index = Index::read(fs, folder)?;
        self.bases.push(index.id);
        for (number, volume) in (1..).zip(&index.volumes) {
            self.add_volume(fs, folder, number, volume.bytes)?;
        }
        Ok(())
    }

    fn add_volume(
        &mut self,
        fs: &dyn Fs,
        folder: &Utf8Path,
        number: u32,
        length: u64,
    ) -> Result<(), CacheError> {
        let path = volume_path(folder, number);
        let file = fs.open(&path, Open::Read)?;
        let advice = "choose another `--base`, or pack without it";
        if file.len()? != length {
            return Err(CacheError::DamagedArchive { path, advice });
        }
        let mut at = PACK_MARK.len() as u64;
        while at < length {
            let mut bytes = [0u8; HEADER + CHECK];
            let filled = file.read_full_at(&mut bytes, at)?;
            let header = Header::decode(&bytes[..filled], number, at)
                .ok_or_else(|| CacheError::DamagedArchive { path: path.clone(), advice })?;
            self.objects.extend(header.object());
            if let Some(record) = header.record() {
                let mut check = [0u8; CHECK];
                check.copy_from_slice(&bytes[HEADER..]);
                self.records.insert(record, check);
            }
            at += (HEADER as u64) + u64::from(header.length);
        }
        Ok(())
    }
}
