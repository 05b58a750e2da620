//! Writes values of parameters into the text of a manifest. Everything else stays as it is:
//! comments, the order, and the spaces.

use std::ops::Range;

use stage_core::ParameterValue;

use super::node::{Table, Value};
use super::params::needs_dollar;
use super::parse;
use super::problem::Collector;

/// The text with these values in a stage. None if the stage is written in a way that cannot be
/// edited, such as in one line.
pub fn set(text: &str, stage: &str, values: &[(&str, ParameterValue)]) -> Option<String> {
    let root = parse::document(text, &mut Collector::default())?;
    let table = inner(inner(&root, "stage")?, stage)?;
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    let mut added = Vec::new();
    for (name, value) in values {
        let written = match value {
            ParameterValue::Absent => None,
            value => Some(toml(value)?),
        };
        match (table.get(name), written) {
            (Some(entry), Some(written)) => {
                changes.push((entry.node.span.start..entry.node.span.end, written));
            }
            (Some(entry), None) => changes.push((line(text, entry.key.span.start), String::new())),
            (None, Some(written)) => {
                added.push(format!("{name} = {written}"));
            }
            (None, None) => {}
        }
    }
    if !added.is_empty() {
        let at = line(text, table.get("use")?.key.span.start).end;
        let ending = ending(&text[..at]);
        let break_before = if text[..at].ends_with('\n') { "" } else { ending };
        let added: String = added.iter().map(|line| format!("{line}{ending}")).collect();
        changes.push((at..at, format!("{break_before}{added}")));
    }
    // An insertion comes before the removal of a line at the same place, and is kept.
    changes.sort_by_key(|(range, _)| (range.start, range.end));
    let mut edited = text.to_owned();
    for (range, new) in changes.into_iter().rev() {
        edited.replace_range(range, &new);
    }
    let known = parse::document(&edited, &mut Collector::default())?;
    let table = inner(inner(&known, "stage")?, stage)?;
    let is_there = |(name, value): &(&str, ParameterValue)| {
        table.get(name).is_some() == (*value != ParameterValue::Absent)
    };
    values.iter().all(is_there).then_some(edited)
}

/// The text with these values as those of trial 0 of a sweep, unless it has some. None if a value
/// cannot be written, or the sweep is written in a way that cannot be edited.
pub fn set_initial(text: &str, sweep: &str, values: &[(&str, ParameterValue)]) -> Option<String> {
    let root = parse::document(text, &mut Collector::default())?;
    let table = inner(inner(&root, "sweep")?, sweep)?;
    if table.get("initial").is_some() {
        return Some(text.to_owned());
    }
    let value = |(name, value): &(&str, ParameterValue)| Some(format!("{name} = {}", toml(value)?));
    let values = values.iter().map(value).collect::<Option<Vec<String>>>()?;
    let at = line(text, table.get("stage")?.key.span.start).end;
    let ending = ending(&text[..at]);
    let break_before = if text[..at].ends_with('\n') { "" } else { ending };
    let added = format!("{break_before}initial = {{ {} }}{ending}", values.join(", "));
    let edited = format!("{}{added}{}", &text[..at], &text[at..]);
    let known = parse::document(&edited, &mut Collector::default())?;
    inner(inner(&known, "sweep")?, sweep)?.get("initial").is_some().then_some(edited)
}

fn inner<'a>(table: &'a Table, name: &str) -> Option<&'a Table> {
    match &table.get(name)?.node.value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

/// The line around a place, with its end.
fn line(text: &str, at: usize) -> Range<usize> {
    let start = text[..at].rfind('\n').map_or(0, |before| before + 1);
    let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
    start..end
}

