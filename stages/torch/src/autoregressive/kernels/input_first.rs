//! x times a weight that is stored input first, as GPT-2 has it.

use super::instructions::Instructions;
use super::shared::{SharedSlice, share};

/// Outputs that a row has in registers at a time.
const WIDTH: usize = 32;

/// Outputs that several rows have in turn, while the first cache has the lines of the weight.
const BLOCK: usize = 512;

/// Inputs that are added at a time: the lines of the weight that are read in parallel.
const DEPTH: usize = 8;

/// x [B, inputs] times weight [inputs, outputs], as it lies: [B, outputs]. Each output is summed up
/// over the inputs in their order.
pub fn product_input_first(
    out: &mut [f32],
    x: &[f32],
    weight: &[f32],
    outputs: usize,
    threads: usize,
) {
    product_by(Instructions::best(), out, x, weight, outputs, threads);
}

fn product_by(
    instructions: Instructions,
    out: &mut [f32],
    x: &[f32],
    weight: &[f32],
    outputs: usize,
    threads: usize,
) {
    let inputs = weight.len() / outputs;
    let rows = x.len() / inputs;
    // One piece for each thread: the longer the run along a line, the more of it the processor
    // reads ahead.
    let piece = outputs.div_ceil(threads.max(1)).next_multiple_of(WIDTH);
    out.fill(0.0);
    let out = SharedSlice::new(out);
    share(threads, outputs * x.len(), outputs.div_ceil(piece), |at| {
        let end = outputs.min((at + 1) * piece);
        for input in (0..inputs).step_by(DEPTH) {
            let depth = DEPTH.min(inputs - input);
            let weight = Lines { numbers: &weight[input * outputs..], apart: outputs };
            let x = |row: usize| &x[row * inputs + input..][..depth];
            for column in (at * piece..end).step_by(BLOCK) {
                let width = BLOCK.min(end - column);
                // SAFETY: these outputs are in no other piece.
                let sums = |row: usize| unsafe { out.part(row * outputs + column, width) };
                let weight = weight.from(column);
                let mut row = 0;
                while row < rows {
                    row += match (instructions, rows - row) {
                        #[cfg(target_arch = "x86_64")]
                        (Instructions::Avx512, 8..) => add::<8>(instructions, row, sums, x, weight),
                        #[cfg(target_arch = "x86_64")]
                        (Instructions::Avx512, 4..) => add::<4>(instructions, row, sums, x, weight),
                        #[cfg(target_arch = "x86_64")]
                        (Instructions::Avx512 | Instructions::Avx2, 2..) => {
                            add::<2>(instructions, row, sums, x, weight)
                        }
                        _ => add::<1>(instructions, row, sums, x, weight),
                    };
                }
            }
        }
    });
}

/// Lines of numbers, one for each input.
#[derive(Clone, Copy)]
struct Lines<'a> {
    numbers: &'a [f32],
    apart: usize,
}

impl<'a> Lines<'a> {
    /// Without the first columns.
    fn from(self, column: usize) -> Lines<'a> {
        Lines { numbers: &self.numbers[column..], ..self }
    }
}

/// Adds the products of some inputs to the sums of `R` rows; gives `R`.
fn add<'a, const R: usize>(
    instructions: Instructions,
    row: usize,
    sums: impl Fn(usize) -> &'a mut [f32],
    x: impl Fn(usize) -> &'a [f32],
    weight: Lines,
) -> usize {
    let mut sums: [&mut [f32]; R] = std::array::from_fn(|at| sums(row + at));
    let x: [&[f32]; R] = std::array::from_fn(|at| x(row + at));
    let width = sums[0].len();
    let whole = match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 | Instructions::Avx512 => width - width % WIDTH,
        _ => 0,
    };
    // SAFETY: the processor has the instructions.
    #[cfg(target_arch = "x86_64")]
    match instructions {
        Instructions::Avx2 => unsafe { wide::add(&mut sums, x, weight, whole) },
        Instructions::Avx512 => unsafe { wide::add_by_avx512(&mut sums, x, weight, whole) },
        _ => {}
    }
    if whole < width {
        for (sums, x) in sums.iter_mut().zip(x) {
            portable_add(&mut sums[whole..], x, weight.from(whole));
        }
    }
    R
}

