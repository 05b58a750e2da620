//! Norms, activations and rotation.

use super::LANES;
use super::dots::total;
use super::instructions::{Instructions, vectorised};

/// Rows of the weight's width, divided by the root of their mean square and weighted.
pub fn rms_norm(out: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    rms_norm_by(Instructions::best(), out, x, weight, eps);
}

/// Rows of the weight's width, brought to mean 0 and variance 1, weighted and shifted.
pub fn layer_norm(out: &mut [f32], x: &[f32], weight: &[f32], bias: &[f32], eps: f32) {
    layer_norm_by(Instructions::best(), out, x, weight, bias, eps);
}

/// silu(gate) * x.
pub fn swiglu(out: &mut [f32], gate: &[f32], x: &[f32]) {
    swiglu_by(Instructions::best(), out, gate, x);
}

/// GELU by its approximation with tanh.
pub fn gelu(out: &mut [f32], x: &[f32]) {
    gelu_by(Instructions::best(), out, x);
}

/// Rotates the heads of each row, [B, heads, width]: neighbouring numbers by a cosine and a sine of
/// the row, [B, width].
pub fn rotate(out: &mut [f32], heads: &[f32], turns: &[f32], (rows, width): (usize, usize)) {
    let row = heads.len() / rows;
    let places = out.chunks_exact_mut(row).zip(heads.chunks_exact(row));
    for ((out, heads), turns) in places.zip(turns.chunks_exact(width)) {
        for (out, head) in out.chunks_exact_mut(width).zip(heads.chunks_exact(width)) {
            let pairs = out.chunks_exact_mut(2).zip(head.chunks_exact(2));
            for ((out, pair), turn) in pairs.zip(turns.chunks_exact(2)) {
                let ([a, b], [cos, sin]) = ([pair[0], pair[1]], [turn[0], turn[1]]);
                out[0] = a * cos - b * sin;
                out[1] = a * sin + b * cos;
            }
        }
    }
}

vectorised! {
    fn rms_norm_by(out: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
        let width = weight.len();
        for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let factor = 1.0 / (sum(x, |x| x * x) / width as f32 + eps).sqrt();
            for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                *out = x * factor * weight;
            }
        }
    }
}

vectorised! {
    fn layer_norm_by(out: &mut [f32], x: &[f32], weight: &[f32], bias: &[f32], eps: f32) {
        let width = weight.len();
        for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let mean = sum(x, |x| x) / width as f32;
            let variance = sum(x, |x| (x - mean) * (x - mean)) / width as f32;
            let factor = 1.0 / (variance + eps).sqrt();
            for ((out, x), (weight, bias)) in out.iter_mut().zip(x).zip(weight.iter().zip(bias)) {
                *out = ((x - mean) * factor).mul_add(*weight, *bias);
            }
        }
    }
}

vectorised! {
    fn swiglu_by(out: &mut [f32], gate: &[f32], x: &[f32]) {
        for ((out, gate), x) in out.iter_mut().zip(gate).zip(x) {
            *out = gate / (1.0 + exp(-gate)) * x;
        }
    }
}

vectorised! {
    fn gelu_by(out: &mut [f32], x: &[f32]) {
        // The root of 2 / pi.
        const ROOT: f32 = 0.797_884_6;
        for (out, x) in out.iter_mut().zip(x) {
            let inner = ROOT * (x + 0.044_715 * x * x * x);
            // (1 + tanh(y)) / 2 is the logistic function of 2 y.
            *out = x / (1.0 + exp(-2.0 * inner));
        }
    }
}

#[inline(always)]
fn sum(x: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let mut vectors = x.chunks_exact(LANES);
    for x in vectors.by_ref() {
        for lane in 0..LANES {
            lanes[lane] += of(x[lane]);
        }
    }
    vectors.remainder().iter().fold(total(lanes), |sum, x| sum + of(*x))
}

