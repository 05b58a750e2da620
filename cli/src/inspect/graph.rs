//! `graph`: draws the pipeline.

use std::io::Write;

use view::graph::Graph;

use super::plan::{make, planned};
use crate::arguments::{self, GraphFormat};
use crate::error::{CliError, Exit};
use crate::output::is_standard;
use crate::project::{Program, Project};

pub fn graph(
    program: &Program,
    arguments: &arguments::Graph,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let graph = if arguments.no_plan {
        Graph::new(&project.pipeline, None)
    } else {
        coloured(program, &project)
    };
    let text = match arguments.format {
        GraphFormat::Mermaid => graph.mermaid(),
        GraphFormat::Dot => graph.dot(),
        GraphFormat::Svg => graph.svg(),
    };
    match &arguments.output {
        Some(file) if !is_standard(file) => project.write(file, text.as_bytes())?,
        Some(_) | None => output.write_all(text.as_bytes())?,
    }
    Ok(Exit::Done)
}

/// If the plan cannot be made, a picture without colours is still useful.
fn coloured(program: &Program, project: &Project) -> Graph {
    let plan = || -> Result<_, CliError> {
        let cache = program.open_to_read(project)?;
        let engine = program.engine_for(project, &cache, None, false)?;
        Ok(make(program, &engine, project, &cache, &[])?.event(&project.pipeline))
    };
    match plan() {
        Ok(event) => Graph::new(&project.pipeline, Some(&planned(event))),
        Err(error) => {
            program.warn(&format!("drawn without the state of the stages: {error}"));
            Graph::new(&project.pipeline, None)
        }
    }
}
