//! Fourier transforms and the filter of the resampler, in 64-bit floats.
//!
//! Their libraries are generic: each crate that names their types compiles them again, with all transforms
//! of `rustfft`. Here they are compiled once, behind types without parameters.

mod filter;
mod transform;

pub use filter::Filter;
pub use realfft::num_complex::Complex;
pub use transform::Transform;