/// The exponential function within two units in the last place; what would overflow or vanish is
/// held at e^88 and e^-87. The polynomial is that of the Cephes library (`expf`).
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Adding it rounds to a whole number, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let whole = rounded - ROUND;
    // ln 2 in two parts.
    let x = whole.mul_add(-0.693_359_4, x);
    let x = whole.mul_add(2.121_944_4e-4, x);
    let mut y = 1.987_569_1e-4f32;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        y = y.mul_add(x, coefficient);
    }
    let y = (y * x).mul_add(x, x) + 1.0;
    y * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::{Kind, Tensor};

    use super::super::values;
    use super::*;

    const WIDTHS: [usize; 7] = [1, 2, 7, 8, 20, 203, 1024];

    fn tensor(values: &[f32], width: usize) -> Tensor {
        Tensor::from_slice(values).to_kind(Kind::Double).view([-1, width as i64])
    }

    fn assert_near(got: &[f32], wanted: &Tensor, bound: f64) {
        let wanted = Vec::<f64>::try_from(wanted.reshape(-1)).unwrap();
        assert_eq!(got.len(), wanted.len());
        for (got, wanted) in got.iter().zip(wanted) {
            let far = (f64::from(*got) - wanted).abs();
            assert!(far <= bound * wanted.abs().max(1.0), "{got} {wanted}");
        }
    }

    /// Numbers from -`most` to `most`, and many near zero.
    fn spread(count: usize, most: f32) -> Vec<f32> {
        values(count, 5).iter().map(|value| value * value * value * 8.0 * most).collect()
    }

    #[test]
    fn norms_are_near_those_of_libtorch_in_double_precision() {
        for width in WIDTHS {
            for rows in [0, 1, 3] {
                let (x, weight, bias) =
                    (values(rows * width, 1), values(width, 2), values(width, 3));
                let size = [width as i64];
                let (wide, scale) = (tensor(&x, width), tensor(&weight, width).view(-1));
                let shift = tensor(&bias, width).view(-1);
                let mut got = vec![f32::NAN; x.len()];
                rms_norm(&mut got, &x, &weight, 1e-3);
                assert_near(&got, &wide.rms_norm(size, Some(&scale), 1e-3), 1e-5);
                layer_norm(&mut got, &x, &weight, &bias, 1e-3);
                let wanted = wide.layer_norm(size, Some(&scale), Some(&shift), 1e-3, false);
                assert_near(&got, &wanted, 1e-5);
            }
        }
    }

    #[test]
    fn activations_are_near_those_of_libtorch_in_double_precision() {
        for count in WIDTHS {
            let (x, factor) = (spread(count, 60.0), values(count, 2));
            let wide = tensor(&x, count);
            let mut got = vec![f32::NAN; count];
            swiglu(&mut got, &x, &factor);
            assert_near(&got, &(wide.silu() * tensor(&factor, count)), 1e-6);
            gelu(&mut got, &x);
            assert_near(&got, &wide.gelu("tanh"), 1e-6);
        }
    }

    #[test]
    fn the_exponential_function_is_exact_to_two_units_and_has_no_holes() {
        for x in spread(100_000, 87.0) {
            let wanted = f64::from(x).exp();
            assert!((f64::from(exp(x)) / wanted - 1.0).abs() < 2.5e-7, "{x}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NEG_INFINITY) < 2e-38 && exp(f32::INFINITY) > 1e38);
        assert!(exp(f32::NAN).is_nan());
        let mut out = [0.0; 3];
        gelu(&mut out, &[f32::NAN, -1e4, f32::INFINITY]);
        assert!(out[0].is_nan() && out[1].abs() < 1e-30 && out[2] == f32::INFINITY);
    }

    #[test]
    fn rows_are_rotated_by_their_own_angles() {
        let (rows, heads, width) = (3, 2, 6);
        let (x, turns) = (values(rows * heads * width, 1), values(rows * width, 2));
        let mut got = vec![f32::NAN; x.len()];
        rotate(&mut got, &x, &turns, (rows, width));
        let complex = |values: &[f32], heads: i64| {
            let shape = [rows as i64, heads, width as i64 / 2, 2];
            tensor(values, 2).view(shape).view_as_complex()
        };
        let wanted = complex(&x, heads as i64) * complex(&turns, 1);
        assert_near(&got, &wanted.view_as_real(), 1e-6);
    }

    #[test]
    fn instructions_and_neighbours_change_no_bit() {
        type Work = fn(Instructions, &mut [f32], &[f32], usize);
        let works: [Work; 4] = [
            |by, out, x, width| rms_norm_by(by, out, x, &values(width, 3), 1e-6),
            |by, out, x, width| {
                layer_norm_by(by, out, x, &values(width, 3), &values(width, 4), 1e-6);
            },
            |by, out, x, _| swiglu_by(by, out, x, x),
            |by, out, x, _| gelu_by(by, out, x),
        ];
        for (number, work) in works.into_iter().enumerate() {
            for width in WIDTHS {
                let x = spread(5 * width, 9.0);
                let run = |by, x: &[f32]| {
                    let mut out = vec![f32::NAN; x.len()];
                    work(by, &mut out, x, width);
                    out
                };
                let whole = run(Instructions::Portable, &x);
                let alone = x.chunks(width).flat_map(|row| run(Instructions::best(), row));
                assert_eq!(alone.collect::<Vec<_>>(), whole, "{number} {width}");
                for instructions in Instructions::all() {
                    assert_eq!(run(instructions, &x), whole, "{number} {width} {instructions:?}");
                }
            }
        }
    }
}
