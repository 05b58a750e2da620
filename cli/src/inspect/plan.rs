//! `check`, `plan` and `status`: show the state of a pipeline and run nothing.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use cache::fs::{Fs, MemoryFs, RealFs};
use cache::{Access, Cache};
use engine::engine::Engine;
use engine::estimate::ExpectedCourse;
use engine::estimate::{Basis, StageEstimate};
use engine::estimate::{Estimate, EstimateTotal, RunOutcome, estimate, estimate_here};
use engine::event::{Event, PlannedStage};
use engine::gpu_hours::WeeklyBudget;
use engine::history;
use engine::machine::Machine;
use engine::pipeline::{Pipeline, StageId, StageSpec};
use engine::plan::Plan;
use engine::record::RunRecord;
use engine::spending::MoneyBudget;
use engine::trials::sweep_states;
use engine::units;
use serde_json::{Value, json};
use stage_core::cost::Cost;
use stage_core::course::Idle;
use view::escape::clean;
use view::estimate::{EstimateText, accuracy, assumed_counts, courses};
use view::lines::message;
use view::paint::Paint;
use view::plan::PlanText;
use view::table::Table;

mod check_json;

use super::jobs;
use crate::arguments::{self, Settings};
use crate::error::{CliError, Exit, diagnostic};
use crate::project::{Program, Project};
use crate::run::count_lines::count_lines;
use crate::run::digits;
use crate::run::missing_gpus;
use crate::run::sweep::status_text;
use crate::run::text_chains;
use crate::share::deliver;
use crate::share::hub;
use crate::share::remote::require_usable;

pub fn check(
    program: &Program,
    arguments: &arguments::Check,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    if arguments.json {
        return check_json::check(program, arguments, output);
    }
    let project = program.load(&arguments.manifest.manifest, &arguments.settings)?;
    for warning in &project.warnings {
        program.tell(diagnostic(warning, &program.terminal).trim_end());
    }
    require_usable(&project)?;
    warn_of_empty_folders(program, &project.pipeline);
    missing_gpus::warn(program, &project.pipeline);
    text_chains::warn(program, &project.pipeline);
    let trainings = trainings(program, &project);
    let mut courses = String::new();
    match &trainings {
        Some(Err(why)) => {
            program.warn(&format!("the steps of the trainings are unknown: {}", why.told()));
        }
        Some(Ok((plan, estimate))) => {
            courses = assumed_counts(estimate);
            courses += &self::courses(estimate, &project.pipeline, program.terminal.data);
            warn_of_empty_sources(program, &project.pipeline, plan);
            if let Err(error) = refuse_idle(estimate) {
                output.write_all(courses.as_bytes())?;
                return Err(error);
            }
        }
        None => {}
    }
    let (stages, assets) = (project.pipeline.stages.len(), project.pipeline.assets.len());
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    write!(output, "`{}` is valid: {stages} stage{}", project.pipeline.file, plural(stages))?;
    if assets > 0 {
        write!(output, ", {assets} asset{}", plural(assets))?;
    }
    writeln!(output)?;
    output.write_all(courses.as_bytes())?;
    Ok(Exit::Done)
}

/// The steps of the trainings as far as they are known without a run; None if there is no training.
/// The manifest can be valid even if no plan can be made now.
fn trainings(program: &Program, project: &Project) -> Option<Result<(Plan, Estimate), CliError>> {
    let is_training = |spec: &StageSpec| matches!(spec.kind.cost, Cost::Training(_));
    let any = project.pipeline.stages.iter().any(is_training);
    any.then(|| plan_trainings(program, project))
}

fn plan_trainings(program: &Program, project: &Project) -> Result<(Plan, Estimate), CliError> {
    let engine = program.engine(None, false);
    let mut pipeline = project.pipeline.clone();
    // Of sources that have not been read since their file changed.
    pipeline.session.expected.lines = count_lines(&pipeline);
    let cache = match program.look_into(project)? {
        Some(cache) => cache,
        None => {
            // Before the first run, the contents of the files are unknown.
            pipeline.absent = pipeline.paths();
            Cache::open("/cache".into(), Arc::new(MemoryFs::new()), Access::ReadWrite)?
        }
    };
    let plan = engine.plan(&pipeline, &cache, &[], &mut |_| {})?;
    let estimate = estimate(&pipeline, &plan, &cache, Machine::default(), engine.threads)?;
    Ok((plan, estimate))
}

fn warn_of_empty_sources(program: &Program, pipeline: &Pipeline, plan: &Plan) {
    for spec in plan.empty_sources(pipeline) {
        program.warn(&format!("stage `{}` has no items: check its files and paths", spec.name));
    }
}

