//! `sweep`, `compare` and `promote`: trials that are run, shown, and taken over.

mod tensorboard;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use cache::Cache;
use cache::fs::{Fs, RealFs};
use cache::stat::StatIndex;
use engine::event::Status;
use engine::manifest::{self, nearest};
use engine::pipeline::{Pipeline, Sweep};
use engine::plan::Plan;
use engine::record::RunRecord;
use engine::store::Store;
use engine::trials::{SweepState, sweep_states};
use engine::units;
use view::escape::clean;
use view::paint::Paint;
use view::report::Sheet;
use view::table::Table;

use crate::arguments::{self, Run, SweepFormat};
use crate::error::{CliError, Exit};
use crate::named;
use crate::output::is_standard;
use crate::project::{Program, Project};
use crate::run::command;

/// Runs the trials of a sweep, and shows what came of them.
pub fn sweep(program: &Program, arguments: &arguments::Sweep) -> Result<Exit, CliError> {
    let project = program.load(&arguments.manifest.manifest, &arguments.settings)?;
    let sweep = find(&project.pipeline, &arguments.name)?;
    let stage = sweep.score.as_ref().map_or(&sweep.stage, |score| &score.stage);
    let run = Run {
        manifest: arguments.manifest.clone(),
        stages: vec![stage.clone()],
        keep_going: false,
        json: arguments.json,
        verify: false,
        overwrite: arguments.overwrite,
        threads: arguments.threads,
        stop_after: arguments.stop_after,
        settings: arguments.settings.clone(),
    };
    let exit = command::run(program, &run)?;
    if arguments.json && !matches!(exit, Exit::Done) {
        return Ok(exit);
    }
    let cache = program.open_to_read(&project)?;
    let (sweep_state, plan) = sweep_state(program, &project, &cache, &arguments.name)?;
    if !arguments.json {
        let sheet = sheet(&project, &cache, &sweep_state, &plan)?;
        program.output.clone().write_all(sheet.text(program.terminal.data).as_bytes())?;
    }
    if matches!(exit, Exit::Done) && sweep.score.is_some() && !sweep_state.is_decided {
        return Err(undecided(&project, sweep, &plan));
    }
    Ok(exit)
}

/// The error of a complete run that leaves the sweep undecided: a stage has failures that may be
/// temporary.
fn undecided(project: &Project, sweep: &Sweep, plan: &Plan) -> CliError {
    let pipeline = &project.pipeline;
    let scored: Vec<_> =
        sweep.score.iter().flat_map(|score| score.stages.values().copied()).collect();
    let wanted = pipeline.with_upstream(&scored);
    let open = wanted.into_iter().find(|id| plan.stage(*id).verdict.may_have_work());
    let stage = open.map_or(sweep.stage.as_str(), |id| &pipeline.stage(id).name);
    CliError::failed(
        format!(
            "sweep `{}` is not decided: items of stage `{stage}` have failures that may be \
             temporary, so its outcome does not count",
            sweep.name
        ),
        format!(
            "see `throstle items '{stage}' --quarantined`; correct or remove these items, and run the \
             sweep again"
        ),
    )
}

