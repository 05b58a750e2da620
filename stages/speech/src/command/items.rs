//! The items that a program makes: lines, a table, or a folder of files.

use std::collections::BTreeMap;

use crate::command::kinds::{Form, REJECT};
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Number, Value as Json, json};
use stage_core::output_types::{NUMBER, TEXT};

use super::folder::files;
use super::private::OUTPUTS;
use super::run::{CommandError, output};
use crate::object::Object;
use stage_formats::mark::unmarked;

const ID: &str = "id";

/// The items that a command declares.
pub struct ItemsDeclaration {
    pub form: Form,
    /// Relative to the folder of the outputs.
    pub path: Utf8PathBuf,
    /// The types of the fields by name.
    pub kinds: BTreeMap<String, String>,
}

/// An item as the program has written it.
#[derive(Debug, PartialEq)]
pub struct ItemLine {
    pub id: String,
    /// The fields, or the reason why the program rejects the item.
    pub fields: Result<Map<String, Json>, String>,
}

impl ItemsDeclaration {
    /// The folder with the files of the items, relative to the private folder.
    pub fn folder(&self) -> Utf8PathBuf {
        let out = Utf8Path::new(OUTPUTS).join(&self.path);
        match self.form {
            Form::Folder => out,
            _ => out.parent().unwrap_or(Utf8Path::new(OUTPUTS)).to_owned(),
        }
    }

    /// All items, in the order in which they are written.
    pub fn read(&self, folder: &Utf8Path, stderr: &str) -> Result<Vec<ItemLine>, CommandError> {
        let path = Utf8Path::new(OUTPUTS).join(&self.path);
        let said = |problem| CommandError::NoItems { path: self.path.clone(), problem };
        match self.form {
            Form::Folder => {
                // A folder without files has no items.
                match files(folder, &path) {
                    Ok(found) => Ok(self.in_folder(&found)),
                    Err(CommandError::NoOutput { .. }) if folder.join(&path).is_dir() => Ok(vec![]),
                    Err(error) => Err(error),
                }
            }
            form => {
                let bytes = output(folder, &path, stderr)?;
                let above = folder.join(self.folder());
                match form {
                    Form::Table(separator) => self.in_table(&bytes, separator, &above),
                    _ => self.in_lines(&bytes, &above),
                }
                .map_err(said)
            }
        }
    }

