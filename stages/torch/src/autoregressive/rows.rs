//! Rows of a batch that are independent of each other to the bit.
//!
//! libtorch rounds a row differently in another batch: matrix products select a kernel by the
//! number of rows, and elementwise functions compute the last few numbers of a tensor in another
//! way. In f32 on a CPU, decoding is exact: products go through `kernels`, and all other rounding
//! operations run row by row through [`each`]. A GPU and half precision process all rows at once.

use tch::{Device, Kind, Tensor};

use super::kernels;
use crate::layers::{Adapter, Conv1D, Linear, Pass};

/// Tests if a row must not depend on the other rows.
pub fn is_exact(x: &Tensor) -> bool {
    x.device() == Device::Cpu && x.kind() == Kind::Float
}

/// Applies the same function to each row, [B, ...], of some tensors; row by row if it must be
/// exact. The first tensor decides.
pub fn each<const N: usize>(tensors: [&Tensor; N], work: impl Fn([Tensor; N]) -> Tensor) -> Tensor {
    let rows = tensors[0].size()[0];
    if rows == 1 || !is_exact(tensors[0]) {
        return work(tensors.map(Tensor::shallow_clone));
    }
    let row = |row: i64| work(tensors.map(|tensor| tensor.narrow(0, row, 1)));
    Tensor::cat(&(0..rows).map(row).collect::<Vec<_>>(), 0)
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
    let mut shape = x.size();
    shape.pop();
    shape.push(outputs);
    let y = kernels::product_input_first(values, weights, outputs as usize, threads());
    let y = Tensor::from_slice(&y).view(shape.as_slice()) + &layer.bias;
    adapted(y, x, layer.adapter.as_ref())
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

/// x times the transposed weight: [.., inputs] to [.., outputs].
pub fn product(x: &Tensor, weight: &Tensor) -> Tensor {
    let (x, weight) = (x.contiguous(), weight.contiguous());
    let (Some(values), Some(weights)) = (floats(&x), floats(&weight)) else {
        return x.linear(&weight, None::<&Tensor>);
    };
    let (outputs, inputs) = (weight.size()[0], weight.size()[1]);
    let mut shape = x.size();
    shape.pop();
    shape.push(outputs);
    let y = kernels::product(values, weights, inputs as usize, threads());
    Tensor::from_slice(&y).view(shape.as_slice())
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
