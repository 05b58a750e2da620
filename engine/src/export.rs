//! Exports: outputs as files at paths that the manifest gives.
//!
//! Exported files are kept in the stat index, so that the next run detects missing and edited files
//! from their stat alone. Only differences are written. A file that somebody has changed is kept and
//! told. Files that an earlier run exported and this one does not are removed, unless somebody
//! changed them.
//!
//! Exported files are not synced: that would cost seconds per thousand, and they can always be
//! written again. So their stat is no proof after a restart of the machine, and they are read once
//! more. Removals are synced, since nothing would look for those files again.

mod clash;
mod edits;
mod gone;
mod old;
pub(crate) mod paths;
mod wanted;
mod write;

use std::collections::BTreeMap;

use crate::event::Event;
use cache::stat::{StatEntry, StatIndex};
use cache::{CacheError, Digest, Link};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::Blob;

use crate::error::EngineError;
use crate::leftovers;
use crate::options::Sink;
use crate::pipeline::{Export, Pipeline, StageId, StageSpec};
use crate::plan::{PlannedValue, StageKnowledge};
use crate::record::{AfterExport, EXPORT, ExportRecord, LeftOut, PortValue, decode, encode};
use crate::store::Store;
use crate::world;

pub use edits::MAX_NAMED_FILES;
use edits::{EditDetector, kept_message, stays_message};
use old::{LastExport, intact, kept_key, section_key};
use paths::Ground;
pub use paths::{fixed_folder, real};
use wanted::exportable;
use write::{Entries, Targets, Writer, places};

/// The stages with exports to update.
pub struct Exporting<'a> {
    pub stages: &'a [StageId],
    /// Files of the stages behind these are not removed: what is missing now may be there again once
    /// they are mended.
    pub failed: &'a [StageId],
    /// Also replaces files that somebody has changed.
    pub overwrite: bool,
    /// The number of files with changes that a message names.
    pub named: usize,
}

/// The result of an export.
#[derive(Default)]
struct ExportCounts {
    written: u64,
    unchanged: u64,
    removed: u64,
    /// Files that somebody has changed.
    kept: Vec<Utf8PathBuf>,
    /// The same of items or exports that are gone.
    stays: Vec<Utf8PathBuf>,
    problems: Vec<String>,
    /// The same for files in folders that this process may not write to.
    denied: Vec<String>,
    /// Files of an earlier run that may lack what a failed stage will give again.
    outdated: u64,
    left_out: Option<LeftOut>,
    /// The output has other fields than the exported one: these.
    lacks_field: Option<String>,
    /// Items, and those that have the exported field.
    items: (u64, u64),
    lost: Vec<Digest>,
    /// The reason why the files are not in the stat index.
    unsaved: Option<CacheError>,
}

/// The results of all exports of a pass.
#[derive(Clone, Copy, Default)]
pub struct ExportResult {
    /// At least one file could not be written.
    pub failed: bool,
    /// At least one folder is read-only for this process: the next run goes on once it is not.
    pub denied: bool,
    /// At least one object is gone and has to be made again first.
    pub lost: bool,
    /// The number of files that are not as exported, since somebody has changed them.
    pub kept: u64,
    /// The number of items that cannot be exported under their names.
    pub left_out: u64,
}

/// Updates exports.
pub fn export(
    store: &Store,
    pipeline: &Pipeline,
    known: &[impl AsRef<StageKnowledge>],
    exporting: &Exporting<'_>,
    total: &mut u64,
    sink: Sink,
) -> Result<ExportResult, EngineError> {
    let Exporting { stages, failed, overwrite, named } = *exporting;
    let before = *total;
    let mut all = ExportResult::default();
    let mut unsaved = None;
    let mut lacks_field = false;
    for spec in stages.iter().map(|id| pipeline.stage(*id)) {
        let upstream = pipeline.with_upstream(&[spec.id]);
        let is_partial = failed.iter().any(|id| upstream.contains(id));
        for export in &spec.exports {
            let Some(value) = known[spec.id.0].as_ref().outputs.get(export.port) else { continue };
            let one = One { store, pipeline, spec, export, is_partial, overwrite };
            let mut done = one.bring_up_to_date(value)?;
            *total += done.written + done.removed;
            all.failed |= !done.problems.is_empty();
            all.denied |= !done.denied.is_empty();
            all.lost |= !done.lost.is_empty();
            all.kept += done.kept.len() as u64;
            all.left_out += done.left_out.as_ref().map_or(0, |left_out| left_out.items);
            unsaved = unsaved.or(done.unsaved.take());
            lacks_field |= done.lacks_field.is_some();
            one.tell(&done, named, sink);
        }
    }
    if let Some(error) = unsaved {
        sink(world::unsaved(&error));
    }
    // Of two exports to one path, the later one replaces the file, or keeps it as an edit.
    if (*total > before || all.kept > 0)
        && let Some(failure) = clash::find(store, pipeline, stages)?
    {
        sink(failure);
        all.failed = true;
    }
    // Only a run that brought everything up to date knows which files are obsolete.
    let is_whole = !all.failed && !all.denied && !all.lost && !lacks_field;
    if stages.len() == pipeline.stages.len() && is_whole {
        gone::take_back(store, pipeline, total, sink)?
    } else {
        gone::note(store, pipeline, stages)?
    }
    Ok(all)
}

