//! The decoder of a graph: its last part, from latent frames to samples.
//!
//! Each sample depends on a few frames around it alone, so the decoder may get the frames of a sentence in parts that
//! overlap. The overlap follows from the convolutions of the graph.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use stage_formats::onnx::{GraphNode, GraphParts};

/// The input that alone may reach the decoder beside its frames.
const SPEAKER: &str = "sid";
/// Operators that keep positions apart.
const POINTWISE: [&str; 12] = [
    "LeakyRelu",
    "Relu",
    "Tanh",
    "Sigmoid",
    "Neg",
    "Identity",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Squeeze",
    "Unsqueeze",
];

/// Where a decoder begins, and what its samples depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecoderStart {
    /// The name of the frames: a value [1, C, T].
    pub frames: String,
    /// The samples of a frame.
    pub hop: usize,
    /// The frames on either side that a frame of samples depends on.
    pub margin: usize,
}

/// The reach of a value: its positions for a frame, and how many on either side it depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reach {
    rate: usize,
    positions: usize,
}

impl DecoderStart {
    /// That of a graph; None if it has no decoder of convolutions alone.
    pub fn find(graph: &GraphParts) -> Option<DecoderStart> {
        if graph.is_nested() {
            return None;
        }
        let output = graph.outputs().next()?;
        let frames = frames(graph)?;
        let others = graph.needed_inputs(&[&frames], &[output]);
        if others.iter().any(|input| *input != SPEAKER) {
            return None;
        }
        let mut reaches = HashMap::from([(frames.as_str(), Reach { rate: 1, positions: 0 })]);
        for node in graph.nodes() {
            if node.inputs().iter().any(|input| reaches.contains_key(input.as_str())) {
                let reach = reach(node, &reaches)?;
                reaches.extend(node.outputs().iter().map(|name| (name.as_str(), reach)));
            }
        }
        let Reach { rate, positions } = *reaches.get(output)?;
        Some(DecoderStart { hop: rate, margin: positions.div_ceil(rate), frames })
    }
}

/// The frames: the input of the last convolution before the first one that makes the sound longer.
fn frames(graph: &GraphParts) -> Option<String> {
    let makers: HashMap<&str, &GraphNode> = graph
        .nodes()
        .iter()
        .flat_map(|node| node.outputs().iter().map(move |name| (name.as_str(), node)))
        .collect();
    let of_text = text_values(graph);
    let longer = graph.nodes().iter().find(|node| node.operator() == "ConvTranspose")?;
    let mut value = longer.inputs().first()?;
    loop {
        let maker = makers.get(value.as_str())?;
        value = match maker.operator() {
            "Conv" => return maker.inputs().first().cloned(),
            "LeakyRelu" => maker.inputs().first()?,
            // The other term is that of the speaker.
            "Add" => maker.inputs().iter().find(|input| of_text.contains(input.as_str()))?,
            _ => return None,
        };
    }
}

/// All values that depend on more than the speaker.
fn text_values(graph: &GraphParts) -> HashSet<&str> {
    let mut values: HashSet<&str> = graph.inputs().filter(|name| *name != SPEAKER).collect();
    for node in graph.nodes() {
        if node.inputs().iter().any(|input| values.contains(input.as_str())) {
            values.extend(node.outputs().iter().map(String::as_str));
        }
    }
    values
}

/// The reach of the outputs of a node; None if they depend on all positions, or have no fixed number of them.
fn reach(node: &GraphNode, reaches: &HashMap<&str, Reach>) -> Option<Reach> {
    let mut before = node.inputs().iter().filter_map(|input| reaches.get(input.as_str()).copied());
    let first = before.next()?;
    match node.operator() {
        "Conv" => convolved(node, first),
        "ConvTranspose" => lengthened(node, first),
        operator if POINTWISE.contains(&operator) => before.try_fold(first, |one, other| {
            let positions = one.positions.max(other.positions);
            (one.rate == other.rate).then_some(Reach { positions, ..one })
        }),
        _ => None,
    }
}

/// An attribute with one integer, or the usual value.
fn one(node: &GraphNode, name: &str, usual: i64) -> Option<i64> {
    match node.integers(name) {
        None => Some(usual),
        Some([value]) if (0..=1 << 20).contains(value) => Some(*value),
        Some(_) => None,
    }
}

fn pads(node: &GraphNode) -> Option<[i64; 2]> {
    match node.integers("pads") {
        None => Some([0, 0]),
        Some([before, behind]) if *before >= 0 && *behind >= 0 => Some([*before, *behind]),
        Some(_) => None,
    }
}

