//! Matrix products and attention of few rows on the CPU, in f32.
//!
//! libtorch uses another kernel for each number of rows, so that a row is rounded differently alone
//! and beside others. Here each output comes from the same operations in the same order for any
//! number of rows and threads. Weights are read once for all rows, since decoding is bound by
//! memory bandwidth.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;
use rayon::prelude::*;

/// Partial sums of a dot product.
const LANES: usize = 8;

/// Products with fewer multiplications run on the calling thread.
const SHARED: usize = 1 << 16;

/// The number of outputs that are computed for all rows before the next ones: their weights stay in
/// the cache of a core.
const STRIP: usize = 16;

/// The number of chunks per thread, so that a delayed thread leaves work to the others.
const PIECES: usize = 4;

/// The keys and values of a batch: [B, heads, capacity, width] each; a row has the columns from its
/// start to the common end.
pub struct Cached<'a> {
    pub keys: &'a [f32],
    pub values: &'a [f32],
    pub heads: usize,
    pub room: usize,
    pub width: usize,
    pub starts: &'a [i64],
    pub end: usize,
}

/// x [B, inputs] times weight [outputs, inputs], transposed: [B, outputs].
pub fn product(x: &[f32], weight: &[f32], inputs: usize, threads: usize) -> Vec<f32> {
    let (rows, outputs) = (x.len() / inputs, weight.len() / inputs);
    // [outputs, B], so that each thread writes a contiguous chunk.
    let mut columns = vec![0.0; rows * outputs];
    let piece = outputs.div_ceil(threads.max(1) * PIECES).next_multiple_of(4);
    let work = |(columns, weight): (&mut [f32], &[f32])| columns_of(columns, x, weight, inputs);
    match pool(threads, outputs * x.len()) {
        None => work((&mut columns, weight)),
        Some(pool) => pool.install(|| {
            let pieces = columns.par_chunks_mut(piece * rows);
            pieces.zip(weight.par_chunks(piece * inputs)).for_each(work);
        }),
    }
    if rows == 1 {
        return columns;
    }
    let row = |row: usize| columns[row..].iter().step_by(rows);
    (0..rows).flat_map(row).copied().collect()
}

/// x [B, inputs] times weight [inputs, outputs]: [B, outputs]. Each output is summed over the
/// inputs in order.
pub fn product_input_first(x: &[f32], weight: &[f32], outputs: usize, threads: usize) -> Vec<f32> {
    let inputs = weight.len() / outputs;
    let rows = x.len() / inputs;
    let piece = outputs.div_ceil(threads.max(1) * PIECES).next_multiple_of(LANES);
    // [B, outputs of the chunk], which stay in the innermost cache.
    let work = |start: usize| {
        let width = piece.min(outputs - start);
        let mut sums = vec![0.0; rows * width];
        for (input, weight) in weight.chunks_exact(outputs).enumerate() {
            let weight = &weight[start..start + width];
            for (row, sums) in sums.chunks_exact_mut(width).enumerate() {
                add_scaled(sums, weight, x[row * inputs + input]);
            }
        }
        sums
    };
    let starts: Vec<usize> = (0..outputs).step_by(piece).collect();
    let pieces: Vec<Vec<f32>> = match pool(threads, outputs * x.len()) {
        None => starts.into_iter().map(work).collect(),
        Some(pool) => pool.install(|| starts.into_par_iter().map(work).collect()),
    };
    let row = |row: usize| {
        pieces.iter().flat_map(move |piece| {
            let width = piece.len() / rows;
            &piece[row * width..(row + 1) * width]
        })
    };
    (0..rows).flat_map(row).copied().collect()
}

