//! Sortable tables. Long ones show their first rows until more are requested; in print they are
//! complete.

use maud::{Markup, html};

/// The number of rows shown at first.
pub const FIRST: usize = 25;

pub struct HtmlTable {
    caption: String,
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<Cell>>,
}

/// The text of a cell, and its sort key.
pub struct Cell {
    shown: Markup,
    order: Option<String>,
    is_prose: bool,
}

impl Cell {
    /// Sorted by its text.
    pub fn text(shown: impl maud::Render) -> Cell {
        Cell { shown: html! { (shown) }, order: None, is_prose: false }
    }

    /// Text that may be long and broken anywhere.
    pub fn prose(shown: impl maud::Render) -> Cell {
        Cell { is_prose: true, ..Cell::text(shown) }
    }

    pub fn number(shown: impl maud::Render, order: f64) -> Cell {
        Cell { order: Some(order.to_string()), ..Cell::text(shown) }
    }

    /// An empty cell, sorted last in either order.
    pub fn empty() -> Cell {
        Cell { order: Some(String::new()), ..Cell::text("") }
    }

    pub fn number_or_empty(number: Option<f64>, shown: impl Fn(f64) -> String) -> Cell {
        number.map_or_else(Cell::empty, |number| Cell::number(shown(number), number))
    }
}

impl HtmlTable {
    /// Headings; `>` at the start means numbers, `-` means a column that cannot be sorted.
    pub fn new(caption: impl Into<String>, headings: &[&str]) -> HtmlTable {
        let columns = headings.iter().map(|heading| match heading.strip_prefix('>') {
            Some(name) => (name.to_owned(), true),
            None => ((*heading).to_owned(), false),
        });
        HtmlTable { caption: caption.into(), columns: columns.collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn render(&self) -> Markup {
        html! {
            div.table {
                // A table wider than the page can be scrolled, with the keyboard too.
                div.scroll tabindex="0" role="region" aria-label=(self.caption) {
                    table.sortable data-first=(FIRST) {
                        caption { (self.caption) }
                        thead { tr { @for (name, is_number) in &self.columns { (heading(name, *is_number)) } } }
                        tbody { @for (at, row) in self.rows.iter().enumerate() { (self.render_row(at, row)) } }
                    }
                }
                @if self.rows.len() > FIRST {
                    button.more type="button" { "Show all " (self.rows.len()) " rows" }
                }
            }
        }
    }

    fn render_row(&self, at: usize, row: &[Cell]) -> Markup {
        html! {
            tr.later[at >= FIRST] {
                @for (cell, (name, is_number)) in row.iter().zip(&self.columns) {
                    td.number[*is_number].prose[cell.is_prose] data-label=(label(name)) data-order=[cell.order.as_deref()] { (cell.shown) }
                }
            }
        }
    }
}

/// The label of a cell on narrow screens, where rows are cards.
fn label(name: &str) -> &str {
    name.trim_start_matches('-')
}

pub fn heading(name: &str, is_number: bool) -> Markup {
    html! {
        @match name.strip_prefix('-') {
            Some(name) => th scope="col" { (name) },
            None => th.number[is_number] scope="col" aria-sort="none" {
                button type="button" { (name) }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        let mut table = HtmlTable::new("<b>\"x\"", &["name", ">size", "-sound"]);
        table.row([Cell::text("<script>alert(1)</script>"), Cell::number("1", 1.0), Cell::empty()]);
        let html = table.render().into_string();
        assert!(!html.contains("<script") && !html.contains("<b>"), "{html}");
        assert!(html.contains("aria-label=\"&lt;b&gt;&quot;x&quot;\""), "{html}");
    }

    #[test]
    fn a_long_table_shows_its_first_rows() {
        let mut table = HtmlTable::new("many", &["name"]);
        (0..FIRST + 3).for_each(|at| table.row([Cell::text(at)]));
        let html = table.render().into_string();
        assert_eq!(html.matches("<tr class=\"later\">").count(), 3);
        assert!(html.contains(&format!("Show all {} rows", FIRST + 3)));
    }
}
