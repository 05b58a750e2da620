//! Reads the weights of an ONNX graph, and as much of its nodes as their names need.
//!
//! An exporter folds constants: a weight that was a product has no name of its own (`onnx::Conv_12`)
//! in the file. The node that uses it tells which one it is.

use std::collections::BTreeMap;

use prost::Message;

use super::messages as proto;
use crate::error::FormatError;
use crate::parts::Parts;
use crate::tensor::{Dtype, Tensor, TensorInfo};

const FORMAT: &str = "ONNX";
/// The type of a tensor whose values are in a file beside the graph.
const EXTERNAL: i32 = 1;

/// The weights of a graph by name.
#[derive(Clone, Debug)]
pub struct OnnxFile {
    nodes: Vec<proto::NodeProto>,
    tensors: BTreeMap<String, Tensor>,
}

impl OnnxFile {
    /// Tests if a file begins like a graph: with the version of the format and the producer.
    pub fn is_one(head: &[u8]) -> bool {
        matches!(head, [0x08, 1..=64, 0x12 | 0x3A | 0x42, ..])
    }

    /// Reads the whole graph into memory.
    ///
    /// # Errors
    ///
    /// If the bytes are no graph, or its weights are in another file.
    pub fn read(parts: &Parts) -> Result<OnnxFile, FormatError> {
        let bytes = parts.up_to(FORMAT, 0, usize::MAX)?;
        let damaged = |error: prost::DecodeError| FormatError::damaged(FORMAT, error.to_string());
        let model = proto::ModelProto::decode(bytes).map_err(damaged)?;
        let graph = model.graph.ok_or_else(|| FormatError::damaged(FORMAT, "it has no graph"))?;
        let mut tensors = BTreeMap::new();
        for stored in graph.initializer {
            let name = stored.name.clone();
            // Types that no weight has are left out: they are constants of the computation.
            if let Some(tensor) = tensor(stored)? {
                tensors.insert(name, tensor);
            }
        }
        let mut file = OnnxFile { nodes: graph.node, tensors };
        file.name_folded();
        Ok(file)
    }

    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.info()))
    }

    /// # Errors
    ///
    /// If there is none of this name.
    pub fn tensor(&self, name: &str) -> Result<Tensor, FormatError> {
        let found = self.tensors.get(name).cloned();
        found.ok_or_else(|| FormatError::tensor(name, "it is not in the graph"))
    }

    /// Gives a tensor another name, in place of one that has it.
    pub fn rename(&mut self, from: &str, to: &str) {
        if let Some(tensor) = self.tensors.remove(from) {
            self.tensors.insert(to.to_owned(), tensor);
        }
    }

    /// Leaves out constants of the computation.
    pub fn retain(&mut self, is_weight: impl Fn(&str) -> bool) {
        self.tensors.retain(|name, _| is_weight(name));
    }

    pub fn insert(&mut self, name: &str, tensor: Tensor) {
        self.tensors.insert(name.to_owned(), tensor);
    }

    /// The table from which the values of an input choose rows.
    pub fn table_of(&self, input: &str) -> Option<&str> {
        let is_choice = |node: &&proto::NodeProto| {
            node.op_type == "Gather" && node.input.get(1).is_some_and(|index| index == input)
        };
        let tables = self.nodes.iter().filter(is_choice).filter_map(|node| node.input.first());
        tables.map(String::as_str).find(|table| self.tensors.contains_key(*table))
    }

    /// The constant factor of what is left after a constant is subtracted.
    pub fn factor_behind(&self, subtracted: &str) -> Option<&str> {
        let user = |operator: &str, name: &str| {
            let uses = |node: &&proto::NodeProto| {
                node.op_type == operator && node.input.iter().any(|input| input == name)
            };
            self.nodes.iter().find(uses)
        };
        let difference = user("Sub", subtracted)?.output.first()?;
        let product = user("Mul", difference)?;
        product.input.iter().map(String::as_str).find(|input| self.tensors.contains_key(*input))
    }

    /// An attribute with integers of the convolution with this weight, such as `strides`.
    pub fn attribute(&self, weight: &str, name: &str) -> Option<&[i64]> {
        let bias = weight.strip_suffix(".weight").map(|stem| format!("{stem}.bias"));
        let uses = |node: &&proto::NodeProto| {
            let weights = node.input.iter().skip(1);
            weights.into_iter().any(|input| input == weight || Some(input) == bias.as_ref())
        };
        let node = self.nodes.iter().find(uses)?;
        let attribute = node.attribute.iter().find(|attribute| attribute.name == name)?;
        Some(&attribute.ints)
    }

    /// Names weights without a name of their own after the bias of the same node.
    fn name_folded(&mut self) {
        let folded: Vec<(String, String)> = self.nodes.iter().filter_map(named_by_bias).collect();
        for (from, to) in folded {
            if !self.tensors.contains_key(&to) {
                self.rename(&from, &to);
            }
        }
    }
}

fn named_by_bias(node: &proto::NodeProto) -> Option<(String, String)> {
    let [_, weight, bias] = node.input.as_slice() else { return None };
    let stem = bias.strip_suffix(".bias").filter(|_| weight.contains("::"))?;
    Some((weight.clone(), format!("{stem}.weight")))
}