/// Queries [B, query heads, width], one column per row, over the cache: the same shape.
pub fn attend(queries: &[f32], cached: &Cached, threads: usize) -> Vec<f32> {
    let Cached { heads, width, starts, .. } = *cached;
    // The queries that share a key head.
    let group = queries.len() / (starts.len() * heads).max(1);
    let mut out = vec![0.0; queries.len()];
    let work = |(at, (out, queries)): (usize, (&mut [f32], &[f32]))| {
        let span = cached.span(at / heads, at % heads);
        for (out, query) in out.chunks_mut(width).zip(queries.chunks(width)) {
            attend_one(out, query, span);
        }
    };
    let columns: usize = starts.iter().map(|start| cached.end - *start as usize).sum();
    match pool(threads, columns * heads * group) {
        None => out.chunks_mut(group).zip(queries.chunks(group)).enumerate().for_each(work),
        Some(pool) => pool.install(|| {
            out.par_chunks_mut(group).zip(queries.par_chunks(group)).enumerate().for_each(work);
        }),
    }
    out
}

impl Cached<'_> {
    /// The keys and values that a head of a row attends to.
    fn span(&self, row: usize, head: usize) -> (&[f32], &[f32]) {
        let first = (row * self.heads + head) * self.room;
        let range = (first + self.starts[row] as usize) * self.width..;
        let count = (self.end - self.starts[row] as usize) * self.width;
        (&self.keys[range.clone()][..count], &self.values[range][..count])
    }
}

fn attend_one(out: &mut [f32], query: &[f32], (keys, values): (&[f32], &[f32])) {
    let width = query.len();
    let mut scores = vec![0.0; keys.len() / width];
    columns_of(&mut scores, query, keys, width);
    let scale = 1.0 / (width as f32).sqrt();
    let most = scores.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score));
    let mut sum = 0.0;
    for score in &mut scores {
        *score = ((*score - most) * scale).exp();
        sum += *score;
    }
    out.fill(0.0);
    for (score, values) in scores.iter().zip(values.chunks(width)) {
        add_scaled(out, values, *score / sum);
    }
}

/// Some outputs of all rows: [outputs, B].
fn columns_of(columns: &mut [f32], x: &[f32], weight: &[f32], inputs: usize) {
    let rows = x.len() / inputs;
    let strips = weight.chunks(STRIP * inputs);
    for (columns, weight) in columns.chunks_mut(STRIP * rows).zip(strips) {
        let mut row = 0;
        while row < rows {
            let (columns, x) = (&mut columns[row..], &x[row * inputs..]);
            row += match rows - row {
                1 => block::<4, 1>(columns, rows, x, weight, inputs),
                2 => block::<4, 2>(columns, rows, x, weight, inputs),
                3 => block::<2, 3>(columns, rows, x, weight, inputs),
                _ => block::<2, 4>(columns, rows, x, weight, inputs),
            };
        }
    }
}

/// All outputs of `R` rows, `N` at a time; gives `R`.
fn block<const N: usize, const R: usize>(
    columns: &mut [f32],
    rows: usize,
    x: &[f32],
    weight: &[f32],
    inputs: usize,
) -> usize {
    let outputs = weight.len() / inputs;
    let x: [&[f32]; R] = std::array::from_fn(|row| &x[row * inputs..][..inputs]);
    let whole = outputs - outputs % N;
    for output in (0..whole).step_by(N) {
        let weight: [&[f32]; N] =
            std::array::from_fn(|at| &weight[(output + at) * inputs..][..inputs]);
        for (at, sums) in dots(weight, x).iter().enumerate() {
            columns[(output + at) * rows..][..R].copy_from_slice(sums);
        }
    }
    for output in whole..outputs {
        let [sums] = dots([&weight[output * inputs..][..inputs]], x);
        columns[output * rows..][..R].copy_from_slice(&sums);
    }
    R
}

/// All dot products of weights and rows of the same length. Each has its own partial sums, so it is
/// rounded in the same way beside any others, with or without vector instructions.
fn dots<const N: usize, const R: usize>(weight: [&[f32]; N], x: [&[f32]; R]) -> [[f32; R]; N] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the instructions.
        return unsafe { avx2::dots(weight, x) };
    }
    portable::dots(weight, x)
}

/// Adds `factor` times the values.
fn add_scaled(out: &mut [f32], values: &[f32], factor: f32) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the instructions.
        return unsafe { avx2::add_scaled(out, values, factor) };
    }
    portable::add_scaled(out, values, factor);
}

