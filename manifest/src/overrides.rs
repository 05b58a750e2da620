//! `--set a.b=c`: values on the command line replace written ones.

use super::nearest::suggestion;
use super::node::{Entry, Node, Spanned, Table, Value};
use super::parse;
use super::problem::{Collector, Problem, Span};
use super::written::SECTIONS;

/// Applies the override with the text number `source`.
pub fn apply(root: &mut Table, argument: &str, source: usize, problems: &mut Collector) {
    let whole = Span::new(source, 0..argument.len());
    let Some((path, value)) = argument.split_once('=') else {
        let message = format!("`--set {}` has no value", argument.escape_debug());
        let help = "write `--set stage.voice.rate=22050` or `--set params.rate=22050`";
        problems.add(Problem::new("bad_override", whole, message).help(help));
        return;
    };
    let Some(mut keys) = split(path, source) else {
        let message = "the path of an override has an empty name";
        problems.add(Problem::new("bad_override", whole, message));
        return;
    };
    if keys.len() >= 2 && !SECTIONS.contains(&keys[0].value.as_str()) {
        let stage = Spanned { value: "stage".to_owned(), span: keys[0].span };
        keys.insert(0, stage);
    }
    let node = value_of(value, source, path.len() + 1, problems);
    set(root, &keys, node, problems);
}

fn split(path: &str, source: usize) -> Option<Vec<Spanned<String>>> {
    let mut keys = Vec::new();
    let mut start = 0;
    for part in path.split('.') {
        let name = part.trim();
        if name.is_empty() {
            return None;
        }
        let span = Span::new(source, start..start + part.len());
        keys.push(Spanned { value: name.to_owned(), span });
        start += part.len() + 1;
    }
    Some(keys)
}

/// A TOML value if it parses as one, else the text itself, so that shells need no second quotes. If
/// a text is wanted, the value is always a text.
fn value_of(text: &str, source: usize, offset: usize, problems: &mut Collector) -> Node {
    let span = Span::new(source, offset..offset + text.len());
    match parse::value(text, source, offset, problems) {
        Some(node) if matches!(node.value, Value::Text(_)) => Node { span, ..node },
        Some(node) if !matches!(node.value, Value::Date) => {
            Node { span, bare: Some(text.to_owned()), ..node }
        }
        _ => Node::new(Value::Text(text.to_owned()), span),
    }
}

/// All names but the last one must exist in a stage, an asset or a parameter: an override creates
/// nothing.
fn set(root: &mut Table, keys: &[Spanned<String>], node: Node, problems: &mut Collector) {
    let must_exist = match keys.first().map(|key| key.value.as_str()) {
        Some("stage" | "assets" | "params" | "executor") => 2,
        _ => 1,
    };
    if keys.len() < 2 {
        let span = keys.first().map(|key| key.span).unwrap_or(node.span);
        let help = "write `--set stage.voice.rate=22050` or `--set params.rate=22050`";
        let message = "an override needs a section or stage, and a key";
        problems.add(Problem::new("bad_override", span, message).help(help));
        return;
    }
    let mut table = root;
    for (depth, key) in keys.iter().enumerate() {
        let found = table.0.iter().position(|entry| entry.key.value == key.value);
        if found.is_none() && depth < must_exist && !(depth == 0 && is_optional(&key.value)) {
            problems.add(missing(table, keys, depth));
            return;
        }
        let at = found.unwrap_or(table.0.len());
        if found.is_none() {
            let empty = Node::new(Value::Table(Table::default()), key.span);
            table.0.push(Entry { key: key.clone(), node: empty });
        }
        let slot = &mut table.0[at].node;
        if depth + 1 == keys.len() {
            *slot = node;
            return;
        }
        if !matches!(slot.value, Value::Table(_)) {
            *slot = Node::new(Value::Table(Table::default()), key.span);
        }
        let Value::Table(inner) = &mut slot.value else { return };
        table = inner;
    }
}

/// Sections that an override may create.
fn is_optional(section: &str) -> bool {
    ["session", "remote"].contains(&section)
}

fn missing(table: &Table, keys: &[Spanned<String>], depth: usize) -> Problem {
    let key = &keys[depth];
    let what = match (depth, keys[0].value.as_str()) {
        (1, "stage") => "stage",
        (1, "assets") => "asset",
        (1, "executor") => "executor",
        (1, "params") => "value in `[params]`",
        _ => "section",
    };
    let message = format!("there is no {what} `{}` to set", key.value);
    Problem::new("bad_override", key.span, message).help_if(suggestion(
        &key.value,
        "known names",
        table.keys(),
    ))
}
