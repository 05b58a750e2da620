//! `corpus.table`: rows of a table separated by bars, commas, semicolons or tabs.
//!
//! The `csv` crate splits rows and cells; this module determines the separator, the quoting and the
//! columns once for the whole table, and checks each row on its own.

use std::borrow::Cow;
use std::sync::Arc;

use stage_formats::mark::unmarked;

use super::columns::{self, Column, ColumnRole};
use super::part::PartRule;
use super::parts::RowParts;
use super::text::{check_text, is_in_lines};
use super::{CorpusError, MAX_ROW_BYTES, RowProblem, RowRecord, Rows, path};

/// The options for reading a table.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    pub separator: Separator,
    pub quoting: Quoting,
    pub header: HeaderRow,
    /// Names of the columns, in order; determined from the first rows if empty.
    pub columns: Vec<String>,
    pub parts: PartRule,
    /// The absolute folder that paths may begin with.
    pub folder: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Separator {
    /// The bar if the first row has one, else the tab, else the comma or semicolon that comes first.
    #[default]
    Auto,
    Bar,
    Comma,
    Tab,
    Semicolon,
}

/// The meaning of double quotes. Automatic: they group cells in tables with commas or semicolons
/// only, since LJSpeech and Common Voice have bare quotes in their texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quoting {
    #[default]
    Auto,
    On,
    Off,
}

/// The meaning of the first row. Automatic: it has column names if it names a file and a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderRow {
    #[default]
    Auto,
    Yes,
    No,
}

/// The number of first lines that determine the meaning of three columns without names.
const SAMPLE_ROWS: usize = 1_000;

/// Reads a whole table.
pub fn read(bytes: &[u8], options: &TableOptions) -> Result<Rows, CorpusError> {
    check_text(bytes)?;
    let start = bytes.len() - unmarked(bytes).len();
    check_lines(&bytes[start..])?;
    let separator = separator_byte(&bytes[start..], options.separator)?;
    let quoted = match options.quoting {
        Quoting::Auto => matches!(separator, b',' | b';'),
        Quoting::On => true,
        Quoting::Off => false,
    };
    let mut lines = TableRows::new(bytes, start, separator, quoted);
    let sample =
        lines.by_ref().take(SAMPLE_ROWS).collect::<Result<Vec<TableRow>, CorpusError>>()?;
    let layout = TableLayout::decide(&sample, options, name_of(separator))?;
    let mut rows = Rows {
        are_columns_assumed: layout.is_assumed,
        columns_without_text: layout.without_text.clone(),
        ..Rows::default()
    };
    let mut take = |line: &TableRow| {
        let record = record(bytes, line, &layout, options.folder.as_deref());
        if record.is_err() {
            let folder = options.folder.as_deref();
            rows.rejected_files.extend(file_of(line, &layout.columns, folder));
        }
        rows.push(line.row, line.offset as u64, record);
    };
    sample.iter().skip(layout.header_rows).for_each(&mut take);
    // The memory of one row is reused for all rows.
    let mut line = TableRow::default();
    while lines.read(&mut line)? {
        take(&line);
    }
    rows.assign_parts();
    rows.reject_duplicates();
    Ok(rows)
}

/// One row: its position and its cells.
#[derive(Default)]
struct TableRow {
    row: u64,
    offset: usize,
    end: usize,
    cells: csv::ByteRecord,
}

struct TableLayout {
    columns: Vec<Column>,
    /// The plural of the separator.
    separator: &'static str,
    header_rows: usize,
    /// The columns are in the documented order, without evidence for it.
    is_assumed: bool,
    /// The names of the columns, if none of them is the text.
    without_text: Option<String>,
}

/// An error if the file is no table of lines.
fn check_lines(bytes: &[u8]) -> Result<(), CorpusError> {
    if !is_in_lines(bytes) {
        return Err(CorpusError::CarriageReturns);
    }
    let first = first_line(bytes).unwrap_or_default().trim_ascii();
    let is_object =
        || serde_json::from_slice::<serde_json::Map<_, serde_json::Value>>(first).is_ok();
    if first.starts_with(b"{") && is_object() { Err(CorpusError::JsonLines) } else { Ok(()) }
}

fn first_line(bytes: &[u8]) -> Option<&[u8]> {
    bytes.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty())
}

