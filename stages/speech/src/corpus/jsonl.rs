//! `corpus.jsonl`: one JSON object per line, with the key names of NeMo, lhotse and others.
//!
//! A name with dots leads into objects and lists: `supervisions.0.text`.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::columns::{Column, ColumnRole, PART_ROLES, is_in_milliseconds};
use super::lhotse;
use super::part::{PartRule, Times};
use super::parts::RowParts;
use super::text::{check_text, is_in_lines};
use super::{CorpusError, MAX_ROW_BYTES, RowProblem, RowRecord, Rows, Value, path};
use crate::object::Object;
use stage_formats::mark::unmarked;

/// The keys of each role; an empty list means the usual names.
#[derive(Debug, Clone, Default)]
pub struct JsonlOptions {
    pub file: Vec<String>,
    pub text: Vec<String>,
    pub speaker: Vec<String>,
    pub id: Vec<String>,
    pub parts: PartRule,
    /// The absolute folder that paths may begin with.
    pub folder: Option<Arc<str>>,
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
pub fn read(bytes: &[u8], options: &JsonlOptions) -> Result<Rows, CorpusError> {
    check_text(bytes)?;
    check_lines(bytes)?;
    let names = KeyNames::of(options);
    let mut rows = Rows::default();
    let mut offset = 0u64;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let place = (index as u64 + 1, offset);
        offset += line.len() as u64;
        let is_complete = line.ends_with(b"\n");
        // Files that were joined have a mark in the middle.
        let line = unmarked(line);
        if line.trim_ascii().is_empty() {
            continue;
        }
        match clips(line, is_complete, options.parts) {
            Ok(clips) => {
                let several = clips.len() > 1;
                for (number, clip) in (1..).zip(clips) {
                    let number = if several { number } else { 0 };
                    let folder = options.folder.as_deref();
                    let file = names.file(&clip.line, folder);
                    let record = record(clip, &names, folder, place);
                    rows.rejected_files.extend(file.filter(|_| record.is_err()));
                    rows.push_one_of(place, number, record);
                }
            }
            Err(problem) => rows.push(place.0, place.1, Err(problem)),
        }
    }
    rows.assign_parts();
    rows.reject_duplicates();
    Ok(rows)
}

/// An error if the file as a whole is something else than JSON lines.
fn check_lines(bytes: &[u8]) -> Result<(), CorpusError> {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(|line| unmarked(line).trim_ascii());
    let Some(first) = lines.find(|line| !line.is_empty()) else { return Ok(()) };
    let is_json = |line: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
    match first[0] {
        b'{' if !is_in_lines(bytes) && !is_json(first) => Err(CorpusError::CarriageReturns),
        b'[' if !is_json(first) && is_json(unmarked(bytes)) => Err(CorpusError::JsonList),
        b'{' | b'[' => Ok(()),
        _ if is_json(first) || lines.any(|line| line.starts_with(b"{")) => Ok(()),
        _ => {
            let line = String::from_utf8_lossy(&first[..first.len().min(200)]);
            Err(CorpusError::NotJsonLines { line: line.chars().take(60).collect() })
        }
    }
}

/// A clip in a line.
struct JsonlClip {
    line: Map<String, Json>,
    times: Times,
    /// Its id, if the line has several clips.
    id: Option<String>,
}

fn clips(line: &[u8], is_complete: bool, parts: PartRule) -> Result<Vec<JsonlClip>, RowProblem> {
    if line.len() > MAX_ROW_BYTES {
        return Err(RowProblem::TooLong { bytes: line.len() as u64 });
    }
    let line = std::str::from_utf8(line)
        .map_err(|error| RowProblem::NotUtf8 { at: error.valid_up_to() as u64 })?;
    let line = parse(line, is_complete)?;
    match parts {
        PartRule::Off => Ok(vec![JsonlClip { line, times: Times::default(), id: None }]),
        PartRule::Cut if lhotse::is_lhotse(&line) => {
            let views = lhotse::views(line)?.into_iter();
            Ok(views
                .map(|lhotse::View { line, times, id }| JsonlClip { line, times, id })
                .collect())
        }
        PartRule::Cut => Ok(vec![JsonlClip { times: times(&line)?, line, id: None }]),
    }
}

