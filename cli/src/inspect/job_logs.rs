//! `log --jobs`: the jobs of executors, and the logs that they have left in the remote.

use std::io::Write;

use cache::Cache;
use cache::fs::{Fs, RealFs};
use engine::engine::EngineError;
use engine::event::Event;
use engine::executor::own::OwnBatch;
use engine::executor::state::{self, AttemptState, BatchState, ShardPhase, ShardState};
use engine::units;
use remote::Remote;
use serde_json::json;
use view::Reporter;
use view::escape::{clean, clean_lines};
use view::lines::Lines;
use view::table::Table;

use super::log::thinned;
use crate::arguments::{self, Settings};
use crate::error::{CliError, Exit};
use crate::project::Program;
use crate::share::remote::failed;

pub fn log(
    program: &Program,
    arguments: &arguments::Log,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let cache = arguments.location.cache.clone();
    let settings = Settings { cache, set: Vec::new(), remote: arguments.remote.clone() };
    let project = program.load_to_look(&arguments.location.manifest, &settings)?;
    let cache = program.open_to_read(&project)?;
    let engine = program.engine_for(&project, &cache, None, false)?;
    let remote = engine.remote.as_deref();
    let stage = arguments.stage.as_deref();
    if let Some(stage) = stage {
        project.targets(&[stage.to_owned()])?;
    }
    let is_named = |batch: &OwnBatch| {
        stage.is_none_or(|name| {
            batch
                .stage
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        })
    };
    let is_wanted =
        |batch: &OwnBatch| is_named(batch) && arguments.run.is_none_or(|run| batch.run == run);
    let batches = state::batches(&cache, remote, &project.pipeline.name, is_wanted);
    let batches = batches.map_err(EngineError::from)?;
    if stage.is_some() {
        let jobs = Jobs { program, cache: &cache, remote, json: arguments.json };
        batches.iter().try_for_each(|batch| jobs.print(batch, output))?;
    } else if arguments.json {
        for batch in &batches {
            let line = serde_json::to_string(batch).map_err(std::io::Error::from)?;
            writeln!(output, "{line}")?;
        }
    } else {
        output.write_all(list(&batches, program).as_bytes())?;
    }
    if let Some(remote) = remote {
        remote.take_notes().iter().for_each(|note| program.warn(note));
    }
    Ok(Exit::Done)
}

/// The state of a part with output of jobs that have not begun to work. Without an end of its
/// batch, its job may be running.
fn state_of_output(shard: &ShardState) -> &'static str {
    match shard.state {
        ShardPhase::Pending => "unknown",
        state => state.name(),
    }
}

fn part(batch: &BatchState, shard: &ShardState) -> String {
    format!("{} of {}", shard.part, batch.shards.len())
}

/// A row for each attempt, and for each part with output alone.
fn list(batches: &[BatchState], program: &Program) -> String {
    let headings = [">run", "stage", ">shard", ">attempt", "node", "began", "state", "job", "log"];
    let mut table = Table::new(&headings).spare(["job", "began", "attempt"]);
    for batch in batches {
        for shard in &batch.shards {
            if let Some(file) = &shard.output {
                table.row([
                    batch.run.to_string(),
                    clean(&batch.stage).into_owned(),
                    part(batch, shard),
                    String::new(),
                    String::new(),
                    String::new(),
                    state_of_output(shard).to_owned(),
                    String::new(),
                    clean(file).into_owned(),
                ]);
            }
            for attempt in &shard.attempts {
                let is_last = attempt.attempt as usize == shard.attempts.len();
                let state = match (&attempt.ended, is_last) {
                    (None, true) => shard.state.name().to_owned(),
                    (None, false) => "lost".to_owned(),
                    (Some(why), _) if why.is_empty() => "ended".to_owned(),
                    (Some(why), _) => format!("ended: {}", clean(why)),
                };
                table.row([
                    batch.run.to_string(),
                    clean(&batch.stage).into_owned(),
                    part(batch, shard),
                    attempt.attempt.to_string(),
                    clean(&attempt.machine).into_owned(),
                    units::date(attempt.begun),
                    state,
                    clean(&attempt.job).into_owned(),
                    attempt.log.clone(),
                ]);
            }
        }
    }
    if table.is_empty() {
        "no jobs yet\n".to_owned()
    } else {
        table.render(program.terminal.data.columns)
    }
}

