//! Attention of the newest column of each row to those that are kept.

use super::dots::{GROUP, InputRows};
use super::elementwise::exp;
use super::instructions::{Instructions, vectorised};
use super::shared::{SharedSlice, share};

/// The keys and values of a batch: [B, heads, room, width] each. A row has the columns from its
/// start to the common end.
pub struct KeyValues<'a> {
    pub keys: &'a [f32],
    pub values: &'a [f32],
    pub heads: usize,
    pub room: usize,
    pub width: usize,
    pub starts: &'a [i64],
    pub end: usize,
}

/// Queries [B, query heads, width], one column a row, over the cache: the same shape.
pub fn attend(out: &mut [f32], queries: &[f32], cached: &KeyValues, threads: usize) {
    let KeyValues { heads, width, starts, .. } = *cached;
    // The queries that share a head of keys.
    let group = queries.len() / (starts.len() * heads).max(1);
    let instructions = Instructions::best();
    let out = SharedSlice::new(out);
    let columns: usize = starts.iter().map(|start| cached.end - *start as usize).sum();
    share(threads, columns * heads * group, starts.len() * heads, |at| {
        let (keys, values) = cached.span(at / heads, at % heads);
        let queries = &queries[at * group..][..group];
        // SAFETY: each head has its own part.
        let out = unsafe { out.part(at * group, group) };
        attend_head(instructions, out, queries, keys, values, width);
    });
}

impl KeyValues<'_> {
    /// The keys and values that a head of a row attends to.
    fn span(&self, row: usize, head: usize) -> (&[f32], &[f32]) {
        let first = (row * self.heads + head) * self.room;
        let range = (first + self.starts[row] as usize) * self.width..;
        let count = (self.end - self.starts[row] as usize) * self.width;
        (&self.keys[range.clone()][..count], &self.values[range][..count])
    }
}

/// The queries of one head of keys.
fn attend_head(
    instructions: Instructions,
    out: &mut [f32],
    queries: &[f32],
    keys: &[f32],
    values: &[f32],
    width: usize,
) {
    let columns = keys.len() / width;
    let mut scores = vec![0.0; queries.len() / width * columns];
    let rows = InputRows::new(instructions, queries, width);
    for first in (0..columns).step_by(GROUP) {
        let count = GROUP.min(columns - first);
        let key = |at: usize| &keys[(first + at.min(count - 1)) * width..][..width];
        rows.dots(std::array::from_fn(key), |row, sums| {
            scores[row * columns + first..][..count].copy_from_slice(&sums[..count]);
        });
    }
    let scale = 1.0 / (width as f32).sqrt();
    for (out, scores) in out.chunks_mut(width).zip(scores.chunks_mut(columns)) {
        softmax(instructions, scores, scale);
        weighted_sum(instructions, out, scores, values);
    }
}

vectorised! {
    fn softmax(scores: &mut [f32], scale: f32) {
        let most = scores.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score));
        for score in scores.iter_mut() {
            *score = exp((*score - most) * scale);
        }
        let sum = scores.iter().fold(0.0, |sum, score| sum + *score);
        for score in scores {
            *score /= sum;
        }
    }
}

vectorised! {
    /// Of the values of all columns, in their order.
    fn weighted_sum(out: &mut [f32], weights: &[f32], values: &[f32]) {
        out.fill(0.0);
        for (weight, values) in weights.iter().zip(values.chunks_exact(out.len())) {
            for (out, value) in out.iter_mut().zip(values) {
                *out = value.mul_add(*weight, *out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::values;
    use super::*;

    #[test]
    fn a_row_attends_to_its_own_columns_only() {
        let (heads, group, room, width, end) = (2, 3, 9, 10, 7);
        let starts = [0, 3, 6];
        let (keys, mut kept) =
            (values(3 * heads * room * width, 7), values(3 * heads * room * width, 8));
        let queries = values(3 * heads * group * width, 9);
        let run = |keys: &[f32], values: &[f32], threads| {
            let cached = KeyValues { keys, values, heads, room, width, starts: &starts, end };
            let mut out = vec![f32::NAN; queries.len()];
            attend(&mut out, &queries, &cached, threads);
            out
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

    #[test]
    fn instructions_change_no_bit() {
        for (group, columns, width) in [(1, 1, 1), (2, 5, 12), (3, 70, 8), (4, 33, 130)] {
            let (queries, keys) = (values(group * width, 1), values(columns * width, 2));
            let kept = values(columns * width, 3);
            let run = |instructions| {
                let mut out = vec![f32::NAN; queries.len()];
                attend_head(instructions, &mut out, &queries, &keys, &kept, width);
                out
            };
            for instructions in Instructions::all() {
                assert_eq!(run(instructions), run(Instructions::Portable), "{instructions:?}");
            }
        }
    }
}