/// Tells the exports of stages that a run has not finished, if earlier runs have written them.
pub fn tell_outdated(
    store: &Store,
    pipeline: &Pipeline,
    unfinished: &[StageId],
    sink: Sink,
) -> Result<(), CacheError> {
    for spec in unfinished.iter().map(|id| pipeline.stage(*id)) {
        let mut outdated = 0;
        for export in &spec.exports {
            let key = section_key(pipeline, spec, export);
            let before = store.cache().get(EXPORT, &key)?;
            let before = before.and_then(|bytes| decode::<ExportRecord>(&bytes));
            outdated += before.map_or(0, |before| match before.value {
                PortValue::Dataset { items, .. } => items,
                PortValue::Artifact(_) => 1,
            });
        }
        ExportCounts { outdated, ..ExportCounts::default() }.tell_counts(spec.name.clone(), sink);
    }
    Ok(())
}

/// An unwritable folder fails for every file in it: only the first is reported.
fn one_for_all(problems: &[String]) -> Option<String> {
    let (first, others) = problems.split_first()?;
    Some(match others.len() {
        0 => first.clone(),
        more => format!("{first}; {more} more of its files cannot be written"),
    })
}

struct One<'a> {
    store: &'a Store,
    pipeline: &'a Pipeline,
    spec: &'a StageSpec,
    export: &'a Export,
    /// A stage above failed, and items may be missing for that.
    is_partial: bool,
    overwrite: bool,
}

