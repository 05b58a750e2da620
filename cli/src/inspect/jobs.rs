//! The jobs of executors, in the texts and the JSON of `plan` and `status`.

use std::collections::BTreeMap;

use cache::Cache;
use engine::engine::{Engine, EngineError};
use engine::estimate::Estimate;
use engine::estimate::Figure;
use engine::executor::queue::{self, Shards};
use engine::executor::split::{JobLimits, SECONDS, jobs};
use engine::executor::state::{self, BatchState, ShardPhase, ShardState};
use engine::executor::submit::{Submission, SubmissionState, SubmittedRuns};
use engine::pipeline::{Adapter, Pipeline, StageWork};
use engine::units;
use serde::Serialize;
use view::escape::clean;
use view::estimate::{likely, money};
use view::paint::Paint;
use view::table::Table;

use crate::error::CliError;
use crate::project::{Program, Project};
use crate::share::deliver;

/// The number of parts that `status` lists for a batch.
const LISTED: usize = 20;

/// The work of a stage on an executor, before a run.
#[derive(Debug, Serialize)]
pub struct PlannedJobs {
    pub stage: String,
    pub executor: String,
    #[serde(rename = "use")]
    pub adapter: &'static str,
    /// A training is one job at a time.
    pub jobs: u64,
    pub max_jobs: u32,
    pub attempts: u32,
    /// The expected time of a job of items.
    pub shard_seconds: f64,
    pub partition: Option<String>,
    pub time_limit_seconds: Option<f64>,
    /// Of the whole work.
    pub seconds: Option<Figure>,
    pub money: Option<Figure>,
}

/// The jobs of each stage with work for an executor.
pub fn planned(pipeline: &Pipeline, estimate: &Estimate) -> Vec<PlannedJobs> {
    let mut planned = Vec::new();
    for (stage, estimate) in estimate.in_order(pipeline) {
        let executor = stage.policy.executor.as_ref();
        let Some(spec) = executor.and_then(|name| pipeline.executors.get(name)) else { continue };
        let items = usize::try_from(estimate.items).unwrap_or(usize::MAX);
        let limits = JobLimits { seconds: spec.shard_seconds, jobs: spec.max_jobs as usize };
        let seconds = estimate.seconds.map_or(SECONDS * items as f64, |seconds| seconds.likely);
        let (partition, limit) = match &spec.adapter {
            Adapter::Slurm(slurm) => (slurm.partition.clone(), slurm.time_seconds),
            Adapter::Command(_) => (None, None),
        };
        planned.push(PlannedJobs {
            stage: stage.name.clone(),
            executor: spec.name.clone(),
            adapter: spec.adapter.name(),
            jobs: match stage.work {
                StageWork::Train => 1,
                _ => jobs(seconds, items, limits) as u64,
            },
            max_jobs: spec.max_jobs,
            attempts: spec.attempts,
            shard_seconds: spec.shard_seconds,
            partition,
            time_limit_seconds: limit,
            seconds: estimate.seconds,
            money: estimate.money,
        });
    }
    planned
}

/// The jobs that a run would start; empty if there are none.
pub fn planned_text(planned: &[PlannedJobs], paint: Paint) -> String {
    if planned.is_empty() {
        return String::new();
    }
    let headings =
        ["stage", "executor", ">jobs", ">at most", "partition", ">limit", ">time", ">money"];
    let mut table = Table::new(&headings).spare(["at most", "partition", "limit"]);
    for jobs in planned {
        table.row([
            clean(&jobs.stage).into_owned(),
            format!("{} ({})", clean(&jobs.executor), jobs.adapter),
            units::count(jobs.jobs),
            units::count(u64::from(jobs.max_jobs)),
            jobs.partition.as_deref().map(clean).unwrap_or_default().into_owned(),
            jobs.time_limit_seconds.map(units::seconds).unwrap_or_default(),
            jobs.seconds.map(|seconds| likely(seconds, units::seconds)).unwrap_or_default(),
            jobs.money.map(|sum| likely(sum, money)).unwrap_or_default(),
        ]);
    }
    format!("\n{}", table.render(paint.columns))
}

/// The batches that wait for results, and the submitted run.
#[derive(Debug, Serialize)]
pub struct OpenJobs {
    pub batches: Vec<BatchState>,
    pub submitted: Option<(Submission, SubmissionState)>,
}

