//! `dataset.corpus`: clips as files that other pipelines and programs read.

use std::collections::BTreeMap;

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, PortOutput, Reject, Setup,
    StageError, Value,
};

/// The first line of each table.
const HEADER: &str = "file|text|speaker\n";

struct Corpus {
    /// Of clips that name none.
    speaker: String,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let speaker = setup.parameters.text("speaker")?.to_owned();
    Ok(Job::Gather(Box::new(Corpus { speaker })))
}

/// The files so far, by their names.
#[derive(Default)]
struct Files {
    values: BTreeMap<String, NewValue>,
    all: Vec<String>,
}

impl GatherJob for Corpus {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let mut files = Files::default();
        let mut sides = Vec::new();
        for port in ["input", "validation"] {
            if !input.ports.contains_key(port) {
                continue;
            }
            let (mut rows, mut rejects) = (Vec::new(), Vec::new());
            for (at, item) in input.items(port)?.iter().enumerate() {
                match self.add(item, &mut files) {
                    Ok(row) => rows.push(row),
                    Err(reject) => rejects.push((at, reject)),
                }
            }
            context.set_aside(port, rejects)?;
            files.all.extend(rows.iter().cloned());
            sides.push(rows);
        }
        files.table("metadata.csv", files.all.clone());
        if let [train, valid] = &sides[..] {
            files.table("train.csv", train.clone());
            files.table("valid.csv", valid.clone());
        }
        let values = files.values.into_iter().collect();
        Ok(GatherOutput::default().with("output", PortOutput::Artifact(values)))
    }
}

impl Corpus {
    /// Adds the files of a clip; its row of a table.
    fn add(&self, item: &Item, files: &mut Files) -> Result<String, Reject> {
        let (Some(audio), Some(text)) = (item.fields.blob("audio"), item.fields.text("text"))
        else {
            return Err(Reject::new("no-field", "the clip has no `audio` or no `text`"));
        };
        let speaker = item.fields.text("speaker").unwrap_or(&self.speaker);
        for (name, value) in [("text", text), ("speaker", speaker)] {
            if value.contains(['|', '\n', '\r']) || value.trim().is_empty() {
                let reason = format!("its `{name}` is empty, or has a bar or a line break");
                return Err(Reject::new("not-written", reason));
            }
        }
        let path = format!("{}/{}", name(speaker), name(&item.id));
        let (sound, label) = (format!("{path}.wav"), format!("{path}.lab"));
        if files.values.contains_key(&sound) {
            return Err(Reject::new(
                "not-written",
                format!("another clip has the same file `{sound}`"),
            ));
        }
        files.values.insert(label, NewValue::bytes("text/plain", format!("{text}\n")));
        let row = format!("{sound}|{text}|{speaker}\n");
        files.values.insert(sound, NewValue::Kept(Value::Blob(audio.clone())));
        Ok(row)
    }
}

impl Files {
    fn table(&mut self, name: &str, mut rows: Vec<String>) {
        rows.sort();
        let table = format!("{HEADER}{}", rows.concat());
        self.values.insert(name.to_owned(), NewValue::bytes("text/csv", table));
    }
}

/// A file name: an id may have folders, and a speaker may have any name.
fn name(text: &str) -> String {
    let plain = |sign: char| match sign {
        '/' | '\\' | ':' | '\0' => '_',
        sign => sign,
    };
    let name: String = text.chars().map(plain).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}
