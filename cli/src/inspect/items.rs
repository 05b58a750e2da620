//! `items`: lists the output of a stage, its quarantined items, those with notes, or those that it left out. `cat`:
//! writes one value.

mod left_out;
mod noted;
mod outputs;

use std::io::Write;
use std::sync::Arc;

use cache::Cache;
use cache::stat::StatIndex;
use camino::Utf8Path;
use engine::event::Verdict;
use engine::history;
use engine::manifest::suggestion;
use engine::pipeline::StageSpec;
use engine::plan::StagePlan;
use engine::record::StageRecord;
use engine::store::Store;
use engine::units;
use stage_core::{Fields, Item, Reject, Value};
use view::escape::{clean, clean_lines};
use view::items::{Format, ID, Listing, render};

use crate::arguments::{self, ItemFormat};
use crate::error::{CliError, Exit};
use crate::output::is_standard;
use crate::project::{Program, Project};
use crate::share::deliver::{self, DeliveryItems};

use outputs::Outputs;

pub fn items(
    program: &Program,
    arguments: &arguments::Items,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let (spec, port) = output_port(&project, &arguments.stage)?;
    let cache = program.open_to_read(&project)?;
    let outputs = || Outputs::of(program, &project, &cache, spec);
    let rows = if arguments.quarantined {
        outputs()?.quarantined(spec)?.iter().map(quarantined).collect()
    } else if arguments.noted {
        noted::rows(program, &project, &cache, spec)?
    } else if arguments.left_out {
        left_out::rows(&outputs()?, spec)?
    } else {
        outputs()?.rows(spec, port)?
    };
    let listing = Listing::new(rows, &arguments.fields).map_err(|unknown| {
        let known = unknown.known.iter().map(|name| &**name).chain([ID]);
        let help = suggestion(&unknown.field, "known fields", known);
        CliError::usage(
            format!("the output of `{}` has no field `{}`", spec.name, unknown.field),
            help.unwrap_or_else(|| "leave out `--fields` to list all fields".to_owned()),
        )
    })?;
    let store = open_store(program, &project, &cache)?;
    let set = DeliveryItems { store: &store, rows: &listing.rows, fields: &listing.fields };
    if let Some(folder) = &arguments.to {
        return deliver(program, arguments, &set, folder);
    }
    let columns = match &arguments.output {
        Some(file) if file != "-" => None,
        _ => program.terminal.data.columns,
    };
    let format = if arguments.json { ItemFormat::JsonLines } else { arguments.format };
    let bytes = match listed(format) {
        Some(format) => render(&listing, format, columns).map_err(std::io::Error::other)?,
        None => deliver::places(&set)?,
    };
    match &arguments.output {
        Some(file) if !is_standard(file) => project.write(file, &bytes)?,
        None if format == ItemFormat::Parquet && program.terminal.data_is_seen => {
            return Err(CliError::usage(
                "a Parquet file cannot be shown on a terminal",
                "name a file with `--output`",
            ));
        }
        Some(_) | None => output.write_all(&bytes)?,
    }
    if arguments.quarantined && listing.rows.is_empty() {
        program.tell(&format!("`{}` has no quarantined items", clean(&spec.name)));
    }
    if arguments.noted && listing.rows.is_empty() {
        program.tell(&format!("`{}` has no notes on its items", clean(&spec.name)));
    }
    if arguments.left_out && listing.rows.is_empty() {
        program.tell(&format!("`{}` has left out no items", clean(&spec.name)));
    }
    Ok(Exit::Done)
}

/// The format of a list.
fn listed(format: ItemFormat) -> Option<Format> {
    match format {
        ItemFormat::Table => Some(Format::Table),
        ItemFormat::JsonLines => Some(Format::JsonLines),
        ItemFormat::Csv => Some(Format::Csv),
        ItemFormat::Parquet => Some(Format::Parquet),
        ItemFormat::Places | ItemFormat::Hf | ItemFormat::Webdataset | ItemFormat::Shar => None,
    }
}

/// Writes the files of other programs.
fn deliver(
    program: &Program,
    arguments: &arguments::Items,
    set: &DeliveryItems,
    folder: &Utf8Path,
) -> Result<Exit, CliError> {
    let write = match arguments.format {
        ItemFormat::Hf => deliver::hf,
        ItemFormat::Webdataset => deliver::webdataset,
        ItemFormat::Shar => deliver::shar,
        _ => {
            return Err(CliError::usage(
                "`--to` writes only the formats `hf`, `webdataset` and `shar`",
                "add one of them, such as `--format hf`; for a list, name a file with `--output`",
            ));
        }
    };
    let whole = deliver::DeliveryFolder::new(folder)?;
    let files = write(set, &whole)?;
    whole.finish()?;
    let (items, files) =
        (units::items(set.rows.len() as u64), units::counted(files as u64, "file"));
    program.tell(&format!("wrote {items} in {files} to `{}`", clean(folder.as_str())));
    Ok(Exit::Done)
}

