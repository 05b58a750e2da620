//! `submit`: a run that nobody watches, as a job of an executor.

use std::collections::BTreeSet;
use std::io::Write;

use cache::{Cache, Digest};
use engine::engine::StopFlag;
use engine::executor::queue;
use engine::executor::submit::{Submission, SubmissionState, SubmittedRuns};
use engine::pipeline::{Adapter, ExecutorSpec, Pipeline, StageId};
use engine::run::require_remote;
use serde_json::json;
use view::escape::clean;

use super::interrupt;
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::inspect::jobs::submitted_line;
use crate::inspect::plan::make;
use crate::project::{Program, Project, manifest_file};
use crate::run::command::own_program;
use crate::share::deliver::absolute;
use crate::share::hub::{self, Download};

pub fn submit(
    program: &Program,
    arguments: &arguments::Submit,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let mut project = program.load(&arguments.manifest.manifest, &arguments.settings)?;
    program.count_warnings(&project);
    let targets = project.targets(&arguments.stages)?;
    if hub::is_needed(&project, &targets)
        && download(program, &mut project, &targets)? == Download::Stopped
    {
        program.tell("the download of a model was stopped; the next `throstle submit` resumes it");
        return Ok(Exit::Paused);
    }
    let spec = executor(&project.pipeline, arguments.on.as_deref())?;
    let cache = program.open(&project)?;
    let engine = program.engine_for(&project, &cache, None, false)?;
    if engine.remote.is_none() {
        return Err(CliError::usage(
            format!("the executor `{}` needs a remote that can be written", spec.name),
            "add `[remote]` with `url = \"file:///shared/cache\"`, or use `--remote`",
        ));
    }
    let plan = make(program, &engine, &project, &cache, &targets)?;
    if plan.is_fresh() {
        return tell(arguments, output, "nothing to do", json!({ "submitted": false }));
    }
    require_remote(&engine, &project.pipeline, &plan)?;
    let unattended = SubmittedRuns::new(absolute(cache.dir()).as_ref(), &project.pipeline.name);
    // Two submissions at once would not see each other.
    let _claim = cache.claim(&Digest::of(unattended.name().as_bytes()))?.ok_or_else(|| {
        CliError::failed(
            "another `throstle submit` is using this cache",
            "wait until it ends, then try again",
        )
    })?;
    if let Some((submitted, life)) = living(&unattended, spec, &cache)? {
        let line = submitted_line(&submitted, &life);
        let object = object(&unattended, &submitted, Some(&life));
        return tell(arguments, output, &line, object);
    }
    let command = command(&project, spec, &cache, arguments)?;
    let begun = cache.fs().now() / 1_000_000_000;
    let submitted = unattended
        .start(spec, &command, begun)
        .map_err(|why| CliError::failed(why, "nothing was started; use `throstle run` instead"))?;
    let what = if submitted.is_slurm { "job" } else { "process" };
    let (job, name) = (clean(&submitted.job), clean(&spec.name));
    let line = format!("submitted to `{name}` as {what} {job}; output: `{}`", unattended.log());
    tell(arguments, output, &line, object(&unattended, &submitted, None))
}

/// Downloads models before the job starts, which may have a GPU.
fn download(
    program: &Program,
    project: &mut Project,
    targets: &[StageId],
) -> Result<Download, CliError> {
    let stop = StopFlag::default();
    interrupt::on_signals(stop.clone(), interrupt::silent())
        .map_err(CliError::process("listen for signals"))?;
    let limits = hub::Limits { stop: &stop, deadline: None };
    let download = hub::bring(program, project, targets, &limits);
    // A later signal ends the process: nothing waits for the flag.
    stop.begin_reading();
    download
}

fn tell(
    arguments: &arguments::Submit,
    output: &mut dyn Write,
    line: &str,
    object: serde_json::Value,
) -> Result<Exit, CliError> {
    if arguments.json {
        writeln!(output, "{object}")?
    } else {
        writeln!(output, "{line}")?
    }
    Ok(Exit::Done)
}

fn object(
    unattended: &SubmittedRuns,
    submitted: &Submission,
    life: Option<&SubmissionState>,
) -> serde_json::Value {
    json!({
        "submitted": life.is_none(), "executor": submitted.executor, "job": submitted.job,
        "begun": submitted.begun, "life": life, "log": unattended.log(),
    })
}

