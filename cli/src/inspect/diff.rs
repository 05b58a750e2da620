//! `diff`: compares two runs.

use std::io::Write;
use std::sync::Arc;

use cache::stat::StatIndex;
use cache::{Access, Cache};
use camino::Utf8Path;
use engine::event::Status;
use engine::history;
use engine::record::RunRecord;
use engine::store::Store;
use engine::units;
use serde_json::json;
use view::compare::{Change, RunComparison, StageChange};
use view::escape::clean;

use crate::arguments;
use crate::error::{CliError, Exit};
use crate::project::{Program, manifest_file};

/// The largest number of reasons listed for a stage.
const REASONS: usize = 12;

pub fn diff(
    program: &Program,
    arguments: &arguments::Diff,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let cache = program.open_existing(&arguments.location, Access::ReadOnly)?;
    let (old, new) = (run(&cache, arguments.old)?, run(&cache, arguments.new)?);
    let index = Arc::new(StatIndex::load(&cache)?);
    // Sources that were not copied are found by paths relative to the manifest.
    let file = manifest_file(&arguments.location.manifest).unwrap_or_default();
    let base = file.parent().unwrap_or(Utf8Path::new(""));
    let store = Store::new(cache.clone(), base, index);
    let comparison = RunComparison::of(&store, &old, &new)?;
    if arguments.json {
        writeln!(output, "{}", json!({ "old": old, "new": new, "differences": comparison }))?;
        return Ok(Exit::Done);
    }
    write(&old, &new, &comparison, output)?;
    Ok(Exit::Done)
}

fn run(cache: &Cache, number: u64) -> Result<RunRecord, CliError> {
    history::run(cache, number)?.ok_or_else(|| {
        let message = format!("there is no run {number} in `{}`", cache.dir());
        CliError::usage(message, "`throstle log` lists the runs")
    })
}

fn write(
    old: &RunRecord,
    new: &RunRecord,
    comparison: &RunComparison,
    output: &mut dyn Write,
) -> std::io::Result<()> {
    for run in [old, new] {
        let (started, took) = (units::date(run.started), units::seconds(run.seconds));
        let ended = match run.status {
            Status::Done => "",
            Status::Failed => ", failed",
            Status::Paused => ", stopped",
        };
        let name = clean(&run.pipeline);
        writeln!(output, "run {}: {name}, {started}, {took}{ended}", run.run)?;
    }
    for change in &comparison.changed {
        write_change(change, output)?;
    }
    for (run, stages) in [(old, &comparison.only_in_old), (new, &comparison.only_in_new)] {
        if !stages.is_empty() {
            writeln!(output, "only in run {}: {}", run.run, clean(&stages.join(", ")))?;
        }
    }
    let licenses = |run: &RunRecord, other: &RunRecord| -> Vec<String> {
        run.licenses.difference(&other.licenses).cloned().collect()
    };
    for (run, other) in [(old, new), (new, old)] {
        let own = licenses(run, other);
        if !own.is_empty() {
            writeln!(output, "licences only in run {}: {}", run.run, clean(&own.join(", ")))?;
        }
    }
    let stages = if comparison.same == 1 { "stage" } else { "stages" };
    writeln!(output, "the same: {} {stages}", comparison.same)
}

fn write_change(change: &StageChange, output: &mut dyn Write) -> std::io::Result<()> {
    let same = if change.gives_the_same { " (same output)" } else { "" };
    writeln!(output, "{}{same}", clean(&change.stage))?;
    match &change.reasons {
        // The record was collected since, or the stage did not finish in one of the runs.
        None => writeln!(output, "  only one of the runs has a record of its key")?,
        Some(reasons) => {
            for reason in reasons.iter().take(REASONS) {
                writeln!(output, "  {}", clean(reason))?;
            }
            if reasons.len() > REASONS {
                writeln!(output, "  and {} more", reasons.len() - REASONS)?;
            }
        }
    }
    if let Some(items) = change.items.filter(|_| !change.gives_the_same) {
        writeln!(
            output,
            "  items: {} added, {} removed, {} changed, {} the same",
            units::count(items.added),
            units::count(items.removed),
            units::count(items.changed),
            units::count(items.same)
        )?;
    }
    if let Some(quarantined) = &change.quarantined {
        writeln!(output, "  quarantined: {}", shown(quarantined))?;
    }
    for measure in &change.measures {
        writeln!(output, "  {}: {}", clean(&measure.name), shown(&measure.change))?;
    }
    Ok(())
}

/// Formats a change as `7.23 -> 6.9 (-4.6 %)`.
fn shown(change: &Change) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "none".into(), units::number);
    let share = match (change.old, change.new) {
        // A percentage of a value that can be negative, such as decibels, has no meaning.
        (Some(old), Some(new)) if old > 0.0 && new >= 0.0 => {
            format!(" ({:+.1} %)", (new / old - 1.0) * 100.0)
        }
        _ => String::new(),
    };
    format!("{} -> {}{share}", number(change.old), number(change.new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_in_figures_and_in_percent() {
        let change = |old, new| shown(&Change { old, new });
        assert_eq!(change(Some(8.0), Some(6.0)), "8 -> 6 (-25.0 %)");
        assert_eq!(change(Some(-20.0), Some(-10.0)), "-20 -> -10");
        assert_eq!(change(None, Some(0.5)), "none -> 0.5");
        assert_eq!(change(Some(0.0), Some(1.0)), "0 -> 1");
    }
}