fn tensor(stored: proto::TensorProto) -> Result<Option<Tensor>, FormatError> {
    let name = stored.name.clone();
    let dtype = match stored.data_type {
        proto::FLOAT => Dtype::F32,
        proto::FLOAT16 => Dtype::F16,
        _ => return Ok(None),
    };
    if stored.data_location == EXTERNAL {
        let message = format!("the values of `{name}` are in another file");
        return Err(FormatError::Unsupported { message });
    }
    let sizes = stored.dims.iter().map(|size| usize::try_from(*size));
    let shape: Vec<usize> = sizes
        .collect::<Result<_, _>>()
        .map_err(|_| FormatError::tensor(&name, "a negative size"))?;
    let tensor = match stored.float_data.is_empty() {
        true => Tensor::new(TensorInfo::new(dtype, shape), stored.raw_data),
        false => Tensor::from_f32(shape, &stored.float_data),
    };
    tensor.map(Some).map_err(|error| FormatError::tensor(&name, error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Element, Graph, Size, WeightType};
    use super::*;

    fn constant(name: &str, shape: &[i64], values: &[f32]) -> proto::TensorProto {
        proto::TensorProto {
            dims: shape.to_vec(),
            data_type: proto::FLOAT,
            name: name.to_owned(),
            raw_data: values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect::<Vec<_>>()
                .into(),
            ..proto::TensorProto::default()
        }
    }

    fn node(operator: &str, input: &[&str], output: &str) -> proto::NodeProto {
        proto::NodeProto {
            op_type: operator.to_owned(),
            input: input.iter().map(|name| (*name).to_owned()).collect(),
            output: vec![output.to_owned()],
            ..proto::NodeProto::default()
        }
    }

    fn file(
        nodes: Vec<proto::NodeProto>,
        initializer: Vec<proto::TensorProto>,
    ) -> Result<OnnxFile, FormatError> {
        let graph = proto::GraphProto { node: nodes, initializer, ..proto::GraphProto::default() };
        let model =
            proto::ModelProto { ir_version: 8, graph: Some(graph), ..proto::ModelProto::default() };
        OnnxFile::read(&Parts::from(model.encode_to_vec()))
    }

    #[test]
    fn a_folded_weight_is_named_by_the_bias_beside_it() {
        let convolution = proto::NodeProto {
            attribute: vec![proto::attribute(
                "dilations",
                &super::super::Attribute::Integers(vec![2]),
            )],
            ..node("Conv", &["x", "onnx::Conv_7", "enc.0.bias"], "y")
        };
        let weights = vec![
            constant("onnx::Conv_7", &[1, 1, 2], &[1.0, 2.0]),
            constant("enc.0.bias", &[1], &[0.5]),
        ];
        let file = file(vec![convolution], weights).unwrap();
        assert_eq!(file.tensor("enc.0.weight").unwrap().to_f32(), [1.0, 2.0]);
        assert_eq!(file.attribute("enc.0.weight", "dilations"), Some(&[2][..]));
        assert!(file.tensor("onnx::Conv_7").is_err());
    }

    #[test]
    fn nodes_tell_a_table_and_a_folded_factor() {
        let nodes = vec![
            node("Gather", &["sid", "input"], "embedded"),
            node("Sub", &["x", "mean"], "less"),
            node("Mul", &["less", "folded"], "scaled"),
        ];
        let weights = ["sid", "mean", "folded"].map(|name| constant(name, &[1], &[1.0])).to_vec();
        let file = file(nodes, weights).unwrap();
        assert_eq!(
            (file.table_of("input"), file.factor_behind("mean")),
            (Some("sid"), Some("folded"))
        );
        assert_eq!((file.table_of("sid"), file.factor_behind("folded")), (None, None));
    }

    #[test]
    fn a_graph_that_is_written_here_is_read() {
        let mut graph = Graph::new(WeightType::F32);
        let x = graph.input("x", Element::F32, &[Size::Fixed(1)]);
        graph.output("y", &x, Element::F32, &[Size::Fixed(1)]);
        let bytes = graph.write("none", &BTreeMap::new()).unwrap();
        assert!(OnnxFile::is_one(&bytes) && !OnnxFile::is_one(b"PK\x03\x04"));
        assert_eq!(OnnxFile::read(&Parts::from(bytes)).unwrap().tensors().count(), 0);
    }

    #[test]
    fn what_cannot_be_weights_is_refused() {
        let short = constant("a", &[3], &[1.0]);
        assert!(file(Vec::new(), vec![short]).unwrap_err().to_string().contains("`a`"));
        let negative = constant("a", &[-1], &[]);
        assert!(file(Vec::new(), vec![negative]).is_err());
        let outside = proto::TensorProto { data_location: EXTERNAL, ..constant("a", &[1], &[]) };
        let error = file(Vec::new(), vec![outside]).unwrap_err().to_string();
        assert!(error.contains("in another file"), "{error}");
        assert!(OnnxFile::read(&Parts::from(vec![0x08, 0x08, 0x3A, 0xFF])).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_never_panic(bytes: Vec<u8>) {
            let _ = OnnxFile::read(&Parts::from(bytes));
        }
    }
}
