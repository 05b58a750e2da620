//! Rows of a batch that are independent of each other to the bit.
//!
//! libtorch rounds a row differently in another batch: matrix products select a kernel by the number
//! of rows, and some elementwise functions compute the last few numbers of a tensor in another way.
//! In f32 on a CPU, decoding is exact: rounding operations go through `kernels`. A GPU and half
//! precision use the functions of libtorch.

use tch::{Device, Kind, Tensor};

use super::kernels;
use crate::nn::layers::{Adapter, Conv1D, Embedding, LayerNorm, Linear, Pass, RmsNorm};
use crate::nn::rope::Rotary;

/// Tests if a row must not depend on the other rows.
pub fn is_exact(x: &Tensor) -> bool {
    x.device() == Device::Cpu && x.kind() == Kind::Float
}

/// A linear layer with its adapter on few rows: [.., inputs] to [.., outputs].
pub fn linear(layer: &Linear, x: &Tensor) -> Tensor {
    if !is_exact(x) {
        return layer.forward(x, Pass::Evaluate);
    }
    let mut y = product(x, &layer.weight);
    if let Some(bias) = &layer.bias {
        y += bias;
    }
    adapted(y, x, layer.adapter.as_ref())
}

/// The same with a weight of [inputs, outputs].
pub fn conv1d(layer: &Conv1D, x: &Tensor) -> Tensor {
    let (inputs, weight) = (x.contiguous(), layer.weight.contiguous());
    let (Some(values), Some(weights)) = (floats(&inputs), floats(&weight)) else {
        return layer.forward(x, Pass::Evaluate);
    };
    let outputs = weight.size()[1];
    let y = filled(&with_width(x, outputs), |out| {
        kernels::product_input_first(out, values, weights, outputs as usize, threads());
    });
    adapted(y + &layer.bias, x, layer.adapter.as_ref())
}

/// `y`, the output of a layer for `x`, plus the output of its adapter.
fn adapted(y: Tensor, x: &Tensor, adapter: Option<&Adapter>) -> Tensor {
    match adapter {
        None => y,
        Some(adapter) => {
            let low = product(&x.to_kind(adapter.a.kind()), &adapter.a);
            y + (product(&low, &adapter.b) * adapter.scaling).to_kind(x.kind())
        }
    }
}

/// Rows of a table with its adapter; the row numbers may have any shape.
pub fn embedding(table: &Embedding, numbers: &Tensor) -> Tensor {
    let look_up = |weight: &Tensor| Tensor::embedding(weight, numbers, -1, false, false);
    let y = look_up(&table.weight);
    match &table.adapter {
        None => y,
        Some(adapter) => {
            let low = look_up(&adapter.a.tr());
            (product(&low, &adapter.b) * adapter.scaling).to_kind(y.kind()) + y
        }
    }
}

/// x times the transposed weight: [.., inputs] to [.., outputs].
pub fn product(x: &Tensor, weight: &Tensor) -> Tensor {
    let (inputs, weight) = (x.contiguous(), weight.contiguous());
    let (Some(values), Some(weights)) = (floats(&inputs), floats(&weight)) else {
        return x.linear(&weight, None::<&Tensor>);
    };
    let (outputs, width) = (weight.size()[0], weight.size()[1] as usize);
    filled(&with_width(x, outputs), |out| {
        kernels::product(out, values, weights, width, threads());
    })
}

/// [.., C], over the last axis.
pub fn rms_norm(norm: &RmsNorm, x: &Tensor) -> Tensor {
    let x = x.contiguous();
    let (Some(values), Some(weight)) = (floats(&x), floats(&norm.weight)) else {
        return norm.forward(&x);
    };
    filled(&x.size(), |out| kernels::rms_norm(out, values, weight, norm.eps as f32))
}

/// [.., C], over the last axis.
pub fn layer_norm(norm: &LayerNorm, x: &Tensor) -> Tensor {
    let x = x.contiguous();
    let parts = (floats(&x), floats(&norm.weight), floats(&norm.bias));
    let (Some(values), Some(weight), Some(bias)) = parts else { return norm.forward(&x) };
    filled(&x.size(), |out| kernels::layer_norm(out, values, weight, bias, norm.eps as f32))
}

/// silu(gate) * x.
pub fn swiglu(gate: &Tensor, x: &Tensor) -> Tensor {
    let (gate, x) = (gate.contiguous(), x.contiguous());
    let (Some(gates), Some(values)) = (floats(&gate), floats(&x)) else {
        return gate.silu() * x;
    };
    filled(&x.size(), |out| kernels::swiglu(out, gates, values))
}

/// GELU by its approximation with tanh.
pub fn gelu(x: &Tensor) -> Tensor {
    let x = x.contiguous();
    match floats(&x) {
        Some(values) => filled(&x.size(), |out| kernels::gelu(out, values)),
        None => x.gelu("tanh"),
    }
}

/// Rotates heads, [B, 1, heads, width], by the angles of each row.
pub fn rotate(rotary: &Rotary, heads: &Tensor) -> Tensor {
    let (inputs, table) = (heads.contiguous(), rotary.table().view_as_real().contiguous());
    let (Some(values), Some(turns)) = (floats(&inputs), floats(&table)) else {
        return rotary.apply(heads);
    };
    let size = heads.size();
    let (rows, width) = ((size[0] * size[1]) as usize, size[3] as usize);
    filled(&size, |out| kernels::rotate(out, values, turns, (rows, width)))
}

/// The shape of `x` with another last axis.
fn with_width(x: &Tensor, width: i64) -> Vec<i64> {
    let mut shape = x.size();
    shape.pop();
    shape.push(width);
    shape
}

