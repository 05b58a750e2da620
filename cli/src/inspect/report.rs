//! `report`: writes one page about a run.

use std::io::Write;
use std::sync::Arc;

use cache::Cache;
use cache::stat::StatIndex;
use camino::Utf8Path;
use engine::history;
use engine::record::RunRecord;
use engine::store::Store;
use engine::units;
use view::report::{PageRuns, Report};

use crate::arguments;
use crate::error::{CliError, Exit};
use crate::output::is_standard;
use crate::project::{Program, Project};

pub fn report(
    program: &Program,
    arguments: &arguments::Report,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let cache = program.open_to_read(&project)?;
    let chosen = chosen(&project, &cache, arguments)?;
    let index = Arc::new(StatIndex::load(&cache)?);
    let store = Store::new(cache, &project.pipeline.base, index);
    let report = Report::of(&project.pipeline, &store, chosen)?;
    let page = report.html.as_bytes();
    match arguments.output.as_deref() {
        Some(file) if is_standard(file) => output.write_all(page)?,
        given => {
            let beside = project.pipeline.base.join("report.html");
            let file = given.unwrap_or(&beside);
            project.write(file, page)?;
            program.tell(&told(file, &report));
        }
    }
    Ok(Exit::Done)
}

fn told(file: &Utf8Path, report: &Report) -> String {
    let (size, recordings) = (units::bytes(report.html.len() as u64), report.recordings);
    let mut told = format!("{file}: {size}, {recordings} recordings");
    if report.left_out > 0 {
        let more = units::count(report.left_out as u64);
        told.push_str(&format!("; {more} more did not fit and are marked so on the page"));
    }
    told
}

/// The requested runs, or else the last run of this pipeline.
fn chosen(
    project: &Project,
    cache: &Cache,
    arguments: &arguments::Report,
) -> Result<PageRuns, CliError> {
    let several = arguments.runs.iter().map(|number| run(project, cache, Some(*number)));
    match PageRuns::several(several.collect::<Result<_, _>>()?) {
        Some(chosen) => Ok(chosen),
        None => Ok(PageRuns::one(run(project, cache, arguments.run)?, history::runs(cache)?)),
    }
}

/// The run with this number, or else the last run of this pipeline.
fn run(project: &Project, cache: &Cache, number: Option<u64>) -> Result<RunRecord, CliError> {
    let name = &project.pipeline.name;
    let own = |run: &RunRecord| run.pipeline == *name;
    match number {
        None => history::runs(cache)?.into_iter().rfind(own).ok_or_else(|| {
            CliError::failed(
                format!("no run of `{name}` has finished yet"),
                format!("run it: `throstle run {}`", project.pipeline.file),
            )
        }),
        Some(number) => history::run(cache, number)?.filter(own).ok_or_else(|| {
            CliError::usage(
                format!("there is no run {number} of `{name}`"),
                "`throstle log` lists the runs",
            )
        }),
    }
}
