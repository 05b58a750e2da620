//! Items of rows, and the names of rows that are quarantined.

use std::sync::Arc;

use cache::Digest;
use camino::Utf8Path;
use stage_core::{Blob, Fields, Item, Reject, StageError, Value as FieldValue};

use super::{CorpusError, QuarantinedRow, RowRecord, Value, path};

/// An error about a whole corpus file.
pub(super) fn unreadable(file: &Utf8Path, error: &CorpusError) -> StageError {
    let message = format!("`{file}` cannot be read as a corpus: {error}");
    match error.help() {
        Some(help) => StageError::with_help(message, help),
        None => StageError::failed(message),
    }
}

/// The note on clips without a text; `parameter` names the column of the text.
pub(super) fn no_text(parameter: &str, columns: &str) -> String {
    format!(
        "clips without a text, since no column is one (`{parameter}` names it; there are: {columns})"
    )
}

/// A quarantined row, under a unique name.
pub(super) fn rejected(file: &Utf8Path, reject: &QuarantinedRow) -> (String, Reject) {
    let id = reject.id.as_deref().map_or(String::new(), |id| format!(" `{id}`"));
    let reason = format!("row {}{id} (byte {}): {}", reject.row, reject.offset, reject.problem);
    (row_name(file, reject.row, reject.number), Reject::new(reject.problem.code(), reason))
}

/// The name of a row, and of one of several clips in it.
pub(super) fn row_name(file: &Utf8Path, row: u64, number: u32) -> String {
    let file = file.file_name().unwrap_or(file.as_str());
    match number {
        0 => format!("{file}:{row}"),
        number => format!("{file}:{row}:{number}"),
    }
}

/// Strings that items share, each kept once.
#[derive(Default)]
pub(super) struct SharedStrings(Vec<Arc<str>>);

impl SharedStrings {
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
    pub(super) fn recording(&mut self, digest: Digest, size: u64) -> Blob {
        Blob { digest, size, kind: self.get(Blob::RECORDING) }
    }
}

/// The audio of a row.
pub(super) struct RowAudio {
    pub audio: Blob,
    /// The length of a part of a file.
    pub seconds: Option<f64>,
}

impl From<Blob> for RowAudio {
    fn from(audio: Blob) -> RowAudio {
        RowAudio { audio, seconds: None }
    }
}

pub(super) fn item(words: &mut SharedStrings, record: RowRecord, clip: RowAudio) -> Item {
    let mut fields = Fields::new();
    for (name, value) in record.fields {
        let value = match value {
            Value::Text(text) => FieldValue::text(text),
            Value::Number(number) => FieldValue::Number(number),
        };
        fields.set(words.get(&name), value);
    }
    // The same fields as those of `audio.segment`.
    if let (Some(part), Some(seconds)) = (record.part, clip.seconds) {
        fields.set(words.get("recording"), FieldValue::text(path::id_of(&record.file)));
        fields.set(words.get("start"), FieldValue::Number(part.start));
        fields.set(words.get("seconds"), FieldValue::Number(seconds));
    }
    // Last, so that a column of the same name cannot replace them.
    for (name, text) in [("text", record.text), ("speaker", record.speaker)] {
        if let Some(text) = text {
            fields.set(words.get(name), FieldValue::text(text));
        }
    }
    fields.set(words.get("audio"), FieldValue::Blob(Arc::new(clip.audio)));
    Item::new(record.id, fields)
}
