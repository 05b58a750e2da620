//! The runs of the pipeline beside each other.

use engine::event::Status;
use engine::units;
use maud::html;

use super::table::{Cell, HtmlTable};
use super::{Section, number, text};
use crate::report::compared::ComparedColumns;
use crate::report::runs::Runs;

/// Columns of parameters, and columns of figures.
const COLUMNS: usize = 12;

pub fn section(runs: &Runs) -> Option<Section> {
    if runs.runs.len() < 2 {
        return None;
    }
    let mut headings: Vec<String> =
        [">Run", "Started", "Ended", ">Time", ">Executed"].map(str::to_owned).to_vec();
    headings.extend(headings_of(&runs.compared));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = HtmlTable::new("Runs and their differences", &headings);
    for (at, run) in runs.runs.iter().enumerate() {
        let (class, ended) = match run.status {
            Status::Done => ("reused", "done"),
            Status::Failed => ("failed", "failed"),
            Status::Paused => ("executed", "stopped"),
        };
        let mut cells = vec![
            Cell::number(run.number, run.number as f64),
            Cell::text(html! { span.when { (units::date(run.started)) } }),
            Cell::text(html! { span class={ "dot " (class) } {} (ended) }),
            Cell::number(units::seconds(run.seconds), run.seconds),
            Cell::number(units::count(run.executed), run.executed as f64),
        ];
        cells.extend(cells_of(&runs.compared, at));
        table.row(cells);
    }
    let names: Vec<String> = runs.runs.iter().map(|run| format!("Run {}", run.number)).collect();
    let body = html! {
        (table.render())
        (rest(&runs.compared, &names))
    };
    Some(Section { id: "runs", title: "Runs", body })
}

/// The headings of what differs.
pub fn headings_of(compared: &ComparedColumns) -> Vec<String> {
    let parameters = compared.parameters.iter().take(COLUMNS);
    let parameters = parameters.map(|(name, _)| text(name).into_owned());
    let figures = compared.figures.iter().take(COLUMNS);
    parameters.chain(figures.map(|(name, _)| format!(">{}", text(name)))).collect()
}

/// The cells of a row under these headings.
pub fn cells_of(compared: &ComparedColumns, row: usize) -> Vec<Cell> {
    let parameters = compared.parameters.iter().take(COLUMNS);
    let parameters = parameters.map(|(_, cells)| match &cells[row] {
        // By value where it is one.
        Some(value) => match value.parse::<f64>() {
            Ok(order) => Cell::number(html! { code { (text(value)) } }, order),
            Err(_) => Cell::text(html! { code { (text(value)) } }),
        },
        None => Cell::empty(),
    });
    let figures = compared.figures.iter().take(COLUMNS);
    let figures = figures.map(|(_, cells)| Cell::number_or_empty(cells[row], number));
    parameters.chain(figures).collect()
}

/// The columns that have no room beside each other, on demand, as rows; `names` are those of the rows
/// of the table.
pub fn rest(compared: &ComparedColumns, names: &[String]) -> maud::Markup {
    let parameters = compared.parameters.iter().skip(COLUMNS);
    let figures = compared.figures.iter().skip(COLUMNS);
    let count = parameters.len() + figures.len();
    let headings: Vec<String> =
        std::iter::once("Difference".to_owned()).chain(names.iter().cloned()).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = HtmlTable::new("Further differences", &headings);
    for (name, cells) in parameters {
        let shown = cells.iter().map(|value| match value {
            Some(value) => Cell::text(html! { code { (text(value)) } }),
            None => Cell::empty(),
        });
        table.row(std::iter::once(Cell::prose(text(name))).chain(shown));
    }
    for (name, cells) in figures {
        let shown = cells.iter().map(|value| Cell::number_or_empty(*value, number));
        table.row(std::iter::once(Cell::prose(text(name))).chain(shown));
    }
    html! {
        @if count > 0 {
            details {
                summary { (count) " more differences" }
                (table.render())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_without_room_in_the_table_are_shown_on_demand() {
        let parameter = |at: usize| {
            (format!("stage.p{at:02}"), vec![Some(format!("old{at}")), Some(format!("new{at}"))])
        };
        let compared = ComparedColumns {
            parameters: (0..COLUMNS + 3).map(parameter).collect(),
            figures: vec![("voice: loss".to_owned(), vec![Some(2.0), None])],
        };
        let html = rest(&compared, &["Run 1".to_owned(), "Run 2".to_owned()]).into_string();
        assert!(html.contains("3 more differences") && html.contains("stage.p14"), "{html}");
        assert!(html.contains("new12") && !html.contains("new11"), "{html}");
        let few = ComparedColumns { figures: compared.figures, ..ComparedColumns::default() };
        assert_eq!(rest(&few, &[]).into_string(), "");
    }
}
