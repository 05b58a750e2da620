//! `log`: lists earlier runs and their events.

use std::io::Write;

use cache::{Access, Cache};
use engine::estimate::RunOutcome;
use engine::event::{Event, Status};
use engine::history::{self, OpenRun};
use engine::record::RunRecord;
use engine::{runlog, units};
use view::Reporter;
use view::escape::clean;
use view::estimate::band;
use view::lines::Lines;
use view::paint::Paint;
use view::table::Table;

use super::job_logs;
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::project::Program;

pub fn log(
    program: &Program,
    arguments: &arguments::Log,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    if arguments.jobs || arguments.stage.is_some() {
        return job_logs::log(program, arguments, output);
    }
    let cache = program.open_existing(&arguments.location, Access::ReadOnly)?;
    match (arguments.run, arguments.json) {
        (Some(run), json) => one(program, &cache, run, json, output),
        (None, true) => {
            let runs = history::runs(&cache)?;
            let mut lines: Vec<(u64, serde_json::Value)> =
                history::open_runs(&cache, &runs)?.iter().map(|run| (run.run, line(run))).collect();
            for run in &runs {
                let value = serde_json::to_value(run).map_err(std::io::Error::from)?;
                lines.push((run.run, value));
            }
            lines.sort_by_key(|(run, _)| *run);
            lines.iter().try_for_each(|(_, line)| writeln!(output, "{line}"))?;
            Ok(Exit::Done)
        }
        (None, false) => {
            let runs = history::runs(&cache)?;
            let outcome = |run: &RunRecord| RunOutcome::read(&cache, run.run);
            let outcomes: Vec<_> = runs.iter().map(outcome).collect::<Result<_, _>>()?;
            let open = history::open_runs(&cache, &runs)?;
            let text = list(&runs, &outcomes, &open, program.terminal.data);
            output.write_all(text.as_bytes())?;
            Ok(Exit::Done)
        }
    }
}

/// The JSON line of a run without a record of its end.
fn line(run: &OpenRun) -> serde_json::Value {
    serde_json::json!({
        "run": run.run, "pipeline": run.pipeline, "started": run.started,
        "status": if run.is_under_way { "running" } else { "killed" },
    })
}

/// The state of a run without a record of its end.
fn how(run: &OpenRun, paint: Paint) -> String {
    if run.is_under_way { "running".to_owned() } else { paint.bad("killed") }
}

/// The runs, each with its estimate if one is known.
fn list(
    runs: &[RunRecord],
    outcomes: &[Option<RunOutcome>],
    open: &[OpenRun],
    paint: Paint,
) -> String {
    if runs.is_empty() && open.is_empty() {
        return "no runs yet\n".into();
    }
    let headings = [
        ">run",
        "started",
        "pipeline",
        "ended",
        ">time",
        ">expected",
        ">executed",
        ">reused",
        ">quarantined",
        "slowest stages",
        "",
    ];
    let spare = ["expected", "reused", "quarantined", "pipeline", "slowest stages"];
    let mut table = Table::new(&headings).spare(spare);
    let mut open = open.iter().peekable();
    for (run, outcome) in runs.iter().zip(outcomes) {
        while let Some(before) = open.next_if(|open| open.run < run.run) {
            table.row(open_row(before, paint));
        }
        let expected = outcome.as_ref().and_then(RunOutcome::expected);
        let sum = |part: fn(&engine::event::StageCounts) -> u64| {
            units::count(run.stages.values().map(part).sum())
        };
        table.row([
            run.run.to_string(),
            units::date(run.started),
            clean(&run.pipeline).into_owned(),
            status(run.status, paint),
            units::seconds(run.seconds),
            expected.map_or_else(String::new, |expected| band(expected, units::seconds)),
            sum(|counts| counts.executed),
            sum(|counts| counts.reused),
            sum(|counts| counts.quarantined),
            executed(run),
            if run.pinned { "pinned".into() } else { String::new() },
        ]);
    }
    for run in open {
        table.row(open_row(run, paint));
    }
    table.render(paint.columns)
}

/// Only the log of this run has details.
fn open_row(run: &OpenRun, paint: Paint) -> [String; 11] {
    let mut row = std::array::from_fn(|_| String::new());
    row[0] = run.run.to_string();
    row[1] = run.started.map_or_else(String::new, units::date);
    row[2] = clean(&run.pipeline).into_owned();
    row[3] = how(run, paint);
    row
}

