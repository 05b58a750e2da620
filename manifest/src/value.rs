//! From a written value to the typed value of a parameter.

use std::cell::RefCell;
use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use stage_core::device::{DeviceName, UnknownDevice};
use stage_core::{Default, Parameter, ParameterType, ParameterValue, Role, Unit};

use super::mistake::{
    Key, bounds, describe, not_a_number, out_of_range, with_use, wrong_type, wrong_unit,
};
use super::nearest::{list, nearest};
use super::node::{Node, Table, Value};
use super::options::{FileKind, LoadOptions};
use super::problem::{Collector, Problem, Span};
use super::unit;

/// The code of a path that leads to no file, or to the wrong kind.
pub const MISSING_FILE: &str = "missing_file";

/// The context that checking a value needs.
pub struct Checks<'a> {
    pub base: &'a Utf8Path,
    pub seed: i64,
    pub files: &'a dyn Fn(&Utf8Path) -> FileKind,
    pub secrets: &'a dyn Fn(&str) -> Option<String>,
    is_in_cache: &'a dyn Fn(&Utf8Path) -> bool,
    /// The external inputs of the pipeline, which exports must not touch.
    read: RefCell<Vec<(Utf8PathBuf, Span)>>,
}

/// The value of a parameter that is not written; `None` if it is required.
pub fn default(parameter: &Parameter, seed: i64) -> Option<ParameterValue> {
    let texts = |texts: &[&str]| {
        ParameterValue::List(
            texts.iter().map(|text| ParameterValue::Text(text.to_string())).collect(),
        )
    };
    Some(match parameter.default {
        Default::Required => return None,
        Default::Absent => ParameterValue::Absent,
        Default::Text(text) => ParameterValue::Text(text.to_owned()),
        Default::Integer(number) => match parameter.parameter_type {
            ParameterType::Number { .. } => ParameterValue::Number(number as f64),
            _ => ParameterValue::Integer(number),
        },
        Default::Number(number) => ParameterValue::Number(number),
        Default::Flag(flag) => ParameterValue::Flag(flag),
        Default::Seconds(seconds) => ParameterValue::Seconds(seconds),
        Default::Bytes(bytes) => ParameterValue::Bytes(bytes),
        Default::Texts(list) => texts(list),
        Default::Device(device) => ParameterValue::Device(device),
        Default::Devices(list) => {
            ParameterValue::List(list.iter().copied().map(ParameterValue::Device).collect())
        }
        Default::PipelineSeed => ParameterValue::Integer(seed),
    })
}

