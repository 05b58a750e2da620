//! Exports: outputs as files at paths that the manifest gives.
//!
//! Exported files are kept in the stat index, so that the next run detects missing and edited files
//! from their stat alone. Only differences are written. Files that an earlier run exported and this
//! one does not are removed, unless somebody changed them.
//!
//! Exported files are not synced: that would cost seconds per thousand, and they can always be
//! written again. So their stat is no proof after a restart of the machine, and they are read once
//! more. Removals are synced, since nothing would look for those files again.

mod gone;
pub(crate) mod paths;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::ErrorKind;
use std::ops::Range;

use cache::fs::{FileKind, Fs};
use cache::stat::{self, Section, StatEntry, StatIndex};
use cache::{CacheError, Digest, Target, in_shares};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::event::Event;
use stage_core::key::{HashSink, Sink as KeySink};
use stage_core::{Blob, Fields, Item, StageError, Value};

use crate::error::EngineError;
use crate::leftovers;
use crate::options::Sink;
use crate::pipeline::{Export, Pipeline, StageId, StageSpec};
use crate::plan::{Known, Planned};
use crate::record::{EXPORT, ExportRecord, LeftOut, PortValue, decode, encode};
use crate::store::{ReadError, Store};
use crate::world;

use paths::{Ground, Place, fill, is_inside, plain};
pub use paths::{fixed_folder, real};

const STAT_THREADS: usize = 2;
/// The number of files that a thread takes at a time.
const SHARE: usize = 16;

/// The result of an export.
#[derive(Default)]
struct Written {
    written: u64,
    unchanged: u64,
    removed: u64,
    problems: Vec<String>,
    left_out: Option<LeftOut>,
    /// Items, and those that have the exported field.
    items: (u64, u64),
    lost: Vec<Digest>,
    /// The reason why the files are not in the stat index.
    unsaved: Option<CacheError>,
}

/// The results of all exports of a pass.
#[derive(Clone, Copy, Default)]
pub struct Exported {
    /// At least one file could not be written.
    pub failed: bool,
    /// At least one object is gone and has to be made again first.
    pub lost: bool,
}

/// Updates the exports of these stages. Those behind a `failed` stage lose no files: what is missing
/// now may be there again once it is mended.
pub fn export(
    store: &Store,
    pipeline: &Pipeline,
    known: &[impl AsRef<Known>],
    stages: &[StageId],
    failed: &[StageId],
    total: &mut u64,
    sink: Sink,
) -> Result<Exported, EngineError> {
    let mut all = Exported::default();
    let mut unsaved = None;
    for spec in stages.iter().map(|id| pipeline.stage(*id)) {
        let upstream = pipeline.with_upstream(&[spec.id]);
        let is_partial = failed.iter().any(|id| upstream.contains(id));
        for export in &spec.exports {
            let Some(value) = known[spec.id.0].as_ref().outputs.get(export.port) else { continue };
            let one = One { store, pipeline, spec, export, is_partial };
            let done = one.bring_up_to_date(value)?;
            *total += done.written + done.removed;
            all.failed |= !done.problems.is_empty();
            all.lost |= !done.lost.is_empty();
            unsaved = unsaved.or(done.unsaved);
            let stage = spec.name.clone();
            for digest in &done.lost {
                store.lost(&stage, digest).into_iter().for_each(&mut *sink);
            }
            if let Some(message) = one_for_all(&done.problems) {
                let help = Some("choose another `export` path, or make room for it".to_owned());
                sink(Event::StageFailed { stage: stage.clone(), message, help });
            }
            if let ((1.., 0), Some(field)) = (done.items, &export.field) {
                let message = format!("warning: no item has the field `{field}` to export");
                sink(Event::Note { stage: Some(stage.clone()), message });
            }
            if let Some(left_out) = &done.left_out {
                let (stage, message) = (Some(stage.clone()), left_out.to_string());
                sink(Event::Note { stage, message });
            }
            if done.written + done.removed > 0 {
                let Written { written, unchanged, removed, .. } = done;
                sink(Event::Exported { stage, written, unchanged, removed });
            }
        }
    }
    if let Some(error) = unsaved {
        sink(world::unsaved(&error));
    }
    // Only a run that brought everything up to date knows which files are obsolete.
    match stages.len() == pipeline.stages.len() && !all.failed && !all.lost {
        true => gone::take_back(store, pipeline, total, sink)?,
        false => gone::note(store, pipeline, stages)?,
    }
    Ok(all)
}

