//! Text tables with aligned columns.

use super::escape::width;

/// Rows of cells; the first row is the heading. Cells must be clean already.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// By column; columns beyond are left-aligned.
    right: Vec<bool>,
}

impl Table {
    /// Headings; those that begin with `>` are for numbers and are right-aligned.
    pub fn new(headings: &[&str]) -> Table {
        let right = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let heading = headings.iter().map(|heading| heading.trim_start_matches('>').to_owned());
        Table { rows: vec![heading.collect()], right }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Lines with two spaces between the columns and none at the end.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| visible_width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let mut text = String::new();
        for row in &self.rows {
            text.push_str(self.line(row, &widths).trim_end());
            text.push('\n');
        }
        text
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column].saturating_sub(visible_width(cell)));
            let gap = if column == 0 { "" } else { "  " };
            line.push_str(gap);
            match self.right.get(column) {
                Some(true) => line.extend([padding.as_str(), cell]),
                _ => line.extend([cell, padding.as_str()]),
            }
        }
        line
    }
}

/// The width of a cell, without colours.
fn visible_width(cell: &str) -> usize {
    let mut parts = cell.split('\u{1b}');
    let first = parts.next().map_or(0, width);
    first
        + parts.map(|part| width(part.split_once('m').map_or("", |(_, rest)| rest))).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::paint::Paint;

    #[test]
    fn columns_are_aligned_whatever_the_script_and_the_colour() {
        let mut table = Table::new(&["stage", ">items", "note"]);
        table.row(["漢字".into(), "4,000".into(), "x".into()]);
        table.row([Paint { colour: true }.good("ok"), "7".into(), String::new()]);
        let plain = table.render().replace("\u{1b}[32m", "").replace("\u{1b}[0m", "");
        assert_eq!(plain, "stage  items  note\n漢字   4,000  x\nok         7\n");
    }
}
