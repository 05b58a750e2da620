//! Rotary positions: neighbouring pairs of a head rotate by angles that grow with the position.

use tch::{Device, Kind, Tensor};

/// Precomputed cos/sin table (RoPE) of all positions: [positions, width / 2] complex numbers.
#[derive(Debug)]
pub struct Rope(Tensor);

/// The part of the table for the positions of one forward pass: [T, 1, width / 2], or [B, T, 1,
/// width / 2] if each row has its own.
#[derive(Debug)]
pub struct Rotary(Tensor);

impl Rope {
    /// Sine and cosine are rounded to bf16, as in training of the models, in any precision of the
    /// rest.
    pub fn new(positions: i64, width: i64, base: f64, device: Device) -> Rope {
        let options = (Kind::Float, Device::Cpu);
        let exponents = Tensor::arange_start_step(0, width, 2, options) / width as f64;
        let frequencies = Tensor::pow_scalar(base, &exponents).reciprocal();
        let angles = Tensor::arange(positions, options).outer(&frequencies);
        let rotary = Tensor::polar(&angles.ones_like(), &angles);
        let rounded = rotary.view_as_real().to_kind(Kind::BFloat16).to_kind(Kind::Float);
        Rope(rounded.contiguous().view_as_complex().to_device(device))
    }

    pub fn positions(&self) -> i64 {
        self.0.size()[0]
    }

    /// The rows of `length` consecutive positions.
    pub fn range(&self, start: i64, length: i64) -> Rotary {
        Rotary(self.0.narrow(0, start, length).unsqueeze(1))
    }

    /// The rows of any positions: `[T]` or `[B, T]`.
    pub fn at(&self, positions: &Tensor) -> Rotary {
        let mut shape = positions.size();
        shape.extend([1, self.0.size()[1]]);
        Rotary(self.0.index_select(0, &positions.reshape(-1)).view(shape.as_slice()))
    }
}

impl Rotary {
    /// Complex numbers, in the shape of this type.
    pub fn table(&self) -> &Tensor {
        &self.0
    }

    /// Rotates heads, in single precision: [B, T, heads, width].
    pub fn apply(&self, heads: &Tensor) -> Tensor {
        let shape = heads.size();
        let pairs = heads.to_kind(Kind::Float).reshape([shape[0], shape[1], shape[2], -1, 2]);
        let rotated = pairs.view_as_complex() * &self.0;
        rotated.view_as_real().reshape(shape.as_slice()).to_kind(heads.kind())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_pair_rotates_by_its_position_times_its_frequency() {
        let rope = Rope::new(8, 4, 10_000.0, Device::Cpu);
        let heads = Tensor::from_slice(&[1f32, 0.0, 0.0, 1.0]).view([1, 1, 1, 4]);
        let rotated = Vec::<f32>::try_from(rope.range(3, 1).apply(&heads).view(-1)).unwrap();
        let wanted = [3f32.cos(), 3f32.sin(), -(0.03f32.sin()), 0.03f32.cos()];
        for (value, wanted) in rotated.iter().zip(wanted) {
            // Eight bits of precision in the table.
            assert!((value - wanted).abs() < 1.0 / 256.0, "{rotated:?}");
        }
        assert_ne!(rotated[0], 3f32.cos());
    }

    #[test]
    fn any_positions_are_rotated_like_those_in_a_row() {
        let rope = Rope::new(16, 8, 1e6, Device::Cpu);
        let heads = Tensor::randn([2, 3, 2, 8], (Kind::Float, Device::Cpu));
        let positions = Tensor::from_slice(&[5i64, 6, 7, 0, 1, 2]).view([2, 3]);
        let rotated = rope.at(&positions).apply(&heads);
        assert_eq!(rotated.get(0), rope.range(5, 3).apply(&heads.narrow(0, 0, 1)).get(0));
        assert_eq!(rotated.get(1), rope.range(0, 3).apply(&heads.narrow(0, 1, 1)).get(0));
    }
}
