//! The stages of the run: the graph, and a table with reasons.

use engine::pipeline::StageSpec;
use engine::units;
use maud::{Markup, PreEscaped, html};

use super::table::{Cell, HtmlTable};
use super::{Section, text};
use crate::escape::{fit, width};
use crate::graph::{End, Graph, Node, NodeState};
use crate::report::run_data::{RunData, StageData};

/// Reasons of at most this length are shown in full.
const SHORT: usize = 140;

const ENDS: [End; 4] = [End::Executed, End::Reused, End::Failed, End::Missed];

pub fn section(seen: &RunData) -> Section {
    let graph = Graph::drawn(seen.pipeline, &|spec| node(seen, spec));
    let failed = seen.stages.iter().filter(|stage| stage.failure.is_some());
    let is_there = |end: &End| seen.stages.iter().any(|stage| stage.end == *end);
    let body = html! {
        @for stage in failed {
            p.alarm { strong { (text(&stage.spec.name)) " failed: " } (text(stage.failure.as_deref().unwrap_or(""))) }
        }
        figure.graph {
            figcaption {
                @for end in ENDS.into_iter().filter(is_there) {
                    span class={ "key " (word(end)) } { (word(end)) }
                }
                @if !seen.pipeline.assets.is_empty() { span.key.asset { "asset" } }
            }
            div.scroll tabindex="0" role="img" aria-label=(in_words(seen)) { (PreEscaped(graph.svg())) }
        }
        (table(seen))
        (notes(seen))
    };
    Section { id: "run", title: "Stages and reasons", body }
}

fn node(seen: &RunData, spec: &StageSpec) -> Node {
    let stage = seen.stage(spec.id);
    let mut title = format!("{}: {}", word(stage.end), counts(stage));
    for reason in stage.reasons.iter().chain(&stage.failure).take(5) {
        title.push('\n');
        title.push_str(reason);
    }
    let (name, detail) = (spec.name.clone(), spec.kind.name.to_owned());
    Node { name, detail, state: NodeState::Ended(stage.end), title }
}

fn word(end: End) -> &'static str {
    match end {
        End::Executed => "executed",
        End::Reused => "reused",
        End::Failed => "failed",
        End::Missed => "missed",
    }
}

fn counts(stage: &StageData) -> String {
    let counts = stage.counts;
    format!(
        "{} executed, {} reused, {} quarantined",
        units::count(counts.executed),
        units::count(counts.reused),
        units::count(counts.quarantined)
    )
}

fn in_words(seen: &RunData) -> String {
    let count = |end| seen.stages.iter().filter(|stage| stage.end == end).count();
    format!(
        "The graph of {} stages: {} executed, {} reused, {} failed, {} not reached. The table \
         below lists all.",
        seen.stages.len(),
        count(End::Executed),
        count(End::Reused),
        count(End::Failed),
        count(End::Missed)
    )
}

fn table(seen: &RunData) -> Markup {
    let headings =
        ["Stage", "Kind", ">Executed", ">Reused", ">Quarantined", ">Outputs", ">Time", "Why"];
    let mut table = HtmlTable::new("Stages in order", &headings);
    for stage in &seen.stages {
        let count = |number: u64| match number {
            0 => Cell::number(html! { span.none { "0" } }, 0.0),
            number => Cell::number(units::count(number), number as f64),
        };
        table.row([
            Cell::text(html! { span class={ "dot " (word(stage.end)) } title=(word(stage.end)) {} (text(&stage.spec.name)) }),
            Cell::text(html! { code { (stage.spec.kind.name) } }),
            count(stage.counts.executed),
            count(stage.counts.reused),
            count(stage.counts.quarantined),
            stage.given().map_or_else(Cell::empty, count),
            Cell::number(units::seconds(stage.counts.seconds), stage.counts.seconds),
            Cell::prose(why(stage)),
        ]);
    }
    table.render()
}

/// The reason why the run did nothing for a stage.
fn missed(stage: &StageData) -> String {
    let why = if stage.was_wanted {
        "not reached by the run"
    } else {
        "not among the targets of the run"
    };
    match &stage.last {
        Some(last) => format!("{why}; its outcome is from run {}", last.run),
        None => why.to_owned(),
    }
}

/// The notes of the stages on their inputs.
fn notes(seen: &RunData) -> Markup {
    let mut table = HtmlTable::new("Notes", &["Stage", "Note", ">Count"]);
    for stage in &seen.stages {
        for (note, count) in stage.outcome.iter().flat_map(|outcome| &outcome.notes) {
            table.row([
                Cell::text(text(&stage.spec.name)),
                Cell::prose(text(note)),
                Cell::number(units::count(*count), *count as f64),
            ]);
        }
    }
    html! { @if !table.is_empty() { (table.render()) } }
}

/// The first reasons; the rest on demand.
fn why(stage: &StageData) -> Markup {
    let reasons = &stage.reasons;
    html! {
        @if let Some(failure) = &stage.failure { span.failed { (text(failure)) } }
        @else if !stage.was_reached() { span.none { (missed(stage)) } }
        @else if reasons.is_empty() { span.none { "nothing changed" } }
        @else if let [one] = reasons.as_slice() && width(one) <= SHORT { (text(one)) }
        @else {
            details {
                summary {
                    (fit(&text(&reasons[0]), SHORT))
                    @if reasons.len() > 1 { span.unit { " and " (reasons.len() - 1) " more" } }
                }
                ul { @for reason in reasons { li { (text(reason)) } } }
            }
        }
    }
}
