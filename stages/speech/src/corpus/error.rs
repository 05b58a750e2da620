//! Errors of a row, and errors of a whole corpus file.

use super::MAX_ROW_BYTES;
use super::path::PathProblem;

/// The reason why one row was quarantined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowProblem {
    #[error("the row has {bytes} bytes, more than the {MAX_ROW_BYTES} that a row may have")]
    TooLong { bytes: u64 },
    #[error("the row is not UTF-8 (byte {at} of the row); save the file as UTF-8")]
    NotUtf8 { at: u64 },
    #[error("the row has {found} columns instead of {expected}")]
    WrongWidth { expected: usize, found: usize },
    #[error("the column `{column}` is empty")]
    Empty { column: String },
    #[error("the column `{column}` holds the character U+{code:04X}, which is not allowed there")]
    Forbidden { column: String, code: u32 },
    #[error("the audio path {0}")]
    Path(#[from] PathProblem),
    #[error("the id `{id}` stands in row {first} as well as in row {second}")]
    DuplicateId { id: String, first: u64, second: u64 },
    #[error("the same row stands at row {first} already")]
    Repeated { first: u64 },
    #[error("column {column} of the line is not JSON: {message}")]
    NotJson { column: u64, message: String },
    #[error(
        "the line ends in the middle of the JSON value (column {column}); the file was cut short"
    )]
    CutShort { column: u64 },
    #[error("the line is a JSON {found}, not an object")]
    NotAnObject { found: &'static str },
    #[error("no key of {expected} is there")]
    MissingKey { expected: String },
    #[error("the key `{key}` holds {found}, not {expected}")]
    WrongType { key: String, found: &'static str, expected: &'static str },
    #[error("the audio cell holds no bytes (path `{path}`): the file only points at its audio")]
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
    #[error("the first row holds neither a bar, a tab nor a comma; say `separator`")]
    NoSeparator,
    #[error("the first row has {found} columns and no header that names them; say `columns`")]
    UnknownColumns { found: usize },
    #[error(
        "the table has no header, and it is unclear if its second and third column are a text and \
         its speaker, or a raw and a normalised text"
    )]
    UnclearColumns,
    #[error("{found} columns are named in `columns`, and the first row has {in_row}")]
    ColumnCount { found: usize, in_row: usize },
    #[error("no column is the {role}; the columns are {columns}; say `columns`")]
    MissingRole { role: &'static str, columns: String },
    #[error("there is no column `{name}`; the columns are {columns}")]
    MissingColumn { name: String, columns: String },
    #[error("the columns `{first}` and `{second}` both look like the {role}; say `columns`")]
    AmbiguousRole { role: &'static str, first: String, second: String },
    #[error("a column is named `{name}` twice")]
    RepeatedColumn { name: String },
    #[error(
        "a quote opened in row {row} (byte {offset}) is not closed; say `quoting = \"off\"` if quotes are plain text"
    )]
    UnclosedQuote { row: u64, offset: u64 },
    #[error("the file is UTF-16; save it as UTF-8")]
    Utf16,
    #[error("the file is not Parquet: {message}")]
    NotParquet { message: String },
    #[error(
        "the column `{column}` is compressed with {codec}; only snappy and uncompressed columns are read: write the file again with snappy"
    )]
    Codec { column: String, codec: String },
    #[error("row group {group} cannot be read: {message}")]
    RowGroup { group: usize, message: String },
}
