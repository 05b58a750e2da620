//! Rotary positions: neighbouring pairs of a head turn by angles that grow with the position.

use tch::{Device, Kind, Tensor};

/// The turns of all positions: [positions, width / 2] complex numbers.
#[derive(Debug)]
pub struct Rope(Tensor);

/// The turns of the positions of one forward pass: [T, 1, width / 2], or [B, T, 1, width / 2]
/// where each row has its own.
#[derive(Debug)]
pub struct Turns(Tensor);

impl Rope {
    /// Sine and cosine are rounded to bf16, as the models were trained, whatever the precision
    /// of the rest.
    pub fn new(positions: i64, width: i64, base: f64, device: Device) -> Rope {
        let options = (Kind::Float, Device::Cpu);
        let exponents = Tensor::arange_start_step(0, width, 2, options) / width as f64;
        let frequencies = Tensor::pow_scalar(base, &exponents).reciprocal();
        let angles = Tensor::arange(positions, options).outer(&frequencies);
        let turns = Tensor::polar(&angles.ones_like(), &angles);
        let rounded = turns.view_as_real().to_kind(Kind::BFloat16).to_kind(Kind::Float);
        Rope(rounded.contiguous().view_as_complex().to_device(device))
    }

    pub fn positions(&self) -> i64 {
        self.0.size()[0]
    }

    /// Those of `length` positions in a row.
    pub fn range(&self, start: i64, length: i64) -> Turns {
        Turns(self.0.narrow(0, start, length).unsqueeze(1))
    }

    /// Those of any positions: `[T]` or `[B, T]`.
    pub fn at(&self, positions: &Tensor) -> Turns {
        let mut shape = positions.size();
        shape.extend([1, self.0.size()[1]]);
        Turns(self.0.index_select(0, &positions.reshape(-1)).view(shape.as_slice()))
    }
}

impl Turns {
    /// Turns heads, in single precision: [B, T, heads, width].
    pub fn apply(&self, heads: &Tensor) -> Tensor {
        let shape = heads.size();
        let pairs = heads.to_kind(Kind::Float).reshape([shape[0], shape[1], shape[2], -1, 2]);
        let turned = pairs.view_as_complex() * &self.0;
        turned.view_as_real().reshape(shape.as_slice()).to_kind(heads.kind())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_pair_turns_by_its_position_times_its_frequency() {
        let rope = Rope::new(8, 4, 10_000.0, Device::Cpu);
        let heads = Tensor::from_slice(&[1f32, 0.0, 0.0, 1.0]).view([1, 1, 1, 4]);
        let turned = Vec::<f32>::try_from(rope.range(3, 1).apply(&heads).view(-1)).unwrap();
        let wanted = [3f32.cos(), 3f32.sin(), -(0.03f32.sin()), 0.03f32.cos()];
        for (value, wanted) in turned.iter().zip(wanted) {
            // Eight bits of precision in the table.
            assert!((value - wanted).abs() < 1.0 / 256.0, "{turned:?}");
        }
        assert_ne!(turned[0], 3f32.cos());
    }

    #[test]
    fn any_positions_are_turned_like_those_in_a_row() {
        let rope = Rope::new(16, 8, 1e6, Device::Cpu);
        let heads = Tensor::randn([2, 3, 2, 8], (Kind::Float, Device::Cpu));
        let positions = Tensor::from_slice(&[5i64, 6, 7, 0, 1, 2]).view([2, 3]);
        let turned = rope.at(&positions).apply(&heads);
        assert_eq!(turned.get(0), rope.range(5, 3).apply(&heads.narrow(0, 0, 1)).get(0));
        assert_eq!(turned.get(1), rope.range(0, 3).apply(&heads.narrow(0, 1, 1)).get(0));
    }
}
