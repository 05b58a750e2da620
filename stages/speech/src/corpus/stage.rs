//! The sources of the family `corpus`: files in, items out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use cache::Digest;
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::catalogue::corpus as kinds;
use stage_core::{
    Blob, Context, Fields, Item, Job, Parameters, Reject, Setup, SourceJob, SourceOutput, Stage,
    StageError, Value as FieldValue, World,
};

use super::folder::{self, Pair};
use super::table::{Header, Quoting, Separator};
use super::{
    CorpusError, RowRecord, RowReject, Rows, Value, corrections, found_tokens, jsonl, parquet,
    path, recordings, sentences, table, transcript,
};
use crate::plain::{stage, unknown_choice};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![
        stage(&kinds::TABLE, open_table),
        stage(&kinds::FOLDER, open_folder),
        stage(&kinds::JSONL, open_jsonl),
        stage(&kinds::PARQUET, open_parquet),
        stage(&kinds::SENTENCES, sentences::open),
        stage(&kinds::RECORDINGS, recordings::open),
        stage(&kinds::CORRECTIONS, corrections::open),
    ]
}

/// Reads rows from bytes; only the format distinguishes tables and JSON lines.
type ReadRows = Box<dyn Fn(&[u8]) -> Result<Rows, CorpusError> + Send>;

/// A file of rows that point at audio files.
struct RowFile {
    file: Utf8PathBuf,
    audio: Utf8PathBuf,
    tokens: Option<Utf8PathBuf>,
    read: ReadRows,
}

fn open_table(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let options = table::Options {
        separator: match parameters.text("separator")? {
            "auto" => Separator::Auto,
            "bar" => Separator::Bar,
            "comma" => Separator::Comma,
            "tab" => Separator::Tab,
            other => return Err(unknown_choice("separator", other)),
        },
        quoting: match parameters.text("quoting")? {
            "auto" => Quoting::Auto,
            "on" => Quoting::On,
            "off" => Quoting::Off,
            other => return Err(unknown_choice("quoting", other)),
        },
        header: match parameters.text("header")? {
            "auto" => Header::Auto,
            "yes" => Header::Yes,
            "no" => Header::No,
            other => return Err(unknown_choice("header", other)),
        },
        columns: texts(parameters, "columns")?,
    };
    row_file(parameters, "table", Box::new(move |bytes| table::read(bytes, &options)))
}

fn open_jsonl(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let options = jsonl::Options {
        file: texts(parameters, "file_keys")?,
        text: texts(parameters, "text_keys")?,
        speaker: texts(parameters, "speaker_keys")?,
        id: texts(parameters, "id_keys")?,
    };
    row_file(parameters, "file", Box::new(move |bytes| jsonl::read(bytes, &options)))
}

fn row_file(parameters: &Parameters, name: &str, read: ReadRows) -> Result<Job, StageError> {
    let file = Utf8PathBuf::from(parameters.text(name)?);
    let audio = match parameters.is_set("audio") {
        true => Utf8PathBuf::from(parameters.text("audio")?),
        false => file.parent().map(Utf8Path::to_owned).unwrap_or_default(),
    };
    let tokens = found_tokens::folder(parameters)?;
    Ok(Job::Source(Box::new(RowFile { file, audio, tokens, read })))
}

fn texts(parameters: &Parameters, name: &str) -> Result<Vec<String>, StageError> {
    Ok(parameters.texts(name)?.into_iter().map(str::to_owned).collect())
}

/// An error about a whole corpus file.
fn unreadable(file: &Utf8Path, error: &CorpusError) -> StageError {
    let message = format!("`{file}` cannot be read as a corpus: {error}");
    match error.help() {
        Some(help) => StageError::with_help(message, help),
        None => StageError::failed(message),
    }
}

/// A quarantined row, under a unique name.
fn rejected(file: &Utf8Path, reject: &RowReject) -> (String, Reject) {
    let id = reject.id.as_deref().map_or(String::new(), |id| format!(" `{id}`"));
    let reason = format!("row {}{id} (byte {}): {}", reject.row, reject.offset, reject.problem);
    (row_name(file, reject.row), Reject::new(reject.problem.code(), reason))
}

fn row_name(file: &Utf8Path, row: u64) -> String {
    format!("{}:{row}", file.file_name().unwrap_or(file.as_str()))
}

