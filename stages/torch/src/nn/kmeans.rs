//! K-means on rows of floats: the same rows and seed give the same centres to the bit.
//!
//! libtorch computes distances in blocks of a fixed size; sums are computed here, in double
//! precision and in the order of the rows.

use tch::Tensor;

use crate::error::TorchError;
use crate::nn::random::Random;

/// The number of rows per block.
const BLOCK: usize = 1024;

/// The number of rows, from the start, that the first centres are drawn from.
const SEEDING_ROWS: usize = 4096;

/// Rows of equal width, one after another.
#[derive(Clone, Copy)]
pub struct Points<'a> {
    pub values: &'a [f32],
    pub width: usize,
}

impl<'a> Points<'a> {
    pub fn count(&self) -> usize {
        self.values.len() / self.width
    }

    pub fn row(&self, at: usize) -> &'a [f32] {
        &self.values[at * self.width..(at + 1) * self.width]
    }

    fn first(&self, count: usize) -> Points<'a> {
        let values = &self.values[..count.min(self.count()) * self.width];
        Points { values, width: self.width }
    }
}

/// The centre of each row, and its squared distance.
pub struct Assignment {
    pub nearest: Vec<usize>,
    pub distance: Vec<f32>,
}

/// `count` centres for the rows, by k-means++ and at most `rounds` of Lloyd's iteration. With fewer
/// distinct rows than centres, some centres are equal.
pub fn fit(
    rows: Points,
    count: usize,
    rounds: usize,
    random: &mut Random,
) -> Result<Vec<f32>, TorchError> {
    if rows.count() == 0 {
        return Err(TorchError::Input("there are no frames to fit a codebook on".into()));
    }
    let mut centres = seed_centres(rows.first(SEEDING_ROWS), count, random);
    let mut before: Vec<usize> = Vec::new();
    for _ in 0..rounds {
        let assignment = assign(rows, &centres);
        if assignment.nearest == before {
            break;
        }
        move_centres(rows, &assignment, &mut centres);
        before = assignment.nearest;
    }
    Ok(centres)
}

/// The nearest centre of each row; the first of equally near ones.
pub fn assign(rows: Points, centres: &[f32]) -> Assignment {
    let width = rows.width as i64;
    let lookup = Lookup::new(&Tensor::from_slice(centres).reshape([-1, width]));
    let mut assignment = Assignment { nearest: Vec::new(), distance: Vec::new() };
    for block in rows.values.chunks(BLOCK * rows.width) {
        let mut padded = vec![0f32; BLOCK * rows.width];
        padded[..block.len()].copy_from_slice(block);
        let padded = Tensor::from_slice(&padded).reshape([BLOCK as i64, width]);
        let (distance, nearest) = lookup.nearest(&padded);
        let count = block.len() / rows.width;
        let mut numbers = vec![0i64; BLOCK];
        nearest.copy_data(&mut numbers, BLOCK);
        assignment.nearest.extend(numbers[..count].iter().map(|number| *number as usize));
        let squares = padded.square().sum_dim_intlist([1i64].as_slice(), false, None);
        let distance = crate::sound::mel::to_vec(&(distance + &squares).clamp_min(0.0));
        assignment.distance.extend(&distance[..count]);
    }
    assignment
}

/// A codebook prepared for nearest-neighbour search.
pub struct Lookup {
    entries: Tensor,
    /// The entries, transposed, times -2: plus the squared norms, the part of the squared distance
    /// that differs between entries.
    products: Tensor,
    lengths: Tensor,
}

impl Lookup {
    /// `entries`: [entries, width].
    pub fn new(entries: &Tensor) -> Lookup {
        let entries = entries.contiguous();
        let products = (entries.t_copy() * -2.0).contiguous();
        let lengths = entries.square().sum_dim_intlist([1i64].as_slice(), false, None);
        Lookup { entries, products, lengths }
    }

    /// For each row the squared distance minus the row's own square, and the entry's index.
    pub fn nearest(&self, rows: &Tensor) -> (Tensor, Tensor) {
        self.lengths.addmm(rows, &self.products).min_dim(1, false)
    }

    /// The entries of these indices, one per row.
    pub fn entries(&self, numbers: &Tensor) -> Tensor {
        self.entries.index_select(0, numbers)
    }
}

/// K-means++: each further centre is a row, with a probability that grows with its distance to the
/// chosen centres.
fn seed_centres(rows: Points, count: usize, random: &mut Random) -> Vec<f32> {
    let table = Tensor::from_slice(rows.values).reshape([-1, rows.width as i64]);
    let squares = table.square().sum_dim_intlist([1i64].as_slice(), false, None);
    let mut closest = vec![f32::INFINITY; rows.count()];
    let mut centres = Vec::with_capacity(count * rows.width);
    let mut chosen = (random.fraction() * rows.count() as f64) as usize;
    loop {
        centres.extend_from_slice(rows.row(chosen));
        if centres.len() == count * rows.width {
            return centres;
        }
        let centre = Tensor::from_slice(rows.row(chosen));
        let length: f64 = rows.row(chosen).iter().map(|v| f64::from(v * v)).sum();
        let product = table.mv(&centre) * -2.0;
        let distance = crate::sound::mel::to_vec(&(product + &squares + length));
        for (least, distance) in closest.iter_mut().zip(distance) {
            *least = least.min(distance.max(0.0));
        }
        closest[chosen] = 0.0;
        chosen = draw(&closest, random);
    }
}

