//! Trainings beside each other: a table of their differences and results, and their overlaid
//! curves.

use std::collections::BTreeSet;
use std::fmt::Write;

use engine::pipeline::Pipeline;
use engine::record::RunRecord;
use engine::store::{ReadError, Store};
use engine::trials::{SweepState, trained};
use engine::units;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::chart::Curve;
use super::overlay::{Group, groups};
use super::page::frame;
use super::run_data::RunData;
use super::runs::PageRuns;
use super::view::table::{Cell, HtmlTable};
use super::view::training::overlaid;
use super::view::{number, text};
use crate::escape::clean;
use crate::paint::Paint;
use crate::table::Table;

/// A table of trainings, with their curves.
#[derive(Debug, Default)]
pub struct Sheet {
    pub title: String,
    /// The result in one sentence.
    pub told: String,
    columns: Vec<SheetColumn>,
    rows: Vec<Vec<SheetCell>>,
    charts: Vec<(String, Vec<Curve>)>,
}

#[derive(Debug)]
struct SheetColumn {
    name: String,
    is_number: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum SheetCell {
    Text(String),
    Number(f64),
    Nothing,
}

impl SheetCell {
    fn of(number: Option<f64>) -> SheetCell {
        number.map_or(SheetCell::Nothing, SheetCell::Number)
    }

    /// For people.
    fn short(&self) -> String {
        match self {
            SheetCell::Text(text) => units::percent(text),
            SheetCell::Number(value) => number(*value),
            SheetCell::Nothing => String::new(),
        }
    }

    /// For other programs.
    fn whole(&self) -> String {
        match self {
            SheetCell::Text(text) => text.clone(),
            SheetCell::Number(number) => number.to_string(),
            SheetCell::Nothing => String::new(),
        }
    }
}

impl Sheet {
    /// The trials of a sweep, the best first.
    pub fn of_sweep(
        pipeline: &Pipeline,
        store: &Store,
        run: RunRecord,
        standing: &SweepState,
    ) -> Result<Sheet, ReadError> {
        let mut sheet = Sheet { title: format!("Sweep {}", standing.sweep), ..Sheet::default() };
        let names: BTreeSet<&String> =
            standing.trials.iter().flat_map(|row| row.values.keys()).collect();
        sheet.column("trial", false);
        names.iter().for_each(|name| sheet.column(name, false));
        let many = standing.rungs.len() > 1;
        if standing.score.is_some() {
            for rung in &standing.rungs {
                let name = if many { format!("rung {}", rung.rung) } else { "score".to_owned() };
                sheet.column(&name, true);
            }
            if standing.trials.iter().any(|row| !row.repeats.is_empty()) {
                ["seeds", "mean", "spread"].iter().for_each(|name| sheet.column(name, true));
            }
        }
        sheet.column("state", false);
        let groups = look(pipeline, store, run)?;
        let members = groups.iter().flat_map(|group| &group.members);
        let mut own = Group { name: standing.stage.clone(), ..Group::default() };
        for row in ordered(standing) {
            let mut cells = vec![SheetCell::Text(row.trial.clone())];
            let value = |name: &&String| match row.values.get(*name) {
                Some(value) => SheetCell::Text(value.clone()),
                None => SheetCell::Nothing,
            };
            cells.extend(names.iter().map(value));
            if standing.score.is_some() {
                cells.extend(row.scores.iter().map(|score| SheetCell::of(*score)));
                if !row.repeats.is_empty() {
                    let seeds = row.repeats.iter().chain(row.scores.last()).flatten().count();
                    let seeds = row.scores.last().copied().flatten().map(|_| seeds as f64);
                    cells.extend([seeds, row.mean, row.spread].map(SheetCell::of));
                }
            }
            let state = match &row.failure {
                Some(failure) => format!("{}: {failure}", row.state.told()),
                None => row.state.told().to_owned(),
            };
            cells.push(SheetCell::Text(state));
            sheet.rows.push(cells);
            let stage = trained(pipeline, standing, row).map(|spec| &spec.name);
            let training = members.clone().find(|member| Some(&member.training.stage) == stage);
            own.members
                .extend(training.map(|member| member.labelled(&format!("trial {}", row.trial))));
        }
        sheet.charts = own.charts();
        sheet.told = told(standing);
        Ok(sheet)
    }

    /// The trainings of these stages.
    pub fn of_stages(
        pipeline: &Pipeline,
        store: &Store,
        run: RunRecord,
        wanted: &BTreeSet<String>,
    ) -> Result<Sheet, ReadError> {
        let mut own = Group::default();
        for group in look(pipeline, store, run)? {
            let wanted = group.members.into_iter().filter(|m| wanted.contains(&m.training.stage));
            own.members.extend(wanted.map(|member| member.labelled(&member.training.stage)));
        }
        own.compare();
        let mut sheet = Sheet { title: "Trainings".to_owned(), ..Sheet::default() };
        sheet.column("training", false);
        own.compared.parameters.iter().for_each(|(name, _)| sheet.column(name, false));
        own.compared.figures.iter().for_each(|(name, _)| sheet.column(name, true));
        for (at, member) in own.members.iter().enumerate() {
            let mut cells = vec![SheetCell::Text(member.label.clone())];
            cells.extend(own.compared.parameters.iter().map(|(_, values)| match &values[at] {
                Some(value) => SheetCell::Text(value.clone()),
                None => SheetCell::Nothing,
            }));
            cells.extend(own.compared.figures.iter().map(|(_, values)| SheetCell::of(values[at])));
            sheet.rows.push(cells);
        }
        sheet.told = match own.best() {
            Some((member, step, loss)) => {
                let loss = number(loss);
                format!("best held-out loss: {loss}, in {} at step {step}", member.label)
            }
            None => units::counted(own.members.len() as u64, "finished training"),
        };
        sheet.charts = own.charts();
        Ok(sheet)
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn column(&mut self, name: &str, is_number: bool) {
        self.columns.push(SheetColumn { name: name.to_owned(), is_number });
    }

    fn cells(&self, shown: fn(&SheetCell) -> String) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(move |row| row.iter().map(shown).collect())
    }

