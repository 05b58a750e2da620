//! Exports: outputs as files where the manifest asks for them.
//!
//! What was exported is kept in the stat index, so that the next run sees from the files' stat
//! alone whether anything is missing or was edited. Only what differs is written; what an
//! earlier run exported and this one does not is removed, if it is still the file that was
//! written.

use std::collections::{BTreeMap, HashMap};

use cache::fs::Fs;
use cache::stat::{self, StatEntry, StatIndex};
use cache::{CacheError, Digest};
use camino::{Utf8Path, Utf8PathBuf};
use rayon::prelude::*;
use stage_core::event::Event;
use stage_core::key::{HashSink, Sink as KeySink, write_value};
use stage_core::{Blob, Fields, Item, Value};

use crate::engine::{EngineError, Sink};
use crate::pipeline::{Export, Pipeline, StageId, StageSpec, Template, TemplatePart};
use crate::plan::{Planned, StagePlan};
use crate::record::{MEMO, decode, encode};
use crate::store::{ReadError, Store};

const STAT_THREADS: usize = 2;

/// What an export did.
#[derive(Default)]
struct Written {
    written: u64,
    unchanged: u64,
    removed: u64,
    problems: Vec<String>,
}

/// Brings the exports of these stages up to date. True when some file could not be written.
pub fn export(
    store: &Store,
    pipeline: &Pipeline,
    plans: &[StagePlan],
    stages: &[StageId],
    total: &mut u64,
    sink: Sink,
) -> Result<bool, EngineError> {
    let mut failed = false;
    for spec in stages.iter().map(|id| pipeline.stage(*id)) {
        for export in &spec.exports {
            let Some(value) = plans[spec.id.0].outputs.get(export.port) else { continue };
            let one = One { store, pipeline, spec, export };
            let done = one.bring_up_to_date(value)?;
            *total += done.written + done.removed;
            failed |= !done.problems.is_empty();
            let stage = spec.name.clone();
            for message in done.problems {
                let help = Some("choose another `export` path, or make room for it".to_owned());
                sink(Event::StageFailed { stage: stage.clone(), message, help });
            }
            if done.written + done.removed > 0 {
                let Written { written, unchanged, removed, .. } = done;
                sink(Event::Exported { stage, written, unchanged, removed });
            }
        }
    }
    Ok(failed)
}

struct One<'a> {
    store: &'a Store,
    pipeline: &'a Pipeline,
    spec: &'a StageSpec,
    export: &'a Export,
}

