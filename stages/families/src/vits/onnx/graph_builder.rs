//! Layers of the graph, with the weights of the model.

use stage_core::StageError;
use stage_formats::onnx::{Attribute, Graph, Value, WeightType, transposed};
use stage_formats::weight_norm::{DIRECTION, LENGTH, WHOLE, fold};
use stage_formats::{FormatError, Tensor};

/// Takes the last elements of an axis, whatever its length.
pub const END: i64 = i64::MAX;

/// Reads a tensor of the model; None if it has none of this name.
pub type Read<'a> = dyn FnMut(&str) -> Result<Option<Tensor>, StageError> + 'a;

pub struct GraphBuilder<'a> {
    pub graph: Graph,
    read: &'a mut Read<'a>,
}

/// The form of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Conv {
    pub kernel: i64,
    pub dilation: i64,
    pub groups: i64,
    /// Zeros before and after.
    pub padding: [i64; 2],
}

impl Conv {
    /// A projection of each position.
    pub const POINT: Conv = Conv { kernel: 1, dilation: 1, groups: 1, padding: [0, 0] };

    /// Gives as many positions as it takes.
    pub fn same(kernel: i64, dilation: i64) -> Conv {
        let padding = dilation * (kernel - 1) / 2;
        Conv { kernel, dilation, groups: 1, padding: [padding; 2] }
    }
}