/// A convolution that keeps the number of positions.
fn convolved(node: &GraphNode, Reach { rate, positions }: Reach) -> Option<Reach> {
    let [kernel, dilation, stride] =
        [one(node, "kernel_shape", 0)?, one(node, "dilations", 1)?, one(node, "strides", 1)?];
    let [before, behind] = pads(node)?;
    if kernel == 0 || stride != 1 || before + behind != dilation * (kernel - 1) {
        return None;
    }
    let further = usize::try_from(before.max(behind)).ok()?;
    Some(Reach { rate, positions: positions + further })
}

/// A transposed convolution that makes each position as many as its stride.
fn lengthened(node: &GraphNode, Reach { rate, positions }: Reach) -> Option<Reach> {
    let [kernel, dilation, stride] =
        [one(node, "kernel_shape", 0)?, one(node, "dilations", 1)?, one(node, "strides", 1)?];
    let [before, behind] = pads(node)?;
    let added = one(node, "output_padding", 0)?;
    if stride < 1 || dilation != 1 || kernel - stride != before + behind - added {
        return None;
    }
    let [stride, kernel] = [stride, kernel].map(|value| usize::try_from(value).unwrap_or_default());
    Some(Reach { rate: rate.checked_mul(stride)?, positions: positions * stride + kernel })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use stage_formats::Tensor;
    use stage_formats::onnx::{Attribute, Element, Graph, Size, Value, WeightType};

    use super::*;

    /// A graph that makes frames from a text, and twice as many samples from them; `last` adds to its end.
    fn graph(pads: i64, last: &dyn Fn(&mut Graph, &Value, &Value) -> Value) -> GraphParts {
        let mut graph = Graph::new(WeightType::F32);
        let any = [Size::Fixed(1), Size::Fixed(1), Size::Named("T")];
        let text = graph.input("input", Element::F32, &any);
        let speaker = graph.input("sid", Element::F32, &[Size::Fixed(1)]);
        let frames = graph.add("Exp", &[&text]);
        let weight = |graph: &mut Graph, kernel: usize| {
            let tensor = Tensor::from_f32([1, 1, kernel], &vec![0.5; kernel]).unwrap();
            graph.weights(&tensor, 0).unwrap()
        };
        let integers = |values: &[i64]| Attribute::Integers(values.to_vec());
        let conv = |graph: &mut Graph, x: &Value, kernel: usize, dilation: i64, pads: i64| {
            let weight = weight(graph, kernel);
            let attributes = [
                ("kernel_shape", integers(&[kernel as i64])),
                ("dilations", integers(&[dilation])),
                ("pads", integers(&[pads, pads])),
            ];
            graph.with("Conv", &[x, &weight], &attributes)
        };
        let x = conv(&mut graph, &frames, 7, 1, 3);
        let x = graph.add("Add", &[&x, &speaker]);
        let x = graph.with("LeakyRelu", &[&x], &[("alpha", Attribute::Float(0.1))]);
        let kernel = weight(&mut graph, 4);
        let attributes = [
            ("kernel_shape", integers(&[4])),
            ("strides", integers(&[2])),
            ("pads", integers(&[1, 1])),
        ];
        let x = graph.with("ConvTranspose", &[&x, &kernel], &attributes);
        let x = conv(&mut graph, &x, 3, 2, pads);
        let x = graph.add("Tanh", &[&x]);
        let x = last(&mut graph, &x, &text);
        graph.output("output", &x, Element::F32, &any);
        let bytes = graph.write("test", &BTreeMap::new()).unwrap();
        GraphParts::read(&bytes.into()).unwrap()
    }

    #[test]
    fn the_margin_follows_from_the_convolutions() {
        let plain = graph(2, &|_, x, _| x.clone());
        let start = DecoderStart::find(&plain).unwrap();
        // 3 frames are 6 samples, and 4 and 2 more.
        assert_eq!((start.hop, start.margin), (2, 6));
        assert_eq!(plain.needed_inputs(&[], &[&start.frames]), ["input"]);
        assert_eq!(plain.needed_inputs(&[&start.frames], &["output"]), ["sid"]);
    }

    #[test]
    fn what_depends_on_all_frames_is_no_decoder() {
        let mean = |graph: &mut Graph, x: &Value, _: &Value| graph.add("ReduceMean", &[x]);
        let text = |graph: &mut Graph, x: &Value, text: &Value| graph.add("Mul", &[x, text]);
        assert_eq!(DecoderStart::find(&graph(2, &mean)), None);
        assert_eq!(
            DecoderStart::find(&graph(2, &text)),
            None,
            "the text reaches it by another way"
        );
        assert_eq!(DecoderStart::find(&graph(0, &|_, x, _| x.clone())), None, "it becomes shorter");
    }
}