/// The sum of the partial sums, and of the products that fill no vector.
fn total(lanes: [f32; LANES], weight: &[f32], x: &[f32]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + e) + (b + f)) + ((c + g) + (d + h));
    let rest = weight.len() - weight.len() % LANES;
    weight[rest..].iter().zip(&x[rest..]).fold(sum, |sum, (weight, x)| weight.mul_add(*x, sum))
}

mod portable {
    use super::{LANES, total};

    pub fn dots<const N: usize, const R: usize>(
        weight: [&[f32]; N],
        x: [&[f32]; R],
    ) -> [[f32; R]; N] {
        weight.map(|weight| x.map(|x| dot(weight, x)))
    }

    fn dot(weight: &[f32], x: &[f32]) -> f32 {
        let mut lanes = [0f32; LANES];
        for (weight, x) in weight.chunks_exact(LANES).zip(x.chunks_exact(LANES)) {
            for lane in 0..LANES {
                lanes[lane] = weight[lane].mul_add(x[lane], lanes[lane]);
            }
        }
        total(lanes, weight, x)
    }

    pub fn add_scaled(out: &mut [f32], values: &[f32], factor: f32) {
        for (out, value) in out.iter_mut().zip(values) {
            *out = value.mul_add(factor, *out);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps,
        _mm256_storeu_ps,
    };

    use super::{LANES, portable, total};

    #[target_feature(enable = "avx2,fma")]
    pub fn dots<const N: usize, const R: usize>(
        weight: [&[f32]; N],
        x: [&[f32]; R],
    ) -> [[f32; R]; N] {
        let length = weight[0].len();
        assert!(weight.iter().chain(&x).all(|row| row.len() == length));
        let mut sums = [[_mm256_setzero_ps(); R]; N];
        for at in (0..length - length % LANES).step_by(LANES) {
            // SAFETY: all rows have the eight values from here on.
            let load = |row: &[f32]| -> __m256 { unsafe { _mm256_loadu_ps(row.as_ptr().add(at)) } };
            let weights = weight.map(load);
            for (row, x) in x.iter().enumerate() {
                let x = load(x);
                for (sums, weight) in sums.iter_mut().zip(weights) {
                    sums[row] = _mm256_fmadd_ps(weight, x, sums[row]);
                }
            }
        }
        let mut all = [[0.0; R]; N];
        for (at, sums) in sums.iter().enumerate() {
            for (row, sum) in sums.iter().enumerate() {
                let mut lanes = [0f32; LANES];
                // SAFETY: there is room for the eight values.
                unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), *sum) };
                all[at][row] = total(lanes, weight[at], x[row]);
            }
        }
        all
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn add_scaled(out: &mut [f32], values: &[f32], factor: f32) {
        let factors = _mm256_set1_ps(factor);
        let (mut wholes, mut vectors) = (out.chunks_exact_mut(LANES), values.chunks_exact(LANES));
        for (out, values) in wholes.by_ref().zip(vectors.by_ref()) {
            // SAFETY: both have eight values.
            unsafe {
                let sum = _mm256_loadu_ps(out.as_ptr());
                let sum = _mm256_fmadd_ps(_mm256_loadu_ps(values.as_ptr()), factors, sum);
                _mm256_storeu_ps(out.as_mut_ptr(), sum);
            }
        }
        portable::add_scaled(wholes.into_remainder(), vectors.remainder(), factor);
    }
}

