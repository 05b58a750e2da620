//! Errors of a row, and errors of a whole corpus file.

use super::MAX_ROW_BYTES;
use super::path::PathProblem;

/// The advice for times and channels that do not mean parts.
const NOT_PARTS: &str = "set `parts = \"off\"` if the files are cut already";

/// The advice for a list of files, and for lines such as those of Kaldi.
const NO_SEPARATOR: &str = "a row needs a file and its text, such as `a.wav|Hello.`; for lines with \
                            a name, a space and the text: `sed 's/[[:space:]][[:space:]]*/|/' OLD \
                            > NEW`";

/// The reason why one row was quarantined.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RowProblem {
    #[error("the row has {bytes} bytes, more than {MAX_ROW_BYTES}")]
    TooLong { bytes: u64 },
    #[error("the row is not UTF-8 (byte {at} of the row); save the file as UTF-8")]
    NotUtf8 { at: u64 },
    #[error(
        "the row has {found} {} instead of {expected}, separated by {separator}",
        if *.found == 1 { "column" } else { "columns" }
    )]
    WrongWidth { expected: usize, found: usize, separator: &'static str },
    #[error("the column `{column}` is empty")]
    Empty { column: String },
    #[error("the column `{column}` contains the invalid character U+{code:04X}")]
    Forbidden { column: String, code: u32 },
    #[error("the audio path {0}")]
    Path(#[from] PathProblem),
    #[error("the column `{column}` has `{found}`, which is not a time in seconds; {NOT_PARTS}")]
    NotTime { column: String, found: String },
    #[error("it has a start but neither an end nor a duration; add one, or {NOT_PARTS}")]
    NoEnd,
    #[error("its part of the file is empty: from {start:.3} s to {end:.3} s")]
    NoLength { start: f64, end: f64 },
    #[error("its part ends at {end:.3} s, but the recording has {seconds:.3} s; {NOT_PARTS}")]
    BeyondEnd { end: f64, seconds: f64 },
    #[error("its part is longer than {most} s; `corpus.recordings` reads long recordings")]
    LongPart { most: u64 },
    #[error(
        "channel {channel} (counted from 0) does not exist: the recording has {found}; {NOT_PARTS}"
    )]
    NoChannel { channel: u16, found: u16 },
    #[error("the key `{key}` names several channels; a clip has one")]
    SeveralChannels { key: &'static str },
    #[error(
        "rows {first} and {second} are both the whole recording `{file}`, but with different texts \
         or speakers; give each its part as `start` and `end` or as `channel`, or set \
         `parts = \"off\"`"
    )]
    SharedRecording { file: String, first: u64, second: u64 },
    #[error("a cut of the type `{found}` has several recordings; write it as one recording first")]
    MixedCut { found: String },
    #[error("the recording has the transform `{name}`, which is not applied")]
    Transform { name: String },
    #[error("the source of the recording has the type `{found}`; only files are read")]
    SourceType { found: String },
    #[error(
        "the supervision is from {start:.3} s to {end:.3} s of a cut of {seconds:.3} s, so its text is not \
         only that of the cut"
    )]
    OutsideCut { start: f64, end: f64, seconds: f64 },
    #[error("the line is a supervision without its recording; read a file of cuts")]
    SupervisionAlone,
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
            RowProblem::NotTime { .. }
            | RowProblem::NoEnd
            | RowProblem::NoLength { .. }
            | RowProblem::BeyondEnd { .. }
            | RowProblem::LongPart { .. } => "wrong-part",
            RowProblem::NoChannel { .. } | RowProblem::SeveralChannels { .. } => "wrong-channel",
            RowProblem::SharedRecording { .. } => "shared-recording",
            RowProblem::MixedCut { .. }
            | RowProblem::Transform { .. }
            | RowProblem::SourceType { .. }
            | RowProblem::OutsideCut { .. }
            | RowProblem::SupervisionAlone => "unsupported-cut",
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

