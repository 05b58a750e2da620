//! Items for a process: texts and numbers as they are, bytes as files.
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value as Json, json};
use stage_core::{Blob, Context, Item, Reject, StageError, Value};

use super::declared::FunctionDeclaration;
use super::messages::{ItemMessage, Request};
use super::process::Process;
use crate::command::artifact::value;
use crate::command::inputs::lay_out_all;
use crate::command::private::{OUTPUTS, create};

/// The name under which a stage reads ids.
pub const ID: &str = "id";

/// The bytes of one message, roughly.
const MESSAGE: usize = 1 << 20;

/// The folder for the outputs of an item, in that of the process.
pub fn out_of(number: usize) -> Utf8PathBuf {
    Utf8Path::new(OUTPUTS).join(number.to_string())
}

/// The items of a request by their position; those that lack a field are judged here.
pub struct Inputs {
    pub lines: Vec<(usize, ItemMessage)>,
    pub rejects: Vec<(usize, Reject)>,
}

impl Inputs {
    /// Lays out the files of a batch.
    pub fn lay_out(
        declared: &FunctionDeclaration,
        items: &[Item],
        folder: &Utf8Path,
        context: &mut dyn Context,
    ) -> Result<Inputs, StageError> {
        let files = lay_out_all(items, &declared.fields, folder, context)?;
        Ok(Inputs::new(declared, items, folder, &files))
    }

    /// For items with these files, by item and then by field.
    pub fn new(
        declared: &FunctionDeclaration,
        items: &[Item],
        folder: &Utf8Path,
        files: &[(Utf8PathBuf, &Blob)],
    ) -> Inputs {
        let mut files = files.iter();
        let mut inputs = Inputs { lines: Vec::new(), rejects: Vec::new() };
        for (number, item) in items.iter().enumerate() {
            match fields(declared, item, &mut files) {
                Ok(fields) => {
                    let out = folder.join(out_of(number));
                    let line = ItemMessage {
                        id: number.to_string(),
                        name: declared.reads_id().then(|| item.id.to_string()),
                        seed: declared.seed_of(&item.id, &item.fields),
                        out: out.into_string(),
                        fields,
                    };
                    inputs.lines.push((number, line));
                }
                Err(reject) => inputs.rejects.push((number, reject)),
            }
        }
        inputs
    }

    /// Makes a folder for the outputs of each item.
    pub fn make_folders(&self) -> Result<(), StageError> {
        self.lines.iter().try_for_each(|(_, line)| create(Utf8Path::new(&line.out)))
    }

    /// Sends the items in messages of a moderate size.
    pub fn send(&self, process: &mut Process, request: u64, out: &str) {
        let lines: Vec<ItemMessage> = self.lines.iter().map(|(_, line)| line.clone()).collect();
        let (mut from, mut size) = (0, 0);
        for (at, line) in lines.iter().enumerate() {
            let texts = line.fields.values().map(|value| value.as_str().map_or(16, str::len));
            size += texts.sum::<usize>() + line.out.len();
            if size > MESSAGE {
                let items = &lines[from..=at];
                process.send(&Request::Batch { request, items, more: true, out });
                (from, size) = (at + 1, 0);
            }
        }
        process.send(&Request::Batch { request, items: &lines[from..], more: false, out });
    }
}

fn fields<'a>(
    declared: &FunctionDeclaration,
    item: &Item,
    files: &mut impl Iterator<Item = &'a (Utf8PathBuf, &'a Blob)>,
) -> Result<Map<String, Json>, Reject> {
    let mut fields = Map::new();
    let mut problem = None;
    for name in &declared.fields {
        let told = match item.fields.get(name) {
            // The engine gives the id to a stage that names it as a field.
            _ if name == ID => Some(Json::from(&*item.id)),
            Some(Value::Blob(_)) => files.next().map(|(path, blob)| {
                json!({ "path": path.as_str(), "kind": &*blob.kind, "size": blob.size })
            }),
            Some(own) => value(own),
            None => None,
        };
        match told {
            Some(told) => drop(fields.insert(name.clone(), told)),
            None => problem = problem.or(Some(name)),
        }
    }
    match problem {
        None => Ok(fields),
        Some(name) if item.fields.get(name).is_some() => {
            let reason = format!("the number in the field `{name}` is not finite");
            Err(Reject::new("unfit-value", reason))
        }
        Some(name) => {
            let reason = format!("the item has no field `{name}`, which the program reads");
            Err(Reject::new("no-field", reason))
        }
    }
}
