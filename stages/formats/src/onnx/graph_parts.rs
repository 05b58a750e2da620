//! A graph in parts, each with its bytes as they were, so that a part of it is written as a graph of its own without
//! losing what is not understood here.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use prost::Message;

use super::messages as proto;
use super::wire::{
    MAX_HEAD_BYTES, WireField, begin, fields, length_delimited, length_delimited_size,
};
use super::{Attribute, Element, Size};
use crate::error::FormatError;

const FORMAT: &str = "ONNX";
/// The type of a tensor whose values are in a file beside the graph.
const EXTERNAL: i32 = 1;
/// Attributes that are graphs by themselves.
const OF_GRAPHS: [i32; 2] = [5, 10];

/// The numbers of fields of a model and of its graph.
const GRAPH: u64 = 7;
const METADATA: u64 = 14;
const NODE: u64 = 1;
const NAME: u64 = 2;
const INITIALIZER: u64 = 5;
const INPUT: u64 = 11;
const OUTPUT: u64 = 12;
const SPARSE: u64 = 15;

/// A named thing with its bytes.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    bytes: Bytes,
}

/// A node of a graph.
#[derive(Clone, Debug)]
pub struct GraphNode {
    known: proto::NodeProto,
    bytes: Bytes,
}

/// A graph in parts.
#[derive(Clone, Debug)]
pub struct GraphParts {
    /// The fields of the model beside the graph, as they are.
    model: Vec<Bytes>,
    properties: HashMap<String, String>,
    nodes: Vec<GraphNode>,
    weights: Vec<Named>,
    inputs: Vec<Named>,
    outputs: Vec<Named>,
}

impl GraphNode {
    /// A node with one output.
    pub fn new(operator: &str, inputs: &[&str], output: &str) -> GraphNode {
        let known = proto::NodeProto {
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: vec![output.to_owned()],
            name: output.to_owned(),
            op_type: operator.to_owned(),
            attribute: Vec::new(),
        };
        GraphNode { bytes: known.encode_to_vec().into(), known }
    }

    /// The same with an attribute.
    pub fn with(mut self, name: &str, value: &Attribute) -> GraphNode {
        self.known.attribute.push(proto::attribute(name, value));
        GraphNode { bytes: self.known.encode_to_vec().into(), known: self.known }
    }

    pub fn operator(&self) -> &str {
        &self.known.op_type
    }

    /// The names of its inputs; an optional one that is left out has an empty name.
    pub fn inputs(&self) -> &[String] {
        &self.known.input
    }

    pub fn outputs(&self) -> &[String] {
        &self.known.output
    }

    /// An attribute with integers; None without it.
    pub fn integers(&self, name: &str) -> Option<&[i64]> {
        let attribute = self.known.attribute.iter().find(|attribute| attribute.name == name)?;
        Some(&attribute.ints)
    }

    /// An attribute with a number; None without it.
    pub fn number(&self, name: &str) -> Option<f32> {
        self.known.attribute.iter().find(|attribute| attribute.name == name)?.f
    }

    fn has_graphs(&self) -> bool {
        self.known.attribute.iter().any(|attribute| OF_GRAPHS.contains(&attribute.r#type))
    }
}

impl GraphParts {
    /// Takes a file apart. The parts share its bytes.
    ///
    /// # Errors
    ///
    /// If the bytes are no graph, or the weights are in another file.
    pub fn read(bytes: &Bytes) -> Result<GraphParts, FormatError> {
        let (mut model, mut graph, mut properties) = (Vec::new(), None, HashMap::new());
        for field in fields(bytes)? {
            if field.number == METADATA {
                let property = decoded::<proto::Property>(&field)?;
                properties.insert(property.key, property.value);
            }
            match field.number {
                GRAPH if graph.is_some() => return Err(damaged("it has two graphs")),
                GRAPH => graph = Some(field.content),
                _ => model.push(field.whole),
            }
        }
        let graph = graph.ok_or_else(|| damaged("it has no graph"))?;
        let mut parts = GraphParts {
            model,
            properties,
            nodes: Vec::new(),
            weights: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        for field in fields(&graph)? {
            parts.add(field)?;
        }
        Ok(parts)
    }

    fn add(&mut self, field: WireField) -> Result<(), FormatError> {
        match field.number {
            NODE => {
                let known = decoded(&field)?;
                self.nodes.push(GraphNode { known, bytes: field.content });
            }
            INITIALIZER => {
                let stored = decoded::<proto::TensorHead>(&field)?;
                if stored.data_location == EXTERNAL {
                    let message = format!("the values of `{}` are in another file", stored.name);
                    return Err(FormatError::Unsupported { message });
                }
                self.weights.push(Named { name: stored.name, bytes: field.content });
            }
            INPUT => self.inputs.push(named(field)?),
            OUTPUT => self.outputs.push(named(field)?),
            SPARSE => {
                let message = "the graph has sparse weights, which are not supported".to_owned();
                return Err(FormatError::Unsupported { message });
            }
            // Names, documentation and known shapes.
            _ => {}
        }
        Ok(())
    }

    /// In an order in which each value is made before it is used.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        // Weights are inputs too in old files.
        let inputs = self.inputs.iter().map(|input| input.name.as_str());
        inputs.filter(|name| !self.weights.iter().any(|weight| weight.name == *name))
    }

    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|output| output.name.as_str())
    }