/// Asks the remote and Slurm, if this machine has begun batches or submitted a run.
pub fn open_jobs(
    program: &Program,
    project: &Project,
    cache: &Cache,
    engine: &Engine,
) -> Result<OpenJobs, CliError> {
    let pipeline = &project.pipeline;
    let is_open = |batch: &engine::executor::own::OwnBatch| !batch.is_closed;
    let remote = engine.remote.as_deref();
    let mut batches =
        state::batches(cache, remote, &pipeline.name, is_open).map_err(EngineError::from)?;
    let unattended = SubmittedRuns::new(deliver::absolute(cache.dir()).as_ref(), &pipeline.name);
    let last = unattended.last();
    let mut names = state::names_on_slurm(pipeline, &batches);
    if last.as_ref().is_some_and(|last| last.is_slurm) {
        names.insert(unattended.name().to_owned());
    }
    let answer = queue::ask(&names);
    if let Err(why) = &answer {
        program.warn(&format!("{why}; showing only the job states that the remote knows"));
    }
    let jobs = answer.as_ref().map_err(String::as_str);
    state::add_schedulers(cache.dir(), pipeline, &mut batches, jobs.ok());
    let none = Shards::new();
    let own = jobs.map(|jobs| jobs.get(unattended.name()).unwrap_or(&none));
    let submitted = last.map(|last| {
        let life = unattended.life(&last, Some(own));
        (last, life)
    });
    Ok(OpenJobs { batches, submitted })
}

impl OpenJobs {
    pub fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        if let Some((submitted, life)) = &self.submitted {
            let line = submitted_line(submitted, life);
            text.push_str(&format!("{}\n", paint.fold(&line, 2)));
        }
        for batch in &self.batches {
            text.push_str(&batch_text(batch, paint));
        }
        text
    }
}

/// The state of a submitted run in one line.
pub fn submitted_line(submitted: &Submission, life: &SubmissionState) -> String {
    let Submission { executor, job, is_slurm, begun } = submitted;
    let what = if *is_slurm { "job" } else { "process" };
    let state = match life {
        SubmissionState::Waiting { reason } if reason.is_empty() => "is waiting".to_owned(),
        SubmissionState::Waiting { reason } => format!("is waiting ({})", clean(reason)),
        SubmissionState::Running { node } if node.is_empty() => "is running".to_owned(),
        SubmissionState::Running { node } => format!("is running on {}", clean(node)),
        SubmissionState::Ended => "has ended".to_owned(),
        SubmissionState::Unknown { why } => format!("is in an unknown state: {}", clean(why)),
    };
    let (executor, job, date) = (clean(executor), clean(job), units::date(*begun));
    format!("the run submitted to `{executor}` on {date} ({what} {job}) {state}")
}

fn batch_text(batch: &BatchState, paint: Paint) -> String {
    let count =
        |state: ShardPhase| batch.shards.iter().filter(|shard| shard.state == state).count();
    let mut counts: BTreeMap<ShardPhase, usize> = BTreeMap::new();
    for state in [ShardPhase::Running, ShardPhase::Pending, ShardPhase::Failed] {
        counts.insert(state, count(state));
    }
    let (stage, executor) = (clean(&batch.stage), clean(&batch.executor));
    let (done, all) = (count(ShardPhase::Done), batch.shards.len());
    let mut line = format!("{stage} on `{executor}` since run {}: ", batch.run);
    line.push_str(&format!("{done} of {all} shards done"));
    for (state, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        line.push_str(&format!(", {count} {}", state.name()));
    }
    let mut table = Table::new(&["shard", "state", "node", "since", ">attempt", "job", "reason"])
        .spare(["job", "attempt"]);
    let open = || batch.shards.iter().filter(|shard| shard.state != ShardPhase::Done);
    open().take(LISTED).for_each(|shard| table.row(shard_row(shard)));
    let mut text = format!("{}\n", paint.fold(&line, 2));
    if !table.is_empty() {
        text.push_str(&table.render(paint.columns));
    }
    let more = open().count().saturating_sub(LISTED);
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    text
}

fn shard_row(shard: &ShardState) -> [String; 7] {
    let last = shard.attempts.last();
    let running = last.filter(|_| shard.state == ShardPhase::Running);
    let job = shard.job.as_deref().or(last.map(|last| last.job.as_str())).unwrap_or_default();
    [
        format!("shard {}", shard.part),
        shard.state.name().to_owned(),
        running.map(|last| clean(&last.machine).into_owned()).unwrap_or_default(),
        running.map(|last| units::date(last.begun)).unwrap_or_default(),
        last.map(|last| last.attempt.to_string()).unwrap_or_default(),
        clean(job).into_owned(),
        shard.why.as_deref().map(clean).unwrap_or_default().into_owned(),
    ]
}
