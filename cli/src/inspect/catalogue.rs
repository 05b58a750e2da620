//! `stages` and `schema`: the documentation of stage kinds and the JSON Schema of manifests.

use std::io::Write;

use engine::manifest::{self, nearest};
use stage_core::{Kind, Place};
use view::table::Table;

use crate::arguments::Stages;
use crate::error::{CliError, Exit};
use crate::project::Program;

pub fn stages(
    program: &Program,
    arguments: &Stages,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let named = arguments.kind.as_deref().and_then(|name| program.catalogue.get(name));
    if let Some(kind) = named {
        output.write_all(manifest::kind_page(kind).as_bytes())?;
        return Ok(Exit::Done);
    }
    // All kinds, or those of a family such as `audio`.
    let family = arguments.kind.as_deref().unwrap_or_default();
    let is_of_family = |kind: &&Kind| {
        let rest = kind.name.strip_prefix(family);
        family.is_empty() || rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let mut kinds = program.catalogue.iter().filter(is_of_family).peekable();
    match kinds.peek() {
        None => Err(unknown(program, family)),
        Some(_) => {
            let mut table = Table::new(&["kind", "runs in", "purpose"]).spare(["runs in"]);
            for kind in kinds {
                let place = match kind.place {
                    Place::Here => "throstle",
                    Place::Worker => "worker",
                };
                table.row([kind.name.to_owned(), place.to_owned(), kind.summary.to_owned()]);
            }
            output.write_all(table.render(program.terminal.data.columns).as_bytes())?;
            Ok(Exit::Done)
        }
    }
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
