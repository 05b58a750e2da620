//! Tells files that an export has written from files that somebody has changed.
//!
//! A file is ours if an export has given this path this content, known by its digest. Exported files
//! are not synced, so a power cut may leave them without their end, with zeros in places, or as an
//! earlier export. So if the machine has restarted since the last export, a file whose status was
//! not changed after it is ours too; and after a run that was cut off, a torn copy of an export from
//! before the start of the machine. The time of the status (`ctime`) counts, since programs that copy
//! files set the time of the content.

use cache::stat::StatEntry;
use cache::{CacheError, Digest, Target};
use camino::{Utf8Path, Utf8PathBuf};

use crate::history;
use crate::pipeline::{ITEMS, Pipeline, Reference, StageSpec, StageWork};
use crate::record::ExportRecord;
use crate::store::{ReadError, Store};

/// The number of files that the messages of a run name.
pub const MAX_NAMED_FILES: usize = 3;

/// The traces that a power cut may have left since the last export.
#[derive(Clone, Copy)]
enum PowerCut {
    Impossible,
    Possible {
        /// The last run of the pipeline did not reach its end.
        in_a_run: bool,
        /// The end of the last export, in nanoseconds since 1970.
        exported: Option<i64>,
        /// The start of the machine.
        booted: Option<i64>,
    },
}

pub struct EditDetector<'a> {
    store: &'a Store,
    cut: PowerCut,
}

impl<'a> EditDetector<'a> {
    /// For the files of an export with this record, on a machine with this boot id.
    pub fn new(
        store: &'a Store,
        pipeline: &Pipeline,
        before: Option<&ExportRecord>,
        boot: &str,
    ) -> Result<EditDetector<'a>, CacheError> {
        let is_same = |before: &ExportRecord| !boot.is_empty() && before.boot == boot;
        let cut = if before.is_some_and(is_same) {
            PowerCut::Impossible
        } else {
            PowerCut::Possible {
                in_a_run: history::was_cut_off(store.cache(), &pipeline.name)?,
                exported: before.and_then(|before| Some(before.after.as_ref()?.ended_ns)),
                booted: store.cache().fs().booted_ns(),
            }
        };
        Ok(EditDetector { store, cut })
    }

    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Tests if an export has left this file, and nobody has changed it. `known` are contents that
    /// it had or gets. A path without any may be that of a stage or pipeline with another name, so
    /// every output counts there.
    pub fn is_unedited(
        &self,
        file: Target<'_>,
        found: &StatEntry,
        known: &[Digest],
        is_first: bool,
    ) -> Result<bool, CacheError> {
        if known.contains(&found.digest) || (is_first && self.store.is_output(&found.digest)?) {
            return Ok(true);
        }
        match self.cut {
            PowerCut::Impossible => Ok(false),
            PowerCut::Possible { exported: Some(end), .. } if found.ctime_ns <= end => Ok(true),
            PowerCut::Possible { in_a_run, booted, .. } => {
                let is_before = booted.is_none_or(|booted| found.ctime_ns < booted);
                Ok(in_a_run && is_before && self.is_torn_copy(file, known)?)
            }
        }
    }

    fn is_torn_copy(&self, file: Target<'_>, known: &[Digest]) -> Result<bool, CacheError> {
        let bytes = file.fs.read(file.path)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
        for digest in known {
            if self.whole(digest)?.is_some_and(|whole| is_torn(&bytes, &whole)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The exported content, if it is still known.
    fn whole(&self, digest: &Digest) -> Result<Option<bytes::Bytes>, CacheError> {
        match self.store.read(digest) {
            Ok(whole) => Ok(Some(whole)),
            Err(ReadError::Cache(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// A copy without its end, or with zeros in places.
fn is_torn(found: &[u8], whole: &[u8]) -> bool {
    let same = |(found, whole): (&u8, &u8)| found == whole || *found == 0;
    found.len() <= whole.len() && found.iter().zip(whole).all(same)
}

/// The message about files that an export did not replace.
pub fn kept_message(
    files: &[Utf8PathBuf],
    (pipeline, spec): (&Pipeline, &StageSpec),
    named: usize,
) -> Option<String> {
    let (it_is, no_longer, the_file) = match files.len() {
        0 => return None,
        1 => ("differs from its export, and is kept", "it is", "the file"),
        _ => ("differ from their exports, and are kept", "they are", "the files"),
    };
    let corrections = corrections(pipeline, spec).map_or(String::new(), |(stage, table)| {
        format!("; corrections belong in `{table}`, the table of stage `{stage}`")
    });
    Some(format!(
        "warning: {} {it_is}: {no_longer} not updated any more; remove {the_file}, or use \
         `--overwrite`, to export again{corrections}",
        names(files, named)
    ))
}

/// The message about edited files of exports or items that are gone.
pub fn stays_message(files: &[Utf8PathBuf]) -> Option<String> {
    let what = match files.len() {
        0 => return None,
        1 => {
            "is no longer exported, but stays, since it was edited; remove it if you do not need it"
        }
        _ => {
            "are no longer exported, but stay, since they were edited; remove them if you do not need them"
        }
    };
    Some(format!("{} {what}", names(files, MAX_NAMED_FILES)))
}

fn names(files: &[Utf8PathBuf], most: usize) -> String {
    let name = |file: &Utf8PathBuf| format!("`{}`", file.as_str().escape_debug());
    let named: Vec<String> = files.iter().take(most).map(name).collect();
    match files.len().saturating_sub(most) {
        0 => named.join(", "),
        more => format!("{} and {more} more exported files", named.join(", ")),
    }
}

/// The stage that takes corrections of a person to these very items, and its table. Items of other data
/// sets, such as those that a voice was trained on, are not corrected there.
fn corrections<'p>(pipeline: &'p Pipeline, spec: &'p StageSpec) -> Option<(&'p str, &'p Utf8Path)> {
    let mut passed = vec![spec];
    while let Some(stage) = passed.pop() {
        if stage.kind.applies_corrections {
            let (_, table) = stage.paths().next()?;
            return Some((stage.written(), Utf8Path::new(table)));
        }
        if matches!(stage.work, StageWork::Item | StageWork::Gather) {
            let references =
                stage.inputs.get(ITEMS).into_iter().flat_map(|input| &input.references);
            passed.extend(references.filter_map(|reference| match reference {
                Reference::Stage { stage, .. } => Some(pipeline.stage(*stage)),
                Reference::Asset(_) => None,
            }));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_file_lacks_its_end_or_has_zeros() {
        let whole = b"one two three";
        for (torn, expected) in [
            (&b""[..], true),
            (b"one two", true),
            (b"one\0\0\0\0 three", true),
            (b"one two three", true),
            (b"one two three four", false),
            (b"one too", false),
        ] {
            assert_eq!(is_torn(torn, whole), expected, "{torn:?}");
        }
    }

    #[test]
    fn messages_name_the_first_files_and_count_the_others() {
        let files: Vec<Utf8PathBuf> = (0..5).map(|at| format!("out/{at}").into()).collect();
        assert_eq!(stays_message(&[]), None);
        let one = stays_message(&files[..1]);
        assert_eq!(
            one.as_deref(),
            Some(
                "`out/0` is no longer exported, but stays, since it was edited; remove it if you do not need it"
            )
        );
        let all = stays_message(&files).unwrap_or_default();
        assert!(
            all.starts_with("`out/0`, `out/1`, `out/2` and 2 more exported files are"),
            "{all}"
        );
    }
}