/// Warns of folders without an entry among those that the pipeline reads.
fn warn_of_empty_folders(program: &Program, pipeline: &Pipeline) {
    for path in pipeline.paths() {
        if RealFs.read_dir(&path).is_ok_and(|entries| entries.is_empty()) {
            program.warn(&format!("the folder `{path}` is empty: put the data there first"));
        }
    }
}

/// Fails if the counts are known and a part of a training can never take effect.
fn refuse_idle(estimate: &Estimate) -> Result<(), CliError> {
    let mistakes = estimate.stages.iter().flat_map(|(name, stage)| {
        let training = stage.training.as_deref();
        let idle = training.map_or(&[][..], ExpectedCourse::mistakes);
        idle.iter().map(|idle| (name.clone(), idle.clone()))
    });
    match mistakes.collect::<Vec<(String, Idle)>>() {
        none if none.is_empty() => Ok(()),
        mistakes => Err(CliError::Schedules(mistakes)),
    }
}

/// Makes the plan, and prints the notes that arise.
pub fn make(
    program: &Program,
    engine: &Engine,
    project: &Project,
    cache: &Cache,
    targets: &[StageId],
) -> Result<Plan, CliError> {
    Ok(engine.plan(&project.pipeline, cache, targets, &mut |event| tell_event(program, &event))?)
}

/// Prints the message of an event of planning, if it has one.
pub fn tell_event(program: &Program, event: &Event) {
    if let Some(text) = message(event, program.terminal.errors) {
        program.tell(&text);
    }
}

pub fn plan(
    program: &Program,
    arguments: &arguments::Plan,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    program.count_warnings(&project);
    let targets = project.targets(&arguments.stages)?;
    if arguments.probe && project.pipeline.absent.is_empty() {
        probe(program, &program.engine(None, arguments.verify), &project)?;
    }
    let cache = program.open_to_read(&project)?;
    let engine = program.engine_for(&project, &cache, None, arguments.verify)?;
    let plan = make(program, &engine, &project, &cache, &targets)?;
    warn_of_empty_sources(program, &project.pipeline, &plan);
    digits::warn(program, &project.pipeline, &plan, &cache)?;
    text_chains::warn(program, &project.pipeline);
    let estimate = estimate_here(&project.pipeline, &plan, &cache, engine.threads)?;
    let before = before(program, arguments, &engine, &cache)?;
    let event = timed(plan.event(&project.pipeline), &estimate.stages);
    if arguments.json {
        let before = before.as_ref();
        writeln!(output, "{}", plan_json(&project, &cache, &event, &estimate, before)?)?;
        refuse_idle(&estimate)?;
        return Ok(Exit::Done);
    }
    let wanted = match targets.as_slice() {
        [] => project.pipeline.ids().collect(),
        targets => project.pipeline.with_upstream(targets),
    };
    let order: Vec<String> =
        wanted.iter().map(|id| project.pipeline.stage(*id).name.clone()).collect();
    let text = PlanText { order: &order, stages: &planned(event), paint: program.terminal.data };
    output.write_all(text.render().as_bytes())?;
    let text = EstimateText {
        pipeline: &project.pipeline,
        estimate: &estimate,
        before: before.as_ref(),
        paint: program.terminal.data,
    };
    output.write_all(text.render().as_bytes())?;
    let jobs = jobs::planned(&project.pipeline, &estimate);
    output.write_all(jobs::planned_text(&jobs, program.terminal.data).as_bytes())?;
    for line in hub::to_come(&project, &targets) {
        writeln!(output, "{}", program.terminal.data.fold(&line, 2))?;
    }
    for line in allowances(&project, &cache)? {
        writeln!(output, "{}", program.terminal.data.fold(&line, 2))?;
    }
    refuse_idle(&estimate)?;
    Ok(Exit::Done)
}

/// `before`: the estimate without `--set`.
fn plan_json(
    project: &Project,
    cache: &Cache,
    event: &Event,
    estimate: &Estimate,
    before: Option<&EstimateTotal>,
) -> Result<Value, CliError> {
    let mut plan = serde_json::to_value(event).map_err(std::io::Error::from)?;
    if let Some(budget) = budget(project, cache)? {
        plan["gpu_hours"] = json!(budget);
    }
    if let Some(purse) = MoneyBudget::read(cache, &project.pipeline)? {
        plan["budget"] = json!(purse);
    }
    plan["estimate"] = json!(estimate);
    let jobs = jobs::planned(&project.pipeline, estimate);
    if !jobs.is_empty() {
        plan["jobs"] = json!(jobs);
    }
    if let Some(before) = before {
        plan["estimate"]["without_set"] = json!(before);
    }
    Ok(plan)
}

