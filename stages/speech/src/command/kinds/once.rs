//! `command.once`: a program that works on a whole data set, and may make one.

use stage_core::output_types::{NUMBER, TEXT, is_folder};
use stage_core::{
    Default, InputPort, Kind, Mistake, OutputPort, Parameter, ParameterType, ParameterValue,
    Parameters, Work,
};

use super::{
    DECLARED, ENVIRONMENT, FIELDS, LINE, Line, OUTPUTS, SCRIPT, TEXTS, VERSION, VERSION_COMMAND,
    parts,
};
use crate::python::kinds::mistakes_of_types;

const ITEMS: Parameter = Parameter {
    name: "items",
    default: Default::Absent,
    doc: "The items that the command makes, at `{out.items}`: a file that ends in `.jsonl`, `.csv` \
        or `.tsv`, or a folder that ends in `/`.",
    ..Parameter::BASE
};

const ITEM_OUTPUTS: Parameter = Parameter {
    name: "item_outputs",
    parameter_type: ParameterType::Map(&ParameterType::Text),
    default: Default::Absent,
    doc: "The fields of these items: `number`, `text`, or the kind of a file, such as `audio/wav` or \
        `file/json`.",
    ..Parameter::BASE
};

pub static ONCE: Kind = Kind {
    name: "command.once",
    summary: "Runs a command once, for a whole data set or without input.",
    doc: "\
The command runs in a private folder with a clean environment. It must end with status 0 and write
every declared output. When it exceeds `timeout` or the run is stopped, it is killed with all
processes that it started. A daemon (a process in a session of its own, `setsid`, with an ended
parent) goes on after the run: end it in the command itself.

A failure on a full disk stops the run and quarantines no item; a program that was killed, or that
reports an error of the machine, is retried, also by the next run.

An output with a name that ends in `/` is a folder, which exists before the command starts. Its files
are the artifact, under their paths in the folder, as those of an asset that is a folder; files and
folders with a dot at the start of their name are omitted. Only names and bytes are kept: a program
in the folder loses its execute bit, in exports too; run it as `sh {artifact}/tool`:

    [stage.converted]
    use = \"command.once\"
    artifact = \"assets.theirs\"
    command = \"{base}/convert {artifact} {out.model}\"
    outputs = { model = \"model/\" }

With `items`, the command also makes a data set on the port `items`, with the fields in
`item_outputs`:

| `items` | written by the command |
|---|---|
| `\"clips.jsonl\"` | a JSON object per line: `id` and the fields |
| `\"clips.csv\"`, `\"clips.tsv\"` | a table with commas or tabs, and the column names `id` and the fields |
| `\"clips/\"` | files: `a/1.wav` and `a/1.txt` are the fields `audio/wav` and `text` of the item `a/1`; other extensions are ignored |

A table begins with the names of its columns; an empty file has no items. A key or a column that is
there twice is an error. In a line or a table, the value of a file is its path: relative to the folder
of the table, or absolute in that folder. An item with an id of `input` is that item, with the fields
in `fields` that it had; other items are new. An item of `input` that the command leaves out is left
out.

`\"reject\": \"too noisy\"` (in a table the column `reject`) quarantines an item of `input`. An item of
`input` without a valid value for each field is quarantined as well; a new item without one fails the
stage.",
    work: Work::Gather,
    inputs: &[
        InputPort {
            reads_id: true,
            optional: true,
            doc: "Items as JSON lines at `{items}`: `id` and the named fields, blobs as paths of \
                files.",
            ..DECLARED
        },
        InputPort {
            name: "artifact",
            optional: true,
            doc: "An asset or an artifact, such as a folder with a model: `{artifact}` is a folder \
                with its files.",
            ..InputPort::ARTIFACT
        },
    ],
    outputs: &[
        OutputPort { open: true, doc: "The outputs by name.", ..OutputPort::ARTIFACT },
        OutputPort {
            name: "items",
            passes: None,
            open: true,
            doc: "The items that the command makes; none without the parameter `items`.",
            ..OutputPort::DATASET
        },
    ],
    parameters: &[
        LINE,
        FIELDS,
        Parameter {
            default: Default::Absent,
            doc: "The files that the command writes: name of the field, file name. A folder ends in \
                `/`, and there is at most one.",
            ..OUTPUTS
        },
        TEXTS,
        ITEMS,
        ITEM_OUTPUTS,
        SCRIPT,
        ENVIRONMENT,
        VERSION,
        VERSION_COMMAND,
    ],
    check: mistakes,
    ..Kind::BASE
};

/// The form in which a command writes items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Lines,
    /// Cells with this byte between them.
    Table(u8),
    Folder,
}