/// The end of the last whole line.
fn ending(text: &str) -> &'static str {
    match text.rfind('\n') {
        Some(end) if text[..end].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// A value as it is written in a manifest.
fn toml(value: &ParameterValue) -> Option<String> {
    Some(match value {
        ParameterValue::Absent => return None,
        ParameterValue::Text(text) => {
            let doubled = if needs_dollar(text) { "$" } else { "" };
            ::toml::Value::String(format!("{doubled}{text}")).to_string()
        }
        ParameterValue::Integer(number) => number.to_string(),
        // With a point or an exponent, so that it stays a number.
        ParameterValue::Number(number) => format!("{number:?}"),
        ParameterValue::Flag(flag) => flag.to_string(),
        ParameterValue::Seconds(_) | ParameterValue::Bytes(_) | ParameterValue::Share(_) => {
            format!("\"{value}\"")
        }
        ParameterValue::Device(_) => value.to_string(),
        ParameterValue::List(values) => {
            let values = values.iter().map(toml).collect::<Option<Vec<String>>>()?;
            format!("[{}]", values.join(", "))
        }
        ParameterValue::Map(values) => {
            let mut entries = Vec::new();
            for (name, value) in values {
                let name = ::toml::Value::String(name.clone());
                entries.push(format!("{name} = {}", toml(value)?));
            }
            format!("{{ {} }}", entries.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::params;
    use ParameterValue::{Absent, Flag, Integer, Number, Seconds, Share, Text};

    const TEXT: &str = "# mine\n[stage.a]\nuse = \"x\"   # what it is\n  rate = 1e-4 # found by hand\nrank=8\n\n\
                        [stage.b]\nuse = \"x\"\nrate = 3\n";

    #[test]
    fn values_are_replaced_and_all_else_stays() {
        let new = set(TEXT, "a", &[("rate", Number(3e-5)), ("rank", Integer(16))]).unwrap();
        assert_eq!(new, TEXT.replace("1e-4", "3e-5").replace("rank=8", "rank=16"));
    }

    #[test]
    fn missing_values_are_added_behind_the_kind_and_left_out_ones_removed() {
        let values = [
            ("warm_up", Share(0.05)),
            ("limit", Seconds(1.5)),
            ("packing", Flag(false)),
            ("note", Text("a \"b\"".into())),
            ("rank", Absent),
        ];
        let new = set(TEXT, "a", &values).unwrap();
        let added = "warm_up = \"5%\"\nlimit = \"1.5s\"\npacking = false\nnote = 'a \"b\"'\n";
        let expected = TEXT.replace("rank=8\n", "");
        let expected = expected.replacen("# what it is\n", &format!("# what it is\n{added}"), 1);
        assert_eq!(new, expected);
    }

    #[test]
    fn texts_with_dollar_signs_are_read_as_they_were() {
        let params = "[params]\nHOME = 1\nu = \"$HOME\"\n";
        for text in ["$", "$$", "$$HOME", "$HOME", "$5", "a $HOME", "$$$", "${HOME}"] {
            let list = ParameterValue::List(vec![Text(text.into())]);
            let new = set(TEXT, "a", &[("note", Text(text.into())), ("list", list)]).unwrap();
            let problems = &mut Collector::default();
            let mut read = parse::document(&format!("{params}{new}"), problems).unwrap();
            params::substitute(&mut read, problems);
            let table = inner(inner(&read, "stage").unwrap(), "a").unwrap();
            let is_it = |value: &Value| matches!(value, Value::Text(own) if own == text);
            assert!(is_it(&table.get("note").unwrap().node.value), "{text}: {new}");
            let Value::List(items) = &table.get("list").unwrap().node.value else {
                panic!("{new}")
            };
            assert!(is_it(&items[0].value), "{text}: {new}");
        }
    }

    #[test]
    fn the_values_of_trial_0_are_kept_once() {
        let sweep = "[sweep.s]\nstage = \"a\" # of ours\nover = { rate = [1, 2] }\n";
        let text = format!("{TEXT}{sweep}");
        let values = [("rate", Number(1e-4)), ("rank", Integer(8))];
        let new = set_initial(&text, "s", &values).unwrap();
        let line = "# of ours\ninitial = { rate = 0.0001, rank = 8 }\n";
        assert_eq!(new, text.replace("# of ours\n", line));
        assert_eq!(set_initial(&new, "s", &[("rate", Number(2.0))]).unwrap(), new);
        assert_eq!(set_initial(&text, "s", &[("rate", Absent)]), None);
        let inline = format!("{TEXT}[sweep]\ns = {{ stage = \"a\", over = {{ rate = [1] }} }}\n");
        assert_eq!(set_initial(&inline, "s", &values), None);
    }

    #[test]
    fn lines_of_windows_stay_lines_of_windows() {
        let values = [("rank", Integer(16)), ("note", Text("x".into())), ("rate", Absent)];
        let expected = set(TEXT, "a", &values).unwrap().replace('\n', "\r\n");
        assert_eq!(set(&TEXT.replace('\n', "\r\n"), "a", &values).unwrap(), expected);
        let last = set("[stage.a]\r\nuse = \"x\"", "a", &[("rank", Integer(1))]).unwrap();
        assert_eq!(last, "[stage.a]\r\nuse = \"x\"\r\nrank = 1\r\n");
    }

    #[test]
    fn a_stage_that_cannot_be_edited_is_refused() {
        let rate = [("rank", Integer(1))];
        assert_eq!(set(TEXT, "c", &rate), None);
        assert_eq!(set("[stage]\na = { use = \"x\" }\n", "a", &rate), None);
        assert_eq!(set("[stage.a", "a", &rate), None);
        let last = set("[stage.a]\nuse = \"x\"", "a", &rate).unwrap();
        assert_eq!(last, "[stage.a]\nuse = \"x\"\nrank = 1\n");
    }
}
