//! The numbers of [`Random`](crate::nn::random::Random), computed on a device from their positions in
//! the sequence: nothing is drawn on the host, and nothing is copied to the device.
//!
//! Integers are exact, so fractions have the same bits on every device. Logarithms and cosines of a
//! device may differ from those of the host in the last digit of f64. The result is rounded to f32,
//! so it differs only where that digit decides the rounding.

use std::f64::consts::TAU;

use tch::{Device, Kind, Tensor};

use crate::nn::random::GAMMA;

/// The states of some sequences on a device: [n, 1]. A kernel fills each one, and takes the number
/// as an argument.
pub fn states(states: &[u64], device: Device) -> Tensor {
    let one = |state: &u64| Tensor::full([1, 1], *state as i64, (Kind::Int64, device));
    Tensor::cat(&states.iter().map(one).collect::<Vec<_>>(), 0)
}

/// The positions from 0 on: [1, count].
pub fn places(count: i64, device: Device) -> Tensor {
    Tensor::arange(count, (Kind::Int64, device)).unsqueeze(0)
}

/// The draws at these positions of the sequences; position 0 is the next one: [n, 1] and [n or 1,
/// count] to [n, count], as the bits of signed numbers.
pub fn draws(states: &Tensor, places: &Tensor) -> Tensor {
    scrambled((places + 1) * GAMMA as i64 + states)
}

/// Uniform in [0, 1), in f64.
pub fn fractions(states: &Tensor, places: &Tensor) -> Tensor {
    shifted(&draws(states, places), 11).to_kind(Kind::Double) / (1u64 << 53) as f64
}

/// Numbers from the exponential distribution of mean 1, in f32, never zero.
pub fn exponentials(states: &Tensor, places: &Tensor) -> Tensor {
    let rest = fractions(states, places).neg() + 1.0;
    rest.log().neg().clamp_min(1e-12).to_kind(Kind::Float)
}

/// Numbers of a standard normal distribution, in f32, by the Box-Muller method: number `i` from the
/// draws `2 i` and `2 i + 1`.
pub fn normals(states: &Tensor, places: &Tensor) -> Tensor {
    let first: Tensor = places * 2;
    let radius = ((fractions(states, &first).neg() + 1.0).log() * -2.0).sqrt();
    let angle = fractions(states, &(first + 1)) * TAU;
    (radius * angle.cos()).to_kind(Kind::Float)
}

/// [`scramble`](crate::nn::random::scramble) of each number.
pub fn scrambled(numbers: Tensor) -> Tensor {
    let mixed =
        numbers.bitwise_xor_tensor(&shifted(&numbers, 30)) * 0xBF58_476D_1CE4_E5B9_u64 as i64;
    let mixed = mixed.bitwise_xor_tensor(&shifted(&mixed, 27)) * 0x94D0_49BB_1331_11EB_u64 as i64;
    mixed.bitwise_xor_tensor(&shifted(&mixed, 31))
}

/// The bits shifted to the right, filled with zeros.
fn shifted(numbers: &Tensor, bits: i64) -> Tensor {
    let mask = (u64::MAX >> bits) as i64;
    numbers.bitwise_right_shift_tensor_scalar(bits).bitwise_and(mask)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::nn::random::{Random, scramble};

    const STATES: [u64; 4] = [0, 1234567, u64::MAX - 5, 0x8000_0000_0000_0001];

    fn host<T>(draw: impl Fn(&mut Random) -> T) -> Vec<T> {
        let row = |state: &u64| {
            let mut random = Random::new(*state);
            (0..200).map(|_| draw(&mut random)).collect::<Vec<T>>()
        };
        STATES.iter().flat_map(row).collect()
    }

    #[test]
    fn draws_and_fractions_are_those_of_the_host_to_the_bit() {
        let (rows, places) = (states(&STATES, Device::Cpu), places(200, Device::Cpu));
        let own = Vec::<i64>::try_from(draws(&rows, &places).view(-1)).unwrap();
        let expected: Vec<i64> = host(|random| random.draw() as i64);
        assert_eq!(own, expected);
        let own = Vec::<f64>::try_from(fractions(&rows, &places).view(-1)).unwrap();
        assert_eq!(own, host(Random::fraction));
        let own = Vec::<i64>::try_from(scrambled(rows.view(-1))).unwrap();
        assert_eq!(own, STATES.map(|state| scramble(state) as i64));
    }

    #[test]
    fn a_sequence_goes_on_at_any_place() {
        let mut random = Random::new(7);
        (0..5).for_each(|_| _ = random.draw());
        let rest = fractions(&states(&[random.state()], Device::Cpu), &places(3, Device::Cpu));
        let whole = fractions(&states(&[7], Device::Cpu), &places(8, Device::Cpu));
        assert_eq!(rest, whole.narrow(1, 5, 3));
    }
}