struct Jobs<'a> {
    program: &'a Program,
    cache: &'a Cache,
    remote: Option<&'a Remote>,
    json: bool,
}

impl Jobs<'_> {
    /// Prints the logs of all attempts of a batch, and the output of jobs that did not begin to work.
    fn print(&self, batch: &BatchState, output: &mut dyn Write) -> Result<(), CliError> {
        for shard in &batch.shards {
            if shard.output.is_some() {
                if self.json {
                    self.output_line(batch, shard, output)?
                } else {
                    self.output_alone(batch, shard, output)?
                }
            }
            for attempt in &shard.attempts {
                let log = match self.remote {
                    Some(remote) => remote.log(&attempt.log).map_err(failed)?,
                    None => None,
                };
                let job = Job { batch, shard, attempt, log: log.as_deref() };
                if self.json { job.json_lines(output)? } else { self.text(&job, output)? }
            }
        }
        Ok(())
    }

    fn text(&self, job: &Job, output: &mut dyn Write) -> Result<(), CliError> {
        let Job { batch, shard, attempt, log } = job;
        let paint = self.program.terminal.data;
        let (stage, machine) = (clean(&batch.stage), clean(&attempt.machine));
        let (part, number, date) =
            (part(batch, shard), attempt.attempt, units::date(attempt.begun));
        let head = format!("{stage}, shard {part}, attempt {number} on `{machine}`, {date}");
        writeln!(output, "{}", paint.strong(&head))?;
        if log.is_none() {
            // It is still running, or was killed.
            let text = clean_lines(&self.printed(batch, shard.part));
            let text = if text.trim().is_empty() { "no log yet" } else { text.trim_end() };
            writeln!(output, "{text}\n")?;
            return Ok(());
        }
        let events = job.events();
        let mut text = Vec::new();
        let mut lines = Lines::replaying(&mut text, paint);
        thinned(&events).try_for_each(|event| lines.event(event))?;
        drop(lines);
        output.write_all(&text)?;
        writeln!(output)?;
        Ok(())
    }

    /// The output of the jobs of a part.
    fn printed(&self, batch: &BatchState, part: u32) -> String {
        let file = state::output(self.cache.dir(), &batch.batch, part);
        let printed = RealFs.read(&file).unwrap_or_default();
        String::from_utf8_lossy(&printed).into_owned()
    }

    fn output_alone(
        &self,
        batch: &BatchState,
        shard: &ShardState,
        output: &mut dyn Write,
    ) -> Result<(), CliError> {
        let (stage, part) = (clean(&batch.stage), part(batch, shard));
        let state = state_of_output(shard);
        let head = format!("{stage}, shard {part}, no job started work ({state}); output:");
        writeln!(output, "{}", self.program.terminal.data.strong(&head))?;
        let printed = self.printed(batch, shard.part);
        writeln!(output, "{}\n", clean_lines(&printed).trim_end())?;
        Ok(())
    }

    fn output_line(
        &self,
        batch: &BatchState,
        shard: &ShardState,
        output: &mut dyn Write,
    ) -> Result<(), CliError> {
        let job = json!({
            "stage": batch.stage, "run": batch.run, "part": shard.part,
            "state": state_of_output(shard),
        });
        let printed = self.printed(batch, shard.part);
        writeln!(output, "{}", json!({ "job": job, "output": printed }))?;
        Ok(())
    }
}

/// One attempt at a part, and its log if it has left one.
struct Job<'a> {
    batch: &'a BatchState,
    shard: &'a ShardState,
    attempt: &'a AttemptState,
    log: Option<&'a [u8]>,
}

impl Job<'_> {
    fn events(&self) -> Vec<Event> {
        let lines = self.log.unwrap_or_default().split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Each event with its job.
    fn json_lines(&self, output: &mut dyn Write) -> Result<(), CliError> {
        let Job { batch, shard, attempt, .. } = self;
        let job = json!({
            "stage": batch.stage, "run": batch.run, "part": shard.part,
            "attempt": attempt.attempt, "machine": attempt.machine, "begun": attempt.begun,
        });
        for event in self.events() {
            writeln!(output, "{}", json!({ "job": job, "event": event }))?;
        }
        Ok(())
    }
}