/// The times and the channel under their usual names.
fn times(line: &Map<String, Json>) -> Result<Times, RowProblem> {
    let mut times = Times::default();
    for role in PART_ROLES {
        let value = |name: &&'static str| {
            line.get(*name).filter(|value| !value.is_null()).map(|value| (*name, value))
        };
        match role.names().iter().find_map(value) {
            None => {}
            Some((key, Json::Array(list))) if role == ColumnRole::Channel && list.len() > 1 => {
                return Err(RowProblem::SeveralChannels { key });
            }
            Some((_, Json::Array(list))) if role == ColumnRole::Channel => {
                let only = list.first().and_then(Json::as_u64);
                times.channel = only.and_then(|channel| u16::try_from(channel).ok());
            }
            Some((key, Json::Number(number))) if role != ColumnRole::Channel => {
                let scale = if is_in_milliseconds(key) { 0.001 } else { 1.0 };
                times.set(role, key, number.as_f64().unwrap_or(f64::NAN) * scale)?;
            }
            Some((key, Json::Number(number))) => times.take(role, key, &number.to_string())?,
            Some((key, Json::String(text))) => times.take(role, key, text.trim())?,
            Some(_) => {}
        }
    }
    Ok(times)
}

struct KeyNames {
    by_role: Vec<(ColumnRole, Vec<String>)>,
}

impl KeyNames {
    fn of(options: &JsonlOptions) -> KeyNames {
        let names = |own: &[String], usual: &[&str]| {
            if own.is_empty() {
                usual.iter().map(|name| (*name).to_owned()).collect()
            } else {
                own.to_vec()
            }
        };
        KeyNames {
            by_role: vec![
                (ColumnRole::Id, names(&options.id, &ID_NAMES)),
                (ColumnRole::File, names(&options.file, &FILE_NAMES)),
                (ColumnRole::Text, names(&options.text, &TEXT_NAMES)),
                (ColumnRole::Speaker, names(&options.speaker, &SPEAKER_NAMES)),
            ],
        }
    }

    /// The audio path of a line, if it has a usable one.
    fn file(&self, line: &Map<String, Json>, folder: Option<&str>) -> Option<String> {
        let candidates = self.by_role.iter().find(|(role, _)| *role == ColumnRole::File);
        let mut candidates = candidates.into_iter().flat_map(|(_, names)| names);
        let written = candidates.find_map(|key| lookup(line, key)?.as_str())?;
        path::below(folder, written).ok()
    }

    fn is_used(&self, key: &str) -> bool {
        self.by_role.iter().any(|(_, names)| names.iter().any(|name| name == key))
    }
}

fn record(
    JsonlClip { line, times, id }: JsonlClip,
    names: &KeyNames,
    folder: Option<&str>,
    (row, offset): (u64, u64),
) -> Result<RowRecord, RowProblem> {
    let mut parts = RowParts { folder, times, ..RowParts::default() };
    for (role, candidates) in &names.by_role {
        let Some((key, value)) = candidates.iter().find_map(|key| Some((key, lookup(&line, key)?)))
        else {
            if matches!(role, ColumnRole::Text | ColumnRole::File) {
                return Err(RowProblem::MissingKey { expected: listed(candidates) });
            }
            continue;
        };
        parts.take(&scalar(key, value)?, &Column::Role(*role))?;
    }
    for (key, value) in line.iter().filter(|(key, _)| !names.is_used(key)) {
        match value {
            Json::String(text) => parts.take(text, &Column::Field(key.clone()))?,
            Json::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                parts.fields.insert(key.clone(), Value::Number(number));
            }
            _ => {}
        }
    }
    if id.is_some() {
        parts.id = id;
    }
    parts.into_record(row, offset)
}

fn parse(line: &str, is_complete: bool) -> Result<Map<String, Json>, RowProblem> {
    let failed = |error: serde_json::Error| {
        let column = error.column() as u64;
        if error.is_eof() && !is_complete {
            RowProblem::CutShort { column }
        } else {
            RowProblem::NotJson { column, message: reason(&error) }
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
fn lookup<'a>(line: &'a Map<String, Json>, key: &str) -> Option<&'a Json> {
    let direct = line.get(key);
    let found = direct.or_else(|| {
        let (first, rest) = key.split_once('.')?;
        rest.split('.').try_fold(line.get(first)?, |value, part| match value {
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
mod tests;
