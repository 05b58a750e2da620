//! `command.once`: a program for a whole data set, with files, a folder or items as its output.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::kinds::Form;
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value as Json};
use stage_core::output_types::TEXT;
use stage_core::output_types::is_folder;
use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Item, Job, NewItem, NewValue,
    ParameterValue, Parameters, PortInput, PortOutput, Reject, Setup, StageError, Value,
};

use super::answers::{AnswerError, of_output, take};
use super::artifact;
use super::folder::files;
use super::gathered::GatheredInputs;
use super::items::{self, ItemLine};
use super::private::{INPUTS, OUTPUTS, Private, create, write};
use super::room::Room;
use super::run::{CommandError, ProgramOutput, output};
use super::stage::{CommandDeclaration, fatal};
use crate::corpus::path;

/// The input port, its placeholder, and the output with items.
const INPUT: &str = "input";
const ITEMS: &str = "items";
const MADE_ITEMS: &str = "out.items";
/// The port with an artifact, its placeholder, and its folder.
const ARTIFACT: &str = "artifact";
/// The list of the items in the private folder.
const LIST: &str = "items.jsonl";

/// Runs the command once.
struct Once {
    declared: CommandDeclaration,
    /// The output that is a folder: its name and its path.
    folder: Option<(String, Utf8PathBuf)>,
    items: Option<items::ItemsDeclaration>,
    artifact: Option<Fields>,
}

/// The outputs of a finished program, as far as they are looked at while its disk is watched.
struct FolderOutputs {
    values: Vec<(String, NewValue)>,
    /// The files of the folder, relative to it.
    files: Vec<Utf8PathBuf>,
    items: Vec<ItemLine>,
}

pub(super) fn open(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let folder = folder(parameters)?;
    let mut places = vec![ITEMS.to_owned(), ARTIFACT.to_owned(), MADE_ITEMS.to_owned()];
    places.extend(folder.iter().map(|(name, _)| format!("out.{name}")));
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    Ok(Job::Gather(Box::new(Once {
        declared: CommandDeclaration::open(&setup, &places, context)?,
        folder,
        items: made_items(parameters)?,
        artifact: setup.artifacts.get(ARTIFACT).and_then(|all| all.first()).cloned(),
    })))
}

fn relative(name: &str, written: &str) -> Result<Utf8PathBuf, StageError> {
    let checked = path::relative(written).map_err(|problem| {
        let problem = of_output(&problem);
        StageError::failed(format!("the output `{name}` cannot be used: its path {problem}"))
    })?;
    Ok(Utf8PathBuf::from(checked))
}

