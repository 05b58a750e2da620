//! The runs of the pipeline beside each other.

use engine::units;
use maud::html;
use stage_core::event::Status;

use super::table::{Cell, Table};
use super::{Section, number, text};
use crate::report::compared::Compared;
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
    let mut table = Table::new("Runs and their differences", &headings);
    for (at, run) in runs.runs.iter().enumerate() {
        let (class, ended) = match run.status {
            Status::Done => ("reused", "done"),
            Status::Failed => ("failed", "failed"),
            Status::Paused => ("executed", "stopped"),
        };
        let mut cells = vec![
            Cell::number(run.number, run.number as f64),
            Cell::text(units::date(run.started)),
            Cell::text(html! { span class={ "dot " (class) } {} (ended) }),
            Cell::number(units::seconds(run.seconds), run.seconds),
            Cell::number(units::count(run.executed), run.executed as f64),
        ];
        cells.extend(cells_of(&runs.compared, at));
        table.row(cells);
    }
    let body = html! {
        (table.render())
        (left_out(&runs.compared))
    };
    Some(Section { id: "runs", title: "Runs", body })
}

/// The headings of what differs.
pub fn headings_of(compared: &Compared) -> Vec<String> {
    let parameters = compared.parameters.iter().take(COLUMNS);
    let parameters = parameters.map(|(name, _)| text(name).into_owned());
    let figures = compared.figures.iter().take(COLUMNS);
    parameters.chain(figures.map(|(name, _)| format!(">{}", text(name)))).collect()
}

/// The cells of a row under these headings.
pub fn cells_of(compared: &Compared, row: usize) -> Vec<Cell> {
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

/// Says how much is not shown.
pub fn left_out(compared: &Compared) -> maud::Markup {
    let beyond = |count: usize| count.saturating_sub(COLUMNS);
    let count = beyond(compared.parameters.len()) + beyond(compared.figures.len());
    html! {
        @if count > 0 {
            p.note { (count) " more columns are not shown: " code { "throstle diff" } " lists all differences between two runs." }
        }
    }
}
