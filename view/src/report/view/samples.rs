//! Synthesised samples: a grid of sentences and checkpoints, with the recording beside the
//! synthesis.

use engine::units;
use maud::{Markup, html};

use super::player::player;
use super::table::{self, HtmlTable};
use super::{Section, number, text};
use crate::report::audio::PageAudio;
use crate::report::regression::Finding;
use crate::report::samples::{Grid, SampleCell, SampleColumn, SampleFigure, SampleRow};

/// The largest number of rows in a grid.
const ROWS: usize = 40;
const COLUMNS: usize = 16;
/// The number of measures shown at first.
const FIRST: usize = 5;

pub fn section(
    grids: &[Grid],
    findings: &[Finding],
    page_audio: &mut PageAudio,
) -> Option<Section> {
    if grids.is_empty() && findings.is_empty() {
        return None;
    }
    let body = html! {
        (regressions(findings))
        @for grid in grids { (of(grid, page_audio)) }
    };
    Some(Section { id: "samples", title: "Samples", body })
}

fn regressions(findings: &[Finding]) -> Markup {
    let headings = ["Measure", "Verdict", ">Mean", ">Baseline", ">Tolerance", "Worst", "Stage"];
    let mut table = HtmlTable::new("Measures compared with the baseline", &headings);
    for finding in findings {
        let figure = |value| table::Cell::number_or_empty(value, number);
        table.row([
            table::Cell::text(text(&finding.measure.replace('_', " "))),
            table::Cell::text(
                html! { span.failed[finding.is_regression()] { (text(&finding.verdict)) } },
            ),
            figure(finding.mean),
            figure(finding.baseline),
            figure(finding.tolerance),
            table::Cell::prose(text(&finding.worst.join(", "))),
            table::Cell::text(text(&finding.stage)),
        ]);
    }
    if table.is_empty() {
        html! {}
    } else {
        table.render()
    }
}

fn of(grid: &Grid, page_audio: &mut PageAudio) -> Markup {
    let title = format!("Spoken by {}", grid.stages.join(", "));
    let rows = units::count(grid.rows.len() as u64);
    html! {
        h3 { (text(&title)) }
        div.scroll tabindex="0" role="region" aria-label=(text(&title)) {
            table.samples {
                thead {
                    tr {
                        th scope="col" { "Sentence" }
                        @if grid.has_originals() { th scope="col" { "Recording" } }
                        @for column in grid.columns.iter().take(COLUMNS) { th scope="col" { (heading(column, grid)) } }
                    }
                }
                tbody {
                    @for (at, row) in grid.rows.iter().enumerate().take(ROWS) { (row_of(grid, at, row, page_audio)) }
                }
            }
        }
        @if grid.rows.len() > ROWS { p.note { "The first " (ROWS) " of " (rows) " sentences." } }
        @if grid.columns.len() > COLUMNS { p.note { "The first " (COLUMNS) " of " (grid.columns.len()) " checkpoints." } }
    }
}

fn heading(column: &SampleColumn, grid: &Grid) -> Markup {
    html! {
        @match &column.checkpoint {
            Some(checkpoint) => {
                (text(checkpoint))
                @if grid.stages.len() > 1 { br; span.unit { (text(&column.stage)) } }
            },
            None => (text(&column.stage)),
        }
    }
}

fn row_of(grid: &Grid, at: usize, row: &SampleRow, page_audio: &mut PageAudio) -> Markup {
    let original = row.original.as_ref().map(|blob| page_audio.hear(blob));
    html! {
        tr {
            th scope="row" {
                span.sentence { (text(row.text.as_deref().unwrap_or(&row.sentence))) }
                code { (text(&row.sentence)) }
            }
            @if grid.has_originals() {
                td data-label="Recording" { @if let Some(heard) = original { (player(&heard, &format!("recording of {}", row.sentence))) } }
            }
            @for (place, column) in grid.columns.iter().enumerate().take(COLUMNS) {
                td data-label=(text(column.name())) { @if let Some(cell) = grid.cells.get(&(at, place)) { (cell_of(cell, row, column, page_audio)) } }
            }
        }
    }
}

fn cell_of(
    cell: &SampleCell,
    row: &SampleRow,
    column: &SampleColumn,
    page_audio: &mut PageAudio,
) -> Markup {
    let by = column.name();
    let heard = cell.audio.as_ref().map(|blob| page_audio.hear(blob));
    let (first, rest) = cell.measures.split_at(cell.measures.len().min(FIRST));
    html! {
        @if let Some(heard) = heard { (player(&heard, &format!("{} by {by}", row.sentence))) }
        (measures(first))
        @if !rest.is_empty() {
            details { summary.unit { (rest.len()) " more" } (measures(rest)) }
        }
    }
}

fn measures(measures: &[(String, SampleFigure)]) -> Markup {
    html! {
        dl.measures {
            @for (name, figure) in measures {
                div { dt { (text(&name.replace('_', " "))) } dd { (shown(figure)) } }
            }
        }
    }
}

fn shown(figure: &SampleFigure) -> String {
    match figure {
        SampleFigure::Number(value) => number(*value),
        SampleFigure::Word(word) => text(word).into_owned(),
    }
}