impl One<'_> {
    fn bring_up_to_date(&self, value: &Planned) -> Result<Written, EngineError> {
        let index = StatIndex::load(self.store.cache())?;
        let section = self.section_key();
        let content = content_key(value);
        let base = self.store.base();
        let kept = self.store.cache().get(MEMO, &section)?;
        let before: Option<Digest> = kept.and_then(|bytes| decode(&bytes));
        if let Some(entries) = index.section(&section)
            && before == Some(content)
            && stat::check(base, entries, STAT_THREADS).is_empty()
        {
            return Ok(Written { unchanged: entries.len() as u64, ..Written::default() });
        }
        let mut done = Written::default();
        let old: HashMap<String, StatEntry> = match index.section(&section) {
            Some(entries) => entries.iter().map(|entry| (entry.path.clone(), entry)).collect(),
            None => HashMap::new(),
        };
        let wanted = self.targets(value, &mut done)?;
        let entries = self.write_all(&wanted, &old, &mut done)?;
        self.remove_stale(&wanted, &old, &mut done);
        self.remember(section, content, entries, &done)?;
        Ok(done)
    }

    /// What is to stand where.
    fn targets(
        &self,
        value: &Planned,
        done: &mut Written,
    ) -> Result<BTreeMap<Utf8PathBuf, Blob>, EngineError> {
        let mut targets = BTreeMap::new();
        match value {
            Planned::Artifact(fields) => self.artifact_targets(fields, &mut targets),
            Planned::Root { root, .. } => {
                let at = |error: ReadError| EngineError::Stage {
                    stage: self.spec.name.clone(),
                    error: stage_core::StageError::failed(error.to_string()),
                };
                for bucket in self.store.dataset(root).map_err(at)?.buckets {
                    for item in self.store.chunk(&bucket.chunk).map_err(at)?.items {
                        self.item_target(&item, &mut targets, done);
                    }
                }
            }
            Planned::Partial(_) | Planned::Unknown => {}
        }
        Ok(targets)
    }

    fn item_target(
        &self,
        item: &Item,
        targets: &mut BTreeMap<Utf8PathBuf, Blob>,
        done: &mut Written,
    ) {
        let Some(name) = &self.export.field else { return };
        let Some(blob) = item.fields.blob(name) else { return };
        let path = match fill(&self.export.template, item) {
            Ok(path) => path,
            Err(problem) => return done.problems.push(format!("item `{}`: {problem}", item.id)),
        };
        if targets.insert(path.clone(), Blob::clone(blob)).is_some() {
            done.problems.push(format!("two items would be exported to `{path}`"));
        }
    }

    /// One blob goes to the path itself, several go into a folder of that name.
    fn artifact_targets(&self, fields: &Fields, targets: &mut BTreeMap<Utf8PathBuf, Blob>) {
        let path = Utf8PathBuf::from(plain(&self.export.template));
        let blobs: Vec<(&str, &Blob)> = fields
            .iter()
            .filter(|(name, _)| self.export.field.as_deref().is_none_or(|own| own == &***name))
            .filter_map(|(name, value)| Some((&**name, &**value.as_blob()?)))
            .collect();
        match blobs.as_slice() {
            [(_, blob)] => drop(targets.insert(path, Blob::clone(blob))),
            several => {
                for (name, blob) in several {
                    if is_inside(Utf8Path::new(name)) {
                        targets.insert(path.join(name), Blob::clone(blob));
                    }
                }
            }
        }
    }

    fn write_all(
        &self,
        wanted: &BTreeMap<Utf8PathBuf, Blob>,
        old: &HashMap<String, StatEntry>,
        done: &mut Written,
    ) -> Result<Vec<StatEntry>, EngineError> {
        let results: Vec<Result<(StatEntry, bool), String>> = wanted
            .par_iter()
            .map(|(path, blob)| self.write(path, blob, old.get(path.as_str())))
            .collect();
        let mut entries = Vec::with_capacity(results.len());
        for result in results {
            match result {
                Ok((entry, true)) => {
                    done.written += 1;
                    entries.push(entry);
                }
                Ok((entry, false)) => {
                    done.unchanged += 1;
                    entries.push(entry);
                }
                Err(problem) => done.problems.push(problem),
            }
        }
        Ok(entries)
    }

    /// Writes one file unless it is what it should be. True when it was written.
    fn write(
        &self,
        path: &Utf8Path,
        blob: &Blob,
        old: Option<&StatEntry>,
    ) -> Result<(StatEntry, bool), String> {
        let fs = self.store.cache().fs().as_ref();
        let full = self.store.base().join(path);
        let failed = |error: &dyn std::error::Error| {
            let cause = error.source().map_or(String::new(), |cause| format!(": {cause}"));
            format!("cannot export to `{path}`: {error}{cause}")
        };
        if let Some(entry) = old.filter(|entry| entry.digest == blob.digest && entry.trusted()) {
            let now = fs.metadata(&full).ok();
            let same = |now: cache::fs::Metadata| {
                now.size == entry.size
                    && now.mtime_ns == entry.mtime_ns
                    && now.ctime_ns == entry.ctime_ns
                    && now.inode == entry.inode
            };
            if now.is_some_and(same) {
                return Ok((entry.clone(), false));
            }
        }
        if let Ok((digest, entry)) = stat::hash_file(fs, &full)
            && digest == blob.digest
        {
            return Ok((StatEntry { path: path.to_string(), ..entry }, false));
        }
        if let Some(folder) = full.parent() {
            fs.create_dir_all(folder).map_err(|error| failed(&error))?;
        }
        self.materialise(&blob.digest, &full).map_err(|error| failed(&*error))?;
        let (_, entry) = stat::hash_file(fs, &full).map_err(|error| failed(&error))?;
        Ok((StatEntry { path: path.to_string(), ..entry }, true))
    }

    fn materialise(
        &self,
        digest: &Digest,
        target: &Utf8Path,
    ) -> Result<(), Box<dyn std::error::Error>> {
        if self.store.cache().contains(digest)? {
            self.store.cache().materialise(digest, target)?;
            return Ok(());
        }
        let bytes = self.store.read(digest)?;
        Ok(self.store.cache().fs().write_durably(target, &bytes)?)
    }

    fn remove_stale(
        &self,
        wanted: &BTreeMap<Utf8PathBuf, Blob>,
        old: &HashMap<String, StatEntry>,
        done: &mut Written,
    ) {
        let fs = self.store.cache().fs().as_ref();
        for (path, entry) in old {
            if wanted.contains_key(Utf8Path::new(path)) {
                continue;
            }
            let full = self.store.base().join(path);
            let ours = stat::hash_file(fs, &full).is_ok_and(|(digest, _)| digest == entry.digest);
            if ours && fs.remove_file(&full).is_ok() {
                done.removed += 1;
                remove_empty_folders(fs, self.store.base(), full.parent());
            }
        }
    }

    fn remember(
        &self,
        section: Digest,
        content: Digest,
        entries: Vec<StatEntry>,
        done: &Written,
    ) -> Result<(), CacheError> {
        let cache = self.store.cache();
        if cache.is_read_only() {
            return Ok(());
        }
        let mut index = StatIndex::load(cache)?;
        index.put_section(section, entries);
        index.save(cache)?;
        let known = cache.get(MEMO, &section)?.and_then(|bytes| decode::<Digest>(&bytes));
        if done.problems.is_empty() && known != Some(content) {
            cache.record(MEMO, &section, encode(&content))?;
            cache.commit()?;
        }
        Ok(())
    }

    fn section_key(&self) -> Digest {
        let mut sink = HashSink::default();
        sink.text("export of", &self.pipeline.name);
        sink.text("stage", &self.spec.name);
        sink.text("field", self.export.field.as_deref().unwrap_or(""));
        sink.text("template", &format!("{:?}", self.export.template));
        sink.finish()
    }
}

