//! The graph as SVG: boxes for stages, rounded ones for assets, curves for references. It contains
//! no script and no external reference.

use std::fmt::Write;

use super::layout::{NodePosition, Sizes, layout};
use super::{Graph, Node, NodeState, class, colours};
use crate::escape::{clean, fit, width};

const LETTER: f64 = 7.5;
const HEIGHT: f64 = 46.0;
const ROW: f64 = 92.0;
const MARGIN: f64 = 16.0;
/// Longer names are cut; the tooltip has the full name.
const COLUMNS: usize = 32;

pub fn render(graph: &Graph) -> String {
    let longest = |node: &Node| width(&clean(&node.name)).max(width(&clean(&node.detail)));
    let columns = graph.nodes.iter().map(longest).max().unwrap_or(0).clamp(8, COLUMNS);
    let node = columns as f64 * LETTER + 20.0;
    let layout = layout(graph, &Sizes { node, passing: 14.0, gap: 26.0 });
    let (width, height) = (
        layout.width + 2.0 * MARGIN,
        layout.rows.saturating_sub(1) as f64 * ROW + HEIGHT + 2.0 * MARGIN,
    );
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n"
    );
    text.push_str(
        "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#6b7280\"/></marker></defs>\n",
    );
    for (edge, path) in graph.edges.iter().zip(&layout.paths) {
        write_edge(&mut text, path, &edge.label);
    }
    for (node, place) in graph.nodes.iter().zip(&layout.places) {
        write_node(&mut text, node, *place, columns);
    }
    text.push_str("</svg>\n");
    text
}

fn write_node(text: &mut String, node: &Node, place: NodePosition, columns: usize) {
    let colours = colours(node.state);
    let width = columns as f64 * LETTER + 20.0;
    let (x, y) = (MARGIN + place.x, MARGIN + place.row as f64 * ROW);
    let radius = if node.state == NodeState::Asset { HEIGHT / 2.0 } else { 5.0 };
    let title = format!("{}: {}\n{}", node.name, node.detail, node.title);
    let _ = writeln!(
        text,
        "<g class=\"{}\"><title>{}</title><rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" \
         rx=\"{radius}\" fill=\"{}\" stroke=\"{}\"/>",
        class(node.state),
        escape_lines(&title),
        x - width / 2.0,
        colours.fill,
        colours.line,
    );
    let lines = [(&node.name, 20.0, "600"), (&node.detail, 36.0, "400")];
    for (line, down, weight) in lines {
        let line = clean(line);
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-weight=\"{weight}\">{}</text>",
            y + down,
            escape(&fit(&line, columns)),
        );
    }
    text.push_str("</g>\n");
}

/// A curve from the lower side of a box through the slots to the upper side of the other.
fn write_edge(text: &mut String, path: &[NodePosition], label: &str) {
    let at = |place: &NodePosition| (MARGIN + place.x, MARGIN + place.row as f64 * ROW);
    let Some((first, rest)) = path.split_first() else { return };
    let (mut x, mut y) = at(first);
    y += HEIGHT;
    let _ = write!(text, "<path d=\"M{x:.1} {y:.1}");
    for (step, place) in rest.iter().enumerate() {
        let (next_x, top) = at(place);
        let half = (top - y) / 2.0;
        let _ = write!(
            text,
            "C{x:.1} {:.1} {next_x:.1} {:.1} {next_x:.1} {top:.1}",
            y + half,
            top - half
        );
        (x, y) = (next_x, top);
        if step + 1 < rest.len() {
            y = top + HEIGHT;
            let _ = write!(text, "L{x:.1} {y:.1}");
        }
    }
    text.push_str("\" fill=\"none\" stroke=\"#6b7280\" marker-end=\"url(#arrow)\"/>\n");
    if !label.is_empty() {
        let (x, y) = at(first);
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"#4b5563\">{}</text>",
            x + 6.0,
            y + HEIGHT + 14.0,
            escape(&clean(label)),
        );
    }
}

fn escape_lines(text: &str) -> String {
    text.trim_end().lines().map(|line| escape(&clean(line))).collect::<Vec<_>>().join("\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;

    /// The names of the elements in order; panics if tags do not match.
    fn elements(svg: &str) -> Vec<String> {
        let mut open: Vec<String> = Vec::new();
        let mut seen = Vec::new();
        for part in svg.split('<').skip(1) {
            let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("open tag: {part}"));
            assert!(!text.contains('>'), "stray bracket: {part}");
            let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap_or_default();
            assert_eq!(tag.matches('"').count() % 2, 0, "odd quotes: {tag}");
            match tag {
                tag if tag.starts_with('/') => assert_eq!(open.pop().as_deref(), Some(name)),
                tag if tag.ends_with('/') => seen.push(name.to_owned()),
                _ => {
                    open.push(name.to_owned());
                    seen.push(name.to_owned());
                }
            }
        }
        assert!(open.is_empty(), "never closed: {open:?}");
        seen
    }

    #[test]
    fn the_picture_is_well_formed_whatever_the_names() {
        let names = ["clips", "</text><script>alert(1)</script>", "a & \"b\"", "\u{0}\u{202e}x"];
        let svg = graph(&names, &[(0, 1), (1, 2), (0, 2), (2, 3)]).svg();
        let elements = elements(&svg);
        assert_eq!(elements.iter().filter(|name| *name == "rect").count(), 4);
        assert!(!elements.contains(&"script".to_owned()));
        assert!(svg.contains(
            "<title>clips: audio.resample\nwhy &amp; &quot;how&quot; &lt;so&gt;\nsecond</title>"
        ));
        let count = |needle: char| svg.chars().filter(|letter| *letter == needle).count();
        assert_eq!((count('\u{0}'), count('\u{202e}')), (0, 0));
    }

    #[test]
    fn an_empty_pipeline_has_a_picture_too() {
        assert_eq!(elements(&graph(&[], &[]).svg()), ["svg", "defs", "marker", "path"]);
    }
}
