//! `retry`: forgets verdicts on items, so that the next run tries them again.

use std::io::Write;

use engine::retry::forget_verdicts;
use engine::units;
use serde_json::json;
use view::escape::clean;
use view::lines::message;

use crate::arguments;
use crate::error::{CliError, Exit};
use crate::project::Program;

pub fn retry(
    program: &Program,
    arguments: &arguments::Retry,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let names: Vec<&String> = arguments.item.iter().chain([&arguments.stage]).collect();
    let project = program.load_for(&names, &arguments.manifest.manifest, &arguments.settings)?;
    let (stage, item) = project.in_order((&arguments.stage, arguments.item.as_deref()));
    let stages = project.targets(&[stage.to_owned()])?;
    let cache = program.open(&project)?;
    let engine = program.engine_for(&project, &cache, None, false)?;
    let paint = program.terminal.errors;
    let mut tell = |event| {
        if let Some(text) = message(&event, paint) {
            program.tell(&text);
        }
    };
    let mut all = serde_json::Map::new();
    for id in stages {
        let items = forget_verdicts(&engine, &project.pipeline, &cache, (id, item), &mut tell)?;
        all.insert(project.pipeline.stage(id).name.clone(), json!(items));
    }
    let count = |items: &serde_json::Value| items.as_array().map_or(0, Vec::len);
    if let Some(item) = item
        && all.values().all(|items| count(items) == 0)
    {
        return Err(CliError::failed(
            format!("`{stage}` has not quarantined an item `{item}`"),
            format!("`throstle items {stage} --quarantined` lists them"),
        ));
    }
    if arguments.json {
        writeln!(output, "{}", json!({ "forgotten": all }))?;
        return Ok(Exit::Done);
    }
    for (stage, items) in &all {
        let stage = clean(stage);
        match count(items) {
            0 => writeln!(output, "{stage}: no quarantined items")?,
            1 => writeln!(output, "{stage}: the next run tries 1 quarantined item again")?,
            many => {
                let many = units::count(many as u64);
                writeln!(output, "{stage}: the next run tries {many} quarantined items again")?;
            }
        }
    }
    Ok(Exit::Done)
}