    /// A text of the metadata.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.properties.get(key).map(String::as_str)
    }

    /// Tests if a node has a graph of its own, which may use values that are not among its inputs.
    pub fn is_nested(&self) -> bool {
        self.nodes.iter().any(GraphNode::has_graphs)
    }

    /// Adds an input with floating-point numbers of any shape, or one of integers.
    pub fn add_input(&mut self, name: &str, element: Element, sizes: &[Size]) {
        let bytes = proto::value_info(name, element as i32, sizes).encode_to_vec();
        self.inputs.push(Named { name: name.to_owned(), bytes: bytes.into() });
    }

    /// Adds an integer without dimensions as a constant.
    pub fn add_integer(&mut self, name: &str, value: i64) {
        let tensor = proto::TensorProto {
            data_type: proto::INT64,
            name: name.to_owned(),
            raw_data: value.to_le_bytes().to_vec().into(),
            ..proto::TensorProto::default()
        };
        self.weights.push(Named { name: name.to_owned(), bytes: tensor.encode_to_vec().into() });
    }

    /// Puts nodes in the place of one; the last of them makes its output.
    pub fn replace(&mut self, at: usize, nodes: Vec<GraphNode>) {
        self.nodes.splice(at..=at, nodes);
    }

    /// The inputs of the graph that values depend on, other than by way of the values at `from`.
    pub fn needed_inputs(&self, from: &[&str], to: &[&str]) -> Vec<&str> {
        let needed = self.needed(from, to);
        self.inputs().filter(|name| needed.contains(name)).collect()
    }

    /// The names of values from `from` to `to`.
    fn needed<'a>(&'a self, from: &[&'a str], to: &[&'a str]) -> HashSet<&'a str> {
        let mut needed: HashSet<&str> = to.iter().copied().collect();
        for node in self.nodes.iter().rev() {
            let makes = |name: &String| needed.contains(name.as_str());
            let is_given = node.outputs().iter().all(|name| from.contains(&name.as_str()));
            if !is_given && node.outputs().iter().any(makes) {
                needed.extend(node.inputs().iter().map(String::as_str));
            }
        }
        needed
    }

    /// The part that makes the values `to`, of which those at `from` are given, as a graph of its own. Values
    /// that are no output of the whole graph become outputs with floating-point numbers of any shape.
    ///
    /// # Errors
    ///
    /// If the nodes are not in order.
    pub fn part(&self, from: &[&str], to: &[&str]) -> Result<Vec<u8>, FormatError> {
        let needed = self.needed(from, to);
        let makes = |node: &&GraphNode| {
            let mut outputs = node.outputs().iter().map(String::as_str);
            outputs.any(|name| needed.contains(name) && !from.contains(&name))
        };
        let nodes: Vec<&GraphNode> = self.nodes.iter().filter(makes).collect();
        let weights = self.weights.iter().filter(|weight| needed.contains(weight.name.as_str()));
        let given = |name: &str| self.inputs.iter().find(|input| input.name == name).cloned();
        let made = |name: &str| self.outputs.iter().find(|output| output.name == name).cloned();
        let inputs = self.inputs().filter(|name| needed.contains(name)).chain(from.iter().copied());
        let inputs = inputs.map(|name| given(name).unwrap_or_else(|| any_shape(name)));
        let outputs = to.iter().map(|name| made(name).unwrap_or_else(|| any_shape(name)));
        let fields = nodes.iter().map(|node| (NODE, node.bytes.clone()));
        let fields = fields.chain([(NAME, Bytes::from_static(b"part"))]);
        let fields = fields.chain(weights.map(|weight| (INITIALIZER, weight.bytes.clone())));
        let fields = fields.chain(inputs.map(|input| (INPUT, input.bytes)));
        let fields: Vec<(u64, Bytes)> =
            fields.chain(outputs.map(|output| (OUTPUT, output.bytes))).collect();
        // The weights are copied once: a graph takes up much of a small memory.
        let sizes = fields.iter().map(|(field, bytes)| length_delimited_size(*field, bytes));
        let size: usize = sizes.sum();
        let mut model = self.model.concat();
        model.reserve_exact(size + MAX_HEAD_BYTES);
        begin(GRAPH, size, &mut model);
        fields.iter().for_each(|(field, bytes)| length_delimited(*field, bytes, &mut model));
        Ok(model)
    }
}

fn any_shape(name: &str) -> Named {
    let info = proto::ValueInfo {
        name: name.to_owned(),
        r#type: Some(proto::Type {
            tensor_type: Some(proto::TensorType { elem_type: proto::FLOAT, shape: None }),
        }),
    };
    Named { name: name.to_owned(), bytes: info.encode_to_vec().into() }
}

fn named(field: WireField) -> Result<Named, FormatError> {
    let name = decoded::<proto::ValueInfo>(&field)?.name;
    Ok(Named { name, bytes: field.content })
}

