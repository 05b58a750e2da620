//! `corpus.parquet`: the Parquet files of Hugging Face data sets, with the audio inside.
//!
//! An audio column is a struct of `bytes` and `path`. Rows are read a few at a time, and the bytes
//! of each clip are passed on immediately, so that only the pages of one part of the file are in
//! memory.

mod pages;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::record::reader::TreeBuilder;
use parquet::record::{Field, Row};

use super::columns::{self, Column, ColumnRole};
use super::parts::RowParts;
use super::{CorpusError, RowProblem, RowRecord, Rows, Value, path};

pub use pages::Pages;

/// The columns to read; None selects the most likely one.
#[derive(Debug, Clone, Default)]
pub struct ParquetOptions {
    pub audio: Option<String>,
    pub text: Option<String>,
    pub speaker: Option<String>,
    pub id: Option<String>,
    /// The beginning of the ids of clips without a name, which are numbered.
    pub name: String,
}

/// The usable rows of a file.
#[derive(Debug, Default)]
pub struct Clips {
    pub rows: Rows,
    /// The number of clips whose id is their number.
    pub numbered: u64,
}

/// The number of rows that are decoded at once.
const BATCH_ROWS: usize = 16;

/// Reads a file. The bytes of each usable row's audio go to `keep`, with the number of the row; the
/// offset of a row is the number of its row group, from 0.
pub fn read<R: ChunkReader + 'static, E: From<CorpusError>>(
    file: R,
    options: &ParquetOptions,
    mut keep: impl FnMut(u64, Bytes) -> Result<(), E>,
) -> Result<Clips, E> {
    let reader = guarded(|| SerializedFileReader::new(file))
        .map_err(|message| CorpusError::NotParquet { message })?;
    check_codecs(&reader)?;
    let layout = ParquetLayout::of(&reader, options)?;
    let columns_without_text = layout.without_text.clone();
    let mut rows = Rows { columns_without_text, ..Rows::default() };
    let mut labels = Labels::default();
    let mut number = 0;
    for group in 0..reader.metadata().num_row_groups() {
        let failed = |message| CorpusError::RowGroup { group, message };
        let mut iterator = guarded(|| {
            let group_reader = reader.get_row_group(group)?;
            let schema = reader.metadata().file_metadata().schema_descr_ptr();
            TreeBuilder::new().with_batch_size(BATCH_ROWS).as_iter(schema, &*group_reader)
        })
        .map_err(failed)?;
        while let Some(row) = guarded(|| iterator.next().transpose()).map_err(failed)? {
            number += 1;
            match layout.record(row, number, group as u64) {
                Ok((record, audio)) => {
                    labels.take(&record);
                    keep(number, audio)?;
                    rows.push(number, group as u64, Ok(record));
                }
                Err(problem) => rows.push(number, group as u64, Err(problem)),
            }
        }
    }
    let numbered = labels.number(&mut rows, &options.name);
    rows.reject_duplicates();
    Ok(Clips { rows, numbered })
}

/// Tells if the paths in the audio column name the clips.
#[derive(Default)]
struct Labels {
    first: Option<String>,
    clips: u64,
    /// The clips whose path is that of the first one.
    same: u64,
}

impl Labels {
    fn take(&mut self, record: &RowRecord) {
        let first = self.first.get_or_insert_with(|| record.file.clone());
        self.clips += 1;
        self.same += u64::from(*first == record.file);
    }

    /// Gives clips without a path their number in the file as id. A path that all clips have is none.
    fn number(&self, rows: &mut Rows, name: &str) -> u64 {
        let is_common = self.clips > 1 && self.same == self.clips;
        let mut numbered = 0;
        for record in rows.records.iter_mut().filter(|record| !record.has_id) {
            if is_common || record.file.is_empty() {
                record.id = format!("{name}-{:06}", record.row);
                numbered += 1;
            }
        }
        numbered
    }
}

/// Runs a part of the Parquet reader, which may panic on hostile files.
fn guarded<T>(
    part: impl FnOnce() -> Result<T, parquet::errors::ParquetError>,
) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(part)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("its structure is damaged".to_owned()),
    }
}

fn check_codecs<R: ChunkReader + 'static>(
    reader: &SerializedFileReader<R>,
) -> Result<(), CorpusError> {
    let columns = reader.metadata().row_groups().iter().flat_map(|group| group.columns());
    for column in columns {
        match column.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY => {}
            other => {
                return Err(CorpusError::Codec {
                    column: column.column_path().string(),
                    codec: format!("{other:?}"),
                });
            }
        }
    }
    Ok(())
}

/// The type of each top-level column.
struct ParquetLayout {
    audio: usize,
    columns: Vec<Column>,
    /// The names of the columns, if none of them is the text.
    without_text: Option<String>,
}