    pub fn text(&self, paint: Paint) -> String {
        let heading = |column: &SheetColumn| {
            if column.is_number { format!(">{}", column.name) } else { column.name.clone() }
        };
        let headings: Vec<String> = self.columns.iter().map(heading).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new(&headings);
        for row in self.cells(SheetCell::short) {
            table.row(row.into_iter().map(|cell| clean(&cell).into_owned()));
        }
        format!("{}{}\n", table.render(paint.columns), clean(&self.told))
    }

    pub fn markdown(&self) -> String {
        let cell = |text: &str| clean(text).replace('\\', "\\\\").replace('|', "\\|");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut page = line(self.columns.iter().map(|column| cell(&column.name)).collect());
        let rule = |column: &SheetColumn| if column.is_number { "---:" } else { "---" }.to_owned();
        page += &line(self.columns.iter().map(rule).collect());
        for row in self.cells(SheetCell::short) {
            page += &line(row.iter().map(|text| cell(text)).collect());
        }
        page
    }

    /// Whole numbers of all digits, for other programs.
    pub fn csv(&self) -> String {
        let mut page = String::new();
        let names = self.columns.iter().map(|column| column.name.clone()).collect();
        let rows = self.cells(SheetCell::whole);
        for row in std::iter::once::<Vec<String>>(names).chain(rows) {
            let quoted = |cell: &String| {
                if cell.contains(['"', ',', '\n', '\r']) {
                    format!("\"{}\"", cell.replace('"', "\"\""))
                } else {
                    cell.clone()
                }
            };
            let _ = writeln!(page, "{}", row.iter().map(quoted).collect::<Vec<_>>().join(","));
        }
        page
    }

    pub fn json(&self) -> Value {
        let row = |row: &Vec<SheetCell>| -> Value {
            let cells = self.columns.iter().zip(row).map(|(column, cell)| {
                let value = match cell {
                    SheetCell::Text(text) => json!(text),
                    SheetCell::Number(number) => json!(number),
                    SheetCell::Nothing => Value::Null,
                };
                (column.name.clone(), value)
            });
            Value::Object(cells.collect::<Map<String, Value>>())
        };
        let chart = |(title, curves): &(String, Vec<Curve>)| {
            let curves = curves.iter().map(|own| json!({ "name": own.name, "points": own.points }));
            json!({ "title": title, "curves": curves.collect::<Vec<_>>() })
        };
        json!({
            "title": self.title,
            "result": self.told,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "charts": self.charts.iter().map(chart).collect::<Vec<_>>(),
        })
    }

    /// One file that needs no network.
    pub fn html(&self) -> String {
        frame(&self.title, &self.content())
    }

    fn content(&self) -> Markup {
        let heading = |column: &SheetColumn| {
            if column.is_number { format!(">{}", column.name) } else { column.name.clone() }
        };
        let headings: Vec<String> = self.columns.iter().map(heading).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = HtmlTable::new(self.title.clone(), &headings);
        for row in &self.rows {
            table.row(row.iter().map(|cell| match cell {
                SheetCell::Text(shown) => Cell::text(text(&units::percent(shown))),
                SheetCell::Number(value) => Cell::number(number(*value), *value),
                SheetCell::Nothing => Cell::empty(),
            }));
        }
        html! {
            nav aria-label="Page" { button #theme type="button" { "Theme: auto" } }
            main {
                h1 { (text(&self.title)) }
                p.lead { (text(&self.told)) "." }
                (table.render())
                div.charts { @for (title, curves) in &self.charts { (overlaid(title, curves)) } }
            }
        }
    }
}

/// The trainings of a pipeline, by the names of their stages.
fn look(pipeline: &Pipeline, store: &Store, run: RunRecord) -> Result<Vec<Group>, ReadError> {
    let seen = RunData::look(pipeline, store, run.clone())?;
    groups(&seen, &PageRuns { run, all: Vec::new(), is_overlaid: false })
}

/// The best trial first: by rung, then by score.
fn ordered(standing: &SweepState) -> Vec<&engine::trials::Row> {
    let mut rows: Vec<&engine::trials::Row> = standing.trials.iter().collect();
    let sign = if standing.better == "higher" { -1.0 } else { 1.0 };
    rows.sort_by(|one, other| {
        let score = |row: &engine::trials::Row| row.best().map_or(f64::INFINITY, |own| sign * own);
        let is_winner = |row: &engine::trials::Row| standing.winner.as_ref() != Some(&row.trial);
        let order = is_winner(one).cmp(&is_winner(other));
        let order = order.then(other.reached().cmp(&one.reached()));
        order.then(score(one).total_cmp(&score(other)))
    });
    rows
}

fn told(standing: &SweepState) -> String {
    let trials = standing.trials.len();
    match (&standing.winner, &standing.score) {
        (Some(winner), Some(score)) => format!("trial {winner} of {trials} is best by {score}"),
        (None, Some(score)) if standing.is_decided => {
            format!("none of the {trials} trials has a score by {score}")
        }
        (None, Some(score)) => format!("{trials} trials, not decided yet, by {score}"),
        (_, None) => format!("{trials} trials, not ranked: the sweep has no `score`"),
    }
}