impl<'a> Checks<'a> {
    pub fn new(
        base: &'a Utf8Path,
        files: &'a dyn Fn(&Utf8Path) -> FileKind,
        options: &LoadOptions<'a>,
    ) -> Checks<'a> {
        let LoadOptions { secrets, is_in_cache, .. } = *options;
        Checks { base, seed: 0, files, secrets, is_in_cache, read: RefCell::default() }
    }

    /// Tests if a path below the folder of the manifest is in the cache.
    pub fn is_in_cache(&self, path: &str) -> bool {
        (self.is_in_cache)(&self.base.join(path))
    }

    /// Paths that have been checked, with their positions.
    pub fn paths(self) -> Vec<(Utf8PathBuf, Span)> {
        self.read.into_inner()
    }

    /// `None` if something is wrong, which has been reported.
    pub fn value(
        &self,
        parameter: &Parameter,
        node: &Node,
        problems: &mut Collector,
    ) -> Option<ParameterValue> {
        let key = Key::of(parameter);
        let value = self.typed(&key, &parameter.parameter_type, node, problems)?;
        if parameter.role == Role::Secret {
            self.check_secret(parameter, node, problems);
        }
        Some(value)
    }

    fn typed(
        &self,
        key: &Key,
        wanted: &ParameterType,
        node: &Node,
        problems: &mut Collector,
    ) -> Option<ParameterValue> {
        let bare = node.bare.clone().filter(|_| is_text(wanted));
        let bare = bare.map(|text| Node { value: Value::Text(text), ..node.clone() });
        let node = bare.as_ref().unwrap_or(node);
        match (wanted, &node.value) {
            (ParameterType::Text, Value::Text(text)) => Some(ParameterValue::Text(text.clone())),
            (ParameterType::Flag, Value::Flag(flag)) => Some(ParameterValue::Flag(*flag)),
            (ParameterType::Choice(names), Value::Text(text)) => {
                choice(key, names, text, node, problems)
            }
            (ParameterType::Integer { min, max }, _) => integer(key, (*min, *max), node, problems),
            (ParameterType::CountOrShare { min, max }, _) => {
                count_or_share(key, (*min, *max), node, problems)
            }
            (ParameterType::Number { min, max }, _) => number(key, (*min, *max), node, problems),
            (ParameterType::Duration, Value::Text(text)) => duration(key, text, node, problems),
            (ParameterType::Size, Value::Text(text)) => match unit::size(text) {
                Some(bytes) => Some(ParameterValue::Bytes(bytes)),
                None => wrong_unit(key, "a size", "`\"64MB\"` or `\"12GiB\"`", node, problems),
            },
            (ParameterType::Device { or_auto }, Value::Text(text)) => {
                device(*or_auto, text, node, problems)
            }
            (ParameterType::File | ParameterType::SourcePath, Value::Text(text)) => {
                let file = matches!(wanted, ParameterType::File);
                self.check_path(text, file, node, problems);
                Some(ParameterValue::Text(text.clone()))
            }
            (ParameterType::OptionalFile | ParameterType::OptionalFolder, Value::Text(text)) => {
                self.check_name_of_path(text, node, problems);
                Some(ParameterValue::Text(text.clone()))
            }
            (ParameterType::Any, _) => self.any(key, wanted, node, problems),
            (ParameterType::List(inner), Value::List(nodes)) => {
                self.list(key, inner, nodes, problems)
            }
            (ParameterType::Map(inner), Value::Table(table)) => {
                self.map(key, inner, table, problems)
            }
            (ParameterType::Record(fields), Value::Table(table)) => {
                self.record(key, fields, table, node.span, problems)
            }
            (ParameterType::Expression(form), Value::Text(text)) => {
                match stage_expression::check(*form, text) {
                    Ok(()) => Some(ParameterValue::Text(text.clone())),
                    Err(fault) => {
                        problems.add(faulty(fault, text, node));
                        None
                    }
                }
            }
            _ => {
                problems.add(wrong_type(key, describe(wanted), node));
                None
            }
        }
    }

    fn any(
        &self,
        key: &Key,
        wanted: &ParameterType,
        node: &Node,
        problems: &mut Collector,
    ) -> Option<ParameterValue> {
        match &node.value {
            Value::Text(text) => Some(ParameterValue::Text(text.clone())),
            Value::Integer(number) => Some(ParameterValue::Integer(*number)),
            Value::Number(number) if number.is_finite() => Some(ParameterValue::Number(*number)),
            Value::Flag(flag) => Some(ParameterValue::Flag(*flag)),
            Value::List(nodes) => self.list(key, wanted, nodes, problems),
            Value::Table(table) => self.map(key, wanted, table, problems),
            _ => {
                problems.add(wrong_type(key, describe(wanted), node));
                None
            }
        }
    }

    fn list(
        &self,
        key: &Key,
        inner: &ParameterType,
        nodes: &[Node],
        problems: &mut Collector,
    ) -> Option<ParameterValue> {
        let values: Vec<Option<ParameterValue>> =
            nodes.iter().map(|node| self.typed(key, inner, node, problems)).collect();
        Some(ParameterValue::List(values.into_iter().collect::<Option<_>>()?))
    }

    fn map(
        &self,
        key: &Key,
        inner: &ParameterType,
        table: &Table,
        problems: &mut Collector,
    ) -> Option<ParameterValue> {
        let mut values = BTreeMap::new();
        let mut whole = true;
        for entry in &table.0 {
            match self.typed(&key.below(&entry.key.value), inner, &entry.node, problems) {
                Some(value) => drop(values.insert(entry.key.value.clone(), value)),
                None => whole = false,
            }
        }
        whole.then_some(ParameterValue::Map(values))
    }

    fn record(
        &self,
        key: &Key,
        fields: &[Parameter],
        table: &Table,
        span: Span,
        problems: &mut Collector,
    ) -> Option<ParameterValue> {
        let place = format!("`{}`", key.name);
        let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
        // A misspelled name is one mistake, not also a missing one.
        let mut meant: Vec<&str> = Vec::new();
        let mut whole = true;
        for entry in &table.0 {
            if !known.contains(&entry.key.value.as_str()) {
                problems.add(super::written::unknown_key(&entry.key, &place, &known));
                meant.extend(nearest(&entry.key.value, known.iter().copied()));
                whole = false;
            }
        }
        let mut values = BTreeMap::new();
        for field in fields {
            let value = match table.get(field.name) {
                Some(entry) => self.value(field, &entry.node, problems),
                None => default(field, self.seed).or_else(|| {
                    if meant.contains(&field.name) {
                        return None;
                    }
                    let message = format!("{place} has no `{}`", field.name);
                    problems.add(Problem::new("missing_key", span, message).help(field.doc));
                    None
                }),
            };
            match value {
                Some(ParameterValue::Absent) => {}
                Some(value) => drop(values.insert(field.name.to_owned(), value)),
                None => whole = false,
            }
        }
        whole.then_some(ParameterValue::Map(values))
    }

    /// Reports if the secret is not set, and never shows its value.
    fn check_secret(&self, parameter: &Parameter, node: &Node, problems: &mut Collector) {
        let Some(variable) = node.text() else { return };
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_set = || (self.secrets)(variable).is_some_and(|value| !value.is_empty());
        let is_name = !variable.is_empty() && variable.chars().all(allowed);
        if is_name && is_set() {
            return;
        }
        // A pasted token can look like a name: only what is clearly a name is repeated.
        if is_name && !variable.chars().any(|letter| letter.is_ascii_lowercase()) {
            let message = format!("the environment variable `{variable}` is not set");
            let name = parameter.name;
            let help = format!("`{name}` reads this variable: `export {variable}=…`");
            problems.add(Problem::new("missing_secret", node.span, message).help(help));
            return;
        }
        let message = format!(
            "`{}` should be the name of an environment variable that is set",
            parameter.name
        );
        let help = "write the name, not the secret itself: others may read the manifest";
        problems.cover(node.span);
        problems.add(Problem::new("missing_secret", node.span, message).help(help));
    }

    /// Reports a path that cannot be one, and notes any other as read.
    fn check_name_of_path(&self, path: &str, node: &Node, problems: &mut Collector) -> bool {
        if path.is_empty() || path.chars().any(char::is_control) {
            let message = "the path is empty or contains a control character";
            problems.add(Problem::new("bad_name", node.span, message));
            return false;
        }
        self.read.borrow_mut().push((Utf8PathBuf::from(path), node.span));
        true
    }

    /// Reports a path that does not exist.
    pub fn check_path(&self, path: &str, file: bool, node: &Node, problems: &mut Collector) {
        if !self.check_name_of_path(path, node, problems) {
            return;
        }
        match (self.files)(&self.base.join(path)) {
            FileKind::Missing => {
                let help = if path.starts_with('~') {
                    "`~` is not expanded: write the full path".to_owned()
                } else {
                    format!(
                        "paths are relative to the folder of the manifest, `{}`",
                        shown(self.base)
                    )
                };
                let message = format!("there is no file or folder `{path}`");
                problems.add(
                    Problem::new(MISSING_FILE, node.span, message).label("not found").help(help),
                );
            }
            FileKind::Folder if file => {
                let message = format!("`{path}` should be a file but is a folder");
                problems.add(Problem::new(MISSING_FILE, node.span, message).label("a folder"));
            }
            FileKind::Special => {
                let message = format!("`{path}` is a named pipe, a socket or a device, not a file");
                let problem = Problem::new(MISSING_FILE, node.span, message);
                problems.add(problem.label("not a file").help("save its contents in a file first"));
            }
            FileKind::File | FileKind::Folder => {}
        }
    }
}

