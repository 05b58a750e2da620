//! Dynamic time warping: aligns the frames of two recordings (H. Sakoe and S. Chiba, "Dynamic
//! programming algorithm optimization for spoken word recognition", IEEE Transactions on Acoustics,
//! Speech, and Signal Processing 26 (1), 1978).

/// The previous step of a path.
#[derive(Clone, Copy)]
enum Step {
    Both,
    Row,
    Column,
}

/// The cheapest path of pairs of rows and columns, from the first pair to the last. A step advances
/// the row, the column, or both, and counts once in each case. Both sides must have at least one
/// frame.
pub fn align(
    rows: usize,
    columns: usize,
    cost: impl Fn(usize, usize) -> f64,
) -> Vec<(usize, usize)> {
    let mut steps = Vec::with_capacity(rows * columns);
    let mut above: Vec<f64> = Vec::new();
    for row in 0..rows {
        let mut current: Vec<f64> = Vec::with_capacity(columns);
        for column in 0..columns {
            let at = |row: &[f64], column: Option<usize>| {
                column.and_then(|column| row.get(column)).copied().unwrap_or(f64::INFINITY)
            };
            let left = column.checked_sub(1);
            let ways = [
                (Step::Both, at(&above, left)),
                (Step::Row, at(&above, Some(column))),
                (Step::Column, at(&current, left)),
            ];
            let best =
                ways.into_iter().reduce(|one, other| if other.1 < one.1 { other } else { one });
            let (step, before) =
                best.filter(|(_, cost)| cost.is_finite()).unwrap_or((Step::Both, 0.0));
            steps.push(step);
            current.push(before + cost(row, column));
        }
        above = current;
    }
    path(&steps, rows, columns)
}

/// The path backwards from the last pair.
fn path(steps: &[Step], rows: usize, columns: usize) -> Vec<(usize, usize)> {
    let (mut row, mut column) = (rows.saturating_sub(1), columns.saturating_sub(1));
    let mut path = vec![(row, column)];
    while row + column > 0 {
        let step = match (row, column) {
            (0, _) => Step::Column,
            (_, 0) => Step::Row,
            _ => steps[row * columns + column],
        };
        row -= usize::from(!matches!(step, Step::Column));
        column -= usize::from(!matches!(step, Step::Row));
        path.push((row, column));
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gap(one: &[i32], other: &[i32]) -> impl Fn(usize, usize) -> f64 {
        move |row, column| f64::from((one[row] - other[column]).abs())
    }

    fn aligned(one: &[i32], other: &[i32]) -> Vec<(usize, usize)> {
        align(one.len(), other.len(), gap(one, other))
    }

    #[test]
    fn a_frame_that_is_held_meets_all_its_copies() {
        assert_eq!(aligned(&[1, 5, 9], &[1, 5, 5, 5, 9]), [(0, 0), (1, 1), (1, 2), (1, 3), (2, 4)]);
        assert_eq!(aligned(&[1, 5, 5, 9], &[1, 5, 9]), [(0, 0), (1, 1), (2, 1), (3, 2)]);
    }

    #[test]
    fn what_is_equal_goes_straight() {
        assert_eq!(aligned(&[3, 3, 3], &[3, 3, 3]), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(aligned(&[7], &[7]), [(0, 0)]);
    }

    /// The cost of the cheapest path, by trying all paths.
    fn least(one: &[i32], other: &[i32], row: usize, column: usize) -> f64 {
        let here = gap(one, other)(row, column);
        let before = match (row, column) {
            (0, 0) => 0.0,
            (0, _) => least(one, other, 0, column - 1),
            (_, 0) => least(one, other, row - 1, 0),
            _ => least(one, other, row - 1, column - 1)
                .min(least(one, other, row - 1, column))
                .min(least(one, other, row, column - 1)),
        };
        here + before
    }

    proptest! {
        #[test]
        fn no_other_path_costs_less(
            one in prop::collection::vec(-9..9_i32, 1..6),
            other in prop::collection::vec(-9..9_i32, 1..6),
        ) {
            let path = aligned(&one, &other);
            let cost: f64 = path.iter().map(|(row, column)| gap(&one, &other)(*row, *column)).sum();
            prop_assert_eq!(cost, least(&one, &other, one.len() - 1, other.len() - 1));
            let is_step = |pair: &[(usize, usize)]| {
                let (down, right) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
                down <= 1 && right <= 1 && down + right > 0
            };
            prop_assert!(path.windows(2).all(is_step));
        }
    }
}