impl ParquetLayout {
    fn of<R: ChunkReader + 'static>(
        reader: &SerializedFileReader<R>,
        options: &ParquetOptions,
    ) -> Result<ParquetLayout, CorpusError> {
        let schema = reader.metadata().file_metadata().schema();
        let fields = schema.get_fields();
        let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
        let is_audio = |index: &usize| {
            let field = &fields[*index];
            field.is_group() && field.get_fields().iter().any(|child| child.name() == "bytes")
        };
        let audios: Vec<usize> = (0..names.len()).filter(is_audio).collect();
        let audio = match (&options.audio, audios.as_slice()) {
            (Some(name), audios) => {
                let named = audios.iter().copied().find(|index| names[*index] == name);
                named.ok_or_else(|| no_audio(name, &names))?
            }
            (None, [only]) => *only,
            (None, []) => {
                return Err(CorpusError::MissingRole {
                    role: "audio",
                    parameter: AUDIO_COLUMN,
                    columns: names.join(", "),
                });
            }
            (None, [first, second, ..]) => {
                return Err(CorpusError::AmbiguousRole {
                    role: "audio",
                    parameter: AUDIO_COLUMN,
                    first: names[*first].to_owned(),
                    second: names[*second].to_owned(),
                });
            }
        };
        let mut columns: Vec<Column> = fields
            .iter()
            .map(|field| {
                if field.is_primitive() {
                    Column::Field(field.name().to_owned())
                } else {
                    Column::Skipped
                }
            })
            .collect();
        let declared = [
            (ColumnRole::Text, &options.text, "text_column"),
            (ColumnRole::Speaker, &options.speaker, "speaker_column"),
            (ColumnRole::Id, &options.id, "id_column"),
        ];
        for (role, name, parameter) in declared {
            if let Some(index) = columns::find(role, &names, name.as_deref(), parameter)? {
                columns[index] = Column::Role(role);
            }
        }
        let without_text = columns::without_text(&columns, &names);
        Ok(ParquetLayout { audio, columns, without_text })
    }

    fn record(&self, row: Row, number: u64, group: u64) -> Result<(RowRecord, Bytes), RowProblem> {
        let mut parts = RowParts::default();
        let mut audio = None;
        for (index, (_, field)) in row.into_columns().into_iter().enumerate() {
            if index == self.audio {
                audio = Some(audio_of(field)?);
            } else if let Some(column) = self.columns.get(index) {
                take(&mut parts, column, field)?;
            }
        }
        let (bytes, label) = audio.unwrap_or_default();
        if bytes.is_empty() {
            return Err(RowProblem::NoAudioBytes { path: label.unwrap_or_default() });
        }
        // A clip without a name is numbered when all rows are known.
        let label = label.map(|label| file_label(&label)).transpose()?;
        parts.file = Some(label.or_else(|| parts.id.clone()).unwrap_or_default());
        Ok((parts.into_record(number, group)?, bytes))
    }
}

const AUDIO_COLUMN: &str = "audio_column";

fn no_audio(name: &str, names: &[&str]) -> CorpusError {
    let (name, columns) = (name.to_owned(), names.join(", "));
    if names.contains(&name.as_str()) {
        CorpusError::NotAudio { name, columns }
    } else {
        CorpusError::MissingColumn { name, parameter: AUDIO_COLUMN, columns }
    }
}

fn audio_of(field: Field) -> Result<(Bytes, Option<String>), RowProblem> {
    let Field::Group(group) = field else { return Ok(Default::default()) };
    let mut found = (Bytes::new(), None);
    for (name, value) in group.into_columns() {
        match (name.as_str(), value) {
            ("bytes", Field::Bytes(bytes)) => found.0 = Bytes::copy_from_slice(bytes.data()),
            ("path", Field::Str(path)) => found.1 = Some(path).filter(|path| !path.is_empty()),
            _ => {}
        }
    }
    Ok(found)
}

/// The path inside the struct names the clip and is never opened: the last part of an absolute one
/// is enough.
fn file_label(label: &str) -> Result<String, RowProblem> {
    let last = label.rsplit(['/', '\\']).next().unwrap_or(label);
    Ok(path::relative(label).or_else(|_| path::relative(last))?)
}

fn take(parts: &mut RowParts, column: &Column, field: Field) -> Result<(), RowProblem> {
    let number = match field {
        Field::Null => return Ok(()),
        Field::Str(text) => return parts.take(text.trim(), column),
        Field::Bool(flag) => f64::from(u8::from(flag)),
        Field::Byte(number) => f64::from(number),
        Field::Short(number) => f64::from(number),
        Field::Int(number) => f64::from(number),
        Field::Long(number) => number as f64,
        Field::UByte(number) => f64::from(number),
        Field::UShort(number) => f64::from(number),
        Field::UInt(number) => f64::from(number),
        Field::ULong(number) => number as f64,
        Field::Float(number) => f64::from(number),
        Field::Double(number) => number,
        _ => return Ok(()),
    };
    match column {
        // The audio in the file is the clip.
        Column::Field(name) | Column::Part(_, name) => {
            parts.fields.insert(name.clone(), Value::Number(number));
            Ok(())
        }
        // Speakers and ids are often plain numbers.
        Column::Role(_) => parts.take(&number.to_string(), column),
        Column::Skipped => Ok(()),
    }
}

#[cfg(test)]
mod tests;
