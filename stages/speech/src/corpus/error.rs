//! Errors of a row, and errors of a whole corpus file.

use super::MAX_ROW_BYTES;
use super::path::PathProblem;

/// The reason why one row was quarantined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowProblem {
    #[error("the row has {bytes} bytes, more than {MAX_ROW_BYTES}")]
    TooLong { bytes: u64 },
    #[error("the row is not UTF-8 (byte {at} of the row); save the file as UTF-8")]
    NotUtf8 { at: u64 },
    #[error("the row has {found} columns instead of {expected}")]
    WrongWidth { expected: usize, found: usize },
    #[error("the column `{column}` is empty")]
    Empty { column: String },
    #[error("the column `{column}` contains the invalid character U+{code:04X}")]
    Forbidden { column: String, code: u32 },
    #[error("the audio path {0}")]
    Path(#[from] PathProblem),
    #[error("rows {first} and {second} have the same id `{id}`")]
    DuplicateId { id: String, first: u64, second: u64 },
    #[error("the row repeats row {first}")]
    Repeated { first: u64 },
    #[error("column {column} of the line is not JSON: {message}")]
    NotJson { column: u64, message: String },
    #[error(
        "the line ends in the middle of the JSON value (column {column}); the file was cut short"
    )]
    CutShort { column: u64 },
    #[error("the line is a JSON {found}, not an object")]
    NotAnObject { found: &'static str },
    #[error("the line has the key `{key}` twice")]
    RepeatedKey { key: String },
    #[error("it has none of the keys {expected}")]
    MissingKey { expected: String },
    #[error("the key `{key}` holds {found}, not {expected}")]
    WrongType { key: String, found: &'static str, expected: &'static str },
    #[error(
        "the audio cell has no bytes, only the path `{path}`: the table does not contain its audio"
    )]
    NoAudioBytes { path: String },
}

impl RowProblem {
    /// A stable word for counting.
    pub fn code(&self) -> &'static str {
        match self {
            RowProblem::TooLong { .. } => "row-too-long",
            RowProblem::NotUtf8 { .. } => "not-utf8",
            RowProblem::WrongWidth { .. } => "wrong-columns",
            RowProblem::Empty { .. } => "empty-column",
            RowProblem::Forbidden { .. } => "forbidden-character",
            RowProblem::Path(_) => "unsafe-path",
            RowProblem::DuplicateId { .. } => "duplicate-id",
            RowProblem::Repeated { .. } => "repeated-row",
            RowProblem::NotJson { .. } | RowProblem::NotAnObject { .. } => "not-json",
            RowProblem::CutShort { .. } => "cut-short",
            RowProblem::RepeatedKey { .. } => "repeated-key",
            RowProblem::MissingKey { .. } => "missing-key",
            RowProblem::WrongType { .. } => "wrong-type",
            RowProblem::NoAudioBytes { .. } => "no-audio",
        }
    }
}

impl CorpusError {
    pub fn help(&self) -> Option<&'static str> {
        match self {
            CorpusError::UnclearColumns => Some(
                "write `columns = [\"file\", \"text\", \"speaker\"]` in the stage, in the order of the \
                 table; for LJSpeech `[\"file\", \"raw_text\", \"text\"]`, and `-` skips a column",
            ),
            _ => None,
        }
    }
}

/// The reason why a corpus file cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CorpusError {
    #[error("the table is empty")]
    EmptyTable,
    #[error("the first row has no bar, tab or comma; set `separator`")]
    NoSeparator,
    #[error("the first row has {found} columns without a header; set `columns`")]
    UnknownColumns { found: usize },
    #[error(
        "the table has no header, so its second and third column may be a text and its speaker, \
         or a raw and a normalised text"
    )]
    UnclearColumns,
    #[error("`columns` names {found} columns, but the first row has {in_row}")]
    ColumnCount { found: usize, in_row: usize },
    #[error("no column is the {role}; set `columns`; found: {columns}")]
    MissingRole { role: &'static str, columns: String },
    #[error("there is no column `{name}`; found: {columns}")]
    MissingColumn { name: String, columns: String },
    #[error("the columns `{first}` and `{second}` both look like the {role}; set `columns`")]
    AmbiguousRole { role: &'static str, first: String, second: String },
    #[error("a column is named `{name}` twice")]
    RepeatedColumn { name: String },
    #[error(
        "a quote opened in row {row} (byte {offset}) is not closed; set `quoting = \"off\"` if \
         quotes are plain text"
    )]
    UnclosedQuote { row: u64, offset: u64 },
    #[error("the file is UTF-16; save it as UTF-8")]
    Utf16,
    #[error("the file is not Parquet: {message}")]
    NotParquet { message: String },
    #[error(
        "the column `{column}` is compressed with {codec}; only snappy and uncompressed columns \
         are supported: write the file again with snappy"
    )]
    Codec { column: String, codec: String },
    #[error("row group {group} cannot be read: {message}")]
    RowGroup { group: usize, message: String },
}
