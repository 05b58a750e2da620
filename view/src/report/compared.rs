//! Rows beside each other, such as runs or the trainings of a matrix: their parameters and figures,
//! except those that are equal in all of them.

use std::collections::{BTreeMap, BTreeSet};

/// A row before the comparison; names are those of the columns.
#[derive(Clone, Debug, Default)]
pub struct ComparedRow {
    pub parameters: BTreeMap<String, String>,
    pub figures: BTreeMap<String, f64>,
}

/// The columns in which the rows differ, and their cells by row.
#[derive(Debug, Default, PartialEq)]
pub struct ComparedColumns {
    pub parameters: Vec<(String, Vec<Option<String>>)>,
    pub figures: Vec<(String, Vec<Option<f64>>)>,
}

/// A column: its name, and its cells by row.
type Column<T> = (String, Vec<Option<T>>);

impl ComparedColumns {
    pub fn of(rows: &[ComparedRow]) -> ComparedColumns {
        let parameters = columns(rows, |row| &row.parameters).into_iter();
        let mut figures = columns(rows, |row| &row.figures);
        let is_same = |one: &f64, other: &f64| one.to_bits() == other.to_bits();
        figures.retain(|(_, cells)| !is_one(cells, is_same) || cells.iter().any(Option::is_none));
        // Figures that only some rows have come last.
        figures.sort_by_key(|(_, cells)| is_one(cells, is_same));
        ComparedColumns {
            // A stage that a run did not come to has the same parameters as before.
            parameters: parameters.filter(|(_, cells)| !is_one(cells, String::eq)).collect(),
            figures,
        }
    }
}

fn columns<T: Clone>(
    rows: &[ComparedRow],
    of: impl Fn(&ComparedRow) -> &BTreeMap<String, T>,
) -> Vec<Column<T>> {
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| of(row).keys()).collect();
    let column = |name: &String| rows.iter().map(|row| of(row).get(name).cloned()).collect();
    names.into_iter().map(|name| (name.clone(), column(name))).collect()
}

/// Tests if all rows that have a value have the same.
fn is_one<T>(cells: &[Option<T>], is_same: impl Fn(&T, &T) -> bool) -> bool {
    let mut values = cells.iter().flatten();
    let Some(first) = values.next() else { return true };
    values.all(|other| is_same(first, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rate: &str, loss: Option<f64>) -> ComparedRow {
        ComparedRow {
            parameters: [("rate", rate), ("seed", "1")].map(|(a, b)| (a.into(), b.into())).into(),
            figures: loss.map(|loss| ("loss".to_owned(), loss)).into_iter().collect(),
        }
    }

    #[test]
    fn what_is_the_same_in_all_rows_is_left_out() {
        let compared = ComparedColumns::of(&[row("0.1", Some(2.0)), row("0.2", None)]);
        let rates = vec![Some("0.1".to_owned()), Some("0.2".to_owned())];
        assert_eq!(compared.parameters, [("rate".to_owned(), rates)]);
        assert_eq!(compared.figures, [("loss".to_owned(), vec![Some(2.0), None])]);
        let same = [row("0.1", Some(2.0)), row("0.1", Some(2.0))];
        assert_eq!(ComparedColumns::of(&same), ComparedColumns::default());
    }

    #[test]
    fn a_row_without_a_parameter_does_not_differ_in_it() {
        let rows = [row("0.1", Some(2.0)), ComparedRow::default(), row("0.1", Some(2.0))];
        let compared = ComparedColumns::of(&rows);
        assert_eq!(compared.parameters, []);
        assert_eq!(compared.figures.len(), 1, "it may be what a run was made for");
    }

    #[test]
    fn figures_that_only_some_rows_have_come_last() {
        let row = |figures: &[(&str, f64)]| ComparedRow {
            figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ..ComparedRow::default()
        };
        let rows = [row(&[("a", 1.0), ("b", 1.0)]), row(&[("b", 2.0)])];
        let names: Vec<String> =
            ComparedColumns::of(&rows).figures.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["b", "a"]);
    }
}