fn separator_byte(bytes: &[u8], separator: Separator) -> Result<u8, CorpusError> {
    let first = first_line(bytes).ok_or(CorpusError::EmptyTable)?;
    match separator {
        Separator::Semicolon => Ok(b';'),
        Separator::Bar => Ok(b'|'),
        Separator::Comma => Ok(b','),
        Separator::Tab => Ok(b'\t'),
        Separator::Auto => {
            let strong = b"|\t".iter().find(|candidate| first.contains(candidate)).copied();
            let weak = || first.iter().find(|byte| matches!(byte, b',' | b';')).copied();
            strong.or_else(weak).ok_or(CorpusError::NoSeparator)
        }
    }
}

/// Tests if the first line of a table has column names.
pub fn is_header_line(line: &str) -> bool {
    let separator = separator_byte(line.as_bytes(), Separator::Auto).map(char::from);
    let cells =
        separator.map(|separator| line.split(separator).map(|cell| cell.trim_matches(['"', ' '])));
    cells.is_ok_and(|cells| columns::is_header(&cells.collect::<Vec<_>>()))
}

/// The plural of a separator, for messages.
fn name_of(separator: u8) -> &'static str {
    match separator {
        b'|' => "bars",
        b'\t' => "tabs",
        b';' => "semicolons",
        _ => "commas",
    }
}

/// The rows of a table one by one, without blank lines.
struct TableRows<'a> {
    bytes: &'a [u8],
    start: usize,
    separator: u8,
    quoted: bool,
    reader: csv::Reader<&'a [u8]>,
    position: Position,
}

impl<'a> TableRows<'a> {
    fn new(bytes: &'a [u8], start: usize, separator: u8, quoted: bool) -> TableRows<'a> {
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(separator)
            .quoting(quoted)
            // A lone carriage return is text; the one before a line feed is cut off with the cells.
            .terminator(csv::Terminator::Any(b'\n'))
            .from_reader(&bytes[start..]);
        let position = Position { offset: start, row: 1 };
        TableRows { bytes, start, separator, quoted, reader, position }
    }

    /// Reads the next row into an existing one. False at the end.
    fn read(&mut self, line: &mut TableRow) -> Result<bool, CorpusError> {
        // Reading bytes from memory, with rows of any width, cannot fail.
        while self.reader.read_byte_record(&mut line.cells).unwrap_or(false) {
            self.locate(line)?;
            if !self.bytes[line.offset..line.end].trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn locate(&mut self, line: &mut TableRow) -> Result<(), CorpusError> {
        self.position.skip_blank(self.bytes);
        let Position { offset, row } = self.position;
        let end = self.start + self.reader.position().byte() as usize;
        let reaches_end = end >= self.bytes.len();
        if self.quoted && reaches_end && is_unclosed(&self.bytes[offset..end], self.separator) {
            return Err(CorpusError::UnclosedQuote { row, offset: offset as u64 });
        }
        self.position.advance(self.bytes, end);
        (line.row, line.offset, line.end) = (row, offset, end);
        Ok(())
    }
}

impl Iterator for TableRows<'_> {
    type Item = Result<TableRow, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = TableRow::default();
        self.read(&mut line).map(|found| found.then_some(line)).transpose()
    }
}

/// The start of the next row. The `csv` crate counts blank lines as part of the following row.
#[derive(Clone, Copy)]
struct Position {
    offset: usize,
    row: u64,
}

impl Position {
    fn skip_blank(&mut self, bytes: &[u8]) {
        while bytes.get(self.offset) == Some(&b'\n') {
            self.offset += 1;
            self.row += 1;
        }
    }