pub fn compare(
    program: &Program,
    arguments: &arguments::Compare,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load(&arguments.manifest.manifest, &arguments.settings)?;
    let cache = program.open_to_read(&project)?;
    let is_sweep = |name: &String| project.pipeline.sweeps.iter().any(|own| own.name == *name);
    let sheet = match arguments.names.as_slice() {
        [name] if is_sweep(name) && arguments.format == SweepFormat::Tensorboard => {
            let (sweep_state, plan) = sweep_state(program, &project, &cache, name)?;
            let beside = project.pipeline.base.join("runs");
            let folder = arguments.output.as_ref().unwrap_or(&beside);
            if is_standard(folder) {
                let help = "name a folder with `--output`";
                return Err(CliError::usage("TensorBoard runs are a folder", help));
            }
            let store = store(&project, &cache)?;
            let runs =
                tensorboard::Runs { pipeline: &project.pipeline, store: &store, plan: &plan };
            named::refuse_caches(folder)?;
            project.refuse_sources(folder)?;
            let written = runs.write(&sweep_state, folder)?;
            program.tell(&format!("{folder}: {written} runs; `tensorboard --logdir {folder}`"));
            return Ok(Exit::Done);
        }
        [name] if is_sweep(name) => of_sweep(program, &project, &cache, name)?.0,
        names => of_stages(program, &project, &cache, names)?,
    };
    let page = match arguments.format {
        SweepFormat::Text => sheet.text(program.terminal.data),
        SweepFormat::Markdown => sheet.markdown(),
        SweepFormat::Csv => sheet.csv(),
        SweepFormat::Json => format!("{}\n", sheet.json()),
        SweepFormat::Html => sheet.html(),
        SweepFormat::Tensorboard => {
            let help = "for a training, export its output `log`: it contains the event files";
            return Err(CliError::usage("only a sweep has TensorBoard runs".to_owned(), help));
        }
    };
    let beside = project.pipeline.base.join("compare.html");
    let file = match (&arguments.output, arguments.format) {
        (Some(file), _) => Some(file),
        (None, SweepFormat::Html) => Some(&beside),
        (None, _) => None,
    };
    match file.filter(|file| !is_standard(file)) {
        None => output.write_all(page.as_bytes())?,
        Some(file) => {
            project.write(file, page.as_bytes())?;
            program.tell(&format!("{file}: {}", units::bytes(page.len() as u64)));
        }
    }
    Ok(Exit::Done)
}

/// Writes the values of a trial into the manifest.
pub fn promote(
    program: &Program,
    arguments: &arguments::Promote,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load(&arguments.manifest.manifest, &arguments.settings)?;
    let sweep = only(&project.pipeline, arguments.sweep.as_deref())?;
    let number = match arguments.trial.as_str() {
        "best" => best(program, &project, sweep)?,
        number => number.to_owned(),
    };
    let Some(trial) = sweep.trial(&number) else {
        let known: Vec<&str> = sweep.trials.iter().map(|trial| trial.number.as_str()).collect();
        return Err(CliError::usage(
            format!("sweep `{}` has no trial `{}`", sweep.name, clean(&number)),
            format!("trials: {}", known.join(", ")),
        ));
    };
    let file = &project.pipeline.file;
    let text = &project.pipeline.written.text;
    let values: Vec<_> = trial.values.clone();
    let by_hand = || {
        CliError::failed(
            format!("the values cannot be written into `{file}`"),
            format!("write them into stage `{}`: {}", sweep.stage, trial.told()),
        )
    };
    let mut edited = manifest::set(text, &sweep.stage, &values).ok_or_else(by_hand)?;
    // The trials stay what they are.
    let first = sweep.trials.first().map_or(&[][..], |first| &first.values);
    let kept = (edited != *text).then(|| manifest::set_initial(&edited, &sweep.name, first));
    let kept = kept.flatten();
    let keeps_trials = kept.is_some();
    edited = kept.unwrap_or(edited);
    if arguments.dry_run {
        output.write_all(edited.as_bytes())?;
        return Ok(Exit::Done);
    }
    if edited == *text {
        program.tell(&format!("{file} already has the values of trial {number}"));
        return Ok(Exit::Done);
    }
    // A link stays a link.
    let place = RealFs.resolve(file)?;
    RealFs.write_named(&place, edited.as_bytes())?;
    let again = program.load(&arguments.manifest.manifest, &arguments.settings);
    let is_right = again.as_ref().is_ok_and(|again| {
        let own = again.pipeline.sweeps.iter().find(|own| own.name == sweep.name);
        own.is_some_and(|own| {
            own.written == values && (!keeps_trials || own.trials == sweep.trials)
        })
    });
    if !is_right {
        RealFs.write_named(&place, text.as_bytes())?;
        return Err(by_hand());
    }
    program.tell(&format!("{file}: stage `{}` has {}", sweep.stage, trial.told()));
    program.tell(&promoted(sweep, &number, keeps_trials));
    Ok(Exit::Done)
}