/// True if any text is a value of the type.
fn is_text(wanted: &ParameterType) -> bool {
    use ParameterType::*;
    matches!(
        wanted,
        Text | Choice(_)
            | Device { .. }
            | File
            | OptionalFile
            | SourcePath
            | OptionalFolder
            | Expression(_)
    )
}

/// A mistake in an expression, marked where it is unless the text is written with escapes.
fn faulty(fault: stage_expression::Fault, text: &str, node: &Node) -> Problem {
    let Span { source, start, end } = node.span;
    // Quotes on both sides: one each, or three.
    let quotes = match (end - start).checked_sub(text.len()) {
        Some(2) => Some(1),
        Some(6) => Some(3),
        _ => None,
    };
    let span = match quotes {
        Some(quotes) => Span {
            source,
            start: start + quotes + fault.span.start,
            end: start + quotes + fault.span.end,
        },
        None => node.span,
    };
    with_use(Problem::new("bad_expression", span, fault.message).help_if(fault.help), node)
}

fn shown(base: &Utf8Path) -> &str {
    if base.as_str().is_empty() { "." } else { base.as_str() }
}

fn device(
    or_auto: bool,
    text: &str,
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    let is_allowed = |name: &DeviceName| or_auto || *name != DeviceName::Auto;
    let unknown = match text.parse::<DeviceName>() {
        Ok(name) if is_allowed(&name) => return Some(ParameterValue::Device(name)),
        Ok(name) => UnknownDevice { text: name.to_string(), nearest: None },
        Err(unknown) => unknown,
    };
    let near = unknown.nearest.filter(is_allowed);
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    let auto = if or_auto { "`auto`, " } else { "" };
    let help = format!("{near}use {auto}`cpu`, `cuda`, or `cuda:1` for the second GPU");
    let problem = Problem::new("unknown_choice", node.span, unknown.to_string()).help(help);
    problems.add(with_use(problem, node));
    None
}