/// An unwritable folder fails for every file in it: only the first is reported.
fn one_for_all(problems: &[String]) -> Option<String> {
    let (first, others) = problems.split_first()?;
    Some(match others.len() {
        0 => first.clone(),
        more => format!("{first}; {more} more of its files cannot be written"),
    })
}

/// The files of the last export.
#[derive(Default)]
struct Old {
    digests: HashMap<Utf8PathBuf, Digest>,
    /// The entries with a stat from this boot.
    entries: HashMap<String, StatEntry>,
}

/// A machine fault that may be gone by the next run. A read-only disk, or a folder in use, needs
/// another path.
fn passes(error: &CacheError) -> bool {
    let is_of_the_place = matches!(
        error,
        CacheError::Fs(error)
            if [ErrorKind::ReadOnlyFilesystem, ErrorKind::ResourceBusy].contains(&error.kind())
    );
    error.machine_fault().is_some() && !is_of_the_place
}

/// The reason why a file is not written.
enum Problem {
    Told(String),
    /// A machine fault, such as a full disk, concerns the whole run.
    Machine(CacheError),
    Lost(Digest),
}

struct One<'a> {
    store: &'a Store,
    pipeline: &'a Pipeline,
    spec: &'a StageSpec,
    export: &'a Export,
    /// A stage above failed, and items may be missing for that.
    is_partial: bool,
}

