//! The table of corrections: a line for each segment, in CSV, sorted by the names of segments.

use std::collections::BTreeMap;
use std::fmt;

use csv::StringRecord;

use stage_formats::mark::unmarked;
use unicode_normalization::UnicodeNormalization;

use crate::audio::long;

const SEGMENT: &str = "segment";
const ACTION: &str = "action";
const TEXT: &str = "text";
const AT: &str = "at";
const WITH: &str = "with";
/// The text before a correction, which `throstle review` writes: the stage tells when the source has
/// another one by now.
const BEFORE: &str = "before";
/// The columns of a new table. Others, but for [`BEFORE`], are remarks.
const COLUMNS: [&str; 5] = [SEGMENT, ACTION, TEXT, AT, WITH];
/// A line behind the last one: it becomes a part of that if a quotation mark there is not closed.
const END: &str = "\u{1}end";
/// Lines that git leaves in a file when two people changed the same place.
const CONFLICT: [&str; 3] = ["<<<<<<<", "=======", ">>>>>>>"];

#[derive(Clone, Debug, PartialEq)]
pub enum Correction {
    /// The text that is said.
    Text(String),
    Drop,
    /// Two segments instead, cut after this time in seconds.
    Split {
        at: f64,
    },
    /// One segment with the next one of the recording, which has this name if one is given.
    Join {
        with: Option<String>,
    },
}

impl fmt::Display for Correction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Correction::Text(text) => write!(formatter, "text {text:?}"),
            Correction::Drop => write!(formatter, "`drop`"),
            Correction::Split { at } => write!(formatter, "`split` at {at} s"),
            Correction::Join { with: Some(with) } => write!(formatter, "`join` with `{with}`"),
            Correction::Join { with: None } => write!(formatter, "`join` with the next one"),
        }
    }
}

impl Correction {
    fn action(&self) -> &'static str {
        match self {
            Correction::Text(_) => "text",
            Correction::Drop => "drop",
            Correction::Split { .. } => "split",
            Correction::Join { .. } => "join",
        }
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectionLine {
    pub correction: Correction,
    /// The id of the segment as it is written, maybe with its recording in front.
    pub segment: String,
    /// The text that was corrected, if it is known.
    pub before: Option<String>,
    /// The line of the file; 0 for a new one.
    pub number: u64,
    /// The cells of columns that are remarks, by the place of the column.
    remarks: BTreeMap<usize, String>,
}

/// Corrections by the name of the segment.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrectionTable {
    columns: Vec<String>,
    lines: BTreeMap<String, CorrectionLine>,
}

impl Default for CorrectionTable {
    fn default() -> CorrectionTable {
        CorrectionTable { columns: COLUMNS.map(str::to_owned).to_vec(), lines: BTreeMap::new() }
    }
}

impl CorrectionTable {
    /// Reads a table.
    ///
    /// # Errors
    ///
    /// The line, and what is wrong with it. Two different lines for one segment are an error, which
    /// names both.
    pub fn read(bytes: &[u8]) -> Result<CorrectionTable, String> {
        let bytes = unmarked(bytes);
        if bytes.trim_ascii().is_empty() {
            return Ok(CorrectionTable::default());
        }
        let lines = [bytes, b"\n", END.as_bytes()].concat();
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .flexible(true)
            .from_reader(lines.as_slice());
        let damaged = |error: csv::Error| format!("the table of corrections: {error}");
        let mut columns: Vec<String> =
            reader.headers().map_err(damaged)?.iter().map(str::to_owned).collect();
        if columns.iter().all(String::is_empty) {
            return Ok(CorrectionTable::default());
        }
        if !columns.iter().any(|column| column == SEGMENT) {
            let separator = if columns.iter().any(|column| column.contains([';', '\t'])) {
                ": its columns must be separated by commas"
            } else {
                ""
            };
            return Err(format!("the table of corrections has no column `{SEGMENT}`{separator}"));
        }
        let is_twice = |own: &&&str| columns.iter().filter(|column| column == own).count() > 1;
        if let Some(own) = COLUMNS.iter().find(is_twice) {
            return Err(format!("the table of corrections has the column `{own}` twice"));
        }
        let missing = COLUMNS.iter().filter(|own| !columns.iter().any(|column| column == *own));
        let missing: Vec<String> = missing.map(|own| (*own).to_owned()).collect();
        columns.extend(missing);
        let mut table = CorrectionTable { columns, lines: BTreeMap::new() };
        let mut counted = LineCounter { bytes: &lines, at: 0, number: 1 };
        for record in reader.records() {
            let record = record.map_err(damaged)?;
            let number = counted.line_at(record.position().map_or(0, csv::Position::byte));
            if record == *[END].as_slice() {
                return Ok(table);
            }
            let line = table.line_of(&record, number)?;
            table.add(line)?;
        }
        Err("the last line of the corrections has a quotation mark that is not closed".to_owned())
    }

