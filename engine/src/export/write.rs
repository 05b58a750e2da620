//! Writes exported files: only those that differ, and none that somebody has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Range;

use cache::fs::{FileKind, Fs};
use cache::stat::{self, StatEntry};
use cache::{CacheError, Digest, Link, Target, in_shares};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::Blob;

use super::ExportCounts;
use super::edits::EditDetector;
use super::old::LastExport;
use super::paths::{Ground, Place};
use crate::error::EngineError;
use crate::store::{ReadError, Store};

/// The number of files that a thread takes at a time.
const SHARE: usize = 16;

/// The files of an export after it.
#[derive(Default)]
pub struct Entries {
    pub exported: Vec<StatEntry>,
    /// Files that somebody has changed, in their present state.
    pub kept: Vec<StatEntry>,
}

enum WriteOutcome {
    Written,
    Unchanged,
    /// Somebody has changed it.
    Kept,
}

/// The reason why a file is not written.
enum Problem {
    Told(String),
    /// The folder is read-only for this process.
    Denied(String),
    /// A machine fault, such as a full disk, concerns the whole run.
    Machine(CacheError),
    Lost(Digest),
}

pub struct Writer<'a> {
    pub store: &'a Store,
    pub link: Link,
    pub targets: Targets<'a>,
    pub old: &'a LastExport,
    pub detector: &'a EditDetector<'a>,
    /// Also replaces files that somebody has changed.
    pub overwrite: bool,
}

impl Writer<'_> {
    pub fn write_all(
        &self,
        wanted: &BTreeMap<Utf8PathBuf, Blob>,
        done: &mut ExportCounts,
    ) -> Result<Entries, EngineError> {
        let wanted: Vec<(&Utf8PathBuf, &Blob)> = wanted.iter().collect();
        let write = |(path, blob): &(&Utf8PathBuf, &Blob)| match self.targets.path(path) {
            Ok(full) => self.write(path, Target { fs: self.targets.fs, path: &full }, blob),
            Err(why) => Err(Problem::Told(format!("cannot export to `{path}`: {why}"))),
        };
        let share = |range: Range<usize>| wanted[range].iter().map(write).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        // If a thread panics, this thread writes its files.
        let results: Vec<Result<(StatEntry, WriteOutcome), Problem>> =
            in_shares(wanted.len(), SHARE, threads, share)
                .unwrap_or_else(|| wanted.iter().map(write).collect());
        let mut entries = Entries::default();
        for ((path, blob), result) in wanted.iter().zip(results) {
            match result {
                Ok((entry, WriteOutcome::Written)) => {
                    done.written += 1;
                    entries.exported.push(entry);
                }
                Ok((entry, WriteOutcome::Unchanged)) => {
                    done.unchanged += 1;
                    entries.exported.push(entry);
                }
                Ok((entry, WriteOutcome::Kept)) => {
                    done.kept.push(Utf8PathBuf::clone(path));
                    entries.kept.push(entry);
                }
                Err(problem @ (Problem::Told(_) | Problem::Denied(_))) => {
                    // Never trusted, so that the next run tries again; and still a file of this export.
                    let known = self.old.digests.get(*path).copied().unwrap_or(blob.digest);
                    entries.exported.push(StatEntry::unusable(path.to_string(), known));
                    match problem {
                        Problem::Denied(problem) => done.denied.push(problem),
                        Problem::Told(problem) => done.problems.push(problem),
                        Problem::Machine(_) | Problem::Lost(_) => {}
                    }
                }
                Err(Problem::Machine(error)) => return Err(error.into()),
                Err(Problem::Lost(digest)) => done.lost.push(digest),
            }
        }
        Ok(entries)
    }

    /// Writes one file unless it is correct already, or not what an export left there.
    fn write(
        &self,
        path: &Utf8Path,
        target: Target<'_>,
        blob: &Blob,
    ) -> Result<(StatEntry, WriteOutcome), Problem> {
        let failed = |error| problem(path, error);
        let named = |entry: StatEntry| StatEntry { path: path.to_string(), ..entry };
        let known = self.old.unchanged(path, target);
        if let Some(entry) = known.filter(|entry| entry.digest == blob.digest) {
            return Ok((entry.clone(), WriteOutcome::Unchanged));
        }
        let found = match known {
            Some(entry) => Ok(entry.clone()),
            None => hash_settled(target.fs, target.path),
        };
        match found {
            Ok(entry) if entry.digest == blob.digest => {
                let cache = self.store.cache();
                if cache.is_linked_at(self.link, &blob.digest, target).map_err(failed)? {
                    return Ok((named(entry), WriteOutcome::Unchanged));
                }
            }
            Ok(entry) => {
                if !self.may_replace(path, target, &entry, blob).map_err(failed)? {
                    return Ok((named(entry), WriteOutcome::Kept));
                }
            }
            Err(CacheError::Fs(error)) if is_special(target) => {
                let why = &error.source;
                return Err(Problem::Told(format!("cannot export to `{path}`: {why}; remove it")));
            }
            Err(error) if error.machine_fault().is_some() => return Err(failed(error)),
            // Somebody is writing it at this moment.
            Err(CacheError::Changed { .. }) if !self.overwrite => {
                return Ok((
                    StatEntry::unusable(path.to_string(), blob.digest),
                    WriteOutcome::Kept,
                ));
            }
            Err(error) if is_denied(&error) && !self.overwrite => return Err(failed(error)),
            // No export makes one.
            Err(_) if is_link(target) && !self.overwrite => {
                return Ok((
                    StatEntry::unusable(path.to_string(), blob.digest),
                    WriteOutcome::Kept,
                ));
            }
            // It is missing, or a folder that cannot be replaced.
            Err(_) => {}
        }
        self.replace(target, blob).map_err(failed)?;
        let entry = hash_settled(target.fs, target.path).map_err(failed)?;
        // Somebody may have changed it at once.
        let outcome =
            if entry.digest == blob.digest { WriteOutcome::Written } else { WriteOutcome::Kept };
        Ok((named(entry), outcome))
    }

    fn may_replace(
        &self,
        path: &Utf8Path,
        target: Target<'_>,
        found: &StatEntry,
        blob: &Blob,
    ) -> Result<bool, CacheError> {
        if self.overwrite {
            return Ok(true);
        }
        let kept = self.old.kept.get(path.as_str());
        if kept.is_some_and(|kept| kept.digest == found.digest) {
            return Ok(false);
        }
        let mut known: Vec<Digest> = self.old.contents(path).collect();
        let is_first = known.is_empty();
        known.push(blob.digest);
        self.detector.is_unedited(target, found, &known, is_first)
    }

    fn replace(&self, target: Target<'_>, blob: &Blob) -> Result<(), CacheError> {
        match (self.materialise(&blob.digest, target), target.path.parent()) {
            // The folder is missing.
            (Err(CacheError::Fs(error)), Some(folder)) if error.is_not_found() => {
                target.fs.create_dir_all(folder)?;
                self.materialise(&blob.digest, target)
            }
            (made, _) => made,
        }
    }

    fn materialise(&self, digest: &Digest, target: Target<'_>) -> Result<(), CacheError> {
        let cache = self.store.cache();
        // An object that neither has is looked for below.
        if cache.contains(digest)? || self.store.bring(digest).unwrap_or(false) {
            match cache.materialise_at(digest, target, self.link) {
                // A file of the user may have the same bytes.
                Err(CacheError::Missing { .. } | CacheError::Damaged { .. }) => {}
                other => return other.map(drop),
            }
        }
        let bytes = self.store.read(digest).map_err(|error| match error {
            ReadError::Cache(error) => error,
            // The run makes it again.
            ReadError::Changed { .. } | ReadError::Lost(_) | ReadError::Unreadable(_) => {
                CacheError::Missing { digest: *digest }
            }
        })?;
        Ok(target.fs.write_durably(target.path, &bytes)?)
    }
}