impl SourceJob for RowFile {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let bytes = world.read(&self.file)?;
        let rows = (self.read)(&bytes).map_err(|error| unreadable(&self.file, &error))?;
        let mut output = SourceOutput {
            rejects: rows.rejects.iter().map(|reject| rejected(&self.file, reject)).collect(),
            ..SourceOutput::default()
        };
        let resolved = self.resolve(rows.records, world, &mut output)?;
        let mut words = Words::default();
        let paths: Vec<Utf8PathBuf> =
            resolved.iter().map(|(_, path)| self.audio.join(path)).collect();
        for ((record, _), fact) in resolved.into_iter().zip(world.files(&paths)?) {
            match fact {
                Ok(fact) => {
                    let blob = words.recording(fact.digest, fact.size);
                    output.items.push(item(&mut words, record, blob));
                }
                Err(reject) => output.rejects.push((row_name(&self.file, record.row), reject)),
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
    /// The audio file of each row. The folder is listed only if some path has no extension.
    fn resolve(
        &self,
        records: Vec<RowRecord>,
        world: &mut dyn World,
        output: &mut SourceOutput,
    ) -> Result<Vec<(RowRecord, String)>, StageError> {
        let has_bare = records.iter().any(|record| !path::has_audio_extension(&record.file));
        // Sorted by text, which is compared ten times as fast as paths.
        let listed: HashSet<String> = match has_bare {
            true => {
                let listed = world.list(&self.audio)?.files;
                listed.into_iter().map(Utf8PathBuf::into_string).collect()
            }
            false => HashSet::new(),
        };
        let mut resolved = Vec::with_capacity(records.len());
        for record in records {
            if path::has_audio_extension(&record.file) {
                let path = record.file.clone();
                resolved.push((record, path));
                continue;
            }
            match path::resolve(&record.file, |path| listed.contains(path)) {
                Some(path) => resolved.push((record, path)),
                None => {
                    let reason = format!(
                        "row {} `{}`: `{}` has no audio file with that name in `{}`",
                        record.row, record.id, record.file, self.audio
                    );
                    let reject = Reject::new("no-audio", reason);
                    output.rejects.push((row_name(&self.file, record.row), reject));
                }
            }
        }
        Ok(resolved)
    }
}

/// Strings that items share, each kept once.
#[derive(Default)]
struct Words(Vec<Arc<str>>);

impl Words {
    fn get(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.0.iter().find(|known| ***known == *word) {
            return known.clone();
        }
        let new: Arc<str> = word.into();
        // A file with a new name in every row must not make the search long.
        if self.0.len() < 64 {
            self.0.push(new.clone());
        }
        new
    }

    /// The bytes of a recording. They alone determine its format: a wrong name must not change the
    /// result.
    fn recording(&mut self, digest: Digest, size: u64) -> Blob {
        Blob { digest, size, kind: self.get(kinds::RECORDING) }
    }
}

fn item(words: &mut Words, record: RowRecord, audio: Blob) -> Item {
    let mut fields = Fields::new();
    for (name, value) in record.fields {
        let value = match value {
            Value::Text(text) => FieldValue::text(text),
            Value::Number(number) => FieldValue::Number(number),
        };
        fields.set(words.get(&name), value);
    }
    // Last, so that a column of the same name cannot replace them.
    for (name, text) in [("text", record.text), ("speaker", record.speaker)] {
        if let Some(text) = text {
            fields.set(words.get(name), FieldValue::text(text));
        }
    }
    fields.set(words.get("audio"), FieldValue::Blob(Arc::new(audio)));
    Item::new(record.id, fields)
}

struct Folder {
    folder: Utf8PathBuf,
    tokens: Option<Utf8PathBuf>,
}

fn open_folder(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Source(Box::new(Folder {
        folder: setup.parameters.text("folder")?.into(),
        tokens: found_tokens::folder(&setup.parameters)?,
    })))
}

impl SourceJob for Folder {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let listed = world.list(&self.folder)?;
        let listing = folder::pair(listed.files.iter().map(|path| path.as_str()));
        let mut output = SourceOutput::default();
        let clips = listed.rejects.into_iter().filter(|(name, _)| folder::may_be_of_a_clip(name));
        output.rejects.extend(clips);
        for (name, problem) in listing.problems {
            output.rejects.push((name, Reject::new(problem.code(), problem.to_string())));
        }
        let paths: Vec<Utf8PathBuf> =
            listing.pairs.iter().map(|pair| self.folder.join(&pair.audio)).collect();
        let facts = world.files(&paths)?;
        let mut words = Words::default();
        for (pair, fact) in listing.pairs.into_iter().zip(facts) {
            let bytes = world.read_one(&self.folder.join(&pair.transcript))?;
            let made = fact.and_then(|fact| {
                let text = transcript::read(&bytes?).map_err(|problem| {
                    Reject::new(problem.code(), format!("`{}`: {problem}", pair.transcript))
                })?;
                let audio = words.recording(fact.digest, fact.size);
                Ok(pair_item(&mut words, &pair, text, audio))
            });
            match made {
                Ok(item) => output.items.push(item),
                Err(reject) => output.rejects.push((pair.id, reject)),
            }
        }
        found_tokens::add(self.tokens.as_deref(), &mut output, world)?;
        if listing.other_files > 0 {
            output.notes.push(("other files".to_owned(), listing.other_files as u64));
        }
        Ok(output)
    }
}

