//! ONNX graphs: built node by node, without tracing.
//!
//! A graph is a list of nodes, each with named inputs and outputs. Constants are shared if they are
//! small and equal. Nothing here knows a model.

mod graph_parts;
mod messages;
mod read;
mod wire;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use prost::Message;

use crate::error::FormatError;
use crate::tensor::{Dtype, Tensor, TensorInfo};
pub use graph_parts::{GraphNode, GraphParts};
use messages as proto;
pub use read::OnnxFile;

/// The operator set: the first with `LayerNormalization`.
const OPERATORS: i64 = 17;
/// The version of the file format that belongs to it.
const FORMAT: i64 = 8;
/// Readers refuse larger files.
pub const LARGEST: u64 = 2_000_000_000;
/// Constants up to this size are shared.
const SMALL: usize = 256;

/// The name of a value in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(String);

/// The type of weights in the file; they are widened to f32 before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightType {
    F32,
    F16,
    /// Whole numbers of 8 bits, with a scale for each row along an axis.
    Int8,
}

/// An attribute of a node.
#[derive(Clone, Debug)]
pub enum Attribute {
    Float(f32),
    Integer(i64),
    Integers(Vec<i64>),
}

/// The type of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32 = 1,
    I64 = 7,
}

/// A size of an input or output.
#[derive(Clone, Debug)]
pub enum Size {
    Fixed(i64),
    /// Any size, under this name.
    Named(&'static str),
}

pub struct Graph {
    stored: WeightType,
    nodes: Vec<proto::NodeProto>,
    initializers: Vec<proto::TensorProto>,
    inputs: Vec<proto::ValueInfo>,
    outputs: Vec<proto::ValueInfo>,
    small: HashMap<(i32, Vec<i64>, Vec<u8>), Value>,
    names: usize,
}

impl Graph {
    pub fn new(stored: WeightType) -> Graph {
        Graph {
            stored,
            nodes: Vec::new(),
            initializers: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            small: HashMap::new(),
            names: 0,
        }
    }

    pub fn input(&mut self, name: &str, element: Element, sizes: &[Size]) -> Value {
        self.inputs.push(proto::value_info(name, element as i32, sizes));
        Value(name.to_owned())
    }

    /// Gives a value the name of an output.
    pub fn output(&mut self, name: &str, value: &Value, element: Element, sizes: &[Size]) {
        self.outputs.push(proto::value_info(name, element as i32, sizes));
        self.node("Identity", &[value], vec![name.to_owned()], &[]);
    }

    /// Adds a node with one output.
    pub fn add(&mut self, operator: &str, inputs: &[&Value]) -> Value {
        self.with(operator, inputs, &[])
    }

    /// The same, with attributes.
    pub fn with(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        attributes: &[(&str, Attribute)],
    ) -> Value {
        let name = self.name(operator);
        self.node(operator, inputs, vec![name.clone()], attributes);
        Value(name)
    }

    fn node(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        output: Vec<String>,
        attributes: &[(&str, Attribute)],
    ) {
        self.nodes.push(proto::NodeProto {
            input: inputs.iter().map(|value| value.0.clone()).collect(),
            name: output.first().cloned().unwrap_or_default(),
            output,
            op_type: operator.to_owned(),
            attribute: attributes
                .iter()
                .map(|(name, value)| proto::attribute(name, value))
                .collect(),
        });
    }

    fn name(&mut self, what: &str) -> String {
        self.names += 1;
        format!("{what}_{}", self.names)
    }

    /// A list of integers.
    pub fn integers(&mut self, values: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(proto::INT64, vec![values.len() as i64], bytes)
    }

    /// An integer without dimensions.
    pub fn integer(&mut self, value: i64) -> Value {
        self.constant(proto::INT64, Vec::new(), value.to_le_bytes().to_vec())
    }

    /// A table of integers.
    pub fn table(&mut self, values: &[i64], shape: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(proto::INT64, shape.to_vec(), bytes)
    }

    /// A number that fits every shape.
    pub fn number(&mut self, value: f64) -> Value {
        self.constant(proto::FLOAT, vec![1], (value as f32).to_le_bytes().to_vec())
    }

