//! `corpus.sentences`: texts to be synthesised, from the manifest and from a file.

use std::collections::BTreeMap;

use cache::Digest;
use camino::Utf8PathBuf;
use stage_core::{
    Context, Item, Job, Parameters, Reject, Setup, SourceJob, SourceOutput, StageError, Value,
    World,
};

use super::{MAX_ROW_BYTES, RowProblem, parts};
use crate::plain::unknown_choice;
use stage_formats::mark::unmarked;

struct SentenceSource {
    listed: Vec<String>,
    file: Option<Utf8PathBuf>,
    ids: Ids,
    first: Option<usize>,
}

#[derive(Clone, Copy)]
enum Ids {
    Number,
    Content,
}

pub(super) fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let file = if parameters.is_set("file") {
        Some(Utf8PathBuf::from(parameters.text("file")?))
    } else {
        None
    };
    let ids = match parameters.text("ids")? {
        "number" => Ids::Number,
        "content" => Ids::Content,
        other => return Err(unknown_choice("ids", other)),
    };
    let listed: Vec<String> =
        parameters.texts("sentences")?.into_iter().map(str::to_owned).collect();
    if listed.is_empty() && file.is_none() {
        return Err(StageError::with_help(
            "there are no sentences",
            "add `sentences = [\"…\"]`, or `file` with one sentence per line",
        ));
    }
    let first = parameters.if_set("first", Parameters::integer)?;
    let first = first.map(|first| usize::try_from(first).unwrap_or_default());
    Ok(Job::Source(Box::new(SentenceSource { listed, file, ids, first })))
}

impl SourceJob for SentenceSource {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let mut found = Vec::new();
        for (at, text) in self.listed.iter().enumerate() {
            found.push((format!("sentence {}", at + 1), check(text.as_bytes())));
        }
        if let Some(file) = &self.file {
            let bytes = world.read(file)?;
            let name = file.file_name().unwrap_or(file.as_str());
            found.extend(lines(&bytes).map(|(line, text)| (format!("{name}:{line}"), check(text))));
        }
        found.truncate(self.first.unwrap_or(usize::MAX));
        Ok(self.items(found))
    }
}

/// The non-empty lines, with their numbers from 1.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let bytes = unmarked(bytes);
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
}

fn check(bytes: &[u8]) -> Result<String, RowProblem> {
    if bytes.len() > MAX_ROW_BYTES {
        return Err(RowProblem::TooLong { bytes: bytes.len() as u64 });
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| RowProblem::NotUtf8 { at: error.valid_up_to() as u64 })?;
    parts::check_text("text", text)?;
    let text = text.trim();
    if text.is_empty() {
        Err(RowProblem::Empty { column: "text".to_owned() })
    } else {
        Ok(text.to_owned())
    }
}

impl SentenceSource {
    fn items(&self, found: Vec<(String, Result<String, RowProblem>)>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let mut places: BTreeMap<String, String> = BTreeMap::new();
        for (at, (place, text)) in found.into_iter().enumerate() {
            let text = text.map_err(|problem| Reject::new(problem.code(), problem.to_string()));
            let text = text.and_then(|text| match places.get(&text) {
                Some(first) => Err(Reject::new("duplicate", format!("the same as {first}"))),
                None => Ok(text),
            });
            match text {
                Ok(text) => {
                    let fields = [("text", Value::text(text.as_str()))].into_iter().collect();
                    output.items.push(Item::new(self.id(at + 1, &text), fields));
                    places.insert(text, place);
                }
                Err(reject) => output.rejects.push((place, reject)),
            }
        }
        output
    }

    fn id(&self, number: usize, text: &str) -> String {
        match self.ids {
            Ids::Number => format!("{number:03}"),
            Ids::Content => Digest::of(text.as_bytes()).short(),
        }
    }
}