impl One<'_> {
    fn bring_up_to_date(&self, value: &Planned) -> Result<Written, EngineError> {
        let Some(value) = exportable(value) else { return Ok(Written::default()) };
        let cache = self.store.cache();
        let section = self.section_key();
        let before = cache.get(EXPORT, &section)?;
        let before = before.and_then(|bytes| decode::<ExportRecord>(&bytes));
        let licenses = self.spec.licenses.clone();
        let boot = cache.fs().boot().unwrap_or_default();
        let mut now = ExportRecord { value, licenses, boot, left_out: None };
        let same_boot = before.as_ref().is_none_or(|before| before.boot == now.boot);
        let as_before = |count, before: &ExportRecord| Written {
            unchanged: count,
            left_out: before.left_out.clone(),
            ..Written::default()
        };
        let same = before.as_ref().filter(|before| before.is_of_the_same(&now));
        if let Some(before) = same
            && let Some(count) = self.intact(self.store.index(), &section)
        {
            return Ok(as_before(count, before));
        }
        // Another process may have exported the same files since the plan was made.
        let index = StatIndex::load(cache)?;
        if let Some(before) = same
            && let Some(count) = self.intact(&index, &section)
        {
            return Ok(as_before(count, before));
        }
        let entries = index.section(&section);
        let mut done = Written::default();
        let Some(wanted) = self.wanted(&mut now, &mut done)? else { return Ok(done) };
        let mut old = Old::default();
        for entry in entries.into_iter().flat_map(Section::iter) {
            old.digests.insert(Utf8PathBuf::from(&entry.path), entry.digest);
            if same_boot {
                old.entries.insert(entry.path.clone(), entry);
            }
        }
        if let Some(before) = before.as_ref().filter(|before| !before.is_of_the_same(&now)) {
            self.add_recorded(before, &mut old);
        }
        if self.is_partial && old.digests.keys().any(|path| !wanted.contains_key(path)) {
            let unchanged = old.digests.len() as u64;
            return Ok(Written { unchanged, ..Written::default() });
        }
        let ground = Ground::of(self.store)?;
        let places = places(&ground, wanted.keys().chain(old.digests.keys()))?;
        leftovers::remove(&*ground.inside, places.values().flatten());
        let targets = Targets { fs: &*ground.inside, places: &places };
        let entries = self.write_all(&wanted, &targets, &old, &mut done)?;
        if !done.lost.is_empty() {
            return Ok(done);
        }
        gone::remove(self.store, |path| wanted.contains_key(path), &old.digests, &mut done)?;
        self.remember(section, now, entries, &mut done)?;
        Ok(done)
    }

    /// The files to write, by path; None if a list of them is lost.
    fn wanted(
        &self,
        now: &mut ExportRecord,
        done: &mut Written,
    ) -> Result<Option<BTreeMap<Utf8PathBuf, Blob>>, EngineError> {
        let wanted = match self.targets(now, done) {
            Ok(wanted) => wanted,
            Err(ReadError::Lost(digest)) => {
                done.lost.push(digest);
                return Ok(None);
            }
            Err(ReadError::Cache(error)) => return Err(error.into()),
            Err(error) => {
                let (stage, error) =
                    (self.spec.name.clone(), StageError::failed(error.to_string()));
                return Err(EngineError::Stage { stage, error });
            }
        };
        if let (Some(field), PortValue::Artifact(fields)) = (&self.export.field, &now.value)
            && let Some(value) = fields.get(field).filter(|value| value.as_blob().is_none())
        {
            done.problems.push(format!("the output cannot be exported: {}", no_file(field, value)));
        }
        now.left_out = done.left_out.clone();
        if let Some(left_out) = self.too_many_left_out(now) {
            done.problems.push(left_out.to_string());
            done.left_out = None;
        }
        Ok(Some(wanted))
    }

    /// Items without a path count like quarantined items.
    fn too_many_left_out<'r>(&self, now: &'r ExportRecord) -> Option<&'r LeftOut> {
        let limit = self.spec.policy.quarantine;
        now.left_out.as_ref().filter(|left_out| limit.is_exceeded(left_out.items, left_out.of))
    }

    /// The number of files of the last export, if all of them are unchanged.
    fn intact(&self, index: &StatIndex, section: &Digest) -> Option<u64> {
        let entries = index.section(section)?;
        let fs = self.store.cache().fs().as_ref();
        let differing = stat::differing(fs, self.store.base(), entries, STAT_THREADS);
        differing.is_empty().then_some(entries.len() as u64)
    }

    /// Adds the files of the last export according to the ledger: the stat index may be lost.
    fn add_recorded(&self, before: &ExportRecord, old: &mut Old) {
        // An unreadable record names no files, and those files are left alone.
        let targets = self.targets(before, &mut Written::default()).unwrap_or_default();
        old.digests.extend(targets.into_iter().map(|(path, blob)| (path, blob.digest)));
    }

    /// The files to write, by path.
    fn targets(
        &self,
        record: &ExportRecord,
        done: &mut Written,
    ) -> Result<BTreeMap<Utf8PathBuf, Blob>, ReadError> {
        let mut targets = BTreeMap::new();
        match &record.value {
            PortValue::Artifact(fields) => {
                let path = self.artifact_targets(fields, &mut targets, done);
                self.add_licenses(path, &record.licenses, &mut targets)?;
            }
            PortValue::Dataset { root, items } => {
                for bucket in self.store.dataset(root)?.buckets {
                    for item in self.store.chunk(&bucket.chunk)?.items {
                        self.item_target(&item, *items, &mut targets, done);
                    }
                }
            }
        }
        Ok(targets)
    }

    fn item_target(
        &self,
        item: &Item,
        of: u64,
        targets: &mut BTreeMap<Utf8PathBuf, Blob>,
        done: &mut Written,
    ) {
        let Some(name) = &self.export.field else { return };
        done.items.0 += 1;
        let Some(value) = item.fields.get(name) else { return };
        done.items.1 += 1;
        let Some(blob) = value.as_blob() else {
            let why = no_file(name, value);
            return LeftOut::note(&mut done.left_out, of, &item.id, &why);
        };
        let path = match fill(&self.export.template, item) {
            Ok(path) => path,
            Err(why) => return LeftOut::note(&mut done.left_out, of, &item.id, &why),
        };
        if targets.insert(path.clone(), Blob::clone(blob)).is_some() {
            done.problems.push(format!("two items would be exported to `{path}`"));
        }
    }

    /// One blob goes to the path itself, several go into a folder of that name. Returns the path
    /// for messages.
    fn artifact_targets(
        &self,
        fields: &Fields,
        targets: &mut BTreeMap<Utf8PathBuf, Blob>,
        done: &mut Written,
    ) -> Utf8PathBuf {
        let path = Utf8PathBuf::from(plain(&self.export.template));
        let blobs: Vec<(&str, &Blob)> = fields
            .iter()
            .filter(|(name, _)| self.export.field.as_deref().is_none_or(|own| own == &***name))
            .filter_map(|(name, value)| Some((&**name, &**value.as_blob()?)))
            .collect();
        match blobs.as_slice() {
            [(_, blob)] => {
                targets.insert(path.clone(), Blob::clone(blob));
                Utf8PathBuf::from(format!("{path}.license"))
            }
            several => {
                for (name, blob) in several {
                    if is_inside(Utf8Path::new(name)) {
                        targets.insert(path.join(name), Blob::clone(blob));
                    } else {
                        done.problems.push(format!(
                            "cannot export the file `{}` to `{path}`: its name has a control \
                             character, is too long, or leads outside the folder; give it another one",
                            name.escape_debug()
                        ));
                    }
                }
                path.join("LICENSE.txt")
            }
        }
    }

    /// Licences of all assets that an artifact derives from are written beside it.
    fn add_licenses(
        &self,
        path: Utf8PathBuf,
        licenses: &BTreeSet<String>,
        targets: &mut BTreeMap<Utf8PathBuf, Blob>,
    ) -> Result<(), ReadError> {
        if licenses.is_empty() || targets.is_empty() || targets.contains_key(&path) {
            return Ok(());
        }
        let names: Vec<&str> = licenses.iter().map(String::as_str).collect();
        let text = format!("Derived from works under these licences:\n{}\n", names.join("\n"));
        let size = text.len() as u64;
        let digest = self.store.put(text.into()).map_err(ReadError::Cache)?;
        targets.insert(path, Blob { digest, size, kind: "text/plain".into() });
        Ok(())
    }

    fn write_all(
        &self,
        wanted: &BTreeMap<Utf8PathBuf, Blob>,
        targets: &Targets<'_>,
        old: &Old,
        done: &mut Written,
    ) -> Result<Vec<StatEntry>, EngineError> {
        let wanted: Vec<(&Utf8PathBuf, &Blob)> = wanted.iter().collect();
        let write = |(path, blob): &(&Utf8PathBuf, &Blob)| match targets.path(path) {
            Ok(full) => {
                let target = Target { fs: targets.fs, path: &full };
                self.write(path, target, blob, old.entries.get(path.as_str()))
            }
            Err(why) => Err(Problem::Told(format!("cannot export to `{path}`: {why}"))),
        };
        let share = |range: Range<usize>| wanted[range].iter().map(write).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        // If a thread panics, this thread writes its files.
        let results: Vec<Result<(StatEntry, bool), Problem>> =
            in_shares(wanted.len(), SHARE, threads, share)
                .unwrap_or_else(|| wanted.iter().map(write).collect());
        let mut entries = Vec::with_capacity(results.len());
        for ((path, blob), result) in wanted.iter().zip(results) {
            match result {
                Ok((entry, true)) => {
                    done.written += 1;
                    entries.push(entry);
                }
                Ok((entry, false)) => {
                    done.unchanged += 1;
                    entries.push(entry);
                }
                Err(Problem::Told(problem)) => {
                    // The stat is never trusted, so the next run tries again. The file still belongs to this
                    // export.
                    let known = old.digests.get(*path).copied().unwrap_or(blob.digest);
                    entries.push(StatEntry::unusable(path.to_string(), known));
                    done.problems.push(problem);
                }
                Err(Problem::Machine(error)) => return Err(error.into()),
                Err(Problem::Lost(digest)) => done.lost.push(digest),
            }
        }
        Ok(entries)
    }

    /// Writes one file unless it is correct already. True if it was written.
    fn write(
        &self,
        path: &Utf8Path,
        target: Target<'_>,
        blob: &Blob,
        old: Option<&StatEntry>,
    ) -> Result<(StatEntry, bool), Problem> {
        let Target { fs, path: full } = target;
        let failed = |error: CacheError| match error {
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
                Problem::Told(format!("cannot export to `{path}`: {error}{cause}"))
            }
        };
        if let Some(entry) = old.filter(|entry| entry.digest == blob.digest && entry.trusted()) {
            let now = fs.metadata(full).ok();
            if now.is_some_and(|now| entry.describes(&now)) {
                return Ok((entry.clone(), false));
            }
        }
        let found = stat::hash_file(fs, full);
        if let Err(CacheError::Fs(error)) = &found
            && is_special(fs, full)
        {
            let why = &error.source;
            return Err(Problem::Told(format!("cannot export to `{path}`: {why}; remove it")));
        }
        if let Ok((digest, entry)) = found
            && digest == blob.digest
            && self.store.cache().is_linked_at(self.export.link, &digest, target).map_err(failed)?
        {
            return Ok((StatEntry { path: path.to_string(), ..entry }, false));
        }
        match (self.materialise(&blob.digest, target), full.parent()) {
            // The folder is missing.
            (Err(CacheError::Fs(error)), Some(folder)) if error.is_not_found() => {
                fs.create_dir_all(folder).map_err(|error| failed(error.into()))?;
                self.materialise(&blob.digest, target).map_err(failed)?;
            }
            (made, _) => made.map_err(failed)?,
        }
        let entry = hash_settled(fs, full).map_err(failed)?;
        Ok((StatEntry { path: path.to_string(), ..entry }, true))
    }

    fn materialise(&self, digest: &Digest, target: Target<'_>) -> Result<(), CacheError> {
        let cache = self.store.cache();
        // An object that neither has is looked for below.
        if cache.contains(digest)? || self.store.bring(digest).unwrap_or(false) {
            match cache.materialise_at(digest, target, self.export.link) {
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

    fn remember(
        &self,
        section: Digest,
        now: ExportRecord,
        entries: Vec<StatEntry>,
        done: &mut Written,
    ) -> Result<(), CacheError> {
        let cache = self.store.cache();
        if cache.is_read_only() {
            return Ok(());
        }
        let mut index = StatIndex::load(cache)?;
        index.put_section(section, entries);
        match index.save(cache) {
            Err(error) if error.machine_fault().is_some() => done.unsaved = Some(error),
            saved => saved?,
        }
        let known = cache.get(EXPORT, &section)?;
        let known = known.and_then(|bytes| decode::<ExportRecord>(&bytes));
        if done.problems.is_empty() && known.as_ref() != Some(&now) {
            cache.record(EXPORT, &section, encode(&now))?;
        }
        Ok(())
    }

    fn section_key(&self) -> Digest {
        section_key(self.pipeline, self.spec, self.export)
    }
}

/// The places of exported files.
struct Targets<'a> {
    /// Confined to the manifest's folder.
    fs: &'a dyn Fs,
    /// The folders of the files.
    places: &'a BTreeMap<&'a Utf8Path, Place>,
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
fn places<'p>(
    ground: &Ground<'_>,
    paths: impl Iterator<Item = &'p Utf8PathBuf>,
) -> Result<BTreeMap<&'p Utf8Path, Place>, CacheError> {
    let folders: BTreeSet<&Utf8Path> = paths.filter_map(|path| path.parent()).collect();
    folders.into_iter().map(|folder| Ok((folder, ground.place(folder)?))).collect()
}

