//! Text tables with aligned columns.
//!
//! A table that is too wide for its terminal first loses the columns that are empty; then its text
//! columns break their cells into lines, and columns that are marked as spare are left out.

use super::escape::{fit, width, wrap};

/// Text columns become this narrow before spare columns are left out.
const COMFORT: usize = 16;
/// Text columns become this narrow if nothing else helps.
const LEAST: usize = 6;
/// Spaces between columns.
const GAP: usize = 2;
/// Cells without a value.
const NOTHING: [&str; 2] = ["", "-"];

/// Rows of cells, which must be clean already.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Columns to leave out, the first one first.
    spare: Vec<usize>,
}

struct Column {
    heading: String,
    is_number: bool,
}

impl Table {
    /// Headings; those that begin with `>` are for numbers and are right-aligned.
    pub fn new(headings: &[&str]) -> Table {
        let column = |heading: &&str| Column {
            heading: heading.trim_start_matches('>').to_owned(),
            is_number: heading.starts_with('>'),
        };
        let columns = headings.iter().map(column).collect();
        Table { columns, rows: Vec::new(), spare: Vec::new() }
    }

    /// Columns to leave out if the table is too wide, the first one first.
    pub fn spare<'a>(mut self, headings: impl IntoIterator<Item = &'a str>) -> Table {
        let at = |heading| self.columns.iter().position(|column| column.heading == heading);
        self.spare = headings.into_iter().filter_map(at).collect();
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Lines with two spaces between the columns and none at the end; none is wider than the limit.
    pub fn render(&self, limit: Option<usize>) -> String {
        self.fitted(limit).0
    }

    /// The lines, and the headings of spare columns for which there was no room.
    pub fn fitted(&self, limit: Option<usize>) -> (String, Vec<&str>) {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let natural: Vec<usize> = shown.iter().map(|column| self.widest(*column)).collect();
        let Some(limit) = limit.filter(|limit| total(&natural) > *limit) else {
            return (self.draw(&shown, &natural, usize::MAX), Vec::new());
        };
        shown.retain(|column| *column == 0 || self.has_content(*column));
        let mut left_out = Vec::new();
        let mut spare = self.spare.iter().filter(|column| self.has_content(**column));
        let widths = loop {
            if let Some(widths) = self.narrowed(&shown, limit, COMFORT) {
                break widths;
            }
            let Some(column) = spare.next() else {
                let narrow = |column: &usize| self.floor(*column, LEAST);
                let narrowed = self.narrowed(&shown, limit, LEAST);
                break narrowed.unwrap_or_else(|| shown.iter().map(narrow).collect());
            };
            shown.retain(|own| own != column);
            left_out.push(self.columns[*column].heading.as_str());
        };
        (self.draw(&shown, &widths, limit), left_out)
    }

    pub fn is_wider_than(&self, columns: usize) -> bool {
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|column| self.widest(column)).collect();
        total(&widths) > columns
    }

    fn widest(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
        cells.max().unwrap_or(0).max(width(&self.columns[column].heading))
    }

    fn has_content(&self, column: usize) -> bool {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.into_iter().any(|cell| !NOTHING.contains(&cell.as_str()))
    }

    /// The fewest columns that it may take.
    fn floor(&self, column: usize, least: usize) -> usize {
        let natural = self.widest(column);
        if self.columns[column].is_number { natural } else { natural.min(least) }
    }

    /// Widths within the limit, the widest text made narrower first; `None` if there are none.
    fn narrowed(&self, shown: &[usize], limit: usize, least: usize) -> Option<Vec<usize>> {
        let floors: Vec<usize> = shown.iter().map(|column| self.floor(*column, least)).collect();
        if total(&floors) > limit {
            return None;
        }
        let mut widths: Vec<usize> = shown.iter().map(|column| self.widest(*column)).collect();
        while total(&widths) > limit {
            let wide = (0..widths.len()).filter(|at| widths[*at] > floors[*at]);
            let widest = wide.max_by_key(|at| widths[*at])?;
            let excess = total(&widths) - limit;
            // In one step down to the next widest, which matters for cells of thousands of letters.
            let others = (0..widths.len()).filter(|at| *at != widest && widths[*at] > floors[*at]);
            let next = others.map(|at| widths[at]).max().unwrap_or(0).max(floors[widest]);
            let step = (widths[widest] - next).clamp(1, excess);
            widths[widest] -= step;
        }
        Some(widths)
    }

    fn draw(&self, shown: &[usize], widths: &[usize], limit: usize) -> String {
        let headings: Vec<String> =
            self.columns.iter().map(|column| column.heading.clone()).collect();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let cell = |column: &usize| row.get(*column).map_or("", String::as_str);
            let broken = |(column, width): (&usize, &usize)| {
                if self.columns[*column].is_number {
                    vec![cell(column).to_owned()]
                } else {
                    wrap(cell(column), *width, 0)
                }
            };
            let cells: Vec<Vec<String>> = shown.iter().zip(widths).map(broken).collect();
            for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let line = self.line(&cells, at, shown, widths);
                text.push_str(&fit(line.trim_end(), limit));
                text.push('\n');
            }
        }
        text
    }

    fn line(&self, cells: &[Vec<String>], at: usize, shown: &[usize], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((lines, column), room) in cells.iter().zip(shown).zip(widths) {
            let cell = lines.get(at).map_or("", String::as_str);
            let padding = " ".repeat(room.saturating_sub(width(cell)));
            if !line.is_empty() || column != &shown[0] {
                line.push_str("  ");
            }
            if self.columns[*column].is_number {
                line.extend([padding.as_str(), cell])
            } else {
                line.extend([cell, padding.as_str()])
            }
        }
        line
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::Paint;

    #[test]
    fn columns_are_aligned_whatever_the_script_and_the_colour() {
        let mut table = Table::new(&["stage", ">items", "note"]);
        table.row(["漢字".into(), "4,000".into(), "x".into()]);
        let paint = Paint { colour: true, ..Paint::default() };
        table.row([paint.good("ok"), "7".into(), String::new()]);
        let plain = table.render(None).replace("\u{1b}[32m", "").replace("\u{1b}[0m", "");
        assert_eq!(plain, "stage  items  note\n漢字   4,000  x\nok         7\n");
    }

    fn wide() -> Table {
        let headings = ["stage", ">items", ">GPU", "why", ">expected"];
        let mut table = Table::new(&headings).spare(["expected"]);
        table.row(
            ["voice", "4,000", "-", "the rate is another", "10 s (8 s to 12 s)"].map(Into::into),
        );
        let name = "e\u{301}a\u{308}漢字_a_stage_with_a_long_name[learning_rate=0.0001]";
        table.row([name, "7", "-", "", ""].map(Into::into));
        table
    }

    #[test]
    fn a_table_that_is_too_wide_loses_empty_columns_and_breaks_its_texts() {
        insta::assert_snapshot!(wide().render(Some(80)), @r"
        stage                             items  why                            expected
        voice                             4,000  the rate is another  10 s (8 s to 12 s)
        éä漢字_a_stage_with_a_long_name[      7
        learning_rate=0.0001]
        ");
    }

    #[test]
    fn spare_columns_are_left_out_before_texts_become_hard_to_read() {
        let table = wide();
        let (text, left_out) = table.fitted(Some(46));
        assert_eq!(left_out, ["expected"]);
        insta::assert_snapshot!(text, @r"
        stage                items  why
        voice                4,000  the rate is
                                    another
        éä漢字_a_stage_with      7
        _a_long_name[learni
        ng_rate=0.0001]
        ");
    }

    #[test]
    fn no_line_is_wider_than_the_limit() {
        for limit in 1..120 {
            let text = wide().render(Some(limit));
            for line in text.lines() {
                assert!(width(line) <= limit.max(1), "{limit}: {line}");
            }
        }
    }
}
