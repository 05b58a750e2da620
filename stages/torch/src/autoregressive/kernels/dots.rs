//! Dot products of a few weights and all rows. Each has its own partial sums, so the other rows do
//! not change its rounding.

use super::LANES;
use super::instructions::Instructions;

/// Weights that are multiplied at a time.
pub const GROUP: usize = 4;

/// Rows of inputs, ready to be multiplied.
pub struct InputRows<'a> {
    instructions: Instructions,
    x: &'a [f32],
    inputs: usize,
    /// For AVX-512: vectors of up to four pairs of rows, interleaved. Zeros fill the pair of an odd
    /// row.
    pairs: Vec<f32>,
}

/// Pairs of rows that one pass over the weights takes.
const PAIRS: usize = 4;

impl<'a> InputRows<'a> {
    pub fn new(instructions: Instructions, x: &'a [f32], inputs: usize) -> InputRows<'a> {
        let pairs = match instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 if x.len() > inputs => pairs(x, inputs),
            _ => Vec::new(),
        };
        InputRows { instructions, x, inputs, pairs }
    }

    /// Gives the products of each row to `put`.
    pub fn dots(&self, weights: [&[f32]; GROUP], mut put: impl FnMut(usize, [f32; GROUP])) {
        let InputRows { instructions, x, inputs, .. } = *self;
        let mut put = |row: usize, sums: [f32; GROUP]| {
            let x = &x[row * inputs..][..inputs];
            let total = |at: usize| rest(sums[at], weights[at], x);
            put(row, std::array::from_fn(total));
        };
        let count = x.len() / inputs;
        match instructions {
            Instructions::Portable => {
                for row in 0..count {
                    let x = &x[row * inputs..][..inputs];
                    put(row, weights.map(|weight| portable_dot(weight, x)));
                }
            }
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 if count > 1 => self.dots_of_pairs(weights, put),
            #[cfg(target_arch = "x86_64")]
            _ => {
                for row in (0..count).step_by(2) {
                    let x = |row: usize| &x[row * inputs..][..inputs];
                    // SAFETY: the processor has the instructions.
                    if row + 1 < count {
                        let sums = unsafe { wide::dots(weights, [x(row), x(row + 1)]) };
                        put(row, sums[0]);
                        put(row + 1, sums[1]);
                    } else {
                        put(row, unsafe { wide::dots(weights, [x(row)]) }[0]);
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn dots_of_pairs(&self, weights: [&[f32]; GROUP], mut put: impl FnMut(usize, [f32; GROUP])) {
        let whole = self.inputs - self.inputs % LANES;
        let weights = weights.map(|weight| &weight[..whole]);
        let rows = self.x.len() / self.inputs;
        for first in (0..rows).step_by(2 * PAIRS) {
            let pairs = &self.pairs[first * whole..];
            let mut put = |pair: usize, [even, odd]: [[f32; GROUP]; 2]| {
                let row = first + 2 * pair;
                put(row, even);
                if row + 1 < rows {
                    put(row + 1, odd);
                }
            };
            // SAFETY: the processor has the instructions.
            unsafe {
                match (rows - first).div_ceil(2) {
                    1 => wide::dots_of_pairs::<1>(weights, pairs, &mut put),
                    2 => wide::dots_of_pairs::<2>(weights, pairs, &mut put),
                    3 => wide::dots_of_pairs::<3>(weights, pairs, &mut put),
                    _ => wide::dots_of_pairs::<PAIRS>(weights, pairs, &mut put),
                }
            }
        }
    }
}

fn pairs(x: &[f32], inputs: usize) -> Vec<f32> {
    let (rows, whole) = (x.len() / inputs, inputs - inputs % LANES);
    let mut pairs = Vec::with_capacity(rows.next_multiple_of(2) * whole);
    for first in (0..rows).step_by(2 * PAIRS) {
        let end = rows.next_multiple_of(2).min(first + 2 * PAIRS);
        for at in (0..whole).step_by(LANES) {
            for row in first..end {
                if row < rows {
                    pairs.extend_from_slice(&x[row * inputs + at..][..LANES])
                } else {
                    pairs.extend_from_slice(&[0.0; LANES])
                }
            }
        }
    }
    pairs
}

/// Adds the products that fill no vector.
fn rest(sum: f32, weight: &[f32], x: &[f32]) -> f32 {
    let rest = weight.len() - weight.len() % LANES;
    weight[rest..].iter().zip(&x[rest..]).fold(sum, |sum, (weight, x)| weight.mul_add(*x, sum))
}

/// The sum of partial sums.
#[inline(always)]
pub fn total([a, b, c, d, e, f, g, h]: [f32; LANES]) -> f32 {
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}

fn portable_dot(weight: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    for (weight, x) in weight.chunks_exact(LANES).zip(x.chunks_exact(LANES)) {
        for lane in 0..LANES {
            lanes[lane] = weight[lane].mul_add(x[lane], lanes[lane]);
        }
    }
    total(lanes)
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m128, __m256, __m512, _mm_add_ps, _mm_hadd_ps, _mm_storeu_ps, _mm256_add_ps,
        _mm256_castpd_ps, _mm256_castps_pd, _mm256_castps256_ps128, _mm256_extractf128_ps,
        _mm256_fmadd_ps, _mm256_hadd_ps, _mm256_loadu_ps, _mm256_permute2f128_ps,
        _mm256_setzero_ps, _mm512_broadcast_f64x4, _mm512_castpd_ps, _mm512_castps_pd,
        _mm512_castps512_ps256, _mm512_extractf64x4_pd, _mm512_fmadd_ps, _mm512_loadu_ps,
        _mm512_setzero_ps,
    };

    use super::{GROUP, LANES};

    /// Of all that fills vectors.
    #[target_feature(enable = "avx2,fma")]
    pub fn dots<const R: usize>(weights: [&[f32]; GROUP], x: [&[f32]; R]) -> [[f32; GROUP]; R] {
        let length = weights[0].len();
        assert!(weights.iter().chain(&x).all(|row| row.len() == length));
        let mut sums = [[_mm256_setzero_ps(); GROUP]; R];
        for at in (0..length - length % LANES).step_by(LANES) {
            // Loops, since closures within other functions would be calls: those lack the features.
            let mut parts = [_mm256_setzero_ps(); R];
            for (part, row) in parts.iter_mut().zip(x) {
                // SAFETY: all rows have the eight values from here on.
                *part = unsafe { _mm256_loadu_ps(row.as_ptr().add(at)) };
            }
            for (place, weight) in weights.into_iter().enumerate() {
                // SAFETY: as above.
                let weight = unsafe { _mm256_loadu_ps(weight.as_ptr().add(at)) };
                for (sums, x) in sums.iter_mut().zip(parts) {
                    sums[place] = _mm256_fmadd_ps(weight, x, sums[place]);
                }
            }
        }
        sums.map(|sums| {
            let [a, b, c, d] = sums.map(|sum| {
                _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum))
            });
            stored(_mm_hadd_ps(_mm_hadd_ps(a, b), _mm_hadd_ps(c, d)))
        })
    }

    /// The same of `P` pairs of rows that lie as [`super::pairs`] puts them.
    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    pub fn dots_of_pairs<const P: usize>(
        weights: [&[f32]; GROUP],
        pairs: &[f32],
        put: &mut impl FnMut(usize, [[f32; GROUP]; 2]),
    ) {
        let length = weights[0].len();
        assert!(
            weights.iter().all(|weight| weight.len() == length && length.is_multiple_of(LANES))
        );
        assert!(pairs.len() >= 2 * P * length);
        let mut sums = [[_mm512_setzero_ps(); GROUP]; P];
        for at in (0..length).step_by(LANES) {
            let mut x = [_mm512_setzero_ps(); P];
            for (pair, x) in x.iter_mut().enumerate() {
                let start = 2 * (P * at + pair * LANES);
                // SAFETY: the pairs have two times eight values each from here on.
                *x = unsafe { _mm512_loadu_ps(pairs.as_ptr().add(start)) };
            }
            for (place, weight) in weights.into_iter().enumerate() {
                // SAFETY: the weight has the eight values from here on.
                let weight = unsafe { _mm256_loadu_ps(weight.as_ptr().add(at)) };
                let twice = _mm512_castpd_ps(_mm512_broadcast_f64x4(_mm256_castps_pd(weight)));
                for (sums, x) in sums.iter_mut().zip(x) {
                    sums[place] = _mm512_fmadd_ps(twice, x, sums[place]);
                }
            }
        }
        for (pair, sums) in sums.into_iter().enumerate() {
            let [a, b, c, d] = sums.map(|sum| halves_added(sum));
            let sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
            let [even, odd] = [_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums)];
            put(pair, [stored(even), stored(odd)]);
        }
    }

    /// Lanes a to h of two rows to a + e, b + f, c + g, d + h of each.
    #[target_feature(enable = "avx2,fma,avx512f,avx512vl")]
    fn halves_added(sum: __m512) -> __m256 {
        let even = _mm512_castps512_ps256(sum);
        let odd = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(sum)));
        let low = _mm256_permute2f128_ps::<0x20>(even, odd);
        _mm256_add_ps(low, _mm256_permute2f128_ps::<0x31>(even, odd))
    }

    #[target_feature(enable = "avx2,fma")]
    fn stored(sums: __m128) -> [f32; GROUP] {
        let mut stored = [0.0; GROUP];
        // SAFETY: there is room for the four values.
        unsafe { _mm_storeu_ps(stored.as_mut_ptr(), sums) };
        stored
    }
}
