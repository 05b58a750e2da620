//! A table or JSON lines with paths of audio files: rows in, items out.

mod parts;
mod unlisted;

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{
    FileFact, Job, Parameters, Reject, Setup, SourceJob, SourceOutput, StageError, World,
};

use super::items::{RowAudio, SharedStrings, item, no_text, rejected, row_name, unreadable};
use super::listed::{FileMatch, ListedFiles};
use super::misplaced::{self, TablePlace};
use super::{CorpusError, RowRecord, Rows, found_tokens, path, text};

/// Reads rows from bytes; only the format distinguishes tables and JSON lines.
pub type ReadRows = Box<dyn Fn(&[u8]) -> Result<Rows, CorpusError> + Send>;

/// The note on files whose names differ from the paths of the rows.
const OTHER_NAME: &str = "files whose names differ in letter case or Unicode form";

/// The note on rows of a short table without the names of its columns.
const ASSUMED: &str = "rows read as file, text and speaker (set `columns` if they are others)";

/// A file of rows that point at audio files.
pub struct RowFile {
    file: Utf8PathBuf,
    audio: Utf8PathBuf,
    is_audio_set: bool,
    /// The folder of the manifest.
    base: Utf8PathBuf,
    tokens: Option<Utf8PathBuf>,
    read: ReadRows,
}

/// A row with its file.
struct FileRow {
    record: RowRecord,
    /// Below the audio folder, as it is named on the disk.
    path: String,
    fact: FileFact,
}

impl RowFile {
    /// `name` is the parameter with the path of the file.
    pub fn open(setup: &Setup, name: &str, read: ReadRows) -> Result<Job, StageError> {
        let parameters = &setup.parameters;
        let file = Utf8PathBuf::from(parameters.text(name)?);
        let audio = match parameters.if_set("audio", Parameters::text)? {
            Some(audio) => Utf8PathBuf::from(audio),
            None => file.parent().map(Utf8Path::to_owned).unwrap_or_default(),
        };
        let is_audio_set = parameters.is_set("audio");
        let tokens = found_tokens::folder(parameters)?;
        let base = Utf8PathBuf::from(&setup.base);
        Ok(Job::Source(Box::new(RowFile { file, audio, is_audio_set, base, tokens, read })))
    }
}

impl SourceJob for RowFile {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let bytes = world.read(&self.file)?;
        let unreadable = |error: CorpusError| unreadable(&self.file, &error);
        let text = text::unpacked(&bytes).map_err(unreadable)?;
        let rows = (self.read)(&text).map_err(unreadable)?;
        if let Some(error) = misplaced::absolute(&self.file, &rows) {
            return Err(error);
        }
        let mut output = SourceOutput {
            rejects: rows.rejects.iter().map(|reject| rejected(&self.file, reject)).collect(),
            ..SourceOutput::default()
        };
        if rows.are_columns_assumed {
            output.notes.push((ASSUMED.to_owned(), rows.records.len() as u64));
        }
        if let Some(columns) = &rows.columns_without_text {
            output.notes.push((no_text("columns", columns), rows.records.len() as u64));
        }
        let rejected_files = rows.rejected_files;
        let rows = self.find_files(rows.records, world, &mut output)?;
        self.note_unlisted(&rows, &rejected_files, world, &mut output)?;
        let mut clips = self.cut_parts(&rows, world)?;
        let mut words = SharedStrings::default();
        for (at, row) in rows.into_iter().enumerate() {
            let clip = clips.remove(&at).unwrap_or_else(|| {
                Ok(RowAudio::from(words.recording(row.fact.digest, row.fact.size)))
            });
            match clip {
                Ok(clip) => output.items.push(item(&mut words, row.record, clip)),
                Err(reject) => output.rejects.push((self.name(&row.record), reject)),
            }
        }
        found_tokens::add(self.tokens.as_deref(), &mut output, world)?;
        Ok(output)
    }

    fn passes_files_on(&self) -> bool {
        true
    }
}

impl RowFile {
    fn name(&self, record: &RowRecord) -> String {
        row_name(&self.file, record.row, record.number)
    }