    fn line_of(&self, record: &StringRecord, number: u64) -> Result<CorrectionLine, String> {
        let cell = |name: &str| {
            let at = self.columns.iter().position(|column| column == name);
            at.and_then(|at| record.get(at)).unwrap_or_default()
        };
        let segment = cell(SEGMENT).to_owned();
        let told = |what: String| Err(format!("line {number} of the corrections {what}"));
        if CONFLICT.iter().any(|mark| record.get(0).unwrap_or_default().starts_with(mark)) {
            return told(
                "is a conflict mark of git: keep the right lines and remove it".to_owned(),
            );
        }
        // The rest of the table is in that cell, if its quotation mark is not closed.
        if COLUMNS.iter().chain([&BEFORE]).any(|name| cell(name).contains(['\n', '\r'])) {
            return told(
                "has a line break within a cell: close the quotation mark of that cell, or remove it"
                    .to_owned(),
            );
        }
        // The rest of a text with a comma is in the cells behind it.
        let is_text = matches!(cell(ACTION), "" | "text");
        let behind = record.iter().skip(self.columns.len()).chain([cell(AT), cell(WITH)]);
        if is_text && !behind.collect::<String>().is_empty() {
            return told(
                "has more cells than a text needs: write a text with a comma in quotation marks"
                    .to_owned(),
            );
        }
        if name_of(&segment).is_empty() {
            return told("has no segment".to_owned());
        }
        let correction = match (cell(ACTION), cell(TEXT)) {
            ("drop", _) => Correction::Drop,
            ("split", _) => match cell(AT).parse::<f64>() {
                Ok(at) if at.is_finite() && at > 0.0 => Correction::Split { at },
                _ => return told(format!("splits at `{}`, expected seconds in `at`", cell(AT))),
            },
            ("join", _) => {
                let with = Some(name_of(cell(WITH))).filter(|with| !with.is_empty());
                Correction::Join { with }
            }
            ("", "") => return told("has neither a text nor an action".to_owned()),
            ("text", "") => return told("has no text; expected one in `text`".to_owned()),
            ("" | "text", text) => Correction::Text(text.to_owned()),
            (other, _) => {
                let known = "expected `text`, `drop`, `split` or `join`";
                return told(format!("has the action `{other}`, {known}"));
            }
        };
        let cells = record.iter().enumerate().filter(|(at, _)| self.is_remark(*at));
        let remarks = cells.map(|(at, cell)| (at, cell.to_owned())).collect();
        let before = Some(cell(BEFORE).to_owned()).filter(|before| !before.is_empty());
        Ok(CorrectionLine { correction, segment, before, number, remarks })
    }

    fn is_remark(&self, column: usize) -> bool {
        self.columns
            .get(column)
            .is_some_and(|name| name != BEFORE && !COLUMNS.contains(&name.as_str()))
    }

    fn add(&mut self, line: CorrectionLine) -> Result<(), String> {
        let name = name_of(&line.segment);
        match self.lines.get(&name) {
            Some(known) if known.correction != line.correction => Err(format!(
                "lines {} and {} of the corrections differ for `{name}`: {}, and {}; keep one of \
                 them",
                known.number, line.number, known.correction, line.correction
            )),
            // Two people may have made the same correction.
            Some(_) => Ok(()),
            None => {
                self.lines.insert(name, line);
                Ok(())
            }
        }
    }

