//! The answer of `check` as JSON.

use std::collections::BTreeMap;
use std::io::Write;

use engine::manifest::Problem;
use serde_json::{Value, json};

use super::{refuse_idle, require_usable, trainings, warn_of_empty_folders, warn_of_empty_sources};
use crate::arguments;
use crate::error::{CliError, Exit};
use crate::project::Program;
use crate::run::text_chains;

/// Prints one object, also for a manifest with errors.
pub fn check(
    program: &Program,
    arguments: &arguments::Check,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = match program.load(&arguments.manifest.manifest, &arguments.settings) {
        Err(CliError::Manifest(problems)) => {
            let listed: Vec<Value> = problems.iter().map(problem).collect();
            writeln!(output, "{}", json!({ "valid": false, "problems": listed }))?;
            return Err(CliError::Manifest(problems));
        }
        loaded => loaded?,
    };
    require_usable(&project)?;
    warn_of_empty_folders(program, &project.pipeline);
    text_chains::warn(program, &project.pipeline);
    let mut courses = BTreeMap::new();
    let mut refused = Ok(());
    match trainings(program, &project) {
        Some(Err(why)) => {
            program.warn(&format!("the steps of the trainings are unknown: {}", why.told()));
        }
        Some(Ok((plan, estimate))) => {
            warn_of_empty_sources(program, &project.pipeline, &plan);
            refused = refuse_idle(&estimate);
            let known = estimate.stages.into_iter();
            courses = known.filter_map(|(name, stage)| Some((name, stage.training?))).collect();
        }
        None => {}
    }
    let told = json!({
        "valid": refused.is_ok(), "manifest": project.pipeline.file,
        "problems": project.warnings.iter().map(problem).collect::<Vec<_>>(),
        "stages": project.pipeline.stages.len(), "assets": project.pipeline.assets.len(),
        "trainings": courses,
    });
    writeln!(output, "{told}")?;
    refused.map(|()| Exit::Done)
}

fn problem(problem: &Problem) -> Value {
    let (line, column) = problem.position();
    json!({
        "severity": if problem.is_error() { "error" } else { "warning" },
        "code": problem.name(), "message": problem.message(), "help": problem.advice(),
        "line": line, "column": column,
    })
}