    /// A small tensor that stays in f32.
    pub fn numbers(&mut self, values: &[f32], shape: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(proto::FLOAT, shape.to_vec(), bytes)
    }

    fn constant(&mut self, element: i32, shape: Vec<i64>, bytes: Vec<u8>) -> Value {
        let key = (element, shape, bytes);
        if let Some(known) = self.small.get(&key) {
            return known.clone();
        }
        let value = self.initializer(key.0, key.1.clone(), key.2.clone().into());
        if key.2.len() <= SMALL {
            self.small.insert(key, value.clone());
        }
        value
    }

    fn initializer(&mut self, data_type: i32, dims: Vec<i64>, raw_data: Bytes) -> Value {
        let name = self.name("w");
        self.initializers.push(proto::TensorProto {
            dims,
            data_type,
            name: name.clone(),
            raw_data,
            ..proto::TensorProto::default()
        });
        Value(name)
    }

    /// Weights, in the type of the graph. `axis` is that of the outputs.
    ///
    /// # Errors
    ///
    /// If they are no floating-point numbers.
    pub fn weights(&mut self, tensor: &Tensor, axis: usize) -> Result<Value, FormatError> {
        let dims: Vec<i64> = tensor.shape().iter().map(|size| *size as i64).collect();
        // Vectors are small, and errors in them are not averaged.
        let stored = if dims.len() < 2 { WeightType::F32 } else { self.stored };
        match stored {
            WeightType::F32 => {
                let tensor = tensor.to_float(Dtype::F32)?;
                Ok(self.initializer(proto::FLOAT, dims, tensor.data().clone()))
            }
            WeightType::F16 => {
                let tensor = tensor.to_float(Dtype::F16)?;
                let half = self.initializer(proto::FLOAT16, dims, tensor.data().clone());
                let to = ("to", Attribute::Integer(i64::from(proto::FLOAT)));
                Ok(self.with("Cast", &[&half], &[to]))
            }
            WeightType::Int8 => {
                let (values, scales) = whole_numbers(&tensor.to_f32(), tensor.shape(), axis);
                let values = self.initializer(proto::INT8, dims, values.into());
                let scales = self.numbers(&scales, &[scales.len() as i64]);
                let axis = ("axis", Attribute::Integer(axis as i64));
                Ok(self.with("DequantizeLinear", &[&values, &scales], &[axis]))
            }
        }
    }