impl One<'_> {
    fn bring_up_to_date(&self, value: &PlannedValue) -> Result<ExportCounts, EngineError> {
        let Some(value) = exportable(value) else { return Ok(ExportCounts::default()) };
        let cache = self.store.cache();
        let section = self.section_key();
        let before = cache.get(EXPORT, &section)?;
        let before = before.and_then(|bytes| decode::<ExportRecord>(&bytes));
        let licenses = self.spec.licenses.clone();
        let boot = cache.fs().boot().unwrap_or_default();
        let mut now = ExportRecord { value, licenses, boot, left_out: None, after: None };
        let same = before.as_ref().filter(|before| before.is_of_the_same(&now));
        if let Some(same) = same
            && let Some(intact) = self.intact(self.store.index(), &section, same)
        {
            return Ok(intact);
        }
        // Another process may have exported the same files since the plan was made.
        let index = StatIndex::load(cache)?;
        if let Some(same) = same
            && let Some(intact) = self.intact(&index, &section, same)
        {
            return Ok(intact);
        }
        let mut done = ExportCounts::default();
        let Some(wanted) = self.wanted(&mut now, &mut done)? else { return Ok(done) };
        let same_boot = before.as_ref().is_none_or(|before| before.boot == now.boot);
        let mut old = LastExport::of(&index, &section, same_boot);
        before.iter().for_each(|before| old.record_kept(before));
        if let Some(before) = before.as_ref().filter(|before| !before.is_of_the_same(&now)) {
            self.add_recorded(before, &mut old);
        }
        if self.is_partial && old.digests.keys().any(|path| !wanted.contains_key(path)) {
            let outdated = old.digests.len() as u64;
            return Ok(ExportCounts { outdated, ..ExportCounts::default() });
        }
        if self.export.link == Link::Hard && !cache.is_read_only() && cache.pending_bytes() > 0 {
            // An object that is not in its place yet has no file to link to.
            cache.commit()?;
        }
        let ground = Ground::of(self.store)?;
        let places = places(&ground, wanted.keys().chain(old.digests.keys()))?;
        leftovers::remove(&*ground.inside, places.values().flatten());
        let detector = EditDetector::new(self.store, self.pipeline, before.as_ref(), &now.boot)?;
        let writer = Writer {
            store: self.store,
            link: self.export.link,
            targets: Targets { fs: &*ground.inside, places: &places },
            old: &old,
            detector: &detector,
            overwrite: self.overwrite,
        };
        self.announce(section, &wanted, &old)?;
        let entries = writer.write_all(&wanted, &mut done)?;
        if !done.lost.is_empty() {
            return Ok(done);
        }
        gone::remove(&detector, |path| wanted.contains_key(path), &old, &mut done)?;
        self.remember(section, now, entries, &mut done)?;
        Ok(done)
    }

    /// The result, if all files are as the last export has left them, and it wrote the same.
    fn intact(
        &self,
        index: &StatIndex,
        section: &Digest,
        same: &ExportRecord,
    ) -> Option<ExportCounts> {
        let fs = self.store.cache().fs().as_ref();
        let (unchanged, kept) = intact(fs, self.store.base(), index, section)?;
        let left_out = same.left_out.clone();
        let is_settled = kept.is_empty() || !self.overwrite;
        is_settled.then_some(ExportCounts { unchanged, kept, left_out, ..ExportCounts::default() })
    }

    /// Adds the files of the last export according to the index: the stat index may be lost.
    fn add_recorded(&self, before: &ExportRecord, old: &mut LastExport) {
        // An unreadable record names no files, and those files are left alone.
        let targets = self.targets(before, &mut ExportCounts::default()).unwrap_or_default();
        for (path, blob) in targets {
            old.record(path, blob.digest);
        }
    }

    /// Notes contents that are not durable before they are written: if this process is killed now, the
    /// next run may make others, and must know that nobody has edited these.
    fn announce(
        &self,
        section: Digest,
        wanted: &BTreeMap<Utf8PathBuf, Blob>,
        old: &LastExport,
    ) -> Result<(), CacheError> {
        let cache = self.store.cache();
        if cache.is_read_only() || cache.pending_bytes() == 0 {
            return Ok(());
        }
        let new = wanted.iter().filter(|(path, _)| !old.kept.contains_key(path.as_str()));
        let new = new.map(|(path, blob)| match old.entries.get(path.as_str()) {
            Some(entry) if entry.digest == blob.digest => entry.clone(),
            _ => StatEntry::unusable(path.to_string(), blob.digest),
        });
        let gone =
            old.entries.values().filter(|entry| !wanted.contains_key(Utf8Path::new(&entry.path)));
        let mut index = StatIndex::load(cache)?;
        index.put_section(section, new.chain(gone.cloned()).collect::<Vec<_>>());
        match index.save(cache) {
            // Told after the export, if it stays.
            Err(error) if error.machine_fault().is_some() => Ok(()),
            saved => saved,
        }
    }

    fn remember(
        &self,
        section: Digest,
        mut now: ExportRecord,
        entries: Entries,
        done: &mut ExportCounts,
    ) -> Result<(), CacheError> {
        let cache = self.store.cache();
        if cache.is_read_only() {
            return Ok(());
        }
        let digests = |entry: &StatEntry| (entry.path.clone(), entry.digest);
        let kept_digests = entries.kept.iter().map(digests).collect();
        now.after = Some(AfterExport { ended_ns: cache.fs().now(), kept: kept_digests });
        let mut index = StatIndex::load(cache)?;
        index.put_section(section, entries.exported);
        let kept = kept_key(&section);
        if !entries.kept.is_empty() {
            index.put_section(kept, entries.kept);
        } else if index.section(&kept).is_some() {
            index.remove_section(&kept);
        }
        match index.save(cache) {
            Err(error) if error.machine_fault().is_some() => done.unsaved = Some(error),
            saved => saved?,
        }
        let known = cache.get(EXPORT, &section)?;
        let known = known.and_then(|bytes| decode::<ExportRecord>(&bytes));
        let is_known = |known: &ExportRecord| {
            let same_files = known.is_of_the_same(&now) && known.kept() == now.kept();
            same_files && known.left_out == now.left_out && done.written == 0
        };
        let is_whole = done.problems.is_empty() && done.denied.is_empty();
        if is_whole && !known.as_ref().is_some_and(is_known) {
            cache.record(EXPORT, &section, encode(&now))?;
        }
        Ok(())
    }

    fn tell(&self, done: &ExportCounts, named: usize, sink: Sink) {
        let stage = self.spec.name.clone();
        for digest in &done.lost {
            self.store.lost(&stage, digest).into_iter().for_each(&mut *sink);
        }
        if let Some(message) = one_for_all(&done.problems) {
            let help = Some("choose another `export` path, or make room for it".to_owned());
            sink(Event::StageFailed { stage: stage.clone(), message, help });
        }
        if let Some(message) = one_for_all(&done.denied) {
            let why = format!(
                "{stage}: {message}: make its folder writable or choose another `export` path, then \
                 run again"
            );
            sink(Event::Stopping { why });
        }
        let without_field = match (done.items, &self.export.field, &done.lacks_field) {
            (_, Some(field), Some(has)) => Some(format!(
                "warning: the output has no field `{field}` to export, and earlier files stay; it \
                 has {has}"
            )),
            ((1.., 0), Some(field), _) => {
                Some(format!("warning: no item has the field `{field}` to export"))
            }
            _ => None,
        };
        let notes = [
            without_field,
            done.left_out.as_ref().map(LeftOut::to_string),
            kept_message(&done.kept, (self.pipeline, self.spec), named),
            stays_message(&done.stays),
        ];
        for message in notes.into_iter().flatten() {
            sink(Event::Note { stage: Some(stage.clone()), message });
        }
        done.tell_counts(stage, sink);
    }

    fn section_key(&self) -> Digest {
        section_key(self.pipeline, self.spec, self.export)
    }
}

impl ExportCounts {
    fn tell_counts(&self, stage: String, sink: Sink) {
        let ExportCounts { written, unchanged, removed, outdated, .. } = *self;
        if written + removed + outdated > 0 {
            let kept = self.kept.len() as u64;
            sink(Event::Exported { stage, written, unchanged, removed, kept, outdated });
        }
    }
}
