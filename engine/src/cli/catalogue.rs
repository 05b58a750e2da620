//! `stages` and `schema`: the documentation of stage kinds and the JSON Schema of manifests.

use std::io::Write;

use stage_core::Place;

use super::arguments::Stages;
use super::error::{CliError, Exit};
use super::project::Program;
use crate::manifest;
use crate::show::table::Table;

pub fn stages(
    program: &Program,
    arguments: &Stages,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let Some(name) = &arguments.kind else {
        let mut table = Table::new(&["kind", "runs in", "what it does"]);
        for kind in program.catalogue.iter() {
            let place = match kind.place {
                Place::Here => "throstle",
                Place::Worker => "worker",
            };
            table.row([kind.name.to_owned(), place.to_owned(), kind.summary.to_owned()]);
        }
        output.write_all(table.render().as_bytes())?;
        return Ok(Exit::Done);
    };
    let kind = program.catalogue.get(name).ok_or_else(|| unknown(program, name))?;
    output.write_all(manifest::kind_page(kind).as_bytes())?;
    Ok(Exit::Done)
}

fn unknown(program: &Program, name: &str) -> CliError {
    let nearest = program
        .catalogue
        .iter()
        .map(|kind| kind.name)
        .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let help = match nearest.filter(|known| strsim::jaro_winkler(known, name) > 0.7) {
        Some(known) => format!("there is `{known}`"),
        None => "`throstle stages` lists all kinds".into(),
    };
    CliError::usage(format!("there is no stage kind `{name}`"), help)
}

pub fn schema(program: &Program, output: &mut dyn Write) -> Result<Exit, CliError> {
    output.write_all(manifest::schema_text(&program.catalogue).as_bytes())?;
    Ok(Exit::Done)
}
