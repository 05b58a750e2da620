//! The files of the last export, according to the stat index and the index.

use std::collections::HashMap;

use cache::Digest;
use cache::Target;
use cache::fs::Fs;
use cache::stat::{self, Section, StatEntry, StatIndex};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::key::{HashSink, Sink as KeySink};

use crate::pipeline::{Export, Pipeline, StageSpec};
use crate::record::ExportRecord;

const STAT_THREADS: usize = 2;

/// The files of the last export.
#[derive(Default)]
pub struct LastExport {
    /// The exported contents.
    pub digests: HashMap<Utf8PathBuf, Digest>,
    /// The same according to the index, which may be older.
    pub recorded: HashMap<Utf8PathBuf, Digest>,
    /// The state of these files.
    pub entries: HashMap<String, StatEntry>,
    /// The state of files that were kept, since somebody has changed them.
    pub kept: HashMap<String, StatEntry>,
    /// The machine has not restarted since.
    pub is_of_this_boot: bool,
}

impl LastExport {
    /// The files of an export by its key.
    pub fn of(index: &StatIndex, key: &Digest, is_of_this_boot: bool) -> LastExport {
        let all = |key: &Digest| index.section(key).into_iter().flat_map(Section::iter);
        let named = |entry: StatEntry| (entry.path.clone(), entry);
        let entries: HashMap<String, StatEntry> = all(key).map(named).collect();
        let digests = entries.iter().map(|(path, entry)| (path.into(), entry.digest)).collect();
        let kept = all(&kept_key(key)).map(named).collect();
        LastExport { digests, recorded: HashMap::new(), entries, kept, is_of_this_boot }
    }

    /// Adds the files that were kept, according to the index.
    pub fn record_kept(&mut self, before: &ExportRecord) {
        for (path, digest) in before.kept().into_iter().flatten() {
            let lost = || StatEntry::unusable(path.clone(), *digest);
            self.kept.entry(path.clone()).or_insert_with(lost);
        }
    }

    /// Adds a file of the export in the index: the stat index may be lost, or have contents that were
    /// about to be written.
    pub fn record(&mut self, path: Utf8PathBuf, digest: Digest) {
        self.digests.entry(path.clone()).or_insert(digest);
        self.recorded.insert(path, digest);
    }

    /// The contents that exports have given a file.
    pub fn contents(&self, path: &Utf8Path) -> impl Iterator<Item = Digest> {
        let known = [self.digests.get(path), self.recorded.get(path)];
        known.into_iter().flatten().copied()
    }

    /// The state of a file, if its stat proves that it is still the same.
    pub fn unchanged(&self, path: &Utf8Path, target: Target<'_>) -> Option<&StatEntry> {
        let entry = self.kept.get(path.as_str()).or_else(|| self.entries.get(path.as_str()));
        let entry = entry.filter(|entry| self.is_of_this_boot && entry.trusted())?;
        let now = target.fs.metadata(target.path).ok()?;
        entry.describes(&now).then_some(entry)
    }
}

/// The files of an export by its key, if all of them are as they were left: the number of exported
/// files, and the files that were kept.
pub fn intact(
    fs: &dyn Fs,
    base: &Utf8Path,
    index: &StatIndex,
    key: &Digest,
) -> Option<(u64, Vec<Utf8PathBuf>)> {
    let is_as_left =
        |section: &Section| stat::differing(fs, base, section, STAT_THREADS).is_empty();
    let entries = index.section(key).filter(|section| is_as_left(section))?;
    let kept = match index.section(&kept_key(key)) {
        Some(kept) if is_as_left(kept) => kept.iter().map(|entry| entry.path.into()).collect(),
        Some(_) => return None,
        None => Vec::new(),
    };
    Some((entries.len() as u64, kept))
}

/// The key in the stat index for the files of an export that were kept.
pub fn kept_key(key: &Digest) -> Digest {
    let mut sink = HashSink::default();
    sink.digest("kept files of", key);
    sink.finish()
}

/// The key of an export in the index and the stat index.
pub fn section_key(pipeline: &Pipeline, spec: &StageSpec, export: &Export) -> Digest {
    let mut sink = HashSink::default();
    sink.text("export of", &pipeline.name);
    sink.text("stage", &spec.name);
    sink.text("field", export.field.as_deref().unwrap_or(""));
    sink.text("template", &format!("{:?}", export.template));
    sink.text("link", &format!("{:?}", export.link));
    sink.finish()
}