pub fn cat(
    program: &Program,
    arguments: &arguments::Cat,
    output: &mut dyn Write,
) -> Result<Exit, CliError> {
    let project = program.load_to_look(&arguments.manifest.manifest, &arguments.settings)?;
    let (spec, port) = output_port(&project, &arguments.stage)?;
    let cache = program.open_to_read(&project)?;
    let rows = Outputs::of(program, &project, &cache, spec)?.rows(spec, port)?;
    let Some(item) = rows.iter().find(|row| *row.id == *arguments.item) else {
        let known = rows.iter().map(|row| &*row.id);
        let help = suggestion(&arguments.item, "known items", known).unwrap_or_default();
        let message = format!("`{}` has no item `{}`", spec.name, clean(&arguments.item));
        return Err(CliError::usage(message, help));
    };
    let value = one_value(item, arguments.field.as_deref())?;
    let bytes = match value {
        Value::Blob(blob) => open_store(program, &project, &cache)?.read(&blob.digest)?,
        Value::Text(text) => format!("{text}\n").into(),
        Value::Number(number) => format!("{number}\n").into(),
    };
    match &arguments.output {
        Some(file) if !is_standard(file) => project.write(file, &bytes)?,
        None if matches!(value, Value::Blob(_)) && program.terminal.data_is_seen => {
            if std::str::from_utf8(&bytes).is_err() {
                return Err(CliError::usage(
                    "binary data cannot be shown on a terminal",
                    "name a file with `--output`, or pass them to a program: `… | aplay`",
                ));
            }
            output.write_all(clean_lines(&String::from_utf8_lossy(&bytes)).as_bytes())?;
        }
        Some(_) | None => output.write_all(&bytes)?,
    }
    Ok(Exit::Done)
}

/// The named field, or the only file of the item, or its only value.
fn one_value<'a>(item: &'a Item, field: Option<&str>) -> Result<&'a Value, CliError> {
    let names = || item.fields.iter().map(|(name, _)| &**name);
    let files: Vec<&Value> =
        item.fields.iter().map(|(_, value)| value).filter(|it| it.as_blob().is_some()).collect();
    match field {
        Some(name) => item.fields.get(name).ok_or_else(|| {
            let help = suggestion(name, "its fields", names()).unwrap_or_default();
            CliError::usage(format!("`{}` has no field `{}`", clean(&item.id), clean(name)), help)
        }),
        None if files.len() == 1 => Ok(files[0]),
        None if item.fields.len() == 1 => {
            let mut all = item.fields.iter().map(|(_, value)| value);
            all.next().ok_or_else(|| CliError::usage("the item has no fields", ""))
        }
        None => Err(CliError::usage(
            format!("`{}` has several values", clean(&item.id)),
            format!("add one of its fields: {}", names().collect::<Vec<_>>().join(", ")),
        )),
    }
}

/// The items that a stage outputs now, or else gave last, or else has so far.
pub fn stage_items(
    program: &Program,
    project: &Project,
    cache: &Cache,
    spec: &StageSpec,
) -> Result<Vec<Item>, CliError> {
    let port = spec.kind.outputs.first().map_or("", |port| port.name);
    Outputs::of(program, project, cache, spec)?.rows(spec, port)
}

/// The store of a project, with its remote.
pub fn open_store(program: &Program, project: &Project, cache: &Cache) -> Result<Store, CliError> {
    let index = Arc::new(StatIndex::load(cache)?);
    let remote = program.engine_for(project, cache, None, false)?.remote;
    Ok(Store::with_remote(cache.clone(), &project.pipeline.base, index, remote))
}

/// Parses `stage` or `stage.port`.
pub fn output_port<'a>(
    project: &'a Project,
    name: &str,
) -> Result<(&'a StageSpec, &'static str), CliError> {
    if let Some((stage, port)) = name.rsplit_once('.')
        && let Some(spec) = project.pipeline.find(stage)
    {
        return match spec.kind.output(port) {
            Some(port) => Ok((spec, port.name)),
            None => {
                let ports = spec.kind.outputs.iter().map(|port| port.name);
                let help = suggestion(port, "its outputs", ports).unwrap_or_default();
                Err(CliError::usage(format!("`{stage}` has no output `{port}`"), help))
            }
        };
    }
    let spec = project.stage(name)?;
    Ok((spec, spec.kind.outputs.first().map_or("", |port| port.name)))
}

/// The current output of the stage, or else its last one.
pub fn outcome(
    program: &Program,
    project: &Project,
    cache: &Cache,
    spec: &StageSpec,
) -> Result<StageRecord, CliError> {
    Outputs::of(program, project, cache, spec)?.outcome(spec)
}

/// The outcome of a stage that is up to date.
pub fn present(cache: &Cache, stage: &StagePlan) -> Result<Option<StageRecord>, CliError> {
    match (stage.verdict, &stage.known.keyed) {
        (Verdict::Fresh, Some(keyed)) => {
            let record = history::outcome_of(cache, &keyed.digest)?;
            // The outcome is listed under the current names of its items.
            let rejects = stage.known.rejects.clone();
            Ok(record.map(|record| StageRecord { rejects, ..record }))
        }
        _ => Ok(None),
    }
}

/// The run that last brought the stage to an outcome, and that outcome.
pub fn earlier(
    project: &Project,
    cache: &Cache,
    spec: &StageSpec,
) -> Result<Option<(u64, StageRecord)>, CliError> {
    let Some(last) = history::last(cache, &project.pipeline.name, &spec.name)? else {
        return Ok(None);
    };
    Ok(history::outcome(cache, &last)?.map(|record| (last.run, record)))
}

fn quarantined((id, reject): &(Arc<str>, Reject)) -> Item {
    let fields: Fields = [
        ("code", Value::text(reject.code.as_str())),
        ("reason", Value::text(reject.reason.as_str())),
    ]
    .into_iter()
    .collect();
    Item::new(id.clone(), fields)
}