fn promoted(sweep: &Sweep, number: &str, keeps_trials: bool) -> String {
    let name = &sweep.name;
    if keeps_trials {
        format!(
            "`initial` of `[sweep.{name}]` keeps the values of trial 0, so no trial changes; \
             without the sweep, `{}` reuses the work of trial {number}",
            sweep.stage
        )
    } else {
        format!(
            "the next run would train other trials of sweep `{name}`: remove `[sweep.{name}]` \
             first to keep its results"
        )
    }
}

fn best(program: &Program, project: &Project, sweep: &Sweep) -> Result<String, CliError> {
    let cache = program.open_to_read(project)?;
    let (_, sweep_state) = of_sweep(program, project, &cache, &sweep.name)?;
    sweep_state.winner.ok_or_else(|| {
        CliError::failed(
            format!("sweep `{}` has no best trial yet", sweep.name),
            format!("run it: `throstle sweep {}`", sweep.name),
        )
    })
}

fn only<'a>(pipeline: &'a Pipeline, name: Option<&str>) -> Result<&'a Sweep, CliError> {
    match (name, pipeline.sweeps.as_slice()) {
        (Some(name), _) => find(pipeline, name),
        (None, [sweep]) => Ok(sweep),
        (None, sweeps) => {
            let names: Vec<&str> = sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
            Err(CliError::usage(
                format!("the manifest has {} sweeps", names.len()),
                if names.is_empty() {
                    "add `[sweep.NAME]`, see docs/manifest.md".to_owned()
                } else {
                    format!("name one with `--sweep`: {}", names.join(", "))
                },
            ))
        }
    }
}

fn find<'a>(pipeline: &'a Pipeline, name: &str) -> Result<&'a Sweep, CliError> {
    let found = pipeline.sweeps.iter().find(|sweep| sweep.name == name);
    found.ok_or_else(|| {
        let names = || pipeline.sweeps.iter().map(|sweep| sweep.name.as_str());
        let help = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if pipeline.sweeps.is_empty() => "add `[sweep.NAME]` to the manifest".to_owned(),
            None => format!("sweeps: {}", names().collect::<Vec<_>>().join(", ")),
        };
        CliError::usage(format!("there is no sweep `{}`", clean(name)), help)
    })
}

fn sweep_state(
    program: &Program,
    project: &Project,
    cache: &Cache,
    name: &str,
) -> Result<(SweepState, Plan), CliError> {
    let number = find(&project.pipeline, name)?.name.clone();
    let engine = program.engine_for(project, cache, None, false)?;
    let plan = engine.plan(&project.pipeline, cache, &[], &mut |_| {})?;
    let sweep_states = sweep_states(&engine, &project.pipeline, cache, &plan)?;
    let sweep_state = sweep_states.into_iter().find(|own| own.sweep == number);
    let gone = || {
        CliError::failed(format!("sweep `{}` has no trials", clean(name)), "add values to `over`")
    };
    Ok((sweep_state.ok_or_else(gone)?, plan))
}

fn of_sweep(
    program: &Program,
    project: &Project,
    cache: &Cache,
    name: &str,
) -> Result<(Sheet, SweepState), CliError> {
    let (sweep_state, plan) = sweep_state(program, project, cache, name)?;
    Ok((sheet(project, cache, &sweep_state, &plan)?, sweep_state))
}

fn sheet(
    project: &Project,
    cache: &Cache,
    sweep_state: &SweepState,
    plan: &Plan,
) -> Result<Sheet, CliError> {
    let (store, run) = (store(project, cache)?, present(&project.pipeline, plan));
    Ok(Sheet::of_sweep(&project.pipeline, &store, run, sweep_state)?)
}

