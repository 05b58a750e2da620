//! Maps column names, written by people and other tools, to roles.

use super::error::CorpusError;

/// The role of a column in a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Id,
    File,
    Text,
    Speaker,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    Role(Role),
    /// Kept as a field under this name.
    Field(String),
    Skipped,
}

const ROLES: [Role; 4] = [Role::Id, Role::File, Role::Text, Role::Speaker];

impl Role {
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Names of the role, the plain one first: it wins if several columns could have the role.
    fn names(self) -> &'static [&'static str] {
        match self {
            Role::Id => &["id", "utt_id", "utterance_id", "clip_id", "segment_id"],
            Role::File => &[
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
            Role::Text => &[
                "text",
                "sentence",
                "transcript",
                "transcription",
                "normalized_text",
                "normalised_text",
            ],
            Role::Speaker => &["speaker", "speaker_name", "speaker_id", "client_id", "spk"],
        }
    }

    fn of(name: &str) -> Option<Role> {
        let name = name.trim().to_lowercase();
        ROLES.into_iter().find(|role| role.names().contains(&name.as_str()))
    }

    fn is_plain(self, name: &str) -> bool {
        name.trim().eq_ignore_ascii_case(self.name())
    }
}

/// Tests if a first row has column names rather than a clip: it names a file or id, and a text.
pub fn is_header(cells: &[&str]) -> bool {
    let has = |role| cells.iter().any(|cell| Role::of(cell) == Some(role));
    (has(Role::File) || has(Role::Id)) && has(Role::Text)
}

/// Maps names to columns. An empty name, `-` and `_` skip a column.
///
/// A table without a file column uses its id column as the path, as LJSpeech does.
pub fn map(names: &[&str]) -> Result<Vec<Column>, CorpusError> {
    let mut columns = Vec::with_capacity(names.len());
    for (index, name) in names.iter().map(|name| name.trim()).enumerate() {
        let skipped = matches!(name, "" | "-" | "_");
        if !skipped && names[..index].iter().any(|other| other.trim() == name) {
            return Err(CorpusError::RepeatedColumn { name: name.to_owned() });
        }
        columns.push(if skipped { Column::Skipped } else { Column::Field(name.to_owned()) });
    }
    for role in ROLES {
        if let Some(index) = find(role, names, None)? {
            columns[index] = Column::Role(role);
        }
    }
    let has = |role| columns.contains(&Column::Role(role));
    if !has(Role::File) && !has(Role::Id) {
        return Err(CorpusError::MissingRole {
            role: Role::File.name(),
            columns: names.join(", "),
        });
    }
    Ok(columns)
}

/// The column of a role: the declared one, the one with the plain name, or the only one that fits.
pub(super) fn find(
    role: Role,
    names: &[&str],
    declared: Option<&str>,
) -> Result<Option<usize>, CorpusError> {
    if let Some(declared) = declared {
        let missing =
            || CorpusError::MissingColumn { name: declared.to_owned(), columns: names.join(", ") };
        return names.iter().position(|name| *name == declared).map(Some).ok_or_else(missing);
    }
    let candidates: Vec<usize> =
        (0..names.len()).filter(|index| Role::of(names[*index]) == Some(role)).collect();
    if let Some(plain) = candidates.iter().find(|index| role.is_plain(names[**index])) {
        return Ok(Some(*plain));
    }
    match candidates.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(*only)),
        [first, second, ..] => Err(CorpusError::AmbiguousRole {
            role: role.name(),
            first: names[*first].to_owned(),
            second: names[*second].to_owned(),
        }),
    }
}