fn portable_add(sums: &mut [f32], x: &[f32], weight: Lines) {
    for (input, x) in x.iter().enumerate() {
        let line = &weight.numbers[input * weight.apart..][..sums.len()];
        for (sum, weight) in sums.iter_mut().zip(line) {
            *sum = weight.mul_add(*x, *sum);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    use super::{Lines, WIDTH};

    /// Defines `add` for vectors of `$lanes` numbers. It adds to the first `width` sums of each
    /// row, a multiple of `WIDTH`.
    macro_rules! add {
        ($name:ident, $features:literal, $lanes:literal, $zero:ident, $load:ident, $set:ident,
         $fmadd:ident, $store:ident) => {
            #[target_feature(enable = $features)]
            pub fn $name<const R: usize>(
                sums: &mut [&mut [f32]; R],
                x: [&[f32]; R],
                weight: Lines,
                width: usize,
            ) {
                const VECTORS: usize = WIDTH / $lanes;
                let depth = x[0].len();
                assert!(width.is_multiple_of(WIDTH));
                assert!(x.iter().all(|x| x.len() == depth));
                assert!(sums.iter().all(|sums| sums.len() >= width));
                assert!(width == 0 || weight.numbers.len() >= (depth - 1) * weight.apart + width);
                // Plain loops: closures within other functions lack the features, so they would be
                // calls.
                let mut column = 0;
                while column < width {
                    let mut totals = [[$zero(); VECTORS]; R];
                    for row in 0..R {
                        for at in 0..VECTORS {
                            // SAFETY: the sums of a row have these vectors.
                            totals[row][at] =
                                unsafe { $load(sums[row].as_ptr().add(column + $lanes * at)) };
                        }
                    }
                    for input in 0..depth {
                        let mut line = [$zero(); VECTORS];
                        for at in 0..VECTORS {
                            let place = input * weight.apart + column + $lanes * at;
                            // SAFETY: a line has these vectors.
                            line[at] = unsafe { $load(weight.numbers.as_ptr().add(place)) };
                        }
                        for row in 0..R {
                            // SAFETY: each row has this input.
                            let x = $set(unsafe { *x[row].get_unchecked(input) });
                            for at in 0..VECTORS {
                                totals[row][at] = $fmadd(line[at], x, totals[row][at]);
                            }
                        }
                    }
                    for row in 0..R {
                        for at in 0..VECTORS {
                            let place = column + $lanes * at;
                            // SAFETY: the sums of a row have these vectors.
                            unsafe { $store(sums[row].as_mut_ptr().add(place), totals[row][at]) };
                        }
                    }
                    column += WIDTH;
                }
            }
        };
    }

    add!(
        add,
        "avx2,fma",
        8,
        _mm256_setzero_ps,
        _mm256_loadu_ps,
        _mm256_set1_ps,
        _mm256_fmadd_ps,
        _mm256_storeu_ps
    );
    add!(
        add_by_avx512,
        "avx2,fma,avx512f,avx512vl",
        16,
        _mm512_setzero_ps,
        _mm512_loadu_ps,
        _mm512_set1_ps,
        _mm512_fmadd_ps,
        _mm512_storeu_ps
    );
}

#[cfg(test)]
mod tests {
    use super::super::{product, values};
    use super::*;

    fn of(x: &[f32], weight: &[f32], outputs: usize, threads: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; x.len() * outputs / (weight.len() / outputs)];
        product_input_first(&mut out, x, weight, outputs, threads);
        out
    }

    #[test]
    fn a_row_is_the_same_in_any_number_of_rows_and_threads_by_any_instructions() {
        for (inputs, outputs) in [(1, 1), (7, 3), (64, 401), (203, 64), (130, 700)] {
            let (x, weight) = (values(9 * inputs, 3), values(outputs * inputs, 4));
            let alone: Vec<f32> =
                x.chunks(inputs).flat_map(|row| of(row, &weight, outputs, 1)).collect();
            for rows in 0..=9 {
                for threads in [1, 2, 3] {
                    let got = of(&x[..rows * inputs], &weight, outputs, threads);
                    assert_eq!(got, alone[..rows * outputs]);
                }
                for instructions in Instructions::all() {
                    let mut got = vec![f32::NAN; rows * outputs];
                    let x = &x[..rows * inputs];
                    product_by(instructions, &mut got, x, &weight, outputs, 1);
                    assert_eq!(got, alone[..rows * outputs], "{instructions:?}");
                }
            }
        }
    }

    #[test]
    fn the_product_is_that_with_the_transposed_weight() {
        for (inputs, outputs) in [(1, 1), (7, 3), (64, 401), (203, 64)] {
            let (x, weight) = (values(5 * inputs, 3), values(outputs * inputs, 4));
            let transposed: Vec<f32> = (0..outputs)
                .flat_map(|output| weight[output..].iter().step_by(outputs).copied())
                .collect();
            let mut wanted = vec![f32::NAN; 5 * outputs];
            product(&mut wanted, &x, &transposed, inputs, 1);
            for (got, wanted) in of(&x, &weight, outputs, 2).iter().zip(wanted) {
                assert!((got - wanted).abs() < 1e-5, "{got} {wanted}");
            }
        }
    }
}