fn problem(path: &Utf8Path, error: CacheError) -> Problem {
    match error {
        CacheError::Missing { digest } | CacheError::Damaged { digest, .. } => {
            Problem::Lost(digest)
        }
        error if passes(&error) => Problem::Machine(error),
        CacheError::Fs(error) if error.is_link_on_path() => Problem::Told(format!(
            "cannot export to `{path}`: a symbolic link has taken the place of a folder"
        )),
        error => {
            let cause = std::error::Error::source(&error);
            let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
            let told = format!("cannot export to `{path}`: {error}{cause}");
            if is_denied(&error) { Problem::Denied(told) } else { Problem::Told(told) }
        }
    }
}

/// A machine fault that stops all exports. A read-only disk, or a folder in use, concerns its own
/// files only.
pub fn passes(error: &CacheError) -> bool {
    let is_of_the_place = matches!(
        error,
        CacheError::Fs(error)
            if [ErrorKind::ReadOnlyFilesystem, ErrorKind::ResourceBusy].contains(&error.kind())
    );
    error.machine_fault().is_some() && !is_of_the_place
}

/// The places of exported files.
pub struct Targets<'a> {
    /// Confined to the manifest's folder.
    pub fs: &'a dyn Fs,
    /// The folders of the files.
    pub places: &'a BTreeMap<&'a Utf8Path, Place>,
}

impl Targets<'_> {
    /// The path of a file without links, or the reason why it is not written.
    fn path(&self, file: &Utf8Path) -> Place {
        let folder = file.parent().and_then(|folder| self.places.get(folder));
        match (folder, file.file_name()) {
            (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
            (Some(Err(why)), _) => Err(why),
            _ => Err("it has no folder"),
        }
    }
}

/// The folders of these files.
pub fn places<'p>(
    ground: &Ground<'_>,
    paths: impl Iterator<Item = &'p Utf8PathBuf>,
) -> Result<BTreeMap<&'p Utf8Path, Place>, CacheError> {
    let folders: BTreeSet<&Utf8Path> = paths.filter_map(|path| path.parent()).collect();
    folders.into_iter().map(|folder| Ok((folder, ground.place(folder)?))).collect()
}

/// A pipe, a socket or a device, which a renamed file would replace. A link to one is replaced.
fn is_special(target: Target<'_>) -> bool {
    target.fs.symlink_metadata(target.path).is_ok_and(|found| found.kind == FileKind::Other)
}

fn is_link(target: Target<'_>) -> bool {
    target.fs.symlink_metadata(target.path).is_ok_and(|found| found.kind == FileKind::Symlink)
}

/// The place is read-only for this process. For a file, nobody can tell if it was changed.
pub fn is_denied(error: &CacheError) -> bool {
    matches!(error, CacheError::Fs(error) if error.is_denied())
}

/// Another run may replace the file by an equal one at the same moment, so the first check may
/// fail.
fn hash_settled(fs: &dyn Fs, path: &Utf8Path) -> Result<StatEntry, CacheError> {
    const LOOKS: usize = 16;
    for _ in 1..LOOKS {
        match stat::hash_file(fs, path) {
            Err(CacheError::Changed { .. }) => {}
            other => return other.map(|(_, entry)| entry),
        }
    }
    stat::hash_file(fs, path).map(|(_, entry)| entry)
}
