//! `stages` and `schema`: the documentation of stage kinds and the JSON Schema of manifests.

use std::io::Write;

use engine::manifest::{self, nearest};
use stage_core::Place;
use view::table::Table;

use super::arguments::Stages;
use super::error::{CliError, Exit};
use super::project::Program;

pub fn stages(
    program: &Program,
    arguments: &Stages,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let Some(name) = &arguments.kind else {
        let mut table = Table::new(&["kind", "runs in", "what it does"]).spare(["runs in"]);
        for kind in program.catalogue.iter() {
            let place = match kind.place {
                Place::Here => "throstle",
                Place::Worker => "worker",
            };
            table.row([kind.name.to_owned(), place.to_owned(), kind.summary.to_owned()]);
        }
        output.write_all(table.render(program.terminal.data.columns).as_bytes())?;
        return Ok(Exit::Done);
    };
    let kind = program.catalogue.get(name).ok_or_else(|| unknown(program, name))?;
    output.write_all(manifest::kind_page(kind).as_bytes())?;
    Ok(Exit::Done)
}

fn unknown(program: &Program, name: &str) -> CliError {
    let help = match nearest(name, program.catalogue.iter().map(|kind| kind.name)) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "`throstle stages` lists all kinds".into(),
    };
    CliError::usage(format!("there is no stage kind `{name}`"), help)
}

pub fn schema(program: &Program, output: &mut dyn Write) -> Result<Exit, CliError> {
    output.write_all(manifest::schema_text(&program.catalogue).as_bytes())?;
    Ok(Exit::Done)
}