    fn advance(&mut self, bytes: &[u8], end: usize) {
        let passed = bytes.get(self.offset..end).unwrap_or_default();
        self.row += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.offset = end.max(self.offset);
    }
}

/// Tests if a row reaches the end of the file because of an unclosed quote. A single quote inside a
/// cell that does not begin with one is text.
fn is_unclosed(row: &[u8], separator: u8) -> bool {
    let quotes = row.iter().filter(|byte| **byte == b'"').count();
    let opens_cell = row.starts_with(b"\"") || row.windows(2).any(|pair| pair == [separator, b'"']);
    quotes % 2 == 1 && opens_cell
}

impl TableLayout {
    fn decide(
        lines: &[TableRow],
        options: &TableOptions,
        separator: &'static str,
    ) -> Result<TableLayout, CorpusError> {
        let first = lines.first().ok_or(CorpusError::EmptyTable)?;
        let cells: Vec<Cow<'_, str>> = first.text_cells();
        let cells: Vec<&str> = cells.iter().map(|cell| cell.trim()).collect();
        let has_header = match options.header {
            HeaderRow::Yes => true,
            HeaderRow::No => false,
            HeaderRow::Auto => columns::is_header(&cells),
        };
        let names: Vec<&str> = if !options.columns.is_empty() {
            options.columns.iter().map(String::as_str).collect()
        } else if has_header {
            cells.clone()
        } else {
            let (columns, is_assumed) = guessed(lines, cells.len(), separator)?;
            return Ok(TableLayout {
                columns,
                separator,
                header_rows: 0,
                is_assumed,
                without_text: None,
            });
        };
        if names.len() != cells.len() {
            return Err(match (names.len(), cells.len()) {
                (_, 1) => CorpusError::OneColumn { separator },
                (found, in_row) => CorpusError::ColumnCount { found, in_row, separator },
            });
        }
        let columns = columns::map(&names, options.parts).map_err(|error| match cells.len() {
            1 => CorpusError::OneColumn { separator },
            _ => error,
        })?;
        let without_text = columns::without_text(&columns, &names);
        let header_rows = usize::from(has_header);
        Ok(TableLayout { columns, separator, header_rows, is_assumed: false, without_text })
    }
}

/// The columns of a table without names; true if there is no evidence for them.
fn guessed(
    lines: &[TableRow],
    width: usize,
    separator: &'static str,
) -> Result<(Vec<Column>, bool), CorpusError> {
    let (names, is_assumed) = match width {
        2 => (vec!["file", "text"], false),
        3 => {
            let (names, is_assumed) = three::names(lines)?;
            (names.to_vec(), is_assumed)
        }
        1 => return Err(CorpusError::OneColumn { separator }),
        found => {
            let proposal = proposal::columns(lines, width);
            let widths = lines.iter().map(|line| line.cells.len());
            let widths = (widths.clone().min().unwrap_or(found), widths.max().unwrap_or(found));
            return Err(CorpusError::UnknownColumns { found, proposal, separator, widths });
        }
    };
    Ok((columns::map(&names, PartRule::Off)?, is_assumed))
}

impl TableRow {
    fn text_cells(&self) -> Vec<Cow<'_, str>> {
        self.cells.iter().map(String::from_utf8_lossy).collect()
    }
}

fn record(
    bytes: &[u8],
    line: &TableRow,
    layout: &TableLayout,
    folder: Option<&str>,
) -> Result<RowRecord, RowProblem> {
    let columns = &layout.columns;
    let length = line.end - line.offset;
    if length > MAX_ROW_BYTES {
        return Err(RowProblem::TooLong { bytes: length as u64 });
    }
    if let Err(error) = std::str::from_utf8(&bytes[line.offset..line.end]) {
        return Err(RowProblem::NotUtf8 { at: error.valid_up_to() as u64 });
    }
    if line.cells.len() != columns.len() {
        let (expected, found) = (columns.len(), line.cells.len());
        return Err(RowProblem::WrongWidth { expected, found, separator: layout.separator });
    }
    let mut parts = RowParts { folder, ..RowParts::default() };
    for (cell, column) in line.cells.iter().zip(columns) {
        // Cannot fail: the whole row is UTF-8, and cells are only cut at ASCII bytes.
        let cell = std::str::from_utf8(cell)
            .map_err(|error| RowProblem::NotUtf8 { at: error.valid_up_to() as u64 })?;
        parts.take(cell.trim(), column)?;
    }
    parts.into_record(line.row, line.offset as u64)
}

/// The audio path of a row that is rejected: its cell is all that is known of it.
fn file_of(line: &TableRow, columns: &[Column], folder: Option<&str>) -> Option<String> {
    let at = |role| columns.iter().position(|column| *column == Column::Role(role));
    let cell = line.cells.get(at(ColumnRole::File).or_else(|| at(ColumnRole::Id))?)?;
    path::below(folder, std::str::from_utf8(cell).ok()?).ok()
}

mod proposal;
mod three;

#[cfg(test)]
mod tests;
