//! `[params]`: values that are written once and used as `"$name"`.

use std::collections::BTreeMap;

use super::nearest::suggestion;
use super::node::{Node, Spanned, Table, Value};
use super::problem::{Collector, Problem};
use super::written::is_name;

/// The limit on the copies of all uses together: a long list in many stages would fill the memory.
const LARGEST: usize = 1_000_000;

/// Substitutes the values of `[params]`.
pub fn substitute(root: &mut Table, problems: &mut Collector) {
    let values = match root.get("params").map(|entry| &entry.node.value) {
        Some(Value::Table(table)) => table.clone(),
        _ => Table::default(),
    };
    let params =
        values.0.into_iter().map(|entry| (entry.key.value.clone(), (entry.key, entry.node)));
    let mut substitution =
        Substitution { params: params.collect(), used: BTreeMap::new(), copied: 0, problems };
    for entry in root.0.iter_mut().filter(|entry| entry.key.value != "params") {
        substitution.visit(&mut entry.node);
    }
    substitution.report();
}

struct Substitution<'a> {
    params: BTreeMap<String, (Spanned<String>, Node)>,
    /// The number of uses of each one.
    used: BTreeMap<String, usize>,
    copied: usize,
    problems: &'a mut Collector,
}

impl Substitution<'_> {
    fn visit(&mut self, node: &mut Node) {
        match &mut node.value {
            Value::Text(text) => {
                if let Some(name) = parameter_name(text) {
                    let name = name.to_owned();
                    self.replace(node, &name);
                } else if text.starts_with("$$") {
                    text.remove(0);
                }
            }
            Value::List(nodes) => nodes.iter_mut().for_each(|node| self.visit(node)),
            Value::Table(table) => {
                table.0.iter_mut().for_each(|entry| self.visit(&mut entry.node));
            }
            _ => {}
        }
    }

    fn replace(&mut self, node: &mut Node, name: &str) {
        let Some((_, value)) = self.params.get(name) else {
            let known = self.params.keys().map(String::as_str);
            let near = suggestion(name, "known names", known);
            let help = near.unwrap_or_else(|| format!("add `{name} = …` to `[params]`."));
            let message = format!("there is no value `{name}` in `[params]`");
            let help = format!("{help} To start a text with `$`, write `\"$${name}\"`");
            self.problems.add_last(Problem::new("unknown_param", node.span, message).help(help));
            return;
        };
        *self.used.entry(name.to_owned()).or_default() += 1;
        self.copied += size(value);
        if self.copied > LARGEST {
            let message = format!("the uses of `[params]` expand to more than {LARGEST} values");
            self.problems.add_last(Problem::new("too_large", node.span, message));
            return;
        }
        let used = node.span;
        *node = Node { used: Some(used), ..value.clone() };
    }

    fn report(self) {
        for (name, (key, _)) in &self.params {
            if !self.used.contains_key(name) {
                let message = format!("the value `{name}` is not used");
                let help = format!("use it as `\"${name}\"`, or remove it");
                self.problems.add(Problem::warning("unused_param", key.span, message).help(help));
            }
        }
    }
}

/// Tests if a text is written with one more dollar sign in front.
pub fn needs_dollar(text: &str) -> bool {
    text.starts_with("$$") || parameter_name(text).is_some()
}

fn parameter_name(text: &str) -> Option<&str> {
    text.strip_prefix('$').filter(|name| is_name(name))
}

fn size(node: &Node) -> usize {
    match &node.value {
        Value::List(nodes) => 1 + nodes.iter().map(size).sum::<usize>(),
        Value::Table(table) => 1 + table.0.iter().map(|entry| size(&entry.node)).sum::<usize>(),
        _ => 1,
    }
}