/// A pool with this number of threads, kept between calls; None if the calling thread is enough for
/// this number of multiplications.
fn pool(threads: usize, multiplications: usize) -> Option<Arc<ThreadPool>> {
    static KEPT: Mutex<Option<Arc<ThreadPool>>> = Mutex::new(None);
    if threads <= 1 || multiplications < SHARED {
        return None;
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.as_ref().is_none_or(|pool| pool.current_num_threads() != threads) {
        *kept = rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok().map(Arc::new);
    }
    kept.clone()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::Random;

    fn values(count: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        (0..count).map(|_| random.fraction() as f32 - 0.5).collect()
    }

    #[test]
    fn a_product_is_near_that_of_double_precision() {
        let (inputs, outputs) = (203, 37);
        let (x, weight) = (values(5 * inputs, 1), values(outputs * inputs, 2));
        let got = product(&x, &weight, inputs, 1);
        for (at, got) in got.iter().enumerate() {
            let x = &x[at / outputs * inputs..][..inputs];
            let weight = &weight[at % outputs * inputs..][..inputs];
            let wanted: f64 =
                x.iter().zip(weight).map(|(x, weight)| f64::from(*x) * f64::from(*weight)).sum();
            assert!((f64::from(*got) - wanted).abs() < 1e-5, "{got} {wanted}");
        }
    }

    #[test]
    fn a_row_is_the_same_in_any_number_of_rows_and_threads() {
        for inputs in [1, 7, 8, 64, 203] {
            for outputs in [1, 3, 64, 401] {
                let (x, weight) = (values(11 * inputs, 3), values(outputs * inputs, 4));
                let alone: Vec<f32> =
                    x.chunks(inputs).flat_map(|row| product(row, &weight, inputs, 1)).collect();
                for rows in 1..=11 {
                    for threads in [1, 2, 3] {
                        let got = product(&x[..rows * inputs], &weight, inputs, threads);
                        assert_eq!(got, alone[..rows * outputs]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_product_with_a_weight_that_is_input_first_is_the_same_in_any_number_of_rows() {
        for (inputs, outputs) in [(1, 1), (7, 3), (64, 401), (203, 64)] {
            let (x, weight) = (values(9 * inputs, 3), values(outputs * inputs, 4));
            let turned: Vec<f32> = (0..outputs)
                .flat_map(|output| weight[output..].iter().step_by(outputs).copied())
                .collect();
            let alone: Vec<f32> = x
                .chunks(inputs)
                .flat_map(|row| product_input_first(row, &weight, outputs, 1))
                .collect();
            for (got, wanted) in alone.iter().zip(product(&x, &turned, inputs, 1)) {
                assert!((got - wanted).abs() < 1e-5, "{got} {wanted}");
            }
            for rows in 1..=9 {
                for threads in [1, 2, 3] {
                    let got = product_input_first(&x[..rows * inputs], &weight, outputs, threads);
                    assert_eq!(got, alone[..rows * outputs]);
                }
            }
        }
    }

    #[test]
    fn vector_instructions_change_no_bit() {
        for length in [1, 8, 9, 64, 100] {
            let (one, other) = (values(length, 5), values(length, 6));
            assert_eq!(dots([&one], [&other]), portable::dots([&one], [&other]));
            let (mut vector, mut plain) = (one.clone(), one);
            add_scaled(&mut vector, &other, 0.3);
            portable::add_scaled(&mut plain, &other, 0.3);
            assert_eq!(vector, plain);
        }
    }

    #[test]
    fn a_row_attends_to_its_own_columns_only() {
        let (heads, group, room, width, end) = (2, 3, 9, 10, 7);
        let starts = [0, 3, 6];
        let (keys, mut kept) =
            (values(3 * heads * room * width, 7), values(3 * heads * room * width, 8));
        let queries = values(3 * heads * group * width, 9);
        let run = |keys: &[f32], values: &[f32], threads| {
            let cached = Cached { keys, values, heads, room, width, starts: &starts, end };
            attend(&queries, &cached, threads)
        };
        let got = run(&keys, &kept, 1);
        assert_eq!(got, run(&keys, &kept, 3));
        // The only column of the last row.
        let last = &kept[(2 * heads * room + 6) * width..][..width];
        for (got, wanted) in got[2 * heads * group * width..][..width].iter().zip(last) {
            assert!((got - wanted).abs() < 1e-6);
        }
        for (row, start) in starts.iter().enumerate() {
            for head in 0..heads {
                let first = (row * heads + head) * room * width;
                kept[first..first + *start as usize * width].fill(f32::NAN);
                kept[first + end * width..first + room * width].fill(f32::NAN);
            }
        }
        assert_eq!(got, run(&keys, &kept, 1));
    }
}