    fn in_lines(&self, bytes: &[u8], above: &Utf8Path) -> Result<Vec<ItemLine>, String> {
        let mut written = Vec::new();
        let bytes = unmarked(bytes);
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let at = |problem: String| format!("line {}: {problem}", number + 1);
            let object: Object = serde_json::from_slice(line)
                .map_err(|error| at(format!("no JSON object: {error}")))?;
            if let Some(key) = object.repeated {
                return Err(at(format!("the item has `{key}` twice")));
            }
            written.push(self.item(object.fields, above).map_err(at)?);
        }
        Ok(written)
    }

    fn in_table(
        &self,
        bytes: &[u8],
        separator: u8,
        above: &Utf8Path,
    ) -> Result<Vec<ItemLine>, String> {
        let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(bytes);
        let columns = reader.headers().map_err(|error| error.to_string())?.clone();
        self.check_columns(&columns)?;
        let cell = |(name, cell): (&str, &str)| {
            let number = self.kinds.get(name).filter(|kind| *kind == NUMBER);
            let number = number.and_then(|_| cell.trim().parse::<f64>().ok());
            let number = number.and_then(Number::from_f64);
            (name.to_owned(), number.map_or_else(|| Json::from(cell), Json::Number))
        };
        let mut written = Vec::new();
        for (row, cells) in reader.records().enumerate() {
            let cells = cells.map_err(|error| error.to_string())?;
            let fields = columns.iter().zip(&cells).map(cell).collect();
            let item = self.item(fields, above);
            written.push(item.map_err(|problem| format!("row {}: {problem}", row + 1))?);
        }
        Ok(written)
    }

    /// A header is checked even if there is no row: it may belong to another table.
    fn check_columns(&self, columns: &csv::StringRecord) -> Result<(), String> {
        let names: Vec<&str> = columns.iter().collect();
        let found = || format!("the columns are: {}", names.join(", "));
        if let Some(at) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            return Err(format!("the column `{}` is there twice; {}", names[at], found()));
        }
        let is_known = |name: &str| [ID, REJECT].contains(&name) || self.kinds.contains_key(name);
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            return Err(format!("the column `{name}` is not in `item_outputs`; {}", found()));
        }
        // An empty file has no items.
        if names.is_empty() || names.contains(&ID) {
            Ok(())
        } else {
            Err(format!("there is no column `{ID}`; {}", found()))
        }
    }

    /// Files that differ in their extension alone are one item.
    fn in_folder(&self, found: &[Utf8PathBuf]) -> Vec<ItemLine> {
        let mut items: BTreeMap<String, Map<String, Json>> = BTreeMap::new();
        for file in found {
            let of_field = |(_, kind): &(&String, &String)| {
                let extension = Form::extension(kind).map(|extension| format!(".{extension}"));
                extension.is_some_and(|extension| file.as_str().ends_with(&extension))
            };
            // The longest extension, so that `a.tar.gz` is no `gz`.
            let field = self.kinds.iter().filter(of_field).max_by_key(|(_, kind)| kind.len());
            let Some((name, kind)) = field else { continue };
            let length = Form::extension(kind).map_or(0, |extension| extension.len() + 1);
            let id = file.as_str()[..file.as_str().len() - length].to_owned();
            items.entry(id).or_default().insert(name.clone(), json!({ "path": file.as_str() }));
        }
        let written = |(id, fields)| ItemLine { id, fields: Ok(fields) };
        items.into_iter().map(written).collect()
    }

    /// An item of a line or a row.
    fn item(&self, mut fields: Map<String, Json>, above: &Utf8Path) -> Result<ItemLine, String> {
        let id = match fields.remove(ID) {
            Some(Json::String(id)) if !id.is_empty() => id,
            _ => return Err("the item has no text `id`".to_owned()),
        };
        match fields.remove(REJECT) {
            Some(Json::String(reason)) if !reason.is_empty() => {
                return Ok(ItemLine { id, fields: Err(reason) });
            }
            None | Some(Json::Null | Json::Bool(false) | Json::String(_)) => {}
            Some(other) => {
                return Err(format!("`{REJECT}` of the item is {other}, not a reason in words"));
            }
        }
        if let Some(name) = fields.keys().find(|name| !self.kinds.contains_key(*name)) {
            return Err(format!("the item has `{name}`, which is not in `item_outputs`"));
        }
        for (name, value) in &mut fields {
            let is_file =
                self.kinds.get(name).is_some_and(|kind| ![NUMBER, TEXT].contains(&&**kind));
            if let (true, Json::String(path)) = (is_file, &*value) {
                // The program knows its folder by an absolute path.
                let inside = Utf8Path::new(path).strip_prefix(above).unwrap_or(Utf8Path::new(path));
                *value = json!({ "path": inside.as_str() });
            }
        }
        Ok(ItemLine { id, fields: Ok(fields) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn declared(path: &str, kinds: &[(&str, &str)]) -> ItemsDeclaration {
        let pair = |(name, kind): &(&str, &str)| ((*name).to_owned(), (*kind).to_owned());
        let kinds = kinds.iter().map(pair).collect();
        ItemsDeclaration { form: Form::of(path).unwrap(), path: path.into(), kinds }
    }

    fn shown(written: &[ItemLine]) -> Vec<String> {
        let one = |item: &ItemLine| match &item.fields {
            Ok(fields) => {
                let sorted: BTreeMap<&String, &Json> = fields.iter().collect();
                format!("{} {}", item.id, serde_json::to_string(&sorted).unwrap())
            }
            Err(reason) => format!("{} rejected: {reason}", item.id),
        };
        written.iter().map(one).collect()
    }

    #[test]
    fn lines_and_tables_have_the_same_items() {
        let kinds = [("audio", "audio/wav"), ("level", "number"), ("text", "text")];
        let lines = b"{\"id\": \"a\", \"audio\": \"a.wav\", \"level\": 2, \"text\": \"A, b\"}\n\n\
            {\"id\": \"b\", \"reject\": \"noise\"}\n";
        let table = b"id,audio,level,text,reject\na,a.wav,2.0,\"A, b\",\nb,,,,noise\n";
        let above = Utf8Path::new("/x/out");
        let lines = declared("c.jsonl", &kinds).in_lines(lines, above).unwrap();
        let table = declared("c.csv", &kinds).in_table(table, b',', above).unwrap();
        let fields =
            |level| format!(r#"a {{"audio":{{"path":"a.wav"}},"level":{level},"text":"A, b"}}"#);
        assert_eq!(shown(&lines), [fields("2"), "b rejected: noise".to_owned()]);
        assert_eq!(shown(&table), [fields("2.0"), "b rejected: noise".to_owned()]);
    }

    #[test]
    fn a_path_may_be_absolute_in_the_folder_of_the_outputs() {
        let line = br#"{"id": "a", "audio": "/x/out/b/a.wav"}"#;
        let items = declared("c.jsonl", &[("audio", "audio/wav")]);
        let written = items.in_lines(line, Utf8Path::new("/x/out")).unwrap();
        assert_eq!(shown(&written), [r#"a {"audio":{"path":"b/a.wav"}}"#]);
    }

    #[test]
    fn files_of_one_name_are_one_item_and_other_files_are_none() {
        let kinds =
            [("audio", "audio/wav"), ("tar", "file/tar.gz"), ("gz", "file/gz"), ("text", "text")];
        let found = ["a/1.txt", "a/1.wav", "b.gz", "b.log", "b.tar.gz"].map(Utf8PathBuf::from);
        let written = declared("clips/", &kinds).in_folder(&found);
        let audio = r#""audio":{"path":"a/1.wav"}"#;
        let (first, second) = (
            format!(r#"a/1 {{{audio},"text":{{"path":"a/1.txt"}}}}"#),
            r#"b {"gz":{"path":"b.gz"},"tar":{"path":"b.tar.gz"}}"#.to_owned(),
        );
        assert_eq!(shown(&written), [first, second]);
    }

    #[test]
    fn no_reason_is_no_rejection_and_a_byte_order_mark_is_no_part_of_the_first_item() {
        let items = declared("c.jsonl", &[("text", "text")]);
        for reject in ["null", "false", "\"\""] {
            let line = format!("\u{feff}{{\"id\": \"a\", \"text\": \"b\", \"reject\": {reject}}}");
            let written = items.in_lines(line.as_bytes(), Utf8Path::new("/x")).unwrap();
            assert_eq!(shown(&written), [r#"a {"text":"b"}"#], "{reject}");
        }
        let table = declared("c.csv", &[("text", "text")]);
        let bytes = "\u{feff}id,text\na,b\n".as_bytes();
        let written = table.in_table(bytes, b',', Utf8Path::new("/x")).unwrap();
        assert_eq!(shown(&written), [r#"a {"text":"b"}"#]);
    }

    #[test]
    fn a_wrong_header_is_an_error_without_any_row() {
        let table = declared("c.csv", &[("text", "text"), ("level", "number")]);
        let read = |text: &str| {
            table.in_table(text.as_bytes(), b',', Utf8Path::new("/x")).map(|items| items.len())
        };
        for rows in ["", "a,b,1\n"] {
            for (header, told) in [
                (
                    "id,txt,level",
                    "the column `txt` is not in `item_outputs`; the columns are: id, txt",
                ),
                (
                    "name,text,level",
                    "the column `name` is not in `item_outputs`; the columns are: name",
                ),
                (
                    "text,level,reject",
                    "there is no column `id`; the columns are: text, level, reject",
                ),
                (
                    "id,text,text",
                    "the column `text` is there twice; the columns are: id, text, text",
                ),
                ("id,id,text", "the column `id` is there twice; "),
            ] {
                let error = read(&format!("{header}\n{rows}")).unwrap_err();
                assert!(error.starts_with(told), "{header}: {error}");
            }
        }
        for empty in ["", "\n", "id,text,level\n", "id,reject"] {
            assert_eq!(read(empty), Ok(0), "{empty:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_item_is_named() {
        let items = declared("c.jsonl", &[("text", "text")]);
        let told = |line: &str| items.in_lines(line.as_bytes(), Utf8Path::new("/x")).unwrap_err();
        assert!(told("{\"id\": \"a\"}\n[1]").starts_with("line 2: no JSON object: "));
        assert_eq!(told("{\"text\": \"a\"}"), "line 1: the item has no text `id`");
        let more = "line 1: the item has `more`, which is not in `item_outputs`";
        assert_eq!(told("{\"id\": \"a\", \"more\": 1}"), more);
        let twice = r#"{"id": "a", "text": "b", "text": "c"}"#;
        assert_eq!(told(twice), "line 1: the item has `text` twice");
        for reject in ["5", "true", "[\"noise\"]"] {
            let line = format!(r#"{{"id": "a", "reject": {reject}}}"#);
            let reject = reject.replace(' ', "");
            let expected =
                format!("line 1: `reject` of the item is {reject}, not a reason in words");
            assert_eq!(told(&line), expected);
        }
        let table = declared("c.tsv", &[("text", "text")]);
        let short = table.in_table(b"id\ttext\na\n", b'\t', Utf8Path::new("/x")).unwrap_err();
        assert!(
            short.contains("line: 2") && short.contains("found record with 1 fields"),
            "{short}"
        );
    }
}
