//! Trainings: curves, checkpoints and results.

use engine::units;
use maud::{Markup, html};

use super::runs::{cells_of, headings_of, rest};
use super::table::{Cell, HtmlTable};
use super::{Section, chart, number, text};
use crate::report::chart::{Curve, lines};
use crate::report::overlay::Group;
use crate::report::training::{TrainingReport, TrainingResult};

/// The number of charts of one stage.
const CHARTS: usize = 9;

pub fn section(groups: &[Group]) -> Option<Section> {
    if groups.is_empty() {
        return None;
    }
    let body = html! {
        @for group in groups {
            @match group.members.as_slice() {
                [member] => (of(&member.training)),
                _ => (together(group)),
            }
        }
    };
    Some(Section { id: "training", title: "Training", body })
}

/// Several trainings over each other.
fn together(group: &Group) -> Markup {
    let charts = group.charts();
    html! {
        h3 { (text(&group.name)) }
        p.lead { (lead_of(group)) }
        div.charts {
            @for (title, curves) in charts.iter().take(CHARTS) { (overlaid(title, curves)) }
        }
        @if charts.len() > CHARTS { p.note { (charts.len() - CHARTS) " more figures are not drawn; the TensorBoard files of the stages have them." } }
        (members(group))
        @for member in &group.members {
            @if !member.training.checkpoints.is_empty() {
                details { summary { "Checkpoints of " (text(&member.label)) } (checkpoints(&member.training)) }
            }
        }
    }
}

fn lead_of(group: &Group) -> String {
    let mut lead = format!("{} trainings", group.members.len());
    if let Some((member, step, loss)) = group.best() {
        lead.push_str(&format!(
            "; best held-out loss: {}, in {} at step {}",
            number(loss),
            text(&member.label),
            units::count(step)
        ));
    }
    lead.push('.');
    lead
}

/// The parameters in which the trainings differ, and what came of them.
fn members(group: &Group) -> Markup {
    let mut headings = vec!["Training".to_owned()];
    headings.extend(headings_of(&group.compared));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let caption = format!("Differences between the trainings of {}", text(&group.name));
    let mut table = HtmlTable::new(caption, &headings);
    for (at, member) in group.members.iter().enumerate() {
        let mut cells = vec![Cell::text(text(&member.label))];
        cells.extend(cells_of(&group.compared, at));
        table.row(cells);
    }
    let names: Vec<String> = group.members.iter().map(|member| member.label.clone()).collect();
    html! {
        (table.render())
        (rest(&group.compared, &names))
    }
}

pub fn overlaid(title: &str, curves: &[Curve]) -> Markup {
    let legend = html! {
        span.legend {
            @for (at, curve) in curves.iter().enumerate() {
                span class={ "series series-" (at + 1) } { (text(&curve.name)) }
            }
        }
    };
    let told: Vec<String> = curves.iter().filter_map(in_words).collect();
    chart(title, "by step", lines(curves), &told.join("; "), legend)
}

fn of(training: &TrainingReport) -> Markup {
    let charts = training.charts();
    html! {
        h3 { (text(&training.stage)) }
        p.lead { (lead(training)) }
        div.charts {
            @for (title, curves) in charts.iter().take(CHARTS) { (curves_of(title, curves)) }
        }
        @if charts.len() > CHARTS { p.note { (charts.len() - CHARTS) " more figures are not drawn; the TensorBoard file of the stage has them." } }
        (checkpoints(training))
    }
}

fn curves_of(title: &str, curves: &[&Curve]) -> Markup {
    let drawn: Vec<Curve> = curves.iter().map(|curve| (*curve).clone()).collect();
    let legend = html! {
        @if drawn.len() > 1 || drawn.iter().any(|curve| curve.name.contains('/')) {
            span.legend {
                @for (at, curve) in drawn.iter().enumerate() {
                    span class={ "series series-" (at + 1) } { (text(&label(&curve.name))) }
                }
            }
        }
    };
    let told: Vec<String> = drawn.iter().filter_map(in_words).collect();
    chart(title, "by step", lines(&drawn), &told.join("; "), legend)
}

fn label(name: &str) -> String {
    match name {
        "loss" => "training".into(),
        "held_out" => "held out".into(),
        other => other.split_once('/').map_or(other, |(_, part)| part).replace('_', " "),
    }
}

fn in_words(curve: &Curve) -> Option<String> {
    let (first, last) = (curve.points.first()?, curve.points.last()?);
    let name = &curve.name;
    Some(format!(
        "{name}: {} at step {}, {} at step {}",
        number(first.1),
        number(first.0),
        number(last.1),
        number(last.0)
    ))
}

fn lead(training: &TrainingReport) -> String {
    match &training.ended {
        Some(ended) => ended_in_words(ended),
        None => {
            let steps = training.curves.values().filter_map(|curve| curve.points.last());
            let last = steps.map(|(step, _)| *step).fold(0.0, f64::max);
            format!("Figures up to step {}, from the logs of the runs.", number(last))
        }
    }
}

fn ended_in_words(ended: &TrainingResult) -> String {
    let mut told = units::counted(ended.steps, "step");
    if let Some(passes) = ended.passes {
        told.push_str(&format!(", {} passes over the clips", number(passes)));
    }
    if let Some((step, loss)) = ended.best {
        told.push_str(&format!(
            "; the best held-out loss was {} at step {}",
            number(loss),
            units::count(step)
        ));
    }
    if let Some(loss) = ended.held_out {
        told.push_str(&format!(", the last {}", number(loss)));
    }
    told.push('.');
    if ended.stopped_early {
        told.push_str(" It stopped early: the held-out loss no longer improved.");
    }
    if ended.skipped > 0 {
        let count = units::count(ended.skipped);
        told.push_str(&format!(" Steps skipped because of a non-finite loss: {count}."));
    }
    if let Some(step) = ended.went_back {
        told.push_str(&format!(" At step {} it returned to its best state.", units::count(step)));
    }
    told
}

fn checkpoints(training: &TrainingReport) -> Markup {
    if training.checkpoints.is_empty() {
        return html! {};
    }
    let best = training.ended.as_ref().and_then(|ended| ended.best).map(|(step, _)| step);
    let headings = ["Checkpoint", ">Step", ">Held-out loss", "-"];
    let mut table = HtmlTable::new(format!("Checkpoints of {}", text(&training.stage)), &headings);
    for checkpoint in &training.checkpoints {
        let is_best = best == Some(checkpoint.step);
        table.row([
            Cell::text(html! { code { (text(&checkpoint.id)) } }),
            Cell::number(units::count(checkpoint.step), checkpoint.step as f64),
            Cell::number_or_empty(checkpoint.held_out, number),
            Cell::text(if is_best { "best" } else { "" }),
        ]);
    }
    table.render()
}
