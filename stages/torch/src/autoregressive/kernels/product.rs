//! x times a transposed weight.

use super::dots::{GROUP, InputRows};
use super::instructions::Instructions;
use super::shared::{PIECES, SharedSlice, share};

/// x [B, inputs] times weight [outputs, inputs], transposed: [B, outputs]. There is at least one
/// input.
pub fn product(out: &mut [f32], x: &[f32], weight: &[f32], inputs: usize, threads: usize) {
    product_by(Instructions::best(), out, x, weight, inputs, threads);
}

fn product_by(
    instructions: Instructions,
    out: &mut [f32],
    x: &[f32],
    weight: &[f32],
    inputs: usize,
    threads: usize,
) {
    let outputs = weight.len() / inputs;
    let rows = InputRows::new(instructions, x, inputs);
    let piece = outputs.div_ceil(threads.max(1) * PIECES).next_multiple_of(GROUP);
    let out = SharedSlice::new(out);
    share(threads, outputs * x.len(), outputs.div_ceil(piece.max(1)), |at| {
        let end = outputs.min((at + 1) * piece);
        for first in (at * piece..end).step_by(GROUP) {
            let count = GROUP.min(end - first);
            // If fewer are left, the last one fills the other places.
            let weights: [&[f32]; GROUP] =
                std::array::from_fn(|at| &weight[(first + at.min(count - 1)) * inputs..][..inputs]);
            rows.dots(weights, |row, sums| {
                // SAFETY: these outputs are in no other piece.
                let out = unsafe { out.part(row * outputs + first, count) };
                out.copy_from_slice(&sums[..count]);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Tensor;

    use super::super::values;
    use super::*;

    fn of(x: &[f32], weight: &[f32], inputs: usize, threads: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; x.len() / inputs * (weight.len() / inputs)];
        product(&mut out, x, weight, inputs, threads);
        out
    }

    #[test]
    fn a_product_is_near_that_of_libtorch_in_double_precision() {
        for inputs in [1, 7, 8, 20, 203, 1024] {
            for outputs in [1, 2, 3, 5, 64, 401] {
                for rows in [0, 1, 2, 3, 7, 8, 9, 17] {
                    let (x, weight) = (values(rows * inputs, 1), values(outputs * inputs, 2));
                    let wide = |values: &[f32]| {
                        Tensor::from_slice(values)
                            .to_kind(tch::Kind::Double)
                            .view([-1, inputs as i64])
                    };
                    let wanted = wide(&x).matmul(&wide(&weight).tr()).reshape(-1);
                    let wanted = Vec::<f64>::try_from(wanted).unwrap();
                    let got = of(&x, &weight, inputs, 2);
                    assert_eq!(got.len(), wanted.len());
                    for (got, wanted) in got.iter().zip(wanted) {
                        assert!((f64::from(*got) - wanted).abs() < 1e-5, "{got} {wanted}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_is_the_same_in_any_number_of_rows_and_threads_by_any_instructions() {
        for inputs in [1, 7, 8, 64, 203] {
            for outputs in [1, 3, 64, 401] {
                let (x, weight) = (values(19 * inputs, 3), values(outputs * inputs, 4));
                let alone: Vec<f32> =
                    x.chunks(inputs).flat_map(|row| of(row, &weight, inputs, 1)).collect();
                for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 19] {
                    for threads in [1, 2, 3] {
                        let got = of(&x[..rows * inputs], &weight, inputs, threads);
                        assert_eq!(got, alone[..rows * outputs]);
                    }
                    for instructions in Instructions::all() {
                        let mut got = vec![f32::NAN; rows * outputs];
                        let x = &x[..rows * inputs];
                        product_by(instructions, &mut got, x, &weight, inputs, 1);
                        assert_eq!(got, alone[..rows * outputs], "{instructions:?}");
                    }
                }
            }
        }
    }
}
