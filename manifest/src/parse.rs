//! Parses text to [`Node`]s and collects all syntax errors.

use std::ops::Range;

use toml::Spanned as TomlSpanned;
use toml::de::{DeString, DeTable, DeValue};

use super::node::{Entry, Node, Spanned, Table, Value};
use super::problem::{Collector, Problem, Span};

/// A larger text is not a manifest; reading it would only cost time.
const LARGEST: usize = 4_000_000;

/// Syntax errors beyond these are consequences of the first ones.
const SYNTAX_ERRORS: usize = 10;

/// Parses the whole file. Returns nothing if the text is so broken that more messages would only
/// confuse.
pub fn document(text: &str, problems: &mut Collector) -> Option<Table> {
    if text.len() > LARGEST {
        let message = format!("the manifest is larger than {} MB", LARGEST / 1_000_000);
        let help = "put data about items into a corpus table, not into stages";
        problems.add(Problem::new("too_large", Span::default(), message).help(help));
        return None;
    }
    let (root, errors) = DeTable::parse_recoverable(text);
    let broken = errors.iter().any(|error| error.message() != "duplicate key");
    let mut repeated = 0..0;
    for error in errors.iter().take(SYNTAX_ERRORS) {
        let at = error.span().map_or(text.len(), |range| range.start);
        // The contents of a repeated table are not mistakes of their own.
        if error.message() == "duplicate key" && !repeated.contains(&at) {
            repeated = table_from(text, at);
        } else if error.message() == "duplicate key" {
            continue;
        }
        problems.add(syntax(text, &root, error));
    }
    if broken { None } else { Some(table(root.get_ref(), 0, 0, problems)) }
}

/// A single value that begins at `offset` of the text number `source`.
pub fn value(text: &str, source: usize, offset: usize, problems: &mut Collector) -> Option<Node> {
    let parsed = DeValue::parse(text).ok()?;
    Some(node(&parsed, source, offset, problems))
}

fn syntax(text: &str, root: &TomlSpanned<DeTable<'_>>, error: &toml::de::Error) -> Problem {
    let end = text.len();
    let range = error.span().unwrap_or(end..end);
    let span = Span::new(0, range.clone());
    if error.message() == "duplicate key" {
        let key = text.get(range.clone()).unwrap_or_default().trim();
        let problem = Problem::new("duplicate_key", span, format!("`{key}` is written twice"))
            .label("the second time")
            .help("remove one of the two");
        return match earlier(text, root.get_ref(), key, &range) {
            Some(first) => problem.also(Span::new(0, first), "the first time"),
            None => problem,
        };
    }
    Problem::new("syntax", span, format!("invalid TOML: {}", error.message()))
        .label("syntax error")
        .help("quote texts, begin tables with `[name]`; see https://toml.io")
}

/// The parser does not keep the first position of a repeated key: headers are found again by their
/// lines, other keys as the last one of that name before the repetition.
fn earlier(
    text: &str,
    root: &DeTable<'_>,
    key: &str,
    second: &Range<usize>,
) -> Option<Range<usize>> {
    let line_start = text.get(..second.start)?.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(line_start..)?.lines().next()?;
    if line.trim_start().starts_with('[') {
        let mut start = 0;
        for before in text.get(..line_start)?.split_inclusive('\n') {
            if header(before) == header(line) {
                let at = before.find(key)?;
                return Some(start + at..start + at + key.len());
            }
            start += before.len();
        }
    }
    last_key(root, key.trim_matches(['"', '\'']), second.start)
}

/// From a key in a header to the next header; empty for other keys.
fn table_from(text: &str, at: usize) -> Range<usize> {
    let line_start = text.get(..at).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
    let is_header = text.get(line_start..).is_some_and(|text| text.trim_start().starts_with('['));
    let end = text.get(at..).and_then(|text| text.find("\n["));
    let end = end.map_or(text.len(), |end| at + end);
    if is_header { at..end } else { at..at }
}

fn header(line: &str) -> Option<&str> {
    let inside = line.trim_start().strip_prefix('[')?;
    inside.split(']').next().map(str::trim)
}

fn last_key(table: &DeTable<'_>, key: &str, before: usize) -> Option<Range<usize>> {
    let mut last: Option<Range<usize>> = None;
    for (name, value) in table.iter() {
        let own = (name.get_ref().as_ref() == key).then(|| name.span());
        let inner = value.get_ref().as_table().and_then(|table| last_key(table, key, before));
        for found in [own, inner].into_iter().flatten() {
            if found.start < before && last.as_ref().is_none_or(|last| last.start < found.start) {
                last = Some(found);
            }
        }
    }
    last
}

fn shifted(range: Range<usize>, source: usize, offset: usize) -> Span {
    Span::new(source, range.start + offset..range.end + offset)
}

fn table(table: &DeTable<'_>, source: usize, offset: usize, problems: &mut Collector) -> Table {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: name(key, source, offset, problems),
            node: node(value, source, offset, problems),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key.span);
    Table(entries)
}

/// Control characters in names would reach terminals and file systems.
fn name(
    key: &TomlSpanned<DeString<'_>>,
    source: usize,
    offset: usize,
    problems: &mut Collector,
) -> Spanned<String> {
    let span = shifted(key.span(), source, offset);
    let value = key.get_ref().to_string();
    if value.chars().any(char::is_control) {
        problems.add(
            Problem::new("bad_name", span, "the name contains a control character")
                .help("use letters, digits, `-` and `_`"),
        );
    }
    Spanned { value, span }
}

fn node(
    spanned: &TomlSpanned<DeValue<'_>>,
    source: usize,
    offset: usize,
    problems: &mut Collector,
) -> Node {
    let span = shifted(spanned.span(), source, offset);
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(values) => {
            Value::List(values.iter().map(|value| node(value, source, offset, problems)).collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, source, offset, problems)),
        DeValue::Integer(digits) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => {
                problems.add_last(
                    Problem::new("out_of_range", span, format!("`{digits}` is too large"))
                        .help("integers have 64 bits"),
                );
                Value::Integer(0)
            }
        },
        DeValue::Float(digits) => Value::Number(digits.as_str().parse().unwrap_or(f64::NAN)),
    };
    Node::new(value, span)
}