/// An index, with a probability proportional to its weight.
fn draw(weights: &[f32], random: &mut Random) -> usize {
    let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
    let mut left = random.fraction() * total;
    for (at, weight) in weights.iter().enumerate() {
        left -= f64::from(*weight);
        if left < 0.0 {
            return at;
        }
    }
    0
}

/// Moves each centre to the mean of its rows; a centre without rows moves to the row with the
/// largest distance, each row at most once.
fn move_centres(rows: Points, assignment: &Assignment, centres: &mut [f32]) {
    let width = rows.width;
    let mut sums = vec![0f64; centres.len()];
    let mut counts = vec![0u64; centres.len() / width];
    for (at, centre) in assignment.nearest.iter().enumerate() {
        counts[*centre] += 1;
        let sum = &mut sums[centre * width..(centre + 1) * width];
        sum.iter_mut().zip(rows.row(at)).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let mut farthest = by_distance(&assignment.distance).into_iter();
    for (centre, count) in counts.iter().enumerate() {
        let target = &mut centres[centre * width..(centre + 1) * width];
        if *count > 0 {
            let sum = &sums[centre * width..(centre + 1) * width];
            target.iter_mut().zip(sum).for_each(|(to, sum)| *to = (sum / *count as f64) as f32);
        } else if let Some(at) = farthest.next() {
            target.copy_from_slice(rows.row(at));
        }
    }
}

/// The rows with a non-zero distance, farthest first.
fn by_distance(distance: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..distance.len()).filter(|at| distance[*at] > 0.0).collect();
    order.sort_by(|a, b| distance[*b].total_cmp(&distance[*a]).then(a.cmp(b)));
    order
}

/// The residuals of the rows after subtracting their nearest centre.
pub fn residual(rows: Points, centres: &[f32], assignment: &Assignment) -> Vec<f32> {
    let mut left = rows.values.to_vec();
    for (row, centre) in left.chunks_mut(rows.width).zip(&assignment.nearest) {
        let centre = &centres[centre * rows.width..(centre + 1) * rows.width];
        row.iter_mut().zip(centre).for_each(|(value, centre)| *value -= centre);
    }
    left
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// `per` points close around each of (0, 0), (10, 0), (0, 10), (10, 10).
    fn four_heaps(per: usize) -> Vec<f32> {
        let mut random = Random::new(3);
        let mut values = Vec::new();
        for at in 0..4 * per {
            values.push((at % 2) as f32 * 10.0 + random.fraction() as f32);
            values.push((at / 2 % 2) as f32 * 10.0 + random.fraction() as f32);
        }
        values
    }

    #[test]
    fn heaps_get_a_centre_each() {
        let values = four_heaps(500);
        let rows = Points { values: &values, width: 2 };
        let centres = fit(rows, 4, 20, &mut Random::new(1)).unwrap();
        let mut rounded: Vec<[i32; 2]> =
            centres.chunks(2).map(|c| [c[0].floor() as i32, c[1].floor() as i32]).collect();
        rounded.sort();
        assert_eq!(rounded, [[0, 0], [0, 10], [10, 0], [10, 10]]);
    }

    #[test]
    fn the_seed_decides_and_nothing_else() {
        let values = four_heaps(100);
        let rows = Points { values: &values, width: 2 };
        let fit = |seed| fit(rows, 16, 5, &mut Random::new(seed)).unwrap();
        assert_eq!(fit(1), fit(1));
        assert_ne!(fit(1), fit(2));
    }

    #[test]
    fn fewer_rows_than_centres_are_all_met_exactly() {
        let values = [1.0, 2.0, 3.0, 4.0, 1.0, 2.0];
        let rows = Points { values: &values, width: 2 };
        let centres = fit(rows, 8, 5, &mut Random::new(1)).unwrap();
        assert_eq!(centres.len(), 16);
        let assignment = assign(rows, &centres);
        assert!(residual(rows, &centres, &assignment).iter().all(|left| *left == 0.0));
        assert_eq!(assignment.nearest[0], assignment.nearest[2]);
    }

    #[test]
    fn a_centre_without_rows_moves_to_the_worst_row() {
        let values = [0.0f32, 1.0, 9.0];
        let rows = Points { values: &values, width: 1 };
        let mut centres = vec![0.0f32, 100.0];
        let assignment = assign(rows, &centres);
        move_centres(rows, &assignment, &mut centres);
        assert_eq!(centres[1], 9.0);
    }

    #[test]
    fn no_rows_is_an_error() {
        let rows = Points { values: &[], width: 2 };
        let error = fit(rows, 4, 5, &mut Random::new(1)).unwrap_err();
        assert_eq!(error.to_string(), "there are no frames to fit a codebook on");
    }

    #[test]
    fn a_row_finds_the_same_centre_whatever_rows_come_with_it() {
        let values = four_heaps(600);
        let rows = Points { values: &values, width: 2 };
        let centres = fit(rows, 64, 3, &mut Random::new(1)).unwrap();
        let all = assign(rows, &centres);
        let few = assign(Points { values: &values[..2 * 100], width: 2 }, &centres);
        assert_eq!(all.nearest[..100], few.nearest);
        assert_eq!(all.distance[..100], few.distance);
    }
}
