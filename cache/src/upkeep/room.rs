//! Space on a completely full disk, on which not even the index can be changed.

use std::collections::BTreeMap;

use crate::cache::{Cache, Shared};
use crate::fs::{LockKind, Open, size_of};
use crate::index::rows::Location;
use crate::lease::Leases;
use crate::pack::entry::HEADER;
use crate::{CacheError, SweepPlan};

impl Cache {
    /// Removes the files of large objects that a plan drops, and the stat index, and frees the space of
    /// the small objects that it drops inside the packs that it rewrites. They cannot be restored.
    /// Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and [`CacheError::Fs`] if a file
    /// cannot be removed.
    pub fn make_room(&self, plan: &SweepPlan) -> Result<u64, CacheError> {
        let shared = &self.0;
        shared.require_writable()?;
        // Until they are removed from the index, it names missing files and bytes.
        shared.note_losses();
        let leases = Leases::read(&*shared.fs, &shared.layout)?;
        let unused = || plan.objects.iter().filter(|(digest, _)| !leases.hold(digest));
        let files = unused().filter(|(_, at)| matches!(at, Location::Loose { .. }));
        let files = files.map(|(digest, _)| shared.layout.object(digest));
        let orphans = shared.abandoned(&plan.orphans)?;
        let orphans = orphans.map(|orphan| shared.layout.object(&orphan.digest));
        let mut won = 0;
        for path in files.chain(orphans).chain([shared.layout.stat_index.clone()]) {
            let bytes = size_of(&*shared.fs, &path).unwrap_or(0);
            match shared.fs.remove_file(&path) {
                Ok(()) => won += bytes,
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut spans: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for (_, location) in unused() {
            if let Location::Packed { pack, offset, length } = location
                && plan.packs().contains(pack)
            {
                let span = (u64::from(*offset), HEADER as u64 + u64::from(*length));
                spans.entry(*pack).or_default().push(span);
            }
        }
        for (pack, spans) in spans {
            won += free(shared, pack, spans)?;
        }
        Ok(won)
    }
}

/// Frees these parts of a pack, unless a living process writes it or the file system cannot do it.
/// They read as zeros from then on. Returns the number of bytes.
fn free(shared: &Shared, pack: u32, spans: Vec<(u64, u64)>) -> Result<u64, CacheError> {
    let file = match shared.fs.open(&shared.layout.pack(pack), Open::ReadWrite) {
        Err(error) if error.is_not_found() => return Ok(0),
        other => other?,
    };
    if !file.try_lock(LockKind::Exclusive).unwrap_or(false) {
        return Ok(0);
    }
    let mut won = 0;
    for (offset, length) in joined(spans) {
        match file.free(offset, length) {
            Ok(()) => won += length,
            Err(error) if error.is_unsupported() => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(won)
}

/// Neighbours as one: only whole blocks of the disk become free.
fn joined(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in spans {
        match joined.last_mut() {
            Some((start, all)) if *start + *all == offset => *all += length,
            _ => joined.push((offset, length)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_freed_as_one() {
        let spans = vec![(200, 50), (16, 84), (100, 100), (300, 10)];
        assert_eq!(joined(spans), [(16, 234), (300, 10)]);
    }
}
