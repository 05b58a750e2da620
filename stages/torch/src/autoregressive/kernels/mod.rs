//! The arithmetic of decoding on the CPU, in f32: products, attention, norms, activations and
//! rotation of few rows.
//!
//! libtorch selects another kernel for each number of rows, so a row is rounded differently in
//! another batch. Here each output comes from the same operations in the same order,
//! whatever the number of rows and threads, and whatever instructions the processor has. Weights
//! are read once for all rows, which is what decoding waits for.

mod attention;
mod dots;
mod elementwise;
mod input_first;
mod instructions;
mod product;
mod shared;

pub use attention::{KeyValues, attend};
pub use elementwise::{gelu, layer_norm, rms_norm, rotate, swiglu};
pub use input_first::product_input_first;
pub use product::product;

/// Partial sums of a dot product.
const LANES: usize = 8;

#[cfg(test)]
fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut random = crate::nn::random::Random::new(seed);
    (0..count).map(|_| random.fraction() as f32 - 0.5).collect()
}