fn content_key(value: &Planned) -> Digest {
    let mut sink = HashSink::default();
    match value {
        Planned::Root { root, .. } => sink.digest("root", root),
        Planned::Artifact(fields) => {
            fields.iter().for_each(|(name, value)| write_value(name, value, &mut sink));
        }
        Planned::Partial(_) | Planned::Unknown => {}
    }
    sink.finish()
}

/// Folders that an export has emptied go as well, up to the manifest's own.
fn remove_empty_folders(fs: &dyn Fs, base: &Utf8Path, folder: Option<&Utf8Path>) {
    let mut folder = folder;
    while let Some(path) = folder.filter(|path| *path != base && path.starts_with(base)) {
        if fs.remove_dir(path).is_err() {
            return;
        }
        folder = path.parent();
    }
}

fn plain(template: &Template) -> String {
    let text = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.clone(),
        TemplatePart::Field(name) => format!("{{{name}}}"),
    };
    template.0.iter().map(text).collect()
}

/// The path of an item. A value from the data may name folders below, never above.
fn fill(template: &Template, item: &Item) -> Result<Utf8PathBuf, String> {
    let mut path = String::new();
    for part in &template.0 {
        match part {
            TemplatePart::Text(text) => path.push_str(text),
            TemplatePart::Field(name) if name == "id" => path.push_str(&item.id),
            TemplatePart::Field(name) => match item.fields.get(name) {
                Some(Value::Text(text)) => path.push_str(text),
                Some(Value::Number(number)) => path.push_str(&number.to_string()),
                Some(Value::Blob(blob)) => path.push_str(&blob.digest.to_string()),
                None => return Err(format!("it has no field `{name}` for the export path")),
            },
        }
    }
    let path = Utf8PathBuf::from(path);
    match is_inside(&path) {
        true => Ok(path),
        false => {
            Err(format!("its export path `{}` leaves the folder", path.as_str().escape_debug()))
        }
    }
}

/// Whether a path stays below where it starts and can be a file name at all.
fn is_inside(path: &Utf8Path) -> bool {
    use camino::Utf8Component;
    let usual = |component| matches!(component, Utf8Component::Normal(_));
    path.components().all(usual)
        && path.components().next().is_some()
        && !path.as_str().contains(|letter: char| letter.is_control())
        && path.components().all(|component| component.as_str().len() <= 255)
}
