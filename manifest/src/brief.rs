//! The stage kinds in short: a line for the ports of a kind and one for each parameter, for readers
//! with little room, such as coding agents. The module `page` has the whole documentation.

mod entry;
mod port;
mod shared;

use std::fmt::Write;

use stage_core::{Catalogue, Kind, Place, Work};

use self::entry::ParameterEntry;
use self::shared::ParameterGroups;
use super::policy::COMMON;

/// The keys of every stage, the parameters that several kinds share, and all kinds with their ports
/// and parameters.
pub fn brief(catalogue: &Catalogue) -> String {
    let mut page = "## Keys of every stage\n\n".to_owned();
    COMMON.iter().for_each(|parameter| page.push_str(&ParameterEntry::of(parameter).line()));
    let shared = ParameterGroups::of(catalogue);
    page.push_str(&shared.chapter());
    page.push_str("\n## Kinds\n");
    catalogue.iter().for_each(|kind| chapter(&mut page, kind, &shared));
    page
}

fn chapter(page: &mut String, kind: &Kind, shared: &ParameterGroups) {
    let worker = if kind.place == Place::Worker { ", worker" } else { "" };
    let _ = write!(page, "\n### {} ({}{worker})\n{}\n", kind.name, work(kind), kind.summary);
    let inputs: Vec<String> = kind.inputs.iter().map(port::input).collect();
    if !inputs.is_empty() {
        let _ = writeln!(page, "in: {}", inputs.join("; "));
    }
    let outputs: Vec<String> = kind.outputs.iter().map(port::output).collect();
    let _ = writeln!(page, "out: {}", outputs.join("; "));
    let mut mentions = shared.groups_of(kind);
    for entry in kind.parameters.iter().map(ParameterEntry::in_kind) {
        match shared.mention(kind, &entry) {
            Some(mention) => mentions.extend(mention),
            None => page.push_str(&entry.line()),
        }
    }
    if !mentions.is_empty() {
        let _ = writeln!(page, "shared: {}", mentions.join(", "));
    }
}

fn work(kind: &Kind) -> &'static str {
    match kind.work {
        Work::Item if kind.expands.is_some() => "expand",
        Work::Source => "source",
        Work::Item => "item",
        Work::Gather => "gather",
        Work::Train => "train",
        Work::Chosen { .. } => "item or gather",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chapter of a kind on the page.
    fn chapter_of<'a>(page: &'a str, kind: &Kind) -> &'a str {
        let (_, chapter) = page.split_once(&format!("\n### {} (", kind.name)).unwrap_or_default();
        chapter.split("\n### ").next().unwrap_or_default()
    }

    #[test]
    fn every_port_and_parameter_of_every_kind_is_on_the_page() {
        let catalogue = stage_speech::catalogue();
        let page = brief(&catalogue);
        for kind in catalogue.iter() {
            let chapter = chapter_of(&page, kind);
            let (own, mentioned) = chapter.split_once("\nshared: ").unwrap_or((chapter, ""));
            let mentioned: Vec<&str> = mentioned.trim().split(", ").collect();
            let groups = mentioned.iter().map(|name| format!("\n### Group {name}: "));
            let groups: Vec<&str> = groups
                .filter_map(|heading| page.split_once(&heading)?.1.split("\n### ").next())
                .collect();
            for parameter in kind.parameters {
                let lines = [": ", " = "].map(|sign| format!("\n{}{sign}", parameter.name));
                let is_in = |text: &str| lines.iter().any(|line| text.contains(line));
                let is_mentioned = mentioned
                    .iter()
                    .any(|mention| mention.split_whitespace().next() == Some(parameter.name));
                let in_groups = groups.iter().any(|group| is_in(group));
                assert!(
                    is_in(own) || is_mentioned || in_groups,
                    "{} of {}: {chapter}",
                    parameter.name,
                    kind.name
                );
            }
            for name in kind.inputs.iter().map(|port| port.name) {
                let line = own.lines().find(|line| line.starts_with("in: ")).unwrap_or_default();
                assert!(line.contains(&format!(" {name}")), "{name}: {chapter}");
            }
            for name in kind.outputs.iter().map(|port| port.name) {
                let line = own.lines().find(|line| line.starts_with("out: ")).unwrap_or_default();
                assert!(line.contains(&format!(" {name}")), "{name}: {chapter}");
            }
        }
    }
}