fn decoded<M: Message + Default>(field: &WireField) -> Result<M, FormatError> {
    M::decode(field.content.clone()).map_err(|error| damaged(&error.to_string()))
}

pub fn damaged(message: &str) -> FormatError {
    FormatError::damaged(FORMAT, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::super::{Graph, WeightType};
    use super::*;
    use crate::tensor::Tensor;

    /// y = relu(x + 1) * 2, with the names of its values.
    fn graph() -> (GraphParts, [String; 2]) {
        let mut graph = Graph::new(WeightType::F32);
        let x = graph.input("x", Element::F32, &[Size::Named("N")]);
        let unused = graph.input("unused", Element::F32, &[Size::Named("N")]);
        graph.add("Neg", &[&unused]);
        let one = graph.weights(&Tensor::from_f32([1], &[1.0]).unwrap(), 0).unwrap();
        let two = graph.weights(&Tensor::from_f32([1], &[2.0]).unwrap(), 0).unwrap();
        let sum = graph.add("Add", &[&x, &one]);
        let positive = graph.add("Relu", &[&sum]);
        let y = graph.add("Mul", &[&positive, &two]);
        graph.output("y", &y, Element::F32, &[Size::Named("N")]);
        let metadata = BTreeMap::from([("license".to_owned(), "MIT".to_owned())]);
        let bytes = graph.write("test", &metadata).unwrap();
        (GraphParts::read(&bytes.into()).unwrap(), [sum.0, positive.0])
    }

    fn read(bytes: Vec<u8>) -> proto::ModelProto {
        proto::ModelProto::decode(&bytes[..]).unwrap()
    }

    #[test]
    fn two_parts_have_each_node_and_weight_once() {
        let (parts, [_, positive]) = graph();
        assert_eq!(parts.property("license"), Some("MIT"));
        let before = read(parts.part(&[], &[&positive]).unwrap());
        let after = read(parts.part(&[&positive], &["y"]).unwrap());
        let names = |model: &proto::ModelProto| -> (Vec<String>, usize, Vec<String>, Vec<String>) {
            let graph = model.graph.clone().unwrap();
            let operators = graph.node.iter().map(|node| node.op_type.clone()).collect();
            let inputs = graph.input.into_iter().map(|input| input.name).collect();
            let outputs = graph.output.into_iter().map(|output| output.name).collect();
            (operators, graph.initializer.len(), inputs, outputs)
        };
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = (owned(&["Add", "Relu"]), 1, owned(&["x"]), owned(&[&positive]));
        assert_eq!(names(&before), expected);
        let expected = (owned(&["Mul", "Identity"]), 1, owned(&[&positive]), owned(&["y"]));
        assert_eq!(names(&after), expected);
        assert_eq!(before.opset_import, after.opset_import);
        assert_eq!(after.metadata_props[0].value, "MIT");
    }

    #[test]
    fn a_part_tells_the_inputs_that_it_needs() {
        let (parts, [sum, _]) = graph();
        assert_eq!(parts.needed_inputs(&[], &["y"]), ["x"]);
        assert!(parts.needed_inputs(&[&sum], &["y"]).is_empty());
        assert_eq!(parts.inputs().collect::<Vec<_>>(), ["x", "unused"]);
    }

    #[test]
    fn a_node_is_replaced_and_constants_are_added() {
        let (mut parts, [sum, positive]) = graph();
        let at = parts.nodes().iter().position(|node| node.operator() == "Relu").unwrap();
        parts.add_integer("zero", 0);
        parts.add_input("least", Element::F32, &[Size::Named("M")]);
        let axis = Attribute::Integers(vec![0]);
        parts
            .replace(at, vec![GraphNode::new("Max", &[&sum, "least"], &positive).with("a", &axis)]);
        let graph = read(parts.part(&[], &["y"]).unwrap()).graph.unwrap();
        let operators: Vec<&str> = graph.node.iter().map(|node| node.op_type.as_str()).collect();
        assert_eq!(operators, ["Add", "Max", "Mul", "Identity"]);
        assert_eq!(graph.input.len(), 2);
        assert!(graph.initializer.iter().all(|constant| constant.name != "zero"), "not used");
    }

    #[test]
    fn what_is_no_graph_is_refused() {
        for bytes in [&b"PK\x03\x04"[..], b"\x08", b"\x08\x08", b"\x3a\x7f\x01", b"<html></html>"] {
            assert!(GraphParts::read(&Bytes::from_static(bytes)).is_err(), "{bytes:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_never_panic(bytes: Vec<u8>) {
            let _ = GraphParts::read(&bytes.into());
        }

        #[test]
        fn a_damaged_file_never_panics(at in 0usize..400, value: u8) {
            let (parts, _) = graph();
            let mut bytes = parts.part(&[], &["y"]).unwrap();
            let length = bytes.len();
            bytes[at % length] = value;
            if let Ok(parts) = GraphParts::read(&bytes.into()) {
                let _ = parts.part(&[], &["y"]);
            }
        }
    }
}