    /// The file.
    ///
    /// # Errors
    ///
    /// If it would be larger than readers take.
    pub fn write(
        self,
        name: &str,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Vec<u8>, FormatError> {
        let property = |(key, value): (&String, &String)| proto::Property {
            key: key.clone(),
            value: value.clone(),
        };
        let model = proto::ModelProto {
            ir_version: FORMAT,
            producer_name: "throstle".to_owned(),
            graph: Some(proto::GraphProto {
                node: self.nodes,
                name: name.to_owned(),
                initializer: self.initializers,
                input: self.inputs,
                output: self.outputs,
            }),
            opset_import: vec![proto::OperatorSet { domain: String::new(), version: OPERATORS }],
            metadata_props: metadata.iter().map(property).collect(),
        };
        let size = model.encoded_len() as u64;
        if size > LARGEST {
            let message = format!("the graph has {size} bytes, more than the 2 GB of an ONNX file");
            return Err(FormatError::Unsupported { message });
        }
        Ok(model.encode_to_vec())
    }
}

/// Rows along an axis as whole numbers from -127 to 127, and the scale of each.
fn whole_numbers(values: &[f32], shape: &[usize], axis: usize) -> (Vec<u8>, Vec<f32>) {
    let inner: usize = shape.iter().skip(axis + 1).product::<usize>().max(1);
    let rows = shape.get(axis).copied().unwrap_or(1).max(1);
    let row = |at: usize| at / inner % rows;
    let mut largest = vec![0f32; rows];
    for (at, value) in values.iter().enumerate() {
        let most = &mut largest[row(at)];
        *most = most.max(value.abs());
    }
    let scales: Vec<f32> =
        largest.iter().map(|most| if *most > 0.0 { most / 127.0 } else { 1.0 }).collect();
    let whole = |(at, value): (usize, &f32)| (value / scales[row(at)]).round() as i8 as u8;
    (values.iter().enumerate().map(whole).collect(), scales)
}

/// A matrix with rows and columns exchanged.
///
/// # Errors
///
/// If it is no matrix of numbers.
pub fn transposed(matrix: &Tensor) -> Result<Tensor, FormatError> {
    let [rows, columns] = matrix.shape() else {
        return Err(FormatError::tensor("data", format!("{} is not a matrix", matrix.info())));
    };
    let values = matrix.to_f32();
    let mut turned = Vec::with_capacity(values.len() * 4);
    for column in 0..*columns {
        for row in 0..*rows {
            turned.extend_from_slice(&values[row * columns + column].to_le_bytes());
        }
    }
    Tensor::new(TensorInfo::new(Dtype::F32, [*columns, *rows]), turned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn small_constants_are_shared_and_types_are_kept_apart() {
        let mut graph = Graph::new(WeightType::F32);
        assert_eq!(graph.integers(&[1, 2]), graph.integers(&[1, 2]));
        assert_ne!(graph.integers(&[1]), graph.integer(1));
        assert_ne!(graph.number(0.0), graph.integers(&[0]));
    }

    #[test]
    fn a_file_is_read_back_with_its_nodes_weights_and_properties() {
        let mut graph = Graph::new(WeightType::F32);
        let x = graph.input("x", Element::F32, &[Size::Fixed(1), Size::Named("L")]);
        let w = graph.weights(&Tensor::from_f32([2, 1], &[0.5, 0.0]).unwrap(), 0).unwrap();
        let y = graph.with("MatMul", &[&x, &w], &[("zero", Attribute::Float(0.0))]);
        graph.output("y", &y, Element::F32, &[Size::Fixed(1), Size::Fixed(1)]);
        let metadata = BTreeMap::from([("license".to_owned(), "MIT".to_owned())]);
        let bytes = graph.write("test", &metadata).unwrap();
        let model = proto::ModelProto::decode(&bytes[..]).unwrap();
        let graph = model.graph.unwrap();
        let operators: Vec<&str> = graph.node.iter().map(|node| node.op_type.as_str()).collect();
        assert_eq!(operators, ["MatMul", "Identity"]);
        // A zero is written: checkers ask whether an attribute has a value.
        assert_eq!(graph.node[0].attribute[0].f, Some(0.0));
        assert_eq!(graph.initializer[0].raw_data, [0, 0, 0, 0x3f, 0, 0, 0, 0][..]);
        assert_eq!(graph.node[1].output, ["y"]);
        assert_eq!((model.ir_version, model.opset_import[0].version), (8, 17));
        assert_eq!(model.metadata_props[0].value, "MIT");
    }

    #[test]
    fn whole_numbers_are_near_the_weights_of_each_row() {
        let values = [1.0, -0.5, 100.0, 50.0, 0.0, 0.0];
        let (whole, scales) = whole_numbers(&values, &[3, 2], 0);
        for (at, value) in values.iter().enumerate() {
            let back = f32::from(whole[at] as i8) * scales[at / 2];
            assert!((back - value).abs() <= scales[at / 2] / 2.0, "{back} for {value}");
        }
        // Along the second axis rows are interleaved.
        let (whole, scales) = whole_numbers(&[1.0, 10.0, 0.5, 5.0], &[2, 2], 1);
        assert_eq!((scales.len(), whole[0], whole[1]), (2, 127, 127));
    }

    #[test]
    fn a_matrix_is_turned() {
        let matrix = Tensor::from_f32([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let turned = transposed(&matrix).unwrap();
        assert_eq!(turned.shape(), [3, 2]);
        assert_eq!(turned.to_f32(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert!(transposed(&Tensor::from_f32([2], &[1.0, 2.0]).unwrap()).is_err());
    }
}
