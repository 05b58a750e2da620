//! The cost of the run.

use engine::units;
use maud::{Markup, html};

use super::table::{Cell, HtmlTable};
use super::{Section, bar, money, text};
use crate::report::cost::Cost;

pub fn section(cost: &Cost) -> Section {
    let body = html! {
        p.lead { (lead(cost)) }
        (table(cost))
    };
    Section { id: "cost", title: "Cost", body }
}

fn lead(cost: &Cost) -> String {
    let priced = |seconds: f64| match cost.money(seconds) {
        Some(sum) => format!("{} ({})", units::seconds(seconds), money(sum)),
        None => units::seconds(seconds),
    };
    let mut told = format!("This run took {}", priced(cost.run_seconds));
    if cost.gpu_seconds > 0.0 {
        told.push_str(&format!(", {} of it on a GPU", units::seconds(cost.gpu_seconds)));
    }
    if cost.runs > 1 {
        let (runs, took) = (units::count(cost.runs as u64), priced(cost.runs_seconds));
        told.push_str(&format!("; all {runs} runs in the cache took {took} together"));
    }
    told.push('.');
    if let Some(price) = cost.price_per_hour {
        told.push_str(&format!(" The price per hour is {} (`price_per_hour`).", money(price)));
    }
    told
}

fn table(cost: &Cost) -> Markup {
    let most = cost.stages.iter().map(|stage| stage.spent.max(stage.made)).fold(0.0, f64::max);
    let mut headings = vec!["Stage", ">In this run", ">For the current results", "-"];
    if cost.price_per_hour.is_some() {
        headings.insert(3, ">Price");
    }
    let mut table = HtmlTable::new("Work time of stages, including parallel work", &headings);
    for stage in &cost.stages {
        let time = |seconds: f64| Cell::number(units::seconds(seconds), seconds);
        let share = if most > 0.0 { stage.made / most } else { 0.0 };
        let mut cells = vec![Cell::text(text(&stage.stage)), time(stage.spent), time(stage.made)];
        if let Some(sum) = cost.money(stage.made) {
            cells.push(Cell::number(money(sum), sum));
        }
        cells.push(Cell::text(bar(share)));
        table.row(cells);
    }
    table.render()
}
