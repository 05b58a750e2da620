//! The graph of a pipeline as a picture: Mermaid, DOT, or SVG with its own layout.

mod layout;
mod svg;

use std::collections::BTreeMap;
use std::fmt::Write;

use engine::event::{PlannedStage, Verdict};
use engine::pipeline::{Pipeline, Reference, StageSpec};

use crate::escape::clean;

/// Nodes in topological order, edges by their positions.
#[derive(Debug, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
}

#[derive(Debug)]
pub struct Node {
    pub name: String,
    /// The stage kind, or the licence of an asset.
    pub detail: String,
    pub state: NodeState,
    /// The tooltip: counts and reasons.
    pub title: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    Asset,
    /// A stage without a plan.
    Stage,
    Planned(Verdict),
    Ended(End),
}

/// The result of a stage in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Executed,
    Reused,
    Failed,
    /// The run ended before it.
    Missed,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    /// The output port of the edge, if it is not the first.
    pub label: String,
}

impl Graph {
    /// The state before a run; with a plan, also what the run would do.
    pub fn new(pipeline: &Pipeline, plan: Option<&BTreeMap<String, PlannedStage>>) -> Graph {
        let planned = |stage: &StageSpec| plan.and_then(|plan| plan.get(&stage.name));
        Graph::drawn(pipeline, &|stage| stage_node(stage, planned(stage)))
    }

    /// Draws the stages as these nodes.
    pub fn drawn(pipeline: &Pipeline, node: &dyn Fn(&StageSpec) -> Node) -> Graph {
        let mut graph = Graph::default();
        let mut assets = BTreeMap::new();
        for (name, asset) in &pipeline.assets {
            assets.insert(name.as_str(), graph.nodes.len());
            graph.nodes.push(Node {
                name: format!("assets.{name}"),
                detail: asset.license.clone().unwrap_or_default(),
                state: NodeState::Asset,
                title: asset.path.to_string(),
            });
        }
        let first = graph.nodes.len();
        for (at, stage) in pipeline.stages.iter().enumerate() {
            graph.nodes.push(node(stage));
            for reference in stage.inputs.values().flat_map(|input| &input.references) {
                let edge = match reference {
                    Reference::Asset(name) => match assets.get(name.as_str()) {
                        Some(from) => Edge { from: *from, to: first + at, label: String::new() },
                        None => continue,
                    },
                    Reference::Stage { stage, port } => {
                        let above = pipeline.stage(*stage);
                        let main = above.kind.outputs.first().map(|port| port.name);
                        let label = if main == Some(*port) { "" } else { port };
                        Edge { from: first + stage.0, to: first + at, label: label.to_owned() }
                    }
                };
                if !graph.edges.contains(&edge) {
                    graph.edges.push(edge);
                }
            }
        }
        graph
    }

    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        for (at, node) in self.nodes.iter().enumerate() {
            let label = mermaid_label(node);
            let (open, close) =
                if node.state == NodeState::Asset { ("([", "])") } else { ("[", "]") };
            let _ = writeln!(text, "  n{at}{open}\"{label}\"{close}:::{}", class(node.state));
        }
        for edge in &self.edges {
            let label = match edge.label.as_str() {
                "" => String::new(),
                label => format!("|\"{}\"|", mermaid_text(label)),
            };
            let _ = writeln!(text, "  n{} -->{label} n{}", edge.from, edge.to);
        }
        for state in STATES {
            let colours = colours(state);
            let _ = writeln!(
                text,
                "  classDef {} fill:{},stroke:{},color:#111",
                class(state),
                colours.fill,
                colours.line
            );
        }
        text
    }

    pub fn dot(&self) -> String {
        let mut text = String::from("digraph pipeline {\n  node [shape=box, style=filled];\n");
        for (at, node) in self.nodes.iter().enumerate() {
            let colours = colours(node.state);
            let shape = if node.state == NodeState::Asset { ", shape=ellipse" } else { "" };
            let _ = writeln!(
                text,
                "  n{at} [label={}, tooltip={}, fillcolor=\"{}\", color=\"{}\"{shape}];",
                dot_text(&format!("{}\n{}", node.name, node.detail)),
                dot_text(&node.title),
                colours.fill,
                colours.line
            );
        }
        for edge in &self.edges {
            let label = match edge.label.as_str() {
                "" => String::new(),
                label => format!(" [label={}]", dot_text(label)),
            };
            let _ = writeln!(text, "  n{} -> n{}{label};", edge.from, edge.to);
        }
        text.push_str("}\n");
        text
    }

    pub fn svg(&self) -> String {
        svg::render(self)
    }
}

fn stage_node(stage: &StageSpec, planned: Option<&PlannedStage>) -> Node {
    let (state, title) = match planned {
        Some(planned) => (NodeState::Planned(planned.verdict), title(planned)),
        None => (NodeState::Stage, stage.kind.summary.to_owned()),
    };
    Node { name: stage.name.clone(), detail: stage.kind.name.to_owned(), state, title }
}