fn choice(
    key: &Key,
    names: &[&str],
    text: &str,
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    if names.contains(&text) {
        return Some(ParameterValue::Text(text.to_owned()));
    }
    let message = format!("`{}` cannot be `{}`", key.name, text.escape_debug());
    let help = format!("allowed values: {}", list(names.iter().copied()));
    let near = nearest(text, names.iter().copied());
    let help = near.map_or(help.clone(), |near| format!("did you mean `{near}`? {help}"));
    problems.add(with_use(Problem::new("unknown_choice", node.span, message).help(help), node));
    None
}

fn duration(
    key: &Key,
    text: &str,
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    match unit::duration(text) {
        Some(seconds) if seconds > unit::LONGEST => {
            let found = format!("`{}`", text.escape_debug());
            out_of_range(key, &found, "at most `\"10000d\"`", node, problems)
        }
        Some(seconds) => Some(ParameterValue::Seconds(seconds)),
        None => {
            let examples = "`\"90s\"`, `\"1.5h\"` or `\"11h30m\"`";
            wrong_unit(key, "a duration", examples, node, problems)
        }
    }
}

fn integer(
    key: &Key,
    (min, max): (i64, i64),
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    let found = match &node.value {
        Value::Integer(number) => *number,
        Value::Text(text) => {
            let number = unit::number(text, key.unit);
            let whole = number.filter(|number| (number - number.round()).abs() < 1e-6);
            match whole {
                Some(number) => number.round() as i64,
                None => return not_a_number(key, "an integer", node, problems),
            }
        }
        _ => return not_a_number(key, "an integer", node, problems),
    };
    if (min..=max).contains(&found) {
        return Some(ParameterValue::Integer(found));
    }
    let bounds = bounds(
        (min != i64::MIN).then(|| min.to_string()),
        (max != i64::MAX).then(|| max.to_string()),
    );
    out_of_range(key, &found.to_string(), &bounds, node, problems)
}

fn count_or_share(
    key: &Key,
    (min, max): (i64, i64),
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    let Value::Text(text) = &node.value else {
        return integer(key, (min, max), node, problems);
    };
    let Some(percent) = unit::number(text, Unit::Percent) else {
        return wrong_unit(key, unit::COUNT_OR_SHARE, unit::SHARES, node, problems);
    };
    // If at least one is wanted, a share of none is refused.
    let is_enough = percent > 0.0 || (percent == 0.0 && min <= 0);
    if is_enough && percent <= 100.0 {
        Some(ParameterValue::Share(percent / 100.0 + 0.0))
    } else {
        let least = if min > 0 { "above 0 %" } else { "from 0 %" };
        let bounds = format!("a share {least} up to 100 %");
        out_of_range(key, text.trim(), &bounds, node, problems)
    }
}

fn number(
    key: &Key,
    (min, max): (f64, f64),
    node: &Node,
    problems: &mut Collector,
) -> Option<ParameterValue> {
    let found = match &node.value {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        Value::Text(text) if unit::is_share(key.unit, min, max) => {
            match unit::number(text, Unit::Percent) {
                Some(percent) => percent / 100.0,
                None => {
                    return wrong_unit(key, "a share", "`0.05` or `\"5%\"`", node, problems);
                }
            }
        }
        Value::Text(text) => match unit::number(text, key.unit) {
            Some(number) => number,
            None => return not_a_number(key, "a number", node, problems),
        },
        _ => return not_a_number(key, "a number", node, problems),
    };
    if found.is_finite() && (min..=max).contains(&found) {
        // Adding zero turns -0.0, which would be another key, into 0.0.
        return Some(ParameterValue::Number(found + 0.0));
    }
    let bounds = bounds(
        (min > f64::MIN).then(|| min.to_string()),
        (max < f64::MAX).then(|| max.to_string()),
    );
    out_of_range(key, &found.to_string(), &bounds, node, problems)
}

/// Checks a value outside of stages in the same way.
pub const fn plain(name: &'static str, parameter_type: ParameterType, unit: Unit) -> Parameter {
    Parameter { name, parameter_type, default: Default::Absent, unit, ..Parameter::BASE }
}
