//! Maps column names, written by people and other tools, to roles.

use std::collections::HashSet;

use super::error::CorpusError;
use super::part::PartRule;

/// The role of a column in a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnRole {
    Id,
    File,
    Text,
    Speaker,
    /// The start of the clip in its file.
    Start,
    End,
    Duration,
    /// The channel of the clip in its file, from 0.
    Channel,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    Role(ColumnRole),
    /// Kept as a field under this name.
    Field(String),
    /// Kept as a field under this name, and used for the part of the file.
    Part(ColumnRole, String),
    Skipped,
}

const ROLES: [ColumnRole; 4] =
    [ColumnRole::Id, ColumnRole::File, ColumnRole::Text, ColumnRole::Speaker];
/// The roles of clips that are parts of their files.
pub const PART_ROLES: [ColumnRole; 4] =
    [ColumnRole::Start, ColumnRole::End, ColumnRole::Duration, ColumnRole::Channel];

/// The end of a name whose times are in milliseconds.
const MILLISECONDS: [&str; 3] = ["_ms", "[ms]", "(ms)"];

/// Tests if the times of a column with this name are in milliseconds.
pub fn is_in_milliseconds(name: &str) -> bool {
    let name = name.trim().to_lowercase();
    MILLISECONDS.iter().any(|end| name.ends_with(end))
}

impl ColumnRole {
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Names of the role, the plain one first: it wins if several columns could have the role.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            ColumnRole::Id => &["id", "utt_id", "utterance_id", "clip_id", "segment_id"],
            ColumnRole::File => &[
                "file",
                "audio",
                "audio_file",
                "audio_path",
                "audio_filepath",
                "path",
                "file_name",
                "filename",
                "wav",
                "wav_path",
                "wav_file",
                "clip",
            ],
            ColumnRole::Text => &[
                "text",
                "sentence",
                "transcript",
                "transcription",
                "normalized_text",
                "normalised_text",
            ],
            ColumnRole::Speaker => &["speaker", "speaker_name", "speaker_id", "client_id", "spk"],
            ColumnRole::Start => {
                &["start", "offset", "start_time", "begin", "start_sec", "start_ms"]
            }
            ColumnRole::End => &["end", "end_time", "stop", "end_sec", "end_ms"],
            ColumnRole::Duration => &["duration", "dur", "duration_sec", "duration_ms"],
            ColumnRole::Channel => &["channel", "channel_selector", "channel_id"],
        }
    }

    /// Tests if a column may have this role by its name.
    pub fn fits(self, name: &str) -> bool {
        let name = name.trim().to_lowercase();
        self.names().contains(&name.as_str())
    }

    fn is_plain(self, name: &str) -> bool {
        name.trim().eq_ignore_ascii_case(self.name())
    }
}

/// Tests if a first row has column names rather than a clip: it names a file or id, and a text.
pub fn is_header(cells: &[&str]) -> bool {
    let has = |role: ColumnRole| cells.iter().any(|cell| role.fits(cell));
    (has(ColumnRole::File) || has(ColumnRole::Id)) && has(ColumnRole::Text)
}

/// Maps names to columns. An empty name, `-` and `_` skip a column.
///
/// A table without a file column uses its id column as the path, as LJSpeech does.
pub fn map(names: &[&str], parts: PartRule) -> Result<Vec<Column>, CorpusError> {
    let (mut columns, mut seen) = (Vec::with_capacity(names.len()), HashSet::new());
    for name in names.iter().map(|name| name.trim()) {
        let skipped = matches!(name, "" | "-" | "_");
        if !skipped && !seen.insert(name) {
            return Err(CorpusError::RepeatedColumn { name: name.to_owned() });
        }
        columns.push(if skipped { Column::Skipped } else { Column::Field(name.to_owned()) });
    }
    let part_roles = if parts == PartRule::Cut { &PART_ROLES[..] } else { &[] };
    for role in ROLES.iter().chain(part_roles) {
        let Some(index) = find(*role, names, None, COLUMNS)? else { continue };
        columns[index] = if PART_ROLES.contains(role) {
            Column::Part(*role, names[index].trim().to_owned())
        } else {
            Column::Role(*role)
        };
    }
    let has = |role| columns.contains(&Column::Role(role));
    if !has(ColumnRole::File) && !has(ColumnRole::Id) {
        return Err(CorpusError::MissingRole {
            role: ColumnRole::File.name(),
            parameter: COLUMNS,
            columns: names.join(", "),
        });
    }
    Ok(columns)
}

/// The names of columns, if none of them is the text.
pub(super) fn without_text(columns: &[Column], names: &[&str]) -> Option<String> {
    let has_text = columns.contains(&Column::Role(ColumnRole::Text));
    (!has_text).then(|| names.join(", "))
}

/// The parameter that gives the columns of a table.
pub(super) const COLUMNS: &str = "columns";

/// The column of a role: the declared one, the one with the plain name, or the only one that fits.
pub(super) fn find(
    role: ColumnRole,
    names: &[&str],
    declared: Option<&str>,
    parameter: &'static str,
) -> Result<Option<usize>, CorpusError> {
    if let Some(declared) = declared {
        let missing = || CorpusError::MissingColumn {
            name: declared.to_owned(),
            parameter,
            columns: names.join(", "),
        };
        return names.iter().position(|name| *name == declared).map(Some).ok_or_else(missing);
    }
    let candidates: Vec<usize> =
        (0..names.len()).filter(|index| role.fits(names[*index])).collect();
    if let Some(plain) = candidates.iter().find(|index| role.is_plain(names[**index])) {
        return Ok(Some(*plain));
    }
    match candidates.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(*only)),
        [first, second, ..] => Err(CorpusError::AmbiguousRole {
            role: role.name(),
            parameter,
            first: names[*first].to_owned(),
            second: names[*second].to_owned(),
        }),
    }
}
