//! Removes exported files that are obsolete: of removed items, of removed stages and exports, and
//! at old paths.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use crate::event::Event;
use cache::fs::{Fs, FsResult};
use cache::stat::{self, Section, StatIndex};
use cache::{Cache, CacheError, Digest, Target};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::key::{HashSink, Sink as KeySink};

use super::edits::{EditDetector, stays_message};
use super::old::{LastExport, kept_key, section_key};
use super::paths::Ground;
use super::write::{is_denied, passes};
use super::{ExportCounts, one_for_all};
use crate::options::Sink;
use crate::pipeline::{Pipeline, StageId, StageSpec};
use crate::record::{EXPORT, EXPORTS, ExportRecord, decode, encode};
use crate::store::Store;

/// The exports of a manifest: their keys and stages.
type Exports = BTreeMap<Digest, String>;

/// Removes the files of exports that the last run of this manifest had and this one does not.
pub fn take_back(
    store: &Store,
    pipeline: &Pipeline,
    total: &mut u64,
    sink: Sink,
) -> Result<(), CacheError> {
    let cache = store.cache();
    if cache.is_read_only() {
        return Ok(());
    }
    let key = exports_key(pipeline);
    let before = known(cache, &key)?;
    let now = exports(pipeline, &pipeline.stages);
    if before == now {
        return Ok(());
    }
    let gone = before.into_iter().filter(|(key, _)| !now.contains_key(key));
    let gone: Vec<(Digest, String)> = gone.collect();
    let left = if gone.is_empty() {
        Exports::new()
    } else {
        take_back_all(store, pipeline, gone, &now, total, sink)?
    };
    cache.record(EXPORTS, &key, encode(&left.into_iter().chain(now).collect::<Exports>()))
}

/// Returns the exports with files that could not be removed: the next run tries them again.
fn take_back_all(
    store: &Store,
    pipeline: &Pipeline,
    gone: Vec<(Digest, String)>,
    now: &Exports,
    total: &mut u64,
    sink: Sink,
) -> Result<Exports, CacheError> {
    let mut left = Exports::new();
    let mut index = StatIndex::load(store.cache())?;
    for (section, stage) in gone {
        let done = take_back_one(store, pipeline, &index, now, &section)?;
        *total += done.removed;
        done.tell_counts(stage.clone(), sink);
        if let Some(message) = stays_message(&done.stays) {
            sink(Event::Note { stage: None, message });
        }
        match one_for_all(&[done.problems, done.denied].concat()) {
            None => {
                index.remove_section(&section);
                index.remove_section(&kept_key(&section));
            }
            Some(message) => {
                sink(Event::Note { stage: None, message });
                left.insert(section, stage);
            }
        }
    }
    index.save(store.cache())?;
    Ok(left)
}

/// The files of one export that no other export wants. Without the stat index they are unknown and
/// left alone.
fn take_back_one(
    store: &Store,
    pipeline: &Pipeline,
    index: &StatIndex,
    wanted: &Exports,
    gone: &Digest,
) -> Result<ExportCounts, CacheError> {
    let cache = store.cache();
    let before = cache.get(EXPORT, gone)?;
    let before = before.and_then(|bytes| decode::<ExportRecord>(&bytes));
    let boot = cache.fs().boot().unwrap_or_default();
    let is_same_boot = before.as_ref().is_none_or(|before| before.boot == boot);
    let mut old = LastExport::of(index, gone, is_same_boot);
    before.iter().for_each(|before| old.record_kept(before));
    let keys = wanted.keys().flat_map(|key| [*key, kept_key(key)]);
    let others: Vec<&Section> = keys.filter_map(|key| index.section(&key)).collect();
    let is_wanted =
        |path: &Utf8Path| others.iter().any(|other| other.find(path.as_str()).is_some());
    let mut done = ExportCounts::default();
    let detector = EditDetector::new(store, pipeline, before.as_ref(), &boot)?;
    remove(&detector, is_wanted, &old, &mut done)?;
    Ok(done)
}

/// Remembers the exports of these stages: a later run of this manifest removes their files once the
/// exports are gone.
pub fn note(store: &Store, pipeline: &Pipeline, stages: &[StageId]) -> Result<(), CacheError> {
    let cache = store.cache();
    if cache.is_read_only() {
        return Ok(());
    }
    let key = exports_key(pipeline);
    let mut known = known(cache, &key)?;
    let before = known.len();
    known.extend(exports(pipeline, stages.iter().map(|id| pipeline.stage(*id))));
    if known.len() == before { Ok(()) } else { cache.record(EXPORTS, &key, encode(&known)) }
}