    /// The audio file of each row. The folder is listed only if a path has no extension or no file.
    fn find_files(
        &self,
        records: Vec<RowRecord>,
        world: &mut dyn World,
        output: &mut SourceOutput,
    ) -> Result<Vec<FileRow>, StageError> {
        let written = |record: &RowRecord| {
            path::has_audio_extension(&record.file).then(|| record.file.clone())
        };
        let paths: Vec<Option<String>> = records.iter().map(written).collect();
        let facts = self.facts(paths.iter().flatten(), world)?;
        let is_there = |path: &Option<String>| {
            path.as_ref().and_then(|path| facts.get(path)).is_some_and(|fact| !is_missing(fact))
        };
        if paths.iter().all(is_there) {
            return Ok(self.rows(records, paths, &facts, output));
        }
        // The folder of a manifest that is started in it has no name.
        let folder = if self.audio.as_str().is_empty() { Utf8Path::new(".") } else { &self.audio };
        let listing = world.list_if_any(folder)?;
        let missing = || StageError::failed(format!("there is no folder `{folder}`"));
        let files = ListedFiles::new(listing.ok_or_else(missing)?.files);
        if !paths.iter().any(is_there) {
            let place = TablePlace {
                table: &self.file,
                audio: &self.audio,
                is_audio_set: self.is_audio_set,
            };
            if let Some(error) = misplaced::elsewhere(&place, &records, &files) {
                return Err(error);
            }
        }
        let (mut others, mut first_other) = (0, String::new());
        let mut found = Vec::with_capacity(records.len());
        let mut kept = Vec::with_capacity(records.len());
        for (record, path) in records.into_iter().zip(paths) {
            if is_there(&path) {
                found.push(path);
                kept.push(record);
                continue;
            }
            match self.other_name(&record, &files) {
                Ok(name) => {
                    if path.is_some_and(|path| path != name) {
                        others += 1;
                        if others == 1 {
                            name.clone_into(&mut first_other);
                        }
                    }
                    found.push(Some(name));
                    kept.push(record);
                }
                Err(reject) => output.rejects.push((self.name(&record), reject)),
            }
        }
        if others > 0 {
            output.notes.push((format!("{OTHER_NAME}, the first is `{first_other}`"), others));
        }
        let mut facts = facts;
        let new: Vec<&String> =
            found.iter().flatten().filter(|path| !facts.contains_key(*path)).collect();
        let new = self.facts(new.into_iter(), world)?;
        facts.extend(new);
        Ok(self.rows(kept, found, &facts, output))
    }

    /// The file of a row whose path is not the name of a file.
    fn other_name(&self, record: &RowRecord, files: &ListedFiles) -> Result<String, Reject> {
        let path = &record.file;
        let place = format!("row {} `{}`", record.row, record.id);
        let found =
            if path::has_audio_extension(path) { files.find(path) } else { files.resolve(path) };
        match found {
            FileMatch::One(name) => Ok(name.to_owned()),
            FileMatch::Several(first, second) => {
                let reason = format!(
                    "{place}: `{path}` may be `{first}` or `{second}`, which differ in letter case or \
                     Unicode form only"
                );
                Err(Reject::new("unclear-file", reason))
            }
            FileMatch::None if path::has_audio_extension(path) => {
                let mut reason = format!("there is no file `{}`", self.audio.join(path));
                if let Some(other) = files.with_other_extension(path) {
                    reason += &format!(", but `{}`", self.audio.join(other));
                }
                Err(Reject::new("missing-file", reason))
            }
            FileMatch::None => {
                let reason = format!(
                    "{place}: `{path}` has no audio file with that name in `{}`",
                    self.audio
                );
                Err(Reject::new("no-audio", reason))
            }
        }
    }

    /// Digest and size of each path, once.
    fn facts<'a>(
        &self,
        paths: impl Iterator<Item = &'a String>,
        world: &mut dyn World,
    ) -> Result<HashMap<String, Result<FileFact, Reject>>, StageError> {
        let mut seen: HashMap<&str, ()> = HashMap::new();
        let names: Vec<&String> = paths.filter(|path| seen.insert(path, ()).is_none()).collect();
        let full: Vec<Utf8PathBuf> = names.iter().map(|path| self.audio.join(path)).collect();
        Ok(names.into_iter().cloned().zip(world.files(&full)?).collect())
    }

    fn rows(
        &self,
        records: Vec<RowRecord>,
        paths: Vec<Option<String>>,
        facts: &HashMap<String, Result<FileFact, Reject>>,
        output: &mut SourceOutput,
    ) -> Vec<FileRow> {
        let mut rows = Vec::with_capacity(records.len());
        for (record, path) in records.into_iter().zip(paths) {
            let path = path.unwrap_or_else(|| record.file.clone());
            match facts.get(&path) {
                Some(Ok(fact)) => rows.push(FileRow { record, path, fact: *fact }),
                Some(Err(reject)) => output.rejects.push((self.name(&record), reject.clone())),
                None => {}
            }
        }
        rows
    }
}

fn is_missing(fact: &Result<FileFact, Reject>) -> bool {
    matches!(fact, Err(reject) if reject.code == MISSING_FILE)
}

/// The code of a file that does not exist.
const MISSING_FILE: &str = "missing-file";