fn folder(parameters: &Parameters) -> Result<Option<(String, Utf8PathBuf)>, StageError> {
    for (name, value) in parameters.map("outputs")? {
        match value {
            ParameterValue::Text(path) if is_folder(path) => {
                return Ok(Some((name.to_owned(), relative(name, path)?)));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn made_items(parameters: &Parameters) -> Result<Option<items::ItemsDeclaration>, StageError> {
    let Some(written) = parameters.if_set(ITEMS, Parameters::text)? else { return Ok(None) };
    let Some(form) = Form::of(written) else {
        return Err(StageError::failed(format!("`items` cannot be `{written}`")));
    };
    let kind = |(name, value): (&str, &ParameterValue)| match value {
        ParameterValue::Text(kind) => Ok((name.to_owned(), kind.clone())),
        _ => Err(StageError::failed(format!("the field `{name}` has no type"))),
    };
    let kinds = parameters.map("item_outputs")?.into_iter().map(kind);
    let kinds = kinds.collect::<Result<BTreeMap<_, _>, _>>()?;
    Ok(Some(items::ItemsDeclaration { form, path: relative(ITEMS, written)?, kinds }))
}

impl GatherJob for Once {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let private = Private::new(context)?;
        let folder = private.path();
        let items = match input.ports.get(INPUT).and_then(|inputs| inputs.first()) {
            Some(PortInput::Dataset { items, .. }) => items.as_slice(),
            _ => &[],
        };
        let fields = &self.declared.fields;
        let inputs = GatheredInputs::lay_out(items, fields, folder, context)?;
        let places = self.lay_out(items, &inputs, folder, context)?;
        let room = Room::of(folder, &[INPUTS, OUTPUTS]);
        let finished = self.declared.run(folder, &places, inputs.folder(), context);
        let is_over = finished.as_ref().is_ok_and(|finished| finished.is_over);
        let made = room.judge(finished.and_then(|finished| self.made(folder, finished)));
        if is_over {
            inputs.keep();
        }
        let made = made.map_err(fatal)?;
        let mut artifact = made.values;
        self.add_files(folder, &made.files, &mut artifact, context)?;
        let made_items = self.made_items(made.items, items, folder, context)?;
        let output = GatherOutput::default().with("output", PortOutput::Artifact(artifact));
        Ok(output.with(ITEMS, PortOutput::Dataset(made_items)))
    }
}

impl Once {
    /// Writes everything that the program reads, and returns the values for its line.
    fn lay_out(
        &self,
        items: &[Item],
        inputs: &GatheredInputs<'_>,
        folder: &Utf8Path,
        context: &mut dyn Context,
    ) -> Result<BTreeMap<String, String>, StageError> {
        self.declared.prepare(folder)?;
        let mut places = self.declared.places(folder);
        let mut place = |name: &str, path: Utf8PathBuf| {
            places.insert(name.to_owned(), path.into_string());
        };
        let out = folder.join(OUTPUTS);
        if let Some((name, path)) = &self.folder {
            create(&out.join(path))?;
            place(&format!("out.{name}"), out.join(path));
        }
        if let Some(items) = &self.items {
            create(&folder.join(items.folder()))?;
            place(MADE_ITEMS, out.join(&items.path));
        }
        if let Some(fields) = &self.artifact {
            artifact::lay_out(fields, &folder.join(ARTIFACT), context)?;
            place(ARTIFACT, folder.join(ARTIFACT));
        }
        let list = folder.join(LIST);
        write(&list, &self.lines(items, inputs))?;
        place(ITEMS, list);
        Ok(places)
    }

    /// The items as JSON lines, with the paths of their files.
    fn lines(&self, items: &[Item], inputs: &GatheredInputs<'_>) -> Vec<u8> {
        let mut files = inputs.files.iter();
        let mut lines = Vec::new();
        for item in items {
            let mut line = Map::new();
            line.insert("id".to_owned(), (&*item.id).into());
            for name in &self.declared.fields {
                let value: Json = match item.fields.get(name) {
                    Some(Value::Number(number)) => (*number).into(),
                    Some(Value::Text(text)) => (&**text).into(),
                    Some(Value::Blob(_)) => files.next().map(|(path, _)| path.as_str()).into(),
                    None => Json::Null,
                };
                line.insert(name.clone(), value);
            }
            lines.extend(Json::from(line).to_string().into_bytes());
            lines.push(b'\n');
        }
        lines
    }

    fn made(
        &self,
        folder: &Utf8Path,
        finished: ProgramOutput,
    ) -> Result<FolderOutputs, CommandError> {
        let items = match &self.items {
            Some(items) => items.read(folder, &finished.stderr)?,
            None => Vec::new(),
        };
        let found = match &self.folder {
            Some((_, path)) => files(folder, &Utf8Path::new(OUTPUTS).join(path))?,
            None => Vec::new(),
        };
        Ok(FolderOutputs { values: self.declared.made(finished)?.values, files: found, items })
    }

    /// The files of the folder become fields of the artifact. One is in memory at a time.
    fn add_files(
        &self,
        folder: &Utf8Path,
        files: &[Utf8PathBuf],
        artifact: &mut Vec<(String, NewValue)>,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let Some((name, path)) = &self.folder else { return Ok(()) };
        for file in files {
            if artifact.iter().any(|(other, _)| other == file.as_str()) {
                return Err(StageError::failed(format!(
                    "the folder `{name}` has a file with the name of the output `{file}`"
                )));
            }
            let inside = Utf8Path::new(OUTPUTS).join(path).join(file);
            let bytes = output(folder, &inside, "").map_err(fatal)?;
            let kind = format!("file/{}", file.extension().unwrap_or("unknown"));
            let blob = NewValue::blob(context.keep(&kind, bytes)?);
            artifact.push((file.to_string(), blob));
        }
        Ok(())
    }

    /// The items of the program; those of `input` that cannot be used are set aside.
    fn made_items(
        &self,
        written: Vec<ItemLine>,
        items: &[Item],
        folder: &Utf8Path,
        context: &mut dyn Context,
    ) -> Result<Vec<NewItem>, StageError> {
        let Some(declared) = &self.items else { return Ok(Vec::new()) };
        let places: HashMap<&str, usize> =
            items.iter().enumerate().map(|(place, item)| (&*item.id, place)).collect();
        let (mut made, mut rejects, mut ids) = (Vec::new(), Vec::new(), BTreeSet::new());
        for ItemLine { id, fields } in written {
            if !ids.insert(id.clone()) {
                return Err(StageError::failed(format!(
                    "the command gave two items the id `{id}`"
                )));
            }
            let place = places.get(id.as_str()).copied();
            let values = match fields {
                Ok(fields) => one(declared, &fields, folder)?,
                Err(reason) => Err(Reject::new("rejected", reason)),
            };
            match (values, place) {
                (Ok(values), place) => {
                    let old = place.map(|place| NewItem::kept(&items[place]));
                    let item = old.unwrap_or(NewItem { id, values: Vec::new() });
                    made.push(with_all(item, values, context)?);
                }
                (Err(reject), Some(place)) => rejects.push((place, reject)),
                (Err(reject), None) => {
                    return Err(StageError::failed(format!("item `{id}`: {}", reject.reason)));
                }
            }
        }
        if !rejects.is_empty() {
            context.set_aside(INPUT, rejects)?;
        }
        Ok(made)
    }
}

/// The values of an item, or the reason why it has none.
fn one(
    declared: &items::ItemsDeclaration,
    fields: &Map<String, Json>,
    folder: &Utf8Path,
) -> Result<Result<Vec<(String, NewValue)>, Reject>, StageError> {
    let texts_are_files = declared.form == Form::Folder;
    let as_file = |(name, kind): (&String, &String)| match kind.as_str() {
        TEXT if texts_are_files => (name.clone(), "file/txt".to_owned()),
        kind => (name.clone(), kind.to_owned()),
    };
    let kinds = declared.kinds.iter().map(as_file).collect();
    let mut values = match take(fields, &kinds, folder, &declared.folder()) {
        Ok(values) => values,
        Err(AnswerError::Reject(reject)) => return Ok(Err(reject)),
        Err(AnswerError::Error(error)) => return Err(fatal(error)),
    };
    for (name, value) in &mut values {
        let is_text = declared.kinds.get(name).is_some_and(|kind| kind == TEXT);
        let NewValue::Bytes { bytes, .. } = &*value else { continue };
        if !is_text {
            continue;
        }
        // As for `texts`: the last line break is not part of the text.
        match std::str::from_utf8(bytes) {
            Ok(text) => *value = NewValue::Text(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(_) => {
                let reason = format!("the field `{name}` is to be a text and is no UTF-8");
                return Ok(Err(Reject::new("output-no-text", reason)));
            }
        }
    }
    Ok(Ok(values))
}

/// An item with these values. Their bytes are stored, so that those of one item are in memory.
fn with_all(
    item: NewItem,
    values: Vec<(String, NewValue)>,
    context: &mut dyn Context,
) -> Result<NewItem, StageError> {
    values.into_iter().try_fold(item, |item, (name, value)| {
        let value = match value {
            NewValue::Bytes { kind, bytes } => NewValue::blob(context.keep(&kind, bytes)?),
            other => other,
        };
        Ok(item.with(&name, value))
    })
}