impl Form {
    pub fn of(path: &str) -> Option<Form> {
        let extension = path.rsplit('.').next().unwrap_or_default();
        match extension {
            _ if is_folder(path) => Some(Form::Folder),
            "jsonl" => Some(Form::Lines),
            "csv" => Some(Form::Table(b',')),
            "tsv" => Some(Form::Table(b'\t')),
            _ => None,
        }
    }

    /// The extension of the files with a field, in a folder; None for a number.
    pub fn extension(kind: &str) -> Option<&str> {
        match kind {
            NUMBER => None,
            TEXT => Some("txt"),
            kind => kind.split_once('/').map(|(_, format)| format),
        }
    }
}

/// The column with the reason for which an item is rejected.
pub const REJECT: &str = "reject";
const ID: &str = "id";

fn mistakes(parameters: &Parameters, unknown: &[&str]) -> Vec<Mistake> {
    let items = parameters.text("items").ok();
    let more: &[&str] = match items {
        Some(_) => &["items", "artifact", "out.items"],
        None => &["items", "artifact"],
    };
    let line = Line { may_be_folders: true, ..Line::new(parameters, unknown, more) };
    let mut mistakes = line.mistakes();
    if items.is_none() && !parameters.is_set("outputs") && unknown.is_empty() {
        let help = "declare its files as `outputs`, or its items as `items`";
        mistakes.push(Mistake::new("outputs", "the command gives nothing", help));
    }
    mistakes.extend(mistakes_of_folders(parameters));
    mistakes.extend(mistakes_of_items(parameters, items));
    mistakes.extend(mistakes_of_types(parameters, &["item_outputs"]));
    mistakes
}

/// There is one folder, and nothing else is in it.
fn mistakes_of_folders(parameters: &Parameters) -> Vec<Mistake> {
    let outputs = parameters.map("outputs").unwrap_or_default();
    let text = outputs.into_iter().filter_map(|(name, value)| match value {
        ParameterValue::Text(path) => Some((name, path.as_str())),
        _ => None,
    });
    let mut paths: Vec<(&str, &str)> = text.collect();
    let folders: Vec<&str> =
        paths.iter().filter(|(_, path)| is_folder(path)).map(|(name, _)| *name).collect();
    let mut mistakes = Vec::new();
    if let [one, other, ..] = folders.as_slice() {
        let message = format!("outputs `{one}` and `{other}` are both folders");
        let help = "write one folder with folders in it";
        mistakes.push(Mistake::new("outputs", message, help));
    }
    let texts = parameters.texts("texts").unwrap_or_default();
    if let Some(name) = folders.iter().find(|name| texts.contains(name)) {
        let message = format!("`texts` names `{name}`, which is a folder");
        mistakes.push(Mistake::new("texts", message, "name outputs that are files"));
    }
    paths.extend(parameters.text("items").ok().map(|path| ("items", path)));
    for (folder, above) in paths.iter().filter(|(_, path)| is_folder(path)) {
        let inside =
            |(name, path): &&(&str, &str)| name != folder && parts(path).starts_with(&parts(above));
        if let Some((name, _)) = paths.iter().find(inside) {
            let message = format!("output `{name}` is in the folder of the output `{folder}`");
            mistakes.push(Mistake::new("outputs", message, "give each output a path of its own"));
        }
    }
    mistakes
}

fn mistakes_of_items(parameters: &Parameters, items: Option<&str>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let fields = parameters.map("item_outputs").unwrap_or_default();
    let Some(path) = items else {
        if !fields.is_empty() {
            let message = "`item_outputs` has fields, but there are no `items`";
            let help = "name the file or folder with the items: `items = \"clips.jsonl\"`";
            mistakes.push(Mistake::new("item_outputs", message, help));
        }
        return mistakes;
    };
    let form = Form::of(path);
    let leads_out = path.starts_with('/') || parts(path).contains(&"..") || parts(path).is_empty();
    if form.is_none() || leads_out {
        let message = format!("`items` cannot be `{}`", path.escape_debug());
        let help = "write a relative path that ends in `.jsonl`, `.csv`, `.tsv` or `/`";
        mistakes.push(Mistake::new("items", message, help));
    }
    if parameters.map("outputs").unwrap_or_default().contains_key("items") {
        let message = "an output and the file with the items are both `{out.items}`";
        mistakes.push(Mistake::new("outputs", message, "give the output another name"));
    }
    if let Some(name) = [ID, REJECT].into_iter().find(|name| fields.contains_key(name)) {
        let message = format!("`{name}` cannot be a field of an item");
        mistakes.push(Mistake::new("item_outputs", message, "the name has a meaning of its own"));
    }
    if form == Some(Form::Folder) {
        mistakes.extend(mistakes_of_extensions(&fields.into_iter().collect::<Vec<_>>()));
    }
    mistakes
}

