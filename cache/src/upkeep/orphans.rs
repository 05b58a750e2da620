//! Files of large objects that the index does not name: a process died after it had moved them to their
//! place, and before it recorded them.

use std::collections::HashSet;

use camino::Utf8Path;

use crate::cache::{Cache, Shared};
use crate::fs::{FileKind, FsError};
use crate::index::rows::Location;
use crate::{CacheError, Digest, SweepPlan, staging};

/// A file of this age is of no commit that is still going on.
const OLD_NS: i64 = 24 * 3_600 * 1_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub digest: Digest,
    pub size: u64,
    modified_ns: i64,
}

impl Cache {
    /// Adds these files to a sweep.
    ///
    /// # Errors
    ///
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index or the folder of objects cannot be
    /// read.
    pub fn plan_orphans(&self, plan: &mut SweepPlan) -> Result<(), CacheError> {
        let shared = &self.0;
        let (objects, _) = shared.ledger().rows()?;
        let is_loose = |(_, at): &(Digest, Location)| matches!(at, Location::Loose { .. });
        let known: HashSet<Digest> =
            objects.into_iter().filter(is_loose).map(|(digest, _)| digest).collect();
        let mut orphans = shared.loose_files()?;
        orphans.retain(|orphan| !known.contains(&orphan.digest));
        plan.bytes += orphans.iter().map(|orphan| orphan.size).sum::<u64>();
        plan.orphans = orphans;
        Ok(())
    }
}

impl Shared {
    fn loose_files(&self) -> Result<Vec<Orphan>, FsError> {
        let mut files = Vec::new();
        for folder in self.fs.read_dir(&self.layout.objects)? {
            if folder.kind != FileKind::Dir {
                continue;
            }
            let path = self.layout.objects.join(&folder.name);
            for entry in self.fs.read_dir(&path)? {
                let digest = format!("{}{}", folder.name, entry.name).parse::<Digest>();
                let Ok(digest) = digest else { continue };
                match self.fs.symlink_metadata(&path.join(&entry.name)) {
                    Ok(about) if about.is_file() => {
                        let (size, modified_ns) = (about.size, about.mtime_ns);
                        files.push(Orphan { digest, size, modified_ns });
                    }
                    Ok(_) => {}
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(files)
    }

    /// Those of these files that no commit will record.
    pub fn abandoned<'a>(
        &self,
        orphans: &'a [Orphan],
    ) -> Result<impl Iterator<Item = &'a Orphan>, CacheError> {
        let others_work = staging::others_work(&*self.fs, &self.layout, self.ledger())?;
        let now = self.fs.now();
        Ok(orphans
            .iter()
            .filter(move |orphan| !others_work || now.saturating_sub(orphan.modified_ns) >= OLD_NS))
    }

    /// Moves them into a sweep's folder, unless they were recorded meanwhile.
    pub fn discard_orphans(
        &self,
        orphans: &[Orphan],
        folder: &Utf8Path,
    ) -> Result<u64, CacheError> {
        let mut discarded = 0;
        for Orphan { digest, .. } in self.abandoned(orphans)? {
            if self.locate(digest)?.is_none() {
                self.discard_file(digest, folder)?;
                discarded += 1;
            }
        }
        Ok(discarded)
    }
}
