//! The head of the page: the run, its status, and the most important figures.

use engine::event::Status;
use engine::units;
use maud::{Markup, html};

use super::{money, number, text};
use crate::report::clips::ClipMeasure;
use crate::report::{PageContents, overlay};

pub fn head(found: &PageContents) -> Markup {
    let run = &found.seen.run;
    let (class, ended) = match run.status {
        Status::Done => ("reused", "done"),
        Status::Failed => ("failed", "failed"),
        Status::Paused => ("executed", "stopped, can continue"),
    };
    html! {
        header.title {
            p.kicker { "throstle report" }
            h1 { (text(&found.seen.pipeline.name)) }
            p.run {
                "Run " (run.run) ", " (units::date(run.started)) ", "
                span class={ "key " (class) } { (ended) } " after " (units::seconds(run.seconds))
            }
            dl.figures {
                @for (name, value, unit) in figures(found) {
                    div { dt { (name) } dd { (value) @if !unit.is_empty() { " " span.unit { (unit) } } } }
                }
            }
        }
    }
}

type Shown = (&'static str, String, String);

fn figures(found: &PageContents) -> Vec<Shown> {
    let mut figures: Vec<Shown> = Vec::new();
    let stages = &found.seen.run.stages;
    let sum =
        |part: fn(&engine::event::StageCounts) -> u64| -> u64 { stages.values().map(part).sum() };
    let (executed, reused) = (sum(|counts| counts.executed), sum(|counts| counts.reused));
    figures.push(("Executed", units::count(executed), format!("{} reused", units::count(reused))));
    let clips: usize = found.corpora.iter().map(|corpus| corpus.clips.len()).sum();
    if clips > 0 {
        let spreads = found.corpora.iter().filter_map(|corpus| corpus.spread(ClipMeasure::Seconds));
        let (measured, seconds) = spreads.fold((0, 0.0), |(measured, seconds), spread| {
            (measured + spread.clips, seconds + spread.total)
        });
        let unit = match measured {
            0 => String::new(),
            _ if measured < clips => {
                format!("{} in {}", units::seconds(seconds), units::count(measured as u64))
            }
            _ => units::seconds(seconds),
        };
        figures.push(("Clips", units::count(clips as u64), unit));
    }
    if !found.aside.is_empty() {
        figures.push(("Quarantined", units::count(found.aside.len() as u64), String::new()));
    }
    let best = found.trainings.iter().rev().find_map(overlay::Group::best);
    if let Some((_, step, loss)) = best {
        figures.push((
            "Best held-out loss",
            number(loss),
            format!("at step {}", units::count(step)),
        ));
    }
    if let Some(sum) = found.cost.money(found.cost.run_seconds) {
        figures.push(("Cost of the run", money(sum), String::new()));
    }
    figures
}