fn title(planned: &PlannedStage) -> String {
    let verdict = match planned.verdict {
        Verdict::Fresh => "fresh",
        Verdict::Dirty => "dirty",
        Verdict::Unknown => "unknown until the upstream stages are done",
        Verdict::Out => "out: other trials are better, or the trial failed",
    };
    let PlannedStage { executed, reused, quarantined, .. } = planned;
    let mut title =
        format!("{verdict}: {executed} to execute, {reused} to reuse, {quarantined} quarantined");
    for reason in planned.reasons.iter().take(5) {
        title.push('\n');
        title.push_str(reason);
    }
    title
}

/// The states that a drawing of a plan can show.
const STATES: [NodeState; 6] = [
    NodeState::Asset,
    NodeState::Stage,
    NodeState::Planned(Verdict::Fresh),
    NodeState::Planned(Verdict::Dirty),
    NodeState::Planned(Verdict::Unknown),
    NodeState::Planned(Verdict::Out),
];

struct Colours {
    fill: &'static str,
    line: &'static str,
}

fn colours(state: NodeState) -> Colours {
    let (fill, line) = match state {
        NodeState::Asset => ("#f3f4f6", "#6b7280"),
        NodeState::Stage => ("#eff6ff", "#3b82f6"),
        NodeState::Planned(Verdict::Fresh) => ("#dcfce7", "#16a34a"),
        NodeState::Planned(Verdict::Dirty) => ("#fef3c7", "#d97706"),
        NodeState::Planned(Verdict::Unknown | Verdict::Out) | NodeState::Ended(End::Missed) => {
            ("#e5e7eb", "#4b5563")
        }
        NodeState::Ended(End::Executed) => ("#fef3c7", "#d97706"),
        NodeState::Ended(End::Reused) => ("#dcfce7", "#16a34a"),
        NodeState::Ended(End::Failed) => ("#fee2e2", "#dc2626"),
    };
    Colours { fill, line }
}

fn class(state: NodeState) -> &'static str {
    match state {
        NodeState::Asset => "asset",
        NodeState::Stage => "stage",
        NodeState::Planned(Verdict::Fresh) => "fresh",
        NodeState::Planned(Verdict::Dirty) => "dirty",
        NodeState::Planned(Verdict::Unknown) => "unknown",
        NodeState::Planned(Verdict::Out) => "out",
        NodeState::Ended(End::Executed) => "executed",
        NodeState::Ended(End::Reused) => "reused",
        NodeState::Ended(End::Failed) => "failed",
        NodeState::Ended(End::Missed) => "missed",
    }
}

fn mermaid_label(node: &Node) -> String {
    match node.detail.as_str() {
        "" => mermaid_text(&node.name),
        detail => format!("{}<br/>{}", mermaid_text(&node.name), mermaid_text(detail)),
    }
}

/// Escapes everything that Mermaid or the page around it could read as markup.
fn mermaid_text(text: &str) -> String {
    let mut escaped = String::new();
    for letter in clean(text).chars() {
        match letter {
            '"' | '#' | ';' | '<' | '>' | '&' | '`' | '\\' | '{' | '}' => {
                let _ = write!(escaped, "#{};", u32::from(letter));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn dot_text(text: &str) -> String {
    let lines: Vec<String> = text
        .trim_end()
        .lines()
        .map(|line| clean(line).replace('\\', "\\\\").replace('"', "\\\""))
        .collect();
    format!("\"{}\"", lines.join("\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn graph(names: &[&str], edges: &[(usize, usize)]) -> Graph {
        let node = |name: &&str| Node {
            name: name.to_string(),
            detail: "audio.resample".into(),
            state: NodeState::Planned(Verdict::Dirty),
            title: "why & \"how\" <so>\nsecond".into(),
        };
        let edge =
            |(from, to): &(usize, usize)| Edge { from: *from, to: *to, label: String::new() };
        Graph { nodes: names.iter().map(node).collect(), edges: edges.iter().map(edge).collect() }
    }

    #[test]
    fn mermaid_text_cannot_break_out_of_its_label() {
        let mut graph = graph(&["clips", "x\"]; click\u{1b}"], &[(0, 1)]);
        graph.edges[0].label = "rejects".into();
        insta::assert_snapshot!(graph.mermaid(), @r##"
        flowchart TD
          n0["clips<br/>audio.resample"]:::dirty
          n1["x#34;]#59; click#92;u#123;1b#125;<br/>audio.resample"]:::dirty
          n0 -->|"rejects"| n1
          classDef asset fill:#f3f4f6,stroke:#6b7280,color:#111
          classDef stage fill:#eff6ff,stroke:#3b82f6,color:#111
          classDef fresh fill:#dcfce7,stroke:#16a34a,color:#111
          classDef dirty fill:#fef3c7,stroke:#d97706,color:#111
          classDef unknown fill:#e5e7eb,stroke:#4b5563,color:#111
          classDef out fill:#e5e7eb,stroke:#4b5563,color:#111
        "##);
    }

    #[test]
    fn dot_quotes_what_is_foreign() {
        let graph = graph(&["a\"b\\"], &[]);
        insta::assert_snapshot!(graph.dot(), @r##"
        digraph pipeline {
          node [shape=box, style=filled];
          n0 [label="a\"b\\\naudio.resample", tooltip="why & \"how\" <so>\nsecond", fillcolor="#fef3c7", color="#d97706"];
        }
        "##);
    }
}