/// The reason why a corpus file cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CorpusError {
    #[error("the table is empty")]
    EmptyTable,
    #[error("the first row has one column: it has no bar, tab, comma or semicolon")]
    NoSeparator,
    #[error("the first row has one column, since it has no {separator}")]
    OneColumn { separator: &'static str },
    #[error("the first row has {found} columns, separated by {separator}, and no header")]
    UnknownColumns {
        found: usize,
        proposal: String,
        separator: &'static str,
        /// The smallest and the largest number of columns of the first rows.
        widths: (usize, usize),
    },
    #[error(
        "the table has no header, so its second and third column may be a text and its speaker, \
         or a raw and a normalised text"
    )]
    UnclearColumns { proposal: String },
    #[error(
        "`columns` names {found} columns, but the first row has {in_row}, separated by {separator}"
    )]
    ColumnCount { found: usize, in_row: usize, separator: &'static str },
    #[error("no column is the {role}; set `{parameter}`; found: {columns}")]
    MissingRole { role: &'static str, parameter: &'static str, columns: String },
    #[error("`{parameter}`: there is no column `{name}`; found: {columns}")]
    MissingColumn { name: String, parameter: &'static str, columns: String },
    #[error(
        "`audio_column`: the column `{name}` has no audio, which is a struct of `bytes` and `path`"
    )]
    NotAudio { name: String, columns: String },
    #[error("the columns `{first}` and `{second}` both look like the {role}; set `{parameter}`")]
    AmbiguousRole { role: &'static str, parameter: &'static str, first: String, second: String },
    #[error("a column is named `{name}` twice")]
    RepeatedColumn { name: String },
    #[error(
        "a quote opened in row {row} (byte {offset}) is not closed; set `quoting = \"off\"` if \
         quotes are plain text"
    )]
    UnclosedQuote { row: u64, offset: u64 },
    #[error("the file is UTF-16; save it as UTF-8")]
    Utf16,
    #[error("the lines of the file end with carriage returns (CR), not with line feeds")]
    CarriageReturns,
    #[error("the file has JSON lines, not the rows of a table")]
    JsonLines,
    #[error("the file is not JSON lines: its first line is `{line}`")]
    NotJsonLines { line: String },
    #[error("the file is one JSON list, not one object a line")]
    JsonList,
    #[error("the file is {what}, not text")]
    Binary { what: &'static str, help: &'static str },
    #[error("the file cannot be unpacked: {message}")]
    Packed { message: String },
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

impl CorpusError {
    pub fn help(&self) -> Option<String> {
        Some(match self {
            CorpusError::NoSeparator => NO_SEPARATOR.to_owned(),
            CorpusError::OneColumn { .. } => {
                "name the separator of the table, or remove `separator` from the stage; the first row may \
                 also be a comment, which a table cannot have"
                    .to_owned()
            }
            CorpusError::ColumnCount { .. } => {
                "name each column once, `-` for one to skip; if the table has another separator, set \
                 `separator`"
                    .to_owned()
            }
            CorpusError::UnknownColumns { separator, widths: (least, most), .. }
                if least != most =>
            {
                format!(
                    "the rows have {least} to {most} columns, so a text seems to have {separator} in it: \
                     separate the columns by bars, as in `file|text`, or write such texts in double \
                     quotes"
                )
            }
            CorpusError::UnknownColumns { proposal, .. }
            | CorpusError::UnclearColumns { proposal } => format!(
                "write `columns = {proposal}` in the stage, if these are the columns in the order \
                 of the table; for LJSpeech `[\"file\", \"raw_text\", \"text\"]`, and `-` skips a column"
            ),
            CorpusError::JsonLines => "use `corpus.jsonl` with `file`".to_owned(),
            CorpusError::NotJsonLines { .. } => {
                "for a table use `corpus.table` with `table`".to_owned()
            }
            CorpusError::JsonList => {
                "write one object a line: `jq -c '.[]' LIST.json > LINES.jsonl`".to_owned()
            }
            CorpusError::CarriageReturns => "convert them: `tr '\\r' '\\n' < OLD > NEW`".to_owned(),
            CorpusError::Binary { help, .. } => (*help).to_owned(),
            _ => return None,
        })
    }
}
