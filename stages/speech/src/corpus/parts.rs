//! The checked cells of one row by role, on the way to a record. Shared by the readers.

use std::collections::BTreeMap;

use super::columns::{Column, ColumnRole};
use super::part::Times;
use super::path;
use super::{RowProblem, RowRecord, Value};

#[derive(Default)]
pub(super) struct RowParts<'a> {
    /// The absolute folder that paths may begin with.
    pub folder: Option<&'a str>,
    pub id: Option<String>,
    pub file: Option<String>,
    pub text: Option<String>,
    pub speaker: Option<String>,
    pub fields: BTreeMap<String, Value>,
    pub times: Times,
}

impl RowParts<'_> {
    pub(super) fn take(&mut self, cell: &str, column: &Column) -> Result<(), RowProblem> {
        match column {
            Column::Skipped => {}
            Column::Field(name) => {
                check_text(name, cell)?;
                self.fields.insert(name.clone(), Value::Text(cell.to_owned()));
            }
            Column::Part(role, name) => {
                check_text(name, cell)?;
                self.times.take(*role, name, cell)?;
                self.fields.insert(name.clone(), Value::Text(cell.to_owned()));
            }
            Column::Role(ColumnRole::Text) => {
                check_text(ColumnRole::Text.name(), cell)?;
                self.text = Some(cell.to_owned());
            }
            Column::Role(ColumnRole::Speaker) => {
                check_name(ColumnRole::Speaker.name(), cell)?;
                self.speaker = (!cell.is_empty()).then(|| cell.to_owned());
            }
            Column::Role(ColumnRole::File) => self.file = Some(path::below(self.folder, cell)?),
            Column::Role(ColumnRole::Id) => {
                if cell.is_empty() {
                    return Err(RowProblem::Empty { column: "id".to_owned() });
                }
                check_name(ColumnRole::Id.name(), cell)?;
                self.id = Some(cell.to_owned());
            }
            Column::Role(
                ColumnRole::Start | ColumnRole::End | ColumnRole::Duration | ColumnRole::Channel,
            ) => {}
        }
        Ok(())
    }

    pub(super) fn into_record(self, row: u64, offset: u64) -> Result<RowRecord, RowProblem> {
        if self.text.as_deref() == Some("") {
            return Err(RowProblem::Empty { column: ColumnRole::Text.name().to_owned() });
        }
        let file = match (self.file, &self.id) {
            (Some(file), _) => file,
            (None, Some(id)) => path::relative(id)?,
            (None, None) => {
                return Err(RowProblem::Empty { column: "file".to_owned() });
            }
        };
        Ok(RowRecord {
            id: path::id_of(self.id.as_deref().unwrap_or(&file)),
            file,
            text: self.text,
            speaker: self.speaker,
            fields: self.fields,
            times: self.times,
            part: None,
            has_id: self.id.is_some(),
            row,
            offset,
            number: 0,
        })
    }
}

/// A NUL never is text; other odd characters are for `text.normalize` to count and remove.
pub(super) fn check_text(column: &str, cell: &str) -> Result<(), RowProblem> {
    if cell.contains('\0') {
        Err(RowProblem::Forbidden { column: column.to_owned(), code: 0 })
    } else {
        Ok(())
    }
}

/// Ids and speakers are printed and become file names: no invisible characters are allowed in them.
pub(super) fn check_name(column: &str, cell: &str) -> Result<(), RowProblem> {
    if path::is_plain(cell) {
        return Ok(());
    }
    match cell.chars().find(|character| path::is_unprintable(*character)) {
        None => Ok(()),
        Some(character) => {
            Err(RowProblem::Forbidden { column: column.to_owned(), code: character as u32 })
        }
    }
}