/// In a folder, the extension tells the field.
fn mistakes_of_extensions(fields: &[(&str, &ParameterValue)]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    if fields.is_empty() {
        let message = "a folder of items has no fields";
        let help = "write `item_outputs = { audio = \"audio/wav\" }`";
        mistakes.push(Mistake::new("item_outputs", message, help));
    }
    for (name, value) in fields {
        let ParameterValue::Text(kind) = value else { continue };
        let message = match Form::extension(kind) {
            None if kind == NUMBER => format!("the number `{name}` cannot be in a folder of items"),
            Some(extension) if seen.contains(&extension) => {
                format!("two fields of an item have the extension `{extension}`")
            }
            extension => {
                seen.extend(extension);
                continue;
            }
        };
        let help = "let the command write a table, such as `items = \"clips.csv\"`";
        mistakes.push(Mistake::new("item_outputs", message, help));
    }
    mistakes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, ParameterValue)]) -> Vec<String> {
        let line = ("command", ParameterValue::Text("make {out.items}".to_owned()));
        let known = ONCE.parameters.iter().map(|own| (own.name.to_owned(), ParameterValue::Absent));
        let mut values: std::collections::BTreeMap<_, _> = known.collect();
        values.insert("fields".to_owned(), ParameterValue::List(Vec::new()));
        values.insert("texts".to_owned(), ParameterValue::List(Vec::new()));
        for (name, value) in [line].iter().chain(pairs) {
            values.insert((*name).to_owned(), value.clone());
        }
        mistakes(&Parameters(values), &[]).into_iter().map(|mistake| mistake.message).collect()
    }

    fn text(text: &str) -> ParameterValue {
        ParameterValue::Text(text.to_owned())
    }

    fn table(pairs: &[(&str, &str)]) -> ParameterValue {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), text(value));
        ParameterValue::Map(pairs.iter().map(pair).collect())
    }

    #[test]
    fn the_name_of_the_items_tells_their_form() {
        assert_eq!(Form::of("a/clips.jsonl"), Some(Form::Lines));
        assert_eq!(Form::of("clips.csv"), Some(Form::Table(b',')));
        assert_eq!(Form::of("clips.jsonl/"), Some(Form::Folder));
        assert_eq!((Form::of("clips.json"), Form::of("clips")), (None, None));
    }

    #[test]
    fn a_data_set_that_makes_sense_has_no_mistakes() {
        let fields = ("item_outputs", table(&[("audio", "audio/wav"), ("text", "text")]));
        for items in ["clips.jsonl", "clips.tsv", "clips/"] {
            let outputs = ("outputs", table(&[("log", "log.txt"), ("model", "model/")]));
            assert_eq!(told(&[("items", text(items)), fields.clone(), outputs]), [""; 0]);
        }
    }

    #[test]
    fn each_mistake_about_folders_and_items_is_named() {
        let fields = |pairs| ("item_outputs", table(pairs));
        let items = |path| ("items", text(path));
        for (given, expected) in [
            (vec![items("../clips.jsonl")], "`items` cannot be `../clips.jsonl`"),
            (vec![items("clips.json")], "`items` cannot be `clips.json`"),
            (vec![items("clips/")], "a folder of items has no fields"),
            (
                vec![items("clips/"), fields(&[("level", "number")])],
                "the number `level` cannot be in a folder of items",
            ),
            (
                vec![items("clips/"), fields(&[("a", "text"), ("b", "file/txt")])],
                "two fields of an item have the extension `txt`",
            ),
            (
                vec![items("c.csv"), fields(&[("reject", "text")])],
                "`reject` cannot be a field of an item",
            ),
            (vec![items("c.csv"), fields(&[("a", "word")])], "output `a` cannot be `word`"),
            (
                vec![
                    items("all/"),
                    fields(&[("a", "text")]),
                    ("outputs", table(&[("b", "all/b.txt")])),
                ],
                "output `b` is in the folder of the output `items`",
            ),
            (
                vec![items("c.csv"), ("outputs", table(&[("items", "d.csv")]))],
                "an output and the file with the items are both `{out.items}`",
            ),
            (
                vec![items("c.csv"), ("outputs", table(&[("a", "a/"), ("b", "b/")]))],
                "outputs `a` and `b` are both folders",
            ),
        ] {
            assert_eq!(told(&given), [expected]);
        }
        let none = told(&[("command", text("make")), fields(&[("a", "text")])]);
        let without = "`item_outputs` has fields, but there are no `items`";
        assert_eq!(none, ["the command gives nothing", without]);
    }
}