    /// The table as a file.
    ///
    /// # Errors
    ///
    /// Those of the writer of CSV.
    pub fn write(&self) -> Result<Vec<u8>, String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let failed = |error: csv::Error| format!("the table of corrections: {error}");
        let mut columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        if !columns.contains(&BEFORE) && self.lines.values().any(|line| line.before.is_some()) {
            columns.push(BEFORE);
        }
        writer.write_record(&columns).map_err(failed)?;
        for line in self.lines.values() {
            let cells = columns.iter().enumerate().map(|(at, column)| {
                let remark = || line.remarks.get(&at).cloned().unwrap_or_default();
                cell(line, column).unwrap_or_else(remark)
            });
            writer.write_record(cells).map_err(failed)?;
        }
        writer.into_inner().map_err(|error| error.to_string())
    }

    pub fn get(&self, name: &str) -> Option<&Correction> {
        self.lines.get(name).map(|line| &line.correction)
    }

    /// The line of a segment, with its name as it is stored here.
    pub fn line(&self, name: &str) -> Option<(&str, &CorrectionLine)> {
        let (name, line) = self.lines.get_key_value(name)?;
        Some((name, line))
    }

    /// The line that names a clip by its id.
    pub fn line_of_clip(&self, id: &str) -> Option<(&str, &CorrectionLine)> {
        let is_same = |line: &CorrectionLine| line.segment.nfc().eq(id.nfc());
        self.line(&name_of(id)).filter(|(_, line)| is_same(line))
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub fn lines(&self) -> impl ExactSizeIterator<Item = (&str, &CorrectionLine)> {
        self.lines.iter().map(|(name, line)| (name.as_str(), line))
    }

    /// Corrects a segment, by its id; `text` is its text without any correction. Its remarks stay. Returns its
    /// line from before.
    pub fn set(
        &mut self,
        segment: &str,
        correction: Correction,
        text: Option<&str>,
    ) -> Option<CorrectionLine> {
        let name = name_of(segment);
        let last = self.lines.get(&name).cloned();
        let remarks = last.as_ref().map(|line| line.remarks.clone()).unwrap_or_default();
        let text =
            text.filter(|text| !text.is_empty() && matches!(correction, Correction::Text(_)));
        let before = text.map(str::to_owned);
        let segment = match segment.rsplit_once('/') {
            Some((recording, _)) => format!("{recording}/{name}"),
            None => name.clone(),
        };
        self.lines.insert(name, CorrectionLine { correction, segment, before, number: 0, remarks });
        last
    }

    /// Puts a line in the place of another one, or removes it. Returns the one from before.
    pub fn put(&mut self, name: &str, line: Option<CorrectionLine>) -> Option<CorrectionLine> {
        match line {
            Some(line) => self.lines.insert(name.to_owned(), line),
            None => self.lines.remove(name),
        }
    }
}

/// Counts lines with any ends: the positions of the reader are those of the line feed alone.
struct LineCounter<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u64,
}

impl LineCounter<'_> {
    /// The number of the line that a record begins on, at this byte or behind the line end there. Later
    /// records have later bytes.
    fn line_at(&mut self, byte: u64) -> u64 {
        let is_end = |at: usize| matches!(self.bytes.get(at), Some(b'\n' | b'\r'));
        let begin = (byte as usize..).find(|at| !is_end(*at)).unwrap_or(self.bytes.len());
        for at in self.at..begin {
            let is_half = self.bytes[at] == b'\r' && self.bytes.get(at + 1) == Some(&b'\n');
            self.number += u64::from(is_end(at) && !is_half);
        }
        self.at = begin;
        self.number
    }
}

/// The cell of a column that the table knows.
fn cell(line: &CorrectionLine, column: &str) -> Option<String> {
    let correction = &line.correction;
    Some(match (column, correction) {
        (SEGMENT, _) => line.segment.clone(),
        (BEFORE, _) => line.before.clone().unwrap_or_default(),
        (ACTION, _) => correction.action().to_owned(),
        (TEXT, Correction::Text(text)) => text.clone(),
        (AT, Correction::Split { at }) => at.to_string(),
        (WITH, Correction::Join { with }) => with.clone().unwrap_or_default(),
        (TEXT | AT | WITH, _) => String::new(),
        _ => return None,
    })
}

