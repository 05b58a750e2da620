//! `corpus.jsonl`: one JSON object per line, with the key names of NeMo, lhotse and others.
//!
//! A name with dots leads into objects and lists: `supervisions.0.text`.

use serde_json::{Map, Value as Json};
use stage_formats::mark::unmarked;

use super::columns::{Column, Role};
use super::parts::Parts;
use super::{CorpusError, MAX_ROW_BYTES, RowProblem, RowRecord, Rows, Value};
use crate::object::Object;

/// The keys of each role; an empty list means the usual names.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub file: Vec<String>,
    pub text: Vec<String>,
    pub speaker: Vec<String>,
    pub id: Vec<String>,
}

const FILE_NAMES: [&str; 7] = [
    "audio_filepath",
    "audio_file",
    "file",
    "path",
    "audio",
    "file_name",
    "recording.sources.0.source",
];
const TEXT_NAMES: [&str; 5] =
    ["text", "sentence", "transcript", "transcription", "supervisions.0.text"];
const SPEAKER_NAMES: [&str; 5] =
    ["speaker", "speaker_name", "speaker_id", "client_id", "supervisions.0.speaker"];
const ID_NAMES: [&str; 3] = ["id", "utt_id", "utterance_id"];

/// Reads all lines; blank ones are skipped.
pub fn read(bytes: &[u8], options: &Options) -> Result<Rows, CorpusError> {
    let bytes = match bytes {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => return Err(CorpusError::Utf16),
        _ => bytes,
    };
    let names = Names::of(options);
    let mut rows = Rows::default();
    let mut offset = 0u64;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let start = offset;
        offset += line.len() as u64;
        let is_complete = line.ends_with(b"\n");
        let line = if index == 0 { unmarked(line) } else { line };
        if line.trim_ascii().is_empty() {
            continue;
        }
        let row = index as u64 + 1;
        rows.push(row, start, record(line, is_complete, &names, (row, start)));
    }
    rows.reject_duplicates();
    Ok(rows)
}

struct Names {
    by_role: Vec<(Role, Vec<String>)>,
}

impl Names {
    fn of(options: &Options) -> Names {
        let names = |own: &[String], usual: &[&str]| match own.is_empty() {
            true => usual.iter().map(|name| (*name).to_owned()).collect(),
            false => own.to_vec(),
        };
        Names {
            by_role: vec![
                (Role::Id, names(&options.id, &ID_NAMES)),
                (Role::File, names(&options.file, &FILE_NAMES)),
                (Role::Text, names(&options.text, &TEXT_NAMES)),
                (Role::Speaker, names(&options.speaker, &SPEAKER_NAMES)),
            ],
        }
    }

    fn is_used(&self, key: &str) -> bool {
        self.by_role.iter().any(|(_, names)| names.iter().any(|name| name == key))
    }
}

fn record(
    line: &[u8],
    is_complete: bool,
    names: &Names,
    (row, offset): (u64, u64),
) -> Result<RowRecord, RowProblem> {
    if line.len() > MAX_ROW_BYTES {
        return Err(RowProblem::TooLong { bytes: line.len() as u64 });
    }
    let line = std::str::from_utf8(line)
        .map_err(|error| RowProblem::NotUtf8 { at: error.valid_up_to() as u64 })?;
    let json = Json::Object(parse(line, is_complete)?);
    let mut parts = Parts::default();
    for (role, candidates) in &names.by_role {
        let Some((key, value)) = candidates.iter().find_map(|key| Some((key, lookup(&json, key)?)))
        else {
            if matches!(role, Role::Text | Role::File) {
                return Err(RowProblem::MissingKey { expected: listed(candidates) });
            }
            continue;
        };
        parts.take(&scalar(key, value)?, &Column::Role(*role))?;
    }
    let object = json.as_object().into_iter().flatten();
    for (key, value) in object.filter(|(key, _)| !names.is_used(key)) {
        match value {
            Json::String(text) => parts.take(text, &Column::Field(key.clone()))?,
            Json::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                parts.fields.insert(key.clone(), Value::Number(number));
            }
            _ => {}
        }
    }
    parts.into_record(row, offset)
}

fn parse(line: &str, is_complete: bool) -> Result<Map<String, Json>, RowProblem> {
    let failed = |error: serde_json::Error| {
        let column = error.column() as u64;
        match error.is_eof() && !is_complete {
            true => RowProblem::CutShort { column },
            false => RowProblem::NotJson { column, message: reason(&error) },
        }
    };
    match serde_json::from_str(line) {
        Ok(Object { repeated: Some(key), .. }) => Err(RowProblem::RepeatedKey { key }),
        Ok(Object { fields, .. }) => Ok(fields),
        Err(error) if error.is_data() => {
            let json: Json = serde_json::from_str(line).map_err(failed)?;
            Err(RowProblem::NotAnObject { found: kind(&json) })
        }
        Err(error) => Err(failed(error)),
    }
}

/// The message of the parser without its position, which is relative to the line.
fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => message,
    }
}