/// The exports that earlier runs have remembered.
fn known(cache: &Cache, key: &Digest) -> Result<Exports, CacheError> {
    let record = cache.get(EXPORTS, key)?;
    Ok(record.and_then(|bytes| decode(&bytes)).unwrap_or_default())
}

fn exports<'a>(pipeline: &Pipeline, stages: impl IntoIterator<Item = &'a StageSpec>) -> Exports {
    let of = |spec: &'a StageSpec| {
        move |export| (section_key(pipeline, spec, export), spec.name.clone())
    };
    stages.into_iter().flat_map(|spec| spec.exports.iter().map(of(spec))).collect()
}

/// Two manifests may have the same name, but not the same file name in one folder.
fn exports_key(pipeline: &Pipeline) -> Digest {
    let mut sink = HashSink::default();
    sink.text("exports of", &pipeline.name);
    sink.text("file", pipeline.file.file_name().unwrap_or_default());
    sink.finish()
}

/// Removes files of an earlier export that no export wants any more, and the folders that become
/// empty. Those that somebody has changed stay.
pub fn remove(
    detector: &EditDetector<'_>,
    is_wanted: impl Fn(&Utf8Path) -> bool,
    old: &LastExport,
    done: &mut ExportCounts,
) -> Result<(), CacheError> {
    let store = detector.store();
    let is_there = |path: &&String| store.cache().fs().exists(&store.base().join(path));
    let kept = old.kept.keys().filter(|path| !is_wanted(Utf8Path::new(path)));
    done.stays.extend(kept.filter(|path| is_there(path).unwrap_or(false)).map(Utf8PathBuf::from));
    let mut unwanted: Vec<&Utf8PathBuf> =
        old.digests.keys().filter(|path| !is_wanted(path)).collect();
    unwanted.retain(|path| !old.kept.contains_key(path.as_str()));
    if unwanted.is_empty() {
        done.stays.sort();
        return Ok(());
    }
    let ground = Ground::of(store)?;
    let inside = &*ground.inside;
    let mut folders = BTreeSet::new();
    for path in unwanted {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let removed = match ground.place(folder) {
            // An export never wrote behind a link out of the project, or into the cache.
            Ok(Err(_)) => continue,
            Ok(Ok(folder)) => {
                let file = folder.join(name);
                let target = Target { fs: inside, path: &file };
                let known: Vec<Digest> = old.contents(path).collect();
                match is_unedited(detector, target, &known) {
                    Ok(true) => inside.remove_file(&file).map(|()| folder),
                    Ok(false) => {
                        done.stays.push(path.clone());
                        continue;
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match removed {
            Ok(folder) => {
                done.removed += 1;
                folders.insert(folder);
            }
            // A link in its place is not ours.
            Err(error) if error.is_link_on_path() => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let error = CacheError::from(error);
                if passes(&error) {
                    return Err(error);
                }
                let problem =
                    format!("cannot remove the outdated export `{path}`: {}", error.whole());
                let problems =
                    if is_denied(&error) { &mut done.denied } else { &mut done.problems };
                problems.push(problem);
            }
        }
    }
    for folder in folders {
        inside.sync_dir(remove_empty_folders(inside, store.base(), &folder))?;
    }
    done.stays.sort();
    Ok(())
}

/// Tests if a file is the exported one, complete or torn by a power cut, and was not changed by
/// somebody.
fn is_unedited(detector: &EditDetector<'_>, file: Target<'_>, known: &[Digest]) -> FsResult<bool> {
    let found = stat::hash_file(file.fs, file.path);
    let is_unedited = found.and_then(|(_, found)| detector.is_unedited(file, &found, known, false));
    match is_unedited {
        Ok(is_unedited) => Ok(is_unedited),
        Err(CacheError::Fs(error)) if error.kind() == ErrorKind::IsADirectory => Ok(false),
        Err(CacheError::Fs(error) | CacheError::NoSpace { source: error, .. }) => Err(error),
        // A folder, or a file that another process is writing.
        Err(_) => Ok(false),
    }
}

/// Removes folders that an export has emptied, up to the manifest's own. Returns the first that
/// stays.
fn remove_empty_folders<'a>(fs: &dyn Fs, base: &Utf8Path, folder: &'a Utf8Path) -> &'a Utf8Path {
    let mut folder = folder;
    while folder != base && folder.starts_with(base) && fs.remove_dir(folder).is_ok() {
        folder = folder.parent().unwrap_or(folder);
    }
    // Another folder may be gone together with its parents.
    while !fs.exists(folder).unwrap_or(true) {
        let Some(above) = folder.parent() else { break };
        folder = above;
    }
    folder
}
