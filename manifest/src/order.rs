//! A topological order of the stages, or the cycle that prevents one.

use std::collections::{BTreeSet, HashMap, VecDeque};

use petgraph::Direction;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::draft::Draft;
use super::problem::{Collector, Problem, Span};
use super::reference::Target;

/// A longer cycle is shown in part.
const SHOWN: usize = 24;

/// An edge leads from an input to its reader, and has the position of the reference.
type Graph = DiGraph<(), Span>;

/// A topological order of the stages that keeps the written order where possible. A cycle is
/// reported, and its references are removed, so that other mistakes in its stages can be found.
pub fn order(drafts: &mut [Option<Draft>], problems: &mut Collector) -> Order {
    let whole = graph(drafts);
    let mut removed = Vec::new();
    for component in kosaraju_scc(&whole) {
        if let Some(path) = cycle(&whole, &component) {
            problems.add(describe(drafts, &whole, &path));
            take_out(drafts, &component, &mut removed);
        }
    }
    let stages = if removed.is_empty() { sorted(&whole) } else { sorted(&graph(drafts)) };
    Order { stages, removed }
}

pub struct Order {
    pub stages: Vec<usize>,
    /// The references within cycles.
    pub removed: Vec<RemovedReference>,
}

/// A reference that was taken out.
pub struct RemovedReference {
    pub reader: usize,
    pub port: &'static str,
    pub target: Target,
    pub span: Span,
}

/// Removes the references of these stages to each other.
fn take_out(
    drafts: &mut [Option<Draft>],
    component: &[NodeIndex],
    removed: &mut Vec<RemovedReference>,
) {
    let members: BTreeSet<usize> = component.iter().map(|node| node.index()).collect();
    let is_member = |(target, _): &mut (Target, Span)| match target {
        Target::Stage { stage, .. } => members.contains(stage),
        Target::Asset(_) => false,
    };
    for reader in members.iter().copied() {
        let Some(draft) = &mut drafts[reader] else { continue };
        for (port, targets) in &mut draft.inputs {
            let taken = targets.extract_if(.., is_member);
            removed.extend(taken.map(|(target, span)| RemovedReference {
                reader,
                port,
                target,
                span,
            }));
        }
    }
}

fn graph(drafts: &[Option<Draft>]) -> Graph {
    let mut graph = Graph::new();
    let nodes: Vec<NodeIndex> = drafts.iter().map(|_| graph.add_node(())).collect();
    for (reader, draft) in drafts.iter().enumerate() {
        let inputs = draft.iter().flat_map(|draft| draft.inputs.values().flatten());
        for (target, span) in inputs {
            if let Target::Stage { stage, .. } = target {
                graph.add_edge(nodes[*stage], nodes[reader], *span);
            }
        }
    }
    graph
}

fn sorted(graph: &Graph) -> Vec<usize> {
    let incoming = |node| graph.edges_directed(node, Direction::Incoming).count();
    let mut waiting: Vec<usize> = graph.node_indices().map(incoming).collect();
    let mut ready: BTreeSet<usize> =
        (0..waiting.len()).filter(|node| waiting[*node] == 0).collect();
    let mut order = Vec::with_capacity(waiting.len());
    while let Some(node) = ready.pop_first() {
        order.push(node);
        for reader in graph.neighbors_directed(NodeIndex::new(node), Direction::Outgoing) {
            let left = &mut waiting[reader.index()];
            *left -= 1;
            if *left == 0 {
                ready.insert(reader.index());
            }
        }
    }
    order
}

/// A shortest cycle through the first written stage of the component, starting and ending there.
fn cycle(graph: &Graph, component: &[NodeIndex]) -> Option<Vec<NodeIndex>> {
    let start = component.iter().copied().min()?;
    let members: BTreeSet<NodeIndex> = component.iter().copied().collect();
    let mut came_from: HashMap<NodeIndex, NodeIndex> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        // Against the edges, so that the path reads "a needs b needs c".
        for needed in graph.neighbors_directed(node, Direction::Incoming) {
            if needed == start {
                return Some(path_to(node, start, &came_from));
            }
            if members.contains(&needed) && !came_from.contains_key(&needed) {
                came_from.insert(needed, node);
                queue.push_back(needed);
            }
        }
    }
    None
}

/// From the start to the node, and back to the start.
fn path_to(
    node: NodeIndex,
    start: NodeIndex,
    came_from: &HashMap<NodeIndex, NodeIndex>,
) -> Vec<NodeIndex> {
    let mut path = vec![start, node];
    let mut at = node;
    while let Some(before) = came_from.get(&at) {
        path.push(*before);
        at = *before;
    }
    path.reverse();
    path
}

fn describe(drafts: &[Option<Draft>], graph: &Graph, path: &[NodeIndex]) -> Problem {
    let name = |node: NodeIndex| {
        let draft = drafts[node.index()].as_ref();
        draft.map_or("", |draft| draft.name.value.as_str())
    };
    let steps: Vec<(NodeIndex, NodeIndex, Span)> = path
        .windows(2)
        .filter_map(|pair| {
            let edge = graph.find_edge(pair[1], pair[0])?;
            Some((pair[0], pair[1], *graph.edge_weight(edge)?))
        })
        .collect();
    let mut names: Vec<String> =
        path.iter().take(SHOWN).map(|node| format!("`{}`", name(*node))).collect();
    if path.len() > SHOWN {
        names.push(format!("{} more", path.len() - SHOWN - 1));
        names.extend(path.last().map(|node| format!("`{}`", name(*node))));
    }
    let message = match path.len() {
        2 => format!("stage {} reads its own output", names[0]),
        _ => format!("these stages form a cycle: {}", names.join(" needs ")),
    };
    let first = steps.first().map(|(_, _, span)| *span).unwrap_or_default();
    let mut problem = Problem::new("cycle", first, message);
    for (at, (reader, needed, span)) in steps.iter().take(SHOWN).enumerate() {
        let text = format!("`{}` needs `{}`", name(*reader), name(*needed));
        problem = if at == 0 { problem.label(text) } else { problem.also(*span, text) };
    }
    problem.help("a stage cannot depend on its own output: change one of these references")
}
