//! The items of a stage with notes.

use cache::Cache;
use engine::noted::{Noted, noted};
use engine::pipeline::{StageSpec, StageWork};
use stage_core::{Item, Value};
use view::notes::note_texts;

use crate::error::CliError;
use crate::project::{Program, Project};

/// The items with notes, each with its notes as one text.
pub fn rows(
    program: &Program,
    project: &Project,
    cache: &Cache,
    spec: &StageSpec,
) -> Result<Vec<Item>, CliError> {
    if spec.work != StageWork::Item {
        return Err(CliError::usage(
            format!(
                "the notes of `{}` are about its whole input, not about single items",
                spec.name
            ),
            "`throstle log` shows them; `--noted` is for stages that process one item at a time",
        ));
    }
    let engine = program.engine_for(project, cache, None, false)?;
    let noted = noted(&engine, &project.pipeline, cache, spec.id, &mut |_| {})?;
    let row = |(id, notes): Noted| {
        let notes = note_texts(&notes.into_iter().collect()).join(", ");
        Item::new(id, [("notes", Value::text(notes))].into_iter().collect())
    };
    Ok(noted.into_iter().map(row).collect())
}