/// The executor with this name, or the only one that stages use.
fn executor<'a>(pipeline: &'a Pipeline, name: Option<&str>) -> Result<&'a ExecutorSpec, CliError> {
    let used = pipeline.stages.iter().filter_map(|stage| stage.policy.executor.as_deref());
    let used: BTreeSet<&str> = used.collect();
    let listed = || used.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let found = match (name, used.len()) {
        (Some(name), _) => Some(name),
        (None, 1) => used.first().copied(),
        (None, 0) => None,
        (None, _) => {
            let message = format!("stages use several executors: {}", listed());
            return Err(CliError::usage(
                message,
                "choose the one for all other stages with `--on`",
            ));
        }
    };
    let Some(name) = found else {
        return Err(CliError::usage(
            format!("no stage of `{}` runs on an executor", pipeline.file),
            "add `[executor.NAME]` and name it on stages: see docs/executors.md",
        ));
    };
    pipeline.executors.get(name).ok_or_else(|| {
        let known: Vec<&str> = pipeline.executors.keys().map(String::as_str).collect();
        CliError::usage(
            format!("there is no executor `{name}`"),
            format!("the executors are: {}", known.join(", ")),
        )
    })
}

/// The submission that is still waiting or running. Slurm is asked by name: it may have taken a job
/// although `sbatch` failed.
fn living(
    unattended: &SubmittedRuns,
    spec: &ExecutorSpec,
    cache: &Cache,
) -> Result<Option<(Submission, SubmissionState)>, CliError> {
    let last = unattended.last();
    let begun = cache.fs().now() / 1_000_000_000;
    let is_slurm = matches!(spec.adapter, Adapter::Slurm(_));
    if is_slurm || last.as_ref().is_some_and(|last| last.is_slurm) {
        let jobs = queue::ask(&[unattended.name().to_owned()].into()).map_err(|why| {
            CliError::failed(
                why,
                "nothing was submitted, since an earlier submission may still exist; try again \
                 when `squeue` works",
            )
        })?;
        let jobs = jobs.get(unattended.name());
        if let Some((jobs, job)) = jobs.and_then(|jobs| Some((jobs, jobs.values().next()?))) {
            let unknown = Submission {
                executor: spec.name.clone(),
                job: job.job.clone(),
                is_slurm: true,
                begun,
            };
            let submitted = last.filter(|last| last.is_slurm).unwrap_or(unknown);
            let life = unattended.life(&submitted, Some(Ok(jobs)));
            return Ok(Some((submitted, life)));
        }
    }
    let Some(process) = unattended.process() else { return Ok(None) };
    let unknown = Submission {
        executor: spec.name.clone(),
        job: process.to_string(),
        is_slurm: false,
        begun,
    };
    let submitted = last.filter(|last| !last.is_slurm).unwrap_or(unknown);
    Ok(Some((submitted, SubmissionState::Running { node: String::new() })))
}

/// The command line of the run.
fn command(
    project: &Project,
    spec: &ExecutorSpec,
    cache: &Cache,
    arguments: &arguments::Submit,
) -> Result<Vec<String>, CliError> {
    let own = own_program().map(String::from);
    let program = match &spec.adapter {
        Adapter::Slurm(_) => spec.program.clone().or(own),
        Adapter::Command(_) => own,
    };
    let manifest = absolute(&manifest_file(&arguments.manifest.manifest)?);
    let program = program.unwrap_or_else(|| "throstle".to_owned());
    let mut command = vec![program, "run".to_owned(), manifest];
    command.extend(arguments.stages.iter().cloned());
    command.extend(["--cache".to_owned(), absolute(cache.dir())]);
    for set in &arguments.settings.set {
        command.extend(["--set".to_owned(), set.clone()]);
    }
    if let (Some(_), Some(remote)) = (&arguments.settings.remote, &project.pipeline.remote) {
        command.extend(["--remote".to_owned(), remote.address.to_string()]);
    }
    command.extend(arguments.keep_going.then(|| "--keep-going".to_owned()));
    command.extend(arguments.overwrite.then(|| "--overwrite".to_owned()));
    Ok(command)
}