impl<'a> GraphBuilder<'a> {
    pub fn new(stored: WeightType, read: &'a mut Read<'a>) -> GraphBuilder<'a> {
        GraphBuilder { graph: Graph::new(stored), read }
    }

    pub fn tensor(&mut self, name: &str) -> Result<Tensor, StageError> {
        let missing = || StageError::failed(format!("the model has no tensor `{name}`"));
        (self.read)(name)?.ok_or_else(missing)
    }

    /// The weight of a module, without weight norm.
    fn weight(&mut self, module: &str) -> Result<Tensor, StageError> {
        if let Some(whole) = (self.read)(&format!("{module}.{WHOLE}"))? {
            return Ok(whole);
        }
        let length = self.tensor(&format!("{module}.{LENGTH}"))?;
        let direction = self.tensor(&format!("{module}.{DIRECTION}"))?;
        fold(&length, &direction).map_err(|error| error.of(module))
    }

    fn bias(&mut self, module: &str) -> Result<Option<Value>, StageError> {
        let bias = (self.read)(&format!("{module}.bias"))?;
        bias.map(|bias| self.put(&bias, module, 0)).transpose()
    }

    /// A tensor as a constant; `axis` is that of its outputs.
    pub fn put(&mut self, tensor: &Tensor, name: &str, axis: usize) -> Result<Value, StageError> {
        let failed = |error: FormatError| error.of(name);
        self.graph.weights(tensor, axis).map_err(failed)
    }

    /// A tensor by its name as a constant.
    pub fn constant(&mut self, name: &str, axis: usize) -> Result<Value, StageError> {
        let tensor = self.tensor(name)?;
        self.put(&tensor, name, axis)
    }

    /// [B, C, N] to [B, C, N].
    pub fn conv(&mut self, module: &str, x: &Value, form: Conv) -> Result<Value, StageError> {
        let weight = self.weight(module)?;
        let weight = self.put(&weight, module, 0)?;
        let bias = self.bias(module)?;
        let inputs: Vec<&Value> = [x, &weight].into_iter().chain(&bias).collect();
        let integers = |values: &[i64]| Attribute::Integers(values.to_vec());
        let attributes = [
            ("dilations", integers(&[form.dilation])),
            ("group", Attribute::Integer(form.groups)),
            ("kernel_shape", integers(&[form.kernel])),
            ("pads", integers(&form.padding)),
            ("strides", integers(&[1])),
        ];
        Ok(self.graph.with("Conv", &inputs, &attributes))
    }

    /// [B, C, N] to [B, C / 2, N * rate].
    pub fn upsample(
        &mut self,
        module: &str,
        x: &Value,
        (kernel, rate): (i64, i64),
    ) -> Result<Value, StageError> {
        let weight = self.weight(module)?;
        let weight = self.put(&weight, module, 1)?;
        let bias = self.bias(module)?;
        let inputs: Vec<&Value> = [x, &weight].into_iter().chain(&bias).collect();
        let integers = |values: &[i64]| Attribute::Integers(values.to_vec());
        let attributes = [
            ("kernel_shape", integers(&[kernel])),
            ("pads", integers(&[(kernel - rate) / 2; 2])),
            ("strides", integers(&[rate])),
        ];
        Ok(self.graph.with("ConvTranspose", &inputs, &attributes))
    }

    /// [B, N, C] to [B, N, C].
    pub fn linear(&mut self, module: &str, x: &Value) -> Result<Value, StageError> {
        let weight = self.weight(module)?;
        let turned = transposed(&weight).map_err(|error| error.of(module))?;
        let weight = self.put(&turned, module, 1)?;
        let y = self.graph.add("MatMul", &[x, &weight]);
        Ok(match self.bias(module)? {
            Some(bias) => self.graph.add("Add", &[&y, &bias]),
            None => y,
        })
    }

    /// Over the last axis.
    pub fn norm(&mut self, module: &str, x: &Value, epsilon: f64) -> Result<Value, StageError> {
        let weight = self.constant(&format!("{module}.weight"), 0)?;
        let bias = self.constant(&format!("{module}.bias"), 0)?;
        let attributes =
            [("axis", Attribute::Integer(-1)), ("epsilon", Attribute::Float(epsilon as f32))];
        Ok(self.graph.with("LayerNormalization", &[x, &weight, &bias], &attributes))
    }

    /// Over the channels of [B, C, N].
    pub fn channel_norm(
        &mut self,
        module: &str,
        x: &Value,
        epsilon: f64,
    ) -> Result<Value, StageError> {
        let x = self.turned(x, &[0, 2, 1]);
        let y = self.norm(module, &x, epsilon)?;
        Ok(self.turned(&y, &[0, 2, 1]))
    }

    pub fn add(&mut self, a: &Value, b: &Value) -> Value {
        self.graph.add("Add", &[a, b])
    }

    pub fn sub(&mut self, a: &Value, b: &Value) -> Value {
        self.graph.add("Sub", &[a, b])
    }

    pub fn mul(&mut self, a: &Value, b: &Value) -> Value {
        self.graph.add("Mul", &[a, b])
    }

    pub fn div(&mut self, a: &Value, b: &Value) -> Value {
        self.graph.add("Div", &[a, b])
    }

    /// Times a number.
    pub fn times(&mut self, a: &Value, factor: f64) -> Value {
        let factor = self.graph.number(factor);
        self.mul(a, &factor)
    }

    /// Plus a number.
    pub fn plus(&mut self, a: &Value, term: f64) -> Value {
        let term = self.graph.number(term);
        self.add(a, &term)
    }

    pub fn of(&mut self, operator: &str, x: &Value) -> Value {
        self.graph.add(operator, &[x])
    }

    /// Axes in this order.
    pub fn turned(&mut self, x: &Value, order: &[i64]) -> Value {
        self.graph.with("Transpose", &[x], &[("perm", Attribute::Integers(order.to_vec()))])
    }

    /// The elements from `start` to `end` of an axis.
    pub fn slice(&mut self, x: &Value, (start, end): (i64, i64), axis: i64) -> Value {
        let inputs = [start, end, axis, 1].map(|value| self.graph.integers(&[value]));
        let [start, end, axis, step] = &inputs;
        self.graph.add("Slice", &[x, start, end, axis, step])
    }

    /// The two halves of the channels.
    pub fn halves(&mut self, x: &Value, channels: i64) -> (Value, Value) {
        (self.slice(x, (0, channels), 1), self.slice(x, (channels, 2 * channels), 1))
    }

    /// The channels in reverse order.
    pub fn flipped(&mut self, x: &Value) -> Value {
        let inputs = [-1, i64::MIN, 1, -1].map(|value| self.graph.integers(&[value]));
        let [start, end, axis, step] = &inputs;
        self.graph.add("Slice", &[x, start, end, axis, step])
    }

    pub fn joined(&mut self, parts: &[&Value], axis: i64) -> Value {
        self.graph.with("Concat", parts, &[("axis", Attribute::Integer(axis))])
    }

    pub fn unsqueezed(&mut self, x: &Value, axis: i64) -> Value {
        let axis = self.graph.integers(&[axis]);
        self.graph.add("Unsqueeze", &[x, &axis])
    }

    pub fn squeezed(&mut self, x: &Value, axes: &[i64]) -> Value {
        let axes = self.graph.integers(axes);
        self.graph.add("Squeeze", &[x, &axes])
    }

    pub fn reshaped(&mut self, x: &Value, shape: &[i64]) -> Value {
        let shape = self.graph.integers(shape);
        self.graph.add("Reshape", &[x, &shape])
    }

    pub fn softmax(&mut self, x: &Value) -> Value {
        self.graph.with("Softmax", &[x], &[("axis", Attribute::Integer(-1))])
    }

    pub fn leaky(&mut self, x: &Value, slope: f64) -> Value {
        self.graph.with("LeakyRelu", &[x], &[("alpha", Attribute::Float(slope as f32))])
    }

    /// The elements of one axis at these places.
    pub fn gathered(&mut self, x: &Value, places: &Value, axis: i64) -> Value {
        self.graph.with("Gather", &[x, places], &[("axis", Attribute::Integer(axis))])
    }

    /// As `torch.gather`.
    pub fn at(&mut self, x: &Value, places: &Value, axis: i64) -> Value {
        self.graph.with("GatherElements", &[x, places], &[("axis", Attribute::Integer(axis))])
    }

    pub fn floats(&mut self, x: &Value) -> Value {
        self.graph.with("Cast", &[x], &[("to", Attribute::Integer(1))])
    }

    pub fn counts(&mut self, x: &Value) -> Value {
        self.graph.with("Cast", &[x], &[("to", Attribute::Integer(7))])
    }

    /// The numbers from 0 to before a number.
    pub fn counted(&mut self, to: &Value) -> Value {
        let (zero, one) = (self.graph.integer(0), self.graph.integer(1));
        self.graph.add("Range", &[&zero, to, &one])
    }

    /// Normal noise of the shape of a value.
    pub fn noise(&mut self, like: &Value) -> Value {
        let attributes = [("mean", Attribute::Float(0.0)), ("scale", Attribute::Float(1.0))];
        self.graph.with("RandomNormalLike", &[like], &attributes)
    }
}
