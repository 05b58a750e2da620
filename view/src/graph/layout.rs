//! A layered layout: every node is a row below all its inputs, and rows are ordered to reduce
//! crossings. Edges that pass a row get a slot in it, so that they run around boxes.

use super::Graph;

/// The number of ordering sweeps, down and up.
const SWEEPS: usize = 8;

/// Positions in rows and columns of half a box.
pub struct Layout {
    pub rows: usize,
    /// Per node: row and horizontal centre.
    pub places: Vec<NodePosition>,
    /// Per edge: its points, both ends included.
    pub paths: Vec<Vec<NodePosition>>,
    pub width: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodePosition {
    pub row: usize,
    pub x: f64,
}

/// The widths of the slots, in any unit.
pub struct Sizes {
    pub node: f64,
    pub passing: f64,
    pub gap: f64,
}

/// A node of the graph, or the slot of an edge that passes a row.
struct Slot {
    row: usize,
    node: Option<usize>,
    above: Vec<usize>,
    below: Vec<usize>,
    /// The preferred order within the row.
    wish: f64,
    x: f64,
}

pub fn layout(graph: &Graph, sizes: &Sizes) -> Layout {
    let mut slots = node_slots(graph);
    let paths = edge_slots(graph, &mut slots);
    let mut rows = vec![Vec::new(); slots.iter().map(|slot| slot.row + 1).max().unwrap_or(0)];
    for (at, slot) in slots.iter().enumerate() {
        rows[slot.row].push(at);
    }
    for sweep in 0..SWEEPS {
        order(&mut slots, &mut rows, sweep % 2 == 0);
    }
    let width = place(&mut slots, &rows, sizes);
    let place = |at: usize| NodePosition { row: slots[at].row, x: slots[at].x };
    Layout {
        rows: rows.len(),
        places: (0..graph.nodes.len()).map(place).collect(),
        paths: paths.iter().map(|path| path.iter().map(|at| place(*at)).collect()).collect(),
        width,
    }
}

/// Puts every node in the row below the lowest of its inputs; nodes are in topological order.
fn node_slots(graph: &Graph) -> Vec<Slot> {
    let mut rows = vec![0; graph.nodes.len()];
    for at in 0..graph.nodes.len() {
        let above = graph.edges.iter().filter(|edge| edge.to == at && edge.from < at);
        rows[at] = above.map(|edge| rows[edge.from] + 1).max().unwrap_or(0);
    }
    let slot = |(node, row)| Slot {
        row,
        node: Some(node),
        above: Vec::new(),
        below: Vec::new(),
        wish: 0.0,
        x: 0.0,
    };
    rows.into_iter().enumerate().map(slot).collect()
}

/// Splits long edges at the rows that they pass.
fn edge_slots(graph: &Graph, slots: &mut Vec<Slot>) -> Vec<Vec<usize>> {
    let mut paths = Vec::with_capacity(graph.edges.len());
    for edge in &graph.edges {
        let mut path = vec![edge.from];
        for row in slots[edge.from].row + 1..slots[edge.to].row {
            path.push(slots.len());
            slots.push(Slot { row, node: None, above: vec![], below: vec![], wish: 0.0, x: 0.0 });
        }
        path.push(edge.to);
        for pair in path.windows(2) {
            slots[pair[0]].below.push(pair[1]);
            slots[pair[1]].above.push(pair[0]);
        }
        paths.push(path);
    }
    paths
}

/// Orders the rows by the barycentre of the neighbours in the previous row, downwards or upwards.
fn order(slots: &mut [Slot], rows: &mut [Vec<usize>], down: bool) {
    let count = rows.len();
    for step in 0..count {
        let row = if down { step } else { count - 1 - step };
        for (position, at) in rows[row].iter().enumerate() {
            let slot = &slots[*at];
            let neighbours = if down { &slot.above } else { &slot.below };
            let sum: f64 = neighbours.iter().map(|next| slots[*next].wish).sum();
            let wish = match neighbours.len() {
                0 => position as f64,
                many => sum / many as f64,
            };
            slots[*at].wish = wish;
        }
        rows[row].sort_by(|a, b| slots[*a].wish.total_cmp(&slots[*b].wish));
        for (position, at) in rows[row].iter().enumerate() {
            slots[*at].wish = position as f64;
        }
    }
}

/// Places the rows around a common centre; returns the total width.
fn place(slots: &mut [Slot], rows: &[Vec<usize>], sizes: &Sizes) -> f64 {
    let size = |slot: &Slot| if slot.node.is_some() { sizes.node } else { sizes.passing };
    let width = |row: &Vec<usize>| -> f64 {
        let slots: f64 = row.iter().map(|at| size(&slots[*at])).sum();
        slots + sizes.gap * row.len().saturating_sub(1) as f64
    };
    let whole = rows.iter().map(width).fold(0.0, f64::max);
    let starts: Vec<f64> = rows.iter().map(|row| (whole - width(row)) / 2.0).collect();
    for (row, start) in rows.iter().zip(starts) {
        let mut x = start;
        for at in row {
            let own = size(&slots[*at]);
            slots[*at].x = x + own / 2.0;
            x += own + sizes.gap;
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;
    use super::*;

    const SIZES: Sizes = Sizes { node: 10.0, passing: 2.0, gap: 1.0 };

    #[test]
    fn every_node_stands_below_all_that_it_needs() {
        let graph = graph(&["a", "b", "c", "d"], &[(0, 1), (1, 2), (0, 2), (0, 3), (2, 3)]);
        let layout = layout(&graph, &SIZES);
        let rows: Vec<usize> = layout.places.iter().map(|place| place.row).collect();
        assert_eq!(rows, [0, 1, 2, 3]);
        assert_eq!(layout.paths[3].len(), 4, "a long edge passes the rows between");
    }

    #[test]
    fn nothing_stands_on_top_of_another() {
        let edges: Vec<(usize, usize)> =
            (0..12).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
        let names = ["n"; 12];
        let layout = layout(&graph(&names, &edges), &SIZES);
        let mut taken: Vec<(usize, f64)> =
            layout.places.iter().map(|place| (place.row, place.x)).collect();
        let passing = layout.paths.iter().flat_map(|path| &path[1..path.len() - 1]);
        taken.extend(passing.map(|place| (place.row, place.x)));
        taken.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        assert!(taken.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[1].1 - pair[0].1 > 2.0));
    }

    #[test]
    fn two_chains_side_by_side_do_not_cross() {
        let graph = graph(&["a", "b", "a1", "b1", "a2", "b2"], &[(1, 2), (0, 3), (2, 4), (3, 5)]);
        let layout = layout(&graph, &SIZES);
        let x = |node: usize| layout.places[node].x;
        assert_eq!(x(1) < x(0), x(2) < x(3));
        assert_eq!(x(2) < x(3), x(4) < x(5));
    }
}