/// The last run may have had other parameters and other items: an estimate knows better what its
/// stages take now.
fn timed(event: Event, estimated: &BTreeMap<String, StageEstimate>) -> Event {
    let Event::Plan { mut stages, seconds } = event else { return event };
    for (name, stage) in &mut stages {
        let Some(now) = estimated.get(name) else { continue };
        if let Some(time) = now.seconds
            && (now.basis < Basis::Formula || stage.seconds > 0.0)
        {
            stage.seconds = time.likely;
        }
    }
    Event::Plan { stages, seconds }
}

/// The number of items of a stage that a probe runs.
const PROBED: u64 = 8;

fn probe(program: &Program, engine: &Engine, project: &Project) -> Result<(), CliError> {
    let paint = program.terminal.errors;
    let mut tell = |event: Event| {
        if let Event::StageFailed { .. } | Event::WorkerStarted { .. } = &event
            && let Some(text) = message(&event, paint)
        {
            program.tell(&text);
        }
    };
    engine.probe(&project.pipeline, PROBED, &|| program.open(project), &mut tell)
}

/// The total estimate of the manifest without `--set`, for comparison.
fn before(
    program: &Program,
    arguments: &arguments::Plan,
    engine: &Engine,
    cache: &Cache,
) -> Result<Option<EstimateTotal>, CliError> {
    if arguments.settings.set.is_empty() {
        return Ok(None);
    }
    let settings = Settings { set: Vec::new(), ..arguments.settings.clone() };
    // The manifest may be valid only with `--set`.
    let Ok(project) = program.load_to_look(&arguments.manifest.manifest, &settings) else {
        return Ok(None);
    };
    let targets = project.targets(&arguments.stages)?;
    let plan = make(program, engine, &project, cache, &targets)?;
    Ok(Some(estimate_here(&project.pipeline, &plan, cache, engine.threads)?.total))
}

/// The remaining part of the weekly limit, if there is one.
fn budget(project: &Project, cache: &Cache) -> Result<Option<WeeklyBudget>, CliError> {
    let hours = project.pipeline.session.gpu_hours_per_week;
    Ok(hours.map(|hours| WeeklyBudget::read(cache, hours * 3600.0)).transpose()?)
}

/// The remainder of the limits in the manifest, as text.
fn allowances(project: &Project, cache: &Cache) -> Result<Vec<String>, CliError> {
    let budget = budget(project, cache)?.map(|budget| budget.to_string());
    let purse = MoneyBudget::read(cache, &project.pipeline)?.map(|purse| purse.to_string());
    Ok(budget.into_iter().chain(purse).collect())
}

/// The stages in the event of a plan.
pub fn planned(event: Event) -> BTreeMap<String, PlannedStage> {
    match event {
        Event::Plan { stages, .. } => stages,
        _ => BTreeMap::new(),
    }
}

pub fn status(
    program: &Program,
    arguments: &arguments::Status,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let cache = program.open_to_read(&project)?;
    let engine = program.engine_for(&project, &cache, None, false)?;
    let plan = make(program, &engine, &project, &cache, &[])?;
    warn_of_empty_sources(program, &project.pipeline, &plan);
    let sweeps = if project.pipeline.sweeps.is_empty() {
        Vec::new()
    } else {
        sweep_states(&engine, &project.pipeline, &cache, &plan)?
    };
    let stages = planned(plan.event(&project.pipeline));
    let runs = history::runs(&cache)?;
    let last = runs.iter().rev().find(|run| run.pipeline == project.pipeline.name);
    let open = history::begun_runs(&cache, &runs)?.into_iter().rev();
    let open = open.filter(|run| run.pipeline == project.pipeline.name);
    let open = open.into_iter().find(|run| last.is_none_or(|last| last.run < run.run));
    let outcome = last.map(|last| RunOutcome::read(&cache, last.run)).transpose()?.flatten();
    let away = jobs::open_jobs(program, &project, &cache, &engine)?;
    if arguments.json {
        let state = json!({
            "pipeline": project.pipeline.name, "last": last, "stages": stages,
            "licenses": licenses(&project.pipeline), "gpu_hours": budget(&project, &cache)?,
            "budget": MoneyBudget::read(&cache, &project.pipeline)?, "cost": outcome,
            "cache": deliver::absolute(cache.dir()), "batches": away.batches,
            "sweeps": sweeps,
            "submitted": away.submitted.as_ref().map(|(submitted, life)| json!({
                "executor": submitted.executor, "job": submitted.job, "begun": submitted.begun,
                "life": life,
            })),
        });
        writeln!(output, "{state}")?;
        return Ok(Exit::Done);
    }
    let told = open.as_ref().map_or_else(|| last_run(last), open_run);
    let told = format!("{}: {told}", clean(&project.pipeline.name));
    writeln!(output, "{}", program.terminal.data.fold(&told, 2))?;
    let paint = program.terminal.data;
    let table = table_of(&project.pipeline, &stages, &cache, paint)?;
    output.write_all(table.render(paint.columns).as_bytes())?;
    output.write_all(away.text(paint).as_bytes())?;
    output.write_all(status_text(&sweeps, paint).as_bytes())?;
    let mut lines = allowances(&project, &cache)?;
    lines.extend(outcome.as_ref().map(accuracy));
    lines.extend(licenses(&project.pipeline).into_iter().map(|(license, stages)| {
        let stages = stages.iter().map(|stage| clean(stage)).collect::<Vec<_>>().join(", ");
        format!("under {}: {stages}", clean(&license))
    }));
    lines.iter().try_for_each(|line| writeln!(output, "{}", paint.fold(line, 2)))?;
    Ok(Exit::Done)
}