/// The name of a segment by its sound: its id without the recording, and without the number that
/// tells equal sounds apart.
pub fn name_of(id: &str) -> String {
    let id: String = id.nfc().collect();
    let name = id.rsplit('/').next().unwrap_or_default();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('-') {
        // Other ids, such as `LJ001-0003`, end with a number too.
        Some((sound, number)) if long::is_name(sound) && is_number(number) => sound.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> CorrectionTable {
        CorrectionTable::read(text.as_bytes()).unwrap()
    }

    fn refused(lines: &str) -> String {
        CorrectionTable::read(format!("segment,action,text,at,with\n{lines}").as_bytes())
            .unwrap_err()
    }

    #[test]
    fn a_table_survives_being_read_and_written() {
        let text = "segment,action,text,at,with\n\
            r/aaaa,text,\"Yes, \"\"indeed\"\".\",,\n\
            r/bbbb,drop,,,\n\
            r/cccc,split,,1.25,\n\
            r/dddd,join,,,eeee\n";
        assert_eq!(String::from_utf8(read(text).write().unwrap()).unwrap(), text);
        assert_eq!(read("").write().unwrap(), b"segment,action,text,at,with\n");
        assert_eq!(CorrectionTable::default(), read("segment,action,text,at,with\n"));
    }

    #[test]
    fn lines_are_sorted_by_name_and_remarks_stay() {
        let mut table = read("who,segment,text\nann,z/aaaa,No.\nbob,a/bbbbbbbbbb,Yes.\n");
        assert_eq!(table.get("aaaa"), Some(&Correction::Text("No.".to_owned())));
        table.set("a/bbbbbbbbbb-2", Correction::Drop, Some("Yes."));
        table.set("x/abab", Correction::Join { with: None }, None);
        let written = String::from_utf8(table.write().unwrap()).unwrap();
        let expected = "who,segment,text,action,at,with\nann,z/aaaa,No.,text,,\n\
            ,x/abab,,join,,\nbob,a/bbbbbbbbbb,,drop,,\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn a_corrected_text_keeps_the_one_before_it() {
        let mut table = read("who,segment,text\nann,z/aaaa,No.\n");
        table.set("x/abab", Correction::Text("Yes.".to_owned()), Some("Yse."));
        let written = String::from_utf8(table.write().unwrap()).unwrap();
        let expected = "who,segment,text,action,at,with,before\nann,z/aaaa,No.,text,,,\n\
            ,x/abab,Yes.,text,,,Yse.\n";
        assert_eq!(written, expected);
        let line = |name| read(&written).line(name).and_then(|(_, line)| line.before.clone());
        assert_eq!((line("abab"), line("aaaa")), (Some("Yse.".to_owned()), None));
    }

    #[test]
    fn only_the_number_behind_a_name_by_sound_is_left_out() {
        assert_eq!(name_of("LJ001/abcdefgh27-2"), "abcdefgh27");
        for id in ["LJ001-0003", "abcdefgh27", "abcdefgh01-2", "-2"] {
            assert_eq!(name_of(id), id);
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        assert!(refused("a,,x,,\nb,,,,\n").contains("line 3 of the corrections has neither"));
        assert!(refused("a,sing,x,,\n").contains("has the action `sing`"));
        assert!(refused("a,split,,later,\n").contains("splits at `later`"));
        assert!(refused("a,split,,-1,\n").contains("splits at `-1`"));
        assert!(refused(",drop,,,\n").contains("line 2 of the corrections has no segment"));
        assert!(
            refused("<<<<<<< HEAD\na,drop,,,\n").contains("line 2 of the corrections is a conf")
        );
        assert!(refused("a,text,,,\n").contains("line 2 of the corrections has no text"));
        let open = refused("a,text,\"hello,,\nb,drop,,,\n");
        assert!(open.contains("line 2 of the corrections has a line break"), "{open}");
        for last in ["a,text,\"hello", "a,text,\"hello\n", "a,drop,,,\nb,,\"x,,\n\n"] {
            assert!(refused(last).contains("close the quotation mark"), "{last}");
        }
        assert!(CorrectionTable::read(b"segment,\"text\na,b\n").is_err());
        for line in ["a,text,Luko, milugu,,\n", "a,,Luko, milugu\n", "a,text,Luko,,milugu\n"] {
            assert!(refused(line).contains("a text with a comma in quotation marks"), "{line}");
        }
        for end in ["\n", "\r\n", "\r"] {
            let lines = ["segment,action,text,at,with", "a,drop,,,", "", "b,text,,,", ""].join(end);
            let told = CorrectionTable::read(lines.as_bytes()).unwrap_err();
            assert!(told.contains("line 4 of the corrections has no text"), "{end:?}: {told}");
        }
        let mixed = read("segment,action,text,at,with\na,text,\"Yes\",,\r\nb,drop,,,\n");
        assert_eq!(mixed.lines().map(|(_, line)| line.number).collect::<Vec<_>>(), [2, 3]);
        let two = refused("a,,x,,\nb,drop,,,\nr/a,,y,,\n");
        assert!(two.contains("lines 2 and 4 of the corrections differ for `a`"), "{two}");
        assert!(two.contains("text \"x\", and text \"y\""), "{two}");
        assert!(
            CorrectionTable::read(b"clip,text\na,b\n").unwrap_err().contains("no column `segment`")
        );
        let twice = CorrectionTable::read(b"segment,action,text,text\na,text,b,c\n").unwrap_err();
        assert_eq!(twice, "the table of corrections has the column `text` twice");
        let semicolons = CorrectionTable::read(b"segment;text\na;b\n").unwrap_err();
        assert!(semicolons.contains("separated by commas"), "{semicolons}");
        // Two people may have made the same correction.
        assert_eq!(read("segment,text\na,x\nr/a,x\n").lines().len(), 1);
    }
}