fn of_stages(
    program: &Program,
    project: &Project,
    cache: &Cache,
    names: &[String],
) -> Result<Sheet, CliError> {
    let targets = project.targets(names)?;
    let engine = program.engine_for(project, cache, None, false)?;
    let plan = engine.plan(&project.pipeline, cache, &[], &mut |_| {})?;
    let wanted: BTreeSet<String> =
        targets.iter().map(|id| project.pipeline.stage(*id).name.clone()).collect();
    let (store, run) = (store(project, cache)?, present(&project.pipeline, &plan));
    let sheet = Sheet::of_stages(&project.pipeline, &store, run, &wanted)?;
    if sheet.is_empty() {
        Err(CliError::failed(
            format!("no finished training in {}", clean(&names.join(", "))),
            "name stages that train, and run them first",
        ))
    } else {
        Ok(sheet)
    }
}

fn store(project: &Project, cache: &Cache) -> Result<Store, CliError> {
    let index = Arc::new(StatIndex::load(cache)?);
    Ok(Store::new(cache.clone(), &project.pipeline.base, index))
}

/// The present results as those of a run.
fn present(pipeline: &Pipeline, plan: &Plan) -> RunRecord {
    let keyed = pipeline.stages.iter().filter_map(|spec| {
        let keyed = plan.stage(spec.id).known.keyed.as_ref()?;
        Some((spec.name.clone(), keyed.digest))
    });
    RunRecord {
        run: 0,
        pipeline: pipeline.name.clone(),
        started: 0,
        seconds: 0.0,
        status: Status::Done,
        stages: BTreeMap::new(),
        keys: keyed.collect(),
        licenses: BTreeSet::new(),
        pinned: false,
    }
}

/// The rungs of sweeps for `status`: their trials, the values, and the most that they cost.
pub fn status_text(sweep_states: &[SweepState], paint: Paint) -> String {
    let mut text = String::new();
    for sweep_state in sweep_states {
        let best = match (&sweep_state.winner, sweep_state.is_decided) {
            (Some(winner), _) => format!("trial {winner} is best"),
            (None, true) => "no trial has a score".to_owned(),
            (None, false) => "not decided yet".to_owned(),
        };
        let share = match sweep_state.rungs.len() {
            ..=1 => String::new(),
            _ => format!(
                ", at most {:.0} % of the steps of {} whole trainings",
                100.0 * sweep_state.share,
                sweep_state.trials.len()
            ),
        };
        let line = format!(
            "sweep {} of {}: {} trials, {best}{share}",
            sweep_state.sweep,
            sweep_state.stage,
            sweep_state.trials.len()
        );
        text += &format!("\n{}\n", paint.fold(&clean(&line), 2));
        let mut table = Table::new(&["rung", "until", ">trials", ">scored", ">failed", "best"]);
        for (at, rung) in sweep_state.rungs.iter().enumerate() {
            table.row([
                rung.rung.clone(),
                rung.until.as_deref().map_or_else(|| "the end".to_owned(), units::percent),
                units::count(rung.places as u64),
                units::count(rung.scored as u64),
                units::count(rung.failed as u64),
                clean(&leader(sweep_state, at)).into_owned(),
            ]);
        }
        text += &table.render(paint.columns);
        for row in sweep_state.trials.iter().filter(|row| row.failure.is_some()) {
            let why = row.failure.as_deref().unwrap_or_default();
            let line = format!("trial {} failed: {why}", row.trial);
            text += &format!("{}\n", paint.fold(&clean(&line), 2));
        }
    }
    text
}

/// The best trial of a rung, with its values.
fn leader(sweep_state: &SweepState, rung: usize) -> String {
    let sign = if sweep_state.better == "higher" { -1.0 } else { 1.0 };
    let scored = sweep_state.trials.iter().filter_map(|row| Some((row, row.scores[rung]?)));
    let best = scored.min_by(|one, other| (sign * one.1).total_cmp(&(sign * other.1)));
    best.map_or_else(String::new, |(row, score)| {
        let value =
            |(name, value): (&String, &String)| format!("{name} = {}", units::percent(value));
        let values = row.values.iter().map(value);
        let values: Vec<String> = values.collect();
        format!("trial {} ({}): {}", row.trial, values.join(", "), units::number(score))
    })
}