/// The largest number of stages that a run is listed with.
const MAX_NAMED_STAGES: usize = 3;

/// The stages that had work, slowest first.
fn executed(run: &RunRecord) -> String {
    let mut stages: Vec<_> = run.stages.iter().filter(|(_, counts)| counts.executed > 0).collect();
    stages.sort_by(|one, other| other.1.seconds.total_cmp(&one.1.seconds));
    let names: Vec<_> = stages.iter().take(MAX_NAMED_STAGES).map(|(name, _)| clean(name)).collect();
    match stages.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn status(status: Status, paint: Paint) -> String {
    match status {
        Status::Done => paint.good("done"),
        Status::Failed => paint.bad("failed"),
        Status::Paused => paint.warning("stopped"),
    }
}

fn one(
    program: &Program,
    cache: &Cache,
    run: u64,
    json: bool,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let missing = || {
        CliError::usage(
            format!("there is no log of run {run} in `{}`", cache.dir()),
            "`throstle log` lists the runs",
        )
    };
    if json {
        let bytes = cache
            .fs()
            .read(&runlog::path(cache.dir(), run))
            .map_err(|error| if error.is_not_found() { missing() } else { error.into() })?;
        output.write_all(&bytes)?;
        return Ok(Exit::Done);
    }
    let (events, unreadable) = runlog::read(cache, run)?.ok_or_else(missing)?;
    let mut text = Vec::new();
    let mut lines = Lines::replaying(&mut text, program.terminal.data);
    thinned(&events).try_for_each(|event| lines.event(event))?;
    drop(lines);
    output.write_all(&text)?;
    if !matches!(events.last(), Some(Event::Finished { .. })) {
        if cache.number_is_held(run)? {
            writeln!(output, "run {run} is in progress")?
        } else {
            writeln!(output, "run {run} was killed, or could not record its end")?
        }
    }
    if unreadable > 0 {
        let lines = units::counted(unreadable as u64, "unreadable line");
        program.warn(&format!("skipped {lines} of the log"));
    }
    Ok(Exit::Done)
}

/// The approximate number of training steps that are shown.
const STEPS: usize = 20;

/// The events without most training steps.
pub fn thinned(events: &[Event]) -> impl Iterator<Item = &Event> {
    let is_step = |event: &Event| matches!(event, Event::Metrics { .. });
    let every = events.iter().filter(|event| is_step(event)).count().div_ceil(STEPS).max(1);
    let mut steps = 0;
    events.iter().filter(move |event| {
        steps += usize::from(is_step(event));
        !is_step(event) || steps % every == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::estimate::Figure;
    use engine::event::StageCounts;

    #[test]
    fn of_many_steps_some_are_shown_and_of_other_events_all() {
        let step = |step| Event::Metrics { stage: "s".into(), step, values: [].into() };
        let mut events: Vec<Event> = (1..=1000).map(step).collect();
        events.push(Event::Waiting { what: "x".into() });
        let shown: Vec<&Event> = thinned(&events).collect();
        assert_eq!((shown.len(), shown[0]), (21, &step(50)));
        assert_eq!(thinned(&events[..3]).count(), 3);
    }

    #[test]
    fn runs_are_listed_with_their_totals() {
        let counts = StageCounts { executed: 1_000, reused: 2, quarantined: 1, seconds: 2.0 };
        let run = RunRecord {
            run: 12,
            pipeline: "voice\u{1b}[2J".into(),
            started: 1_790_000_000,
            seconds: 200.0,
            status: Status::Paused,
            stages: [("a".to_owned(), counts), ("b".to_owned(), counts)].into(),
            keys: [].into(),
            licenses: [].into(),
            pinned: true,
        };
        let expected_seconds = Figure { low: 150.0, likely: 180.0, high: 240.0 };
        let outcome = RunOutcome { expected_seconds, ..RunOutcome::default() };
        let killed = OpenRun {
            run: 11,
            pipeline: "voice".into(),
            started: Some(1_789_999_000),
            is_under_way: false,
        };
        insta::assert_snapshot!(list(&[run], &[Some(outcome)], &[killed], Paint::default()), @r"
        run  started               pipeline        ended     time                expected  executed  reused  quarantined  slowest stages
         11  2026-09-21 13:56 UTC  voice           killed
         12  2026-09-21 14:13 UTC  voice\u{1b}[2J  stopped  3m20s  3m00s (2m30s to 4m00s)     2,000       4            2  a, b            pinned
        ");
    }
}