/// A non-null value, by its key or by a path of keys and numbers.
fn lookup<'a>(json: &'a Json, key: &str) -> Option<&'a Json> {
    let direct = json.get(key);
    let found = direct.or_else(|| {
        key.split('.').try_fold(json, |value, part| match value {
            Json::Array(list) => list.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        })
    });
    found.filter(|value| !value.is_null())
}

/// Ids and speakers may be written as numbers.
fn scalar(key: &str, value: &Json) -> Result<String, RowProblem> {
    match value {
        Json::String(text) => Ok(text.trim().to_owned()),
        Json::Number(number) => Ok(number.to_string()),
        other => Err(RowProblem::WrongType {
            key: key.to_owned(),
            found: kind(other),
            expected: "a text",
        }),
    }
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "number",
        Json::String(_) => "text",
        Json::Array(_) => "list",
        Json::Object(_) => "object",
    }
}

fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    fn rows(text: &str) -> Rows {
        read(text.as_bytes(), &Options::default()).unwrap()
    }

    fn problems(text: &str) -> Vec<String> {
        rows(text)
            .rejects
            .iter()
            .map(|reject| format!("{}: {}", reject.row, reject.problem))
            .collect()
    }

    #[test]
    fn lines_of_nemo_and_of_lhotse_are_understood() {
        let nemo =
            rows("{\"audio_filepath\": \"a/1.wav\", \"text\": \"Hei\", \"duration\": 1.5}\n");
        assert_eq!(
            (nemo.records[0].id.as_str(), nemo.records[0].text.as_deref()),
            ("a/1", Some("Hei"))
        );
        assert_eq!(nemo.records[0].fields["duration"], Value::Number(1.5));
        let lhotse = rows(
            "{\"id\": \"cut-1\", \"recording\": {\"sources\": [{\"source\": \"b.flac\"}]}, \
             \"supervisions\": [{\"text\": \"Moi\", \"speaker\": \"anna\"}]}",
        );
        let cut = &lhotse.records[0];
        assert_eq!(
            (cut.id.as_str(), cut.file.as_str(), cut.speaker.as_deref()),
            ("cut-1", "b.flac", Some("anna"))
        );
    }

    #[test]
    fn a_byte_order_mark_before_the_first_line_is_no_part_of_it() {
        let read = rows("\u{feff}{\"path\": \"a.wav\", \"text\": \"x\"}\n");
        assert_eq!((read.records.len(), read.rejects.len()), (1, 0));
    }

    #[test]
    fn names_can_be_declared() {
        let options = Options { file: vec!["x.y".to_owned()], ..Options::default() };
        let rows = read(b"{\"x\": {\"y\": \"a.wav\"}, \"text\": \"Hei\"}\n", &options).unwrap();
        assert_eq!(rows.records[0].file, "a.wav");
    }

    #[test]
    fn a_line_that_cannot_be_used_says_where_and_why() {
        let good = "{\"path\": \"a.wav\", \"text\": \"x\"}\n";
        assert_eq!(
            problems(&format!("{good}{{\"path\": \"b.wav\", \"te")),
            [
                "2: the line ends in the middle of the JSON value (column 21); the file was cut short"
            ]
        );
        assert_eq!(
            problems(&format!("\n[1]\n{good}")),
            ["2: the line is a JSON list, not an object"]
        );
        assert_eq!(
            problems("{\"path\": \"b.wav\", \"text\": \"x\", \"text\": \"y\"}\n"),
            ["1: the line has the key `text` twice"]
        );
        assert_eq!(
            problems("{\"path\": 1 2}\n"),
            ["1: column 12 of the line is not JSON: expected `,` or `}`"]
        );
        assert_eq!(
            problems("{\"path\": \"../b\", \"text\": \"x\"}"),
            ["1: the audio path `../b` leads outside its folder"]
        );
        assert_eq!(
            problems("{\"path\": [], \"text\": \"x\"}"),
            ["1: the key `path` holds list, not a text"]
        );
        assert_eq!(
            problems("{\"path\": \"rec cmd |\", \"text\": \"x\"}"),
            [
                "1: the audio path `rec cmd |` is a command (it ends or begins with a bar); commands are never run"
            ]
        );
        assert!(
            problems("{\"text\": \"x\"}\n")[0]
                .starts_with("1: it has none of the keys `audio_filepath`, ")
        );
    }

    #[test]
    fn deep_nesting_and_lone_surrogates_are_one_bad_line_each() {
        let text = format!("{}\n{{\"path\": \"a\", \"text\": \"\\ud800\"}}\n", "[".repeat(100_000));
        assert_eq!(rows(&text).rejects.len(), 2);
    }

    proptest! {
        #[test]
        fn any_bytes_give_rows_or_rejects(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes, &Options::default());
        }

        #[test]
        fn a_file_cut_anywhere_loses_only_its_last_line(cut in 0usize..120) {
            let text: String = (0..3).map(|n| format!("{{\"path\": \"{n}.wav\", \"text\": \"äö\"}}\n")).collect();
            let cut = cut.min(text.len());
            let rows = read(&text.as_bytes()[..cut], &Options::default()).unwrap();
            let whole = text.as_bytes()[..cut].iter().filter(|byte| **byte == b'\n').count();
            prop_assert!(rows.records.len() >= whole);
            prop_assert!(rows.rejects.len() <= 1);
        }
    }
}