fn table_of(
    pipeline: &Pipeline,
    stages: &BTreeMap<String, PlannedStage>,
    cache: &Cache,
    paint: Paint,
) -> Result<Table, CliError> {
    let mut table =
        Table::new(&["stage", "state", ">to execute", ">to reuse", ">quarantined", ">last run"])
            .spare(["last run", "to reuse", "quarantined"]);
    for spec in &pipeline.stages {
        let Some(stage) = stages.get(&spec.name) else { continue };
        let last = history::last(cache, &pipeline.name, &spec.name)?;
        table.row([
            clean(&spec.name).into_owned(),
            paint.verdict(stage.verdict),
            units::count(stage.executed),
            units::count(stage.reused),
            units::count(stage.quarantined),
            last.map_or_else(|| "never".into(), |last| last.run.to_string()),
        ]);
    }
    Ok(table)
}

/// Maps each licence to the stages with outputs derived from an asset under it.
fn licenses(pipeline: &Pipeline) -> BTreeMap<String, Vec<String>> {
    let mut licenses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for spec in &pipeline.stages {
        for license in &spec.licenses {
            licenses.entry(license.clone()).or_default().push(spec.name.clone());
        }
    }
    licenses
}

fn open_run(run: &history::OpenRun) -> String {
    let started = run.started.map_or_else(String::new, units::date);
    if run.is_under_way {
        format!("run {} of {started} is in progress", run.run)
    } else {
        format!("run {} of {started} was killed", run.run)
    }
}

fn last_run(run: Option<&RunRecord>) -> String {
    use engine::event::Status;
    let Some(run) = run else { return "never run".into() };
    let how = match run.status {
        Status::Done => "finished",
        Status::Failed => "failed",
        Status::Paused => "was stopped",
    };
    let (started, seconds) = (units::date(run.started), units::seconds(run.seconds));
    format!("run {} of {started} {how} after {seconds}", run.run)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use engine::estimate::Figure;
    use engine::event::Verdict;

    /// The time in the plan of a stage with an estimate of 20 s and this duration of its last run.
    fn told(last: f64, basis: Basis) -> f64 {
        let stage = PlannedStage {
            verdict: Verdict::Dirty,
            reasons: Vec::new(),
            executed: 1,
            reused: 0,
            quarantined: 0,
            seconds: last,
            trial: None,
        };
        let stages = [("voice".to_owned(), stage)].into();
        let seconds = Some(Figure::exact(20.0));
        let now = StageEstimate { basis, seconds, ..StageEstimate::unknown(1) };
        let estimated = [("voice".to_owned(), now)].into();
        planned(timed(Event::Plan { stages, seconds: 0.0 }, &estimated))["voice"].seconds
    }

    #[test]
    fn a_plan_tells_what_a_stage_takes_now_and_not_what_it_took_then() {
        for basis in [Basis::Measured, Basis::Similar, Basis::Formula] {
            assert_eq!(told(10.0, basis), 20.0, "{basis}");
        }
        assert_eq!(told(0.0, Basis::Measured), 20.0);
        assert_eq!(told(0.0, Basis::Formula), 0.0, "nothing was ever seen of it");
    }
}
