//! The sources of the family `corpus`: files in, items out.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::corpus::kinds;
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{
    Blob, Context, Item, Job, Parameters, Reject, Setup, SourceJob, SourceOutput, Stage,
    StageError, World,
};

use super::folder::{self, ClipPair, SpeakerFolder};
use super::items::{SharedStrings, item, no_text, rejected, row_name, unreadable};
use super::part::PartRule;
use super::row_file::RowFile;
use super::table::{HeaderRow, Quoting, Separator};
use super::{
    CorpusError, RowRecord, corrections, found_tokens, jsonl, parquet, recordings, sentences,
    table, transcript,
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

fn open_table(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let options = table::TableOptions {
        separator: match parameters.text("separator")? {
            "auto" => Separator::Auto,
            "bar" => Separator::Bar,
            "comma" => Separator::Comma,
            "tab" => Separator::Tab,
            "semicolon" => Separator::Semicolon,
            other => return Err(unknown_choice("separator", other)),
        },
        quoting: match parameters.text("quoting")? {
            "auto" => Quoting::Auto,
            "on" => Quoting::On,
            "off" => Quoting::Off,
            other => return Err(unknown_choice("quoting", other)),
        },
        header: match parameters.text("header")? {
            "auto" => HeaderRow::Auto,
            "yes" => HeaderRow::Yes,
            "no" => HeaderRow::No,
            other => return Err(unknown_choice("header", other)),
        },
        columns: texts(parameters, "columns")?,
        parts: part_rule(parameters)?,
        folder: audio_folder(parameters)?,
    };
    let read = Box::new(move |bytes: &[u8]| table::read(bytes, &options));
    RowFile::open(&setup, "table", read)
}

fn open_jsonl(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let options = jsonl::JsonlOptions {
        file: texts(parameters, "file_keys")?,
        text: texts(parameters, "text_keys")?,
        speaker: texts(parameters, "speaker_keys")?,
        id: texts(parameters, "id_keys")?,
        parts: part_rule(parameters)?,
        folder: audio_folder(parameters)?,
    };
    RowFile::open(&setup, "file", Box::new(move |bytes: &[u8]| jsonl::read(bytes, &options)))
}

fn part_rule(parameters: &Parameters) -> Result<PartRule, StageError> {
    match parameters.text("parts")? {
        "cut" => Ok(PartRule::Cut),
        "off" => Ok(PartRule::Off),
        other => Err(unknown_choice("parts", other)),
    }
}

/// The folder that absolute paths may begin with.
fn audio_folder(parameters: &Parameters) -> Result<Option<Arc<str>>, StageError> {
    let folder = parameters.if_set("audio", Parameters::text)?;
    Ok(folder.filter(|folder| folder.starts_with('/')).map(Arc::from))
}

fn texts(parameters: &Parameters, name: &str) -> Result<Vec<String>, StageError> {
    Ok(parameters.texts(name)?.into_iter().map(str::to_owned).collect())
}

struct Folder {
    folder: Utf8PathBuf,
    /// The ending of transcripts, if it is not one of the usual ones.
    transcript: Option<String>,
    speaker: SpeakerFolder,
    tokens: Option<Utf8PathBuf>,
}

fn open_folder(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let speaker = setup.parameters.text("speaker")?;
    Ok(Job::Source(Box::new(Folder {
        folder: setup.parameters.text("folder")?.into(),
        transcript: setup.parameters.if_set("transcript", Parameters::text)?.map(str::to_owned),
        speaker: SpeakerFolder::named(speaker).ok_or_else(|| unknown_choice("speaker", speaker))?,
        tokens: found_tokens::folder(&setup.parameters)?,
    })))
}

impl SourceJob for Folder {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let listed = world.list(&self.folder)?;
        let paths = listed.files.iter().map(|path| path.as_str());
        let listing = folder::pair(paths, self.transcript.as_deref());
        if let Some(without) = &listing.without_pairs {
            return Err(without.error(self.folder.as_str()));
        }
        let ids = listing.pairs.iter().map(|pair| pair.id.as_str());
        self.speaker.check(ids).map_err(|unclear| unclear.error(self.folder.as_str()))?;
        let mut output = SourceOutput::default();
        let clips = listed.rejects.into_iter().filter(|(name, _)| folder::may_be_of_a_clip(name));
        output.rejects.extend(clips);
        for (name, problem) in listing.problems {
            output.rejects.push((name, Reject::new(problem.code(), problem.to_string())));
        }
        let paths: Vec<Utf8PathBuf> =
            listing.pairs.iter().map(|pair| self.folder.join(&pair.audio)).collect();
        let facts = world.files(&paths)?;
        let mut words = SharedStrings::default();
        for (pair, fact) in listing.pairs.into_iter().zip(facts) {
            let bytes = world.read_one(&self.folder.join(&pair.transcript))?;
            let made = fact.and_then(|fact| {
                let text = transcript::read(&bytes?).map_err(|problem| {
                    Reject::new(problem.code(), format!("`{}`: {problem}", pair.transcript))
                })?;
                let audio = words.recording(fact.digest, fact.size);
                let speaker = self.speaker.of(&pair.id).map(str::to_owned);
                Ok(pair_item(&mut words, &pair, text, speaker, audio))
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

fn pair_item(
    words: &mut SharedStrings,
    pair: &ClipPair,
    text: String,
    speaker: Option<String>,
    audio: Blob,
) -> Item {
    let record = RowRecord {
        id: pair.id.clone(),
        file: pair.audio.clone(),
        text: Some(text),
        speaker,
        ..RowRecord::default()
    };
    item(words, record, audio.into())
}

struct ParquetFiles {
    path: Utf8PathBuf,
    options: parquet::ParquetOptions,
}

fn open_parquet(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let column = |name: &str| -> Result<Option<String>, StageError> {
        parameters.is_set(name).then(|| parameters.text(name).map(str::to_owned)).transpose()
    };
    Ok(Job::Source(Box::new(ParquetFiles {
        path: parameters.text("path")?.into(),
        options: parquet::ParquetOptions {
            audio: column("audio_column")?,
            text: column("text_column")?,
            speaker: column("speaker_column")?,
            id: column("id_column")?,
            name: String::new(),
        },
    })))
}

/// An error that ends the reading of a Parquet file: of the file, or of the store that keeps its
/// clips.
enum ParquetError {
    File(CorpusError),
    Store(StageError),
}

impl From<CorpusError> for ParquetError {
    fn from(error: CorpusError) -> ParquetError {
        ParquetError::File(error)
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
        if files.is_empty() {
            Err(StageError::failed(format!("there is no `.parquet` file in `{}`", self.path)))
        } else {
            Ok(files)
        }
    }
}

impl SourceJob for ParquetFiles {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let mut output = SourceOutput::default();
        let mut found: Vec<(String, Item)> = Vec::new();
        let mut words = SharedStrings::default();
        let files = self.files(world, &mut output)?;
        let only_one = files.len() == 1;
        let mut numbered = 0;
        let mut without_text: BTreeMap<String, u64> = BTreeMap::new();
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
            let name = file.strip_prefix(&self.path).unwrap_or(&file);
            let name = if name.as_str().is_empty() {
                file.file_stem().unwrap_or_default().to_owned()
            } else {
                name.with_extension("").into_string()
            };
            let options = parquet::ParquetOptions { name, ..self.options.clone() };
            let found_here =
                parquet::read(pages, &options, |row, audio| -> Result<(), ParquetError> {
                    let blob = world.keep(Blob::RECORDING, audio).map_err(ParquetError::Store)?;
                    kept.insert(row, blob);
                    Ok(())
                })
                .map_err(|stopped| match stopped {
                    ParquetError::File(error) => unreadable(&file, &error),
                    ParquetError::Store(error) => error,
                })?;
            let parquet::Clips { rows, numbered: without_path } = found_here;
            numbered += without_path;
            if let Some(columns) = &rows.columns_without_text {
                *without_text.entry(no_text("text_column", columns)).or_default() +=
                    rows.records.len() as u64;
            }
            output.rejects.extend(rows.rejects.iter().map(|reject| rejected(&file, reject)));
            for record in rows.records {
                if let Some(blob) = kept.remove(&record.row) {
                    let name = row_name(&file, record.row, 0);
                    found.push((name, item(&mut words, record, blob.into())));
                }
            }
        }
        unique_over_files(found, &mut output);
        output.notes.extend(without_text);
        if numbered > 0 {
            let note = "clips without a path, numbered (`id_column` names them)";
            output.notes.push((note.to_owned(), numbered));
        }
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
