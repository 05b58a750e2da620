//! Rows beside each other, such as runs or the trainings of a matrix: their parameters and figures,
//! except those that are equal in all of them.

use std::collections::{BTreeMap, BTreeSet};

/// A row before the comparison; names are those of the columns.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub parameters: BTreeMap<String, String>,
    pub figures: BTreeMap<String, f64>,
}

/// The columns in which the rows differ, and their cells by row.
#[derive(Debug, Default, PartialEq)]
pub struct Compared {
    pub parameters: Vec<(String, Vec<Option<String>>)>,
    pub figures: Vec<(String, Vec<Option<f64>>)>,
}

impl Compared {
    pub fn of(rows: &[Row]) -> Compared {
        Compared {
            parameters: differing(rows, |row| &row.parameters, |one, other| one == other),
            figures: differing(
                rows,
                |row| &row.figures,
                |one, other| one.to_bits() == other.to_bits(),
            ),
        }
    }
}

fn differing<T: Clone>(
    rows: &[Row],
    of: impl Fn(&Row) -> &BTreeMap<String, T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Vec<(String, Vec<Option<T>>)> {
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| of(row).keys()).collect();
    let column = |name: &String| -> Vec<Option<T>> {
        rows.iter().map(|row| of(row).get(name).cloned()).collect()
    };
    let columns = names.into_iter().map(|name| (name.clone(), column(name)));
    let is_one = |cells: &[Option<T>]| {
        cells.windows(2).all(|pair| match (&pair[0], &pair[1]) {
            (Some(one), Some(other)) => is_same(one, other),
            (None, None) => true,
            _ => false,
        })
    };
    columns.filter(|(_, cells)| !is_one(cells)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rate: &str, loss: Option<f64>) -> Row {
        Row {
            parameters: [("rate", rate), ("seed", "1")].map(|(a, b)| (a.into(), b.into())).into(),
            figures: loss.map(|loss| ("loss".to_owned(), loss)).into_iter().collect(),
        }
    }

    #[test]
    fn what_is_the_same_in_all_rows_is_left_out() {
        let compared = Compared::of(&[row("0.1", Some(2.0)), row("0.2", None)]);
        let rates = vec![Some("0.1".to_owned()), Some("0.2".to_owned())];
        assert_eq!(compared.parameters, [("rate".to_owned(), rates)]);
        assert_eq!(compared.figures, [("loss".to_owned(), vec![Some(2.0), None])]);
        let same = [row("0.1", Some(2.0)), row("0.1", Some(2.0))];
        assert_eq!(Compared::of(&same), Compared::default());
    }
}