/// The number of threads of libtorch.
pub(super) fn threads() -> usize {
    tch::get_num_threads().max(1) as usize
}

/// The numbers of a contiguous tensor in f32 on the CPU.
pub(super) fn floats(tensor: &Tensor) -> Option<&[f32]> {
    if !is_exact(tensor) || !tensor.is_contiguous() || tensor.numel() == 0 {
        return None;
    }
    // SAFETY: the tensor has this many numbers of this type, contiguous. It lives as long as the
    // slice, and nothing writes to it meanwhile: decoding owns the model.
    Some(unsafe { std::slice::from_raw_parts(tensor.data_ptr() as *const f32, tensor.numel()) })
}

/// A new tensor in f32 on the CPU, with at least one number, that `fill` writes.
pub(super) fn filled(shape: &[i64], fill: impl FnOnce(&mut [f32])) -> Tensor {
    let tensor = Tensor::empty(shape, (Kind::Float, Device::Cpu));
    // SAFETY: the tensor has this many numbers of this type, contiguous, and nothing else uses it
    // yet. Any bits are a number.
    fill(unsafe {
        std::slice::from_raw_parts_mut(tensor.data_ptr().cast::<f32>(), tensor.numel())
    });
    tensor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::rope::Rope;

    const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

    fn random(shape: &[i64]) -> Tensor {
        Tensor::randn(shape, CPU)
    }

    fn adapter(inputs: i64, outputs: i64) -> Option<Adapter> {
        let (a, b) = (random(&[3, inputs]), random(&[outputs, 3]));
        Some(Adapter { a, b, scaling: 2.0, dropout: 0.5, stream: 0 })
    }

    /// The result is near the output of the layer, and the same for each row alone.
    fn check(x: &Tensor, of_rows: impl Fn(&Tensor) -> Tensor, layer: impl Fn(&Tensor) -> Tensor) {
        let got = of_rows(x);
        let far = (&got - layer(x)).abs().max().double_value(&[]);
        assert!(far < 1e-4, "{far}");
        let alone: Vec<Tensor> =
            (0..x.size()[0]).map(|row| of_rows(&x.narrow(0, row, 1))).collect();
        assert_eq!(got, Tensor::cat(&alone, 0));
    }

    #[test]
    fn rows_are_those_of_the_layers_and_the_same_alone() {
        for (inputs, outputs) in [(1, 1), (20, 37), (64, 31), (203, 8)] {
            // Not contiguous.
            let x = random(&[7, 1, inputs + 3]).narrow(2, 2, inputs);
            let (weight, bias) = (random(&[outputs, inputs]), random(&[outputs]));
            let adapter = || adapter(inputs, outputs);
            let plain = Linear { weight: weight.shallow_clone(), bias: None, adapter: None };
            let bias = || bias.shallow_clone();
            let turned = weight.tr().contiguous();
            let conv = Conv1D { weight: turned, bias: bias(), adapter: adapter() };
            let adapted = Linear { weight, bias: Some(bias()), adapter: adapter() };
            check(&x, |x| linear(&plain, x), |x| plain.forward(x, Pass::Evaluate));
            check(&x, |x| linear(&adapted, x), |x| adapted.forward(x, Pass::Evaluate));
            check(&x, |x| conv1d(&conv, x), |x| conv.forward(x, Pass::Evaluate));
            let norm = RmsNorm { weight: random(&[inputs]), eps: 1e-6 };
            check(&x, |x| rms_norm(&norm, x), |x| norm.forward(x));
            let norm = LayerNorm { weight: random(&[inputs]), bias: random(&[inputs]), eps: 1e-2 };
            check(&x, |x| layer_norm(&norm, x), |x| norm.forward(x));
            check(&x, gelu, |x| x.gelu("tanh"));
            check(&x, |x| swiglu(x, &(x * 0.5)), |x| x.silu() * (x * 0.5));
        }
    }

    #[test]
    fn rows_of_a_table_are_looked_up_with_their_adapter() {
        let adapter = Some(Adapter {
            a: random(&[3, 50]),
            b: random(&[20, 3]),
            scaling: 2.0,
            dropout: 0.0,
            stream: 0,
        });
        let table = Embedding { weight: random(&[50, 20]), adapter };
        let numbers = Tensor::from_slice(&[7i64, 0, 49, 3, 3, 12]).view([3, 2]);
        check(&numbers, |numbers| embedding(&table, numbers), |numbers| table.forward(numbers));
    }

    #[test]
    fn each_row_is_rotated_by_its_own_position() {
        let rope = Rope::new(16, 10, 1e4, Device::Cpu);
        let heads = random(&[3, 1, 5, 10]).narrow(2, 1, 3);
        let rotary = rope.at(&Tensor::from_slice(&[4i64, 0, 15]).view([3, 1]));
        let far = (rotate(&rotary, &heads) - rotary.apply(&heads)).abs().max();
        assert!(far.double_value(&[]) < 1e-6);
    }

    #[test]
    fn no_rows_are_no_rows() {
        let layer = Linear { weight: random(&[5, 4]), bias: None, adapter: None };
        assert_eq!(linear(&layer, &random(&[0, 1, 4])).size(), [0, 1, 5]);
        let norm = RmsNorm { weight: random(&[4]), eps: 1e-6 };
        assert_eq!(rms_norm(&norm, &random(&[0, 4])).size(), [0, 4]);
        assert_eq!(gelu(&random(&[0, 4])).size(), [0, 4]);
    }
}