fn pair_item(words: &mut Words, pair: &Pair, text: String, audio: Blob) -> Item {
    let record = RowRecord {
        id: pair.id.clone(),
        file: pair.audio.clone(),
        text: Some(text),
        speaker: pair.speaker.clone(),
        fields: BTreeMap::new(),
        row: 0,
        offset: 0,
    };
    item(words, record, audio)
}

struct ParquetFiles {
    path: Utf8PathBuf,
    options: parquet::Options,
}

fn open_parquet(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let column = |name: &str| -> Result<Option<String>, StageError> {
        parameters.is_set(name).then(|| parameters.text(name).map(str::to_owned)).transpose()
    };
    Ok(Job::Source(Box::new(ParquetFiles {
        path: parameters.text("path")?.into(),
        options: parquet::Options {
            audio: column("audio_column")?,
            text: column("text_column")?,
            speaker: column("speaker_column")?,
            id: column("id_column")?,
        },
    })))
}

/// An error that ends the reading of a Parquet file: of the file, or of the store that keeps its
/// clips.
enum Stopped {
    File(CorpusError),
    Store(StageError),
}

impl From<CorpusError> for Stopped {
    fn from(error: CorpusError) -> Stopped {
        Stopped::File(error)
    }
}

impl ParquetFiles {
    fn files(
        &self,
        world: &mut dyn World,
        output: &mut SourceOutput,
    ) -> Result<Vec<Utf8PathBuf>, StageError> {
        let is_parquet = |path: &Utf8Path| path.extension() == Some("parquet");
        if is_parquet(&self.path) && world.exists(&self.path) {
            return Ok(vec![self.path.clone()]);
        }
        let listed = world.list(&self.path)?;
        let files: Vec<Utf8PathBuf> = listed
            .files
            .iter()
            .filter(|path| is_parquet(path))
            .map(|path| self.path.join(path))
            .collect();
        let may_be_one = |name: &str| is_parquet(name.into()) || !name.contains('.');
        output.rejects.extend(listed.rejects.into_iter().filter(|(name, _)| may_be_one(name)));
        match files.is_empty() {
            true => {
                Err(StageError::failed(format!("there is no `.parquet` file in `{}`", self.path)))
            }
            false => Ok(files),
        }
    }
}

impl SourceJob for ParquetFiles {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let mut output = SourceOutput::default();
        let mut found: Vec<(String, Item)> = Vec::new();
        let mut words = Words::default();
        let files = self.files(world, &mut output)?;
        let only_one = files.len() == 1;
        for file in files {
            let pages = match world.open_one(&file)? {
                Ok(parts) => parquet::Pages(parts),
                Err(reject) if only_one => return Err(StageError::failed(reject.reason)),
                Err(reject) => {
                    output.rejects.push((file.file_name().unwrap_or_default().into(), reject));
                    continue;
                }
            };
            let mut kept: HashMap<u64, Blob> = HashMap::new();
            let rows = parquet::read(pages, &self.options, |row, audio| -> Result<(), Stopped> {
                let blob = world.keep(kinds::RECORDING, audio).map_err(Stopped::Store)?;
                kept.insert(row, blob);
                Ok(())
            })
            .map_err(|stopped| match stopped {
                Stopped::File(error) => unreadable(&file, &error),
                Stopped::Store(error) => error,
            })?;
            output.rejects.extend(rows.rejects.iter().map(|reject| rejected(&file, reject)));
            for record in rows.records {
                if let Some(blob) = kept.remove(&record.row) {
                    let name = row_name(&file, record.row);
                    found.push((name, item(&mut words, record, blob)));
                }
            }
        }
        unique_over_files(found, &mut output);
        Ok(output)
    }
}

/// Ids are unique within a file; an id in several files is quarantined in all of them.
fn unique_over_files(found: Vec<(String, Item)>, output: &mut SourceOutput) {
    let mut names: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
    for (name, item) in &found {
        names.entry(item.id.clone()).or_default().push(name.clone());
    }
    for (name, item) in found {
        let places = names.get(&item.id).map(Vec::as_slice).unwrap_or_default();
        if places.len() < 2 {
            output.items.push(item);
            continue;
        }
        let reason = format!("the id `{}` occurs in {}", item.id, places.join(" and "));
        output.rejects.push((name, Reject::new("duplicate-id", reason)));
    }
}