/// The reason why the value of a field cannot be exported.
fn no_file(field: &str, value: &Value) -> String {
    let kind = if matches!(value, Value::Number(_)) { "a number" } else { "a text" };
    format!("`{field}` is {kind}, but only files can be exported; `throstle items` prints it")
}

/// A pipe, a socket or a device, which a renamed file would replace. A link to one is replaced.
fn is_special(fs: &dyn Fs, path: &Utf8Path) -> bool {
    fs.symlink_metadata(path).is_ok_and(|found| found.kind == FileKind::Other)
}

/// The key of an export in the ledger and the stat index.
fn section_key(pipeline: &Pipeline, spec: &StageSpec, export: &Export) -> Digest {
    let mut sink = HashSink::default();
    sink.text("export of", &pipeline.name);
    sink.text("stage", &spec.name);
    sink.text("field", export.field.as_deref().unwrap_or(""));
    sink.text("template", &format!("{:?}", export.template));
    sink.text("link", &format!("{:?}", export.link));
    sink.finish()
}

fn exportable(value: &Planned) -> Option<PortValue> {
    match value {
        Planned::Root { root, items } => Some(PortValue::Dataset { root: *root, items: *items }),
        Planned::Artifact(fields) => Some(PortValue::Artifact(fields.clone())),
        Planned::Partial(_) | Planned::Unknown => None,
    }
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
