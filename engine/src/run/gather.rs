//! The input of a gather, and the storage of its output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stage_core::{
    Fields, GatherInput, GatherOutput, Item, NewItem, OutputPort, PortInput, PortOutput, StageError,
};

use super::aside::Asides;
use super::context::EngineContext;
use super::message::GatherSource;
use crate::pipeline::Reads;
use crate::plan::inputs::project;
use crate::plan::planner::PlanError;
use crate::record::{PortValue, StageRecord};
use crate::store::ReadError;
use crate::tables::{WriteError, write_dataset};

/// Loads the inputs of every port.
pub fn input(
    context: &mut EngineContext,
    ports: &BTreeMap<&'static str, Vec<GatherSource>>,
) -> Result<GatherInput, StageError> {
    let mut input = GatherInput::default();
    for (port, sources) in ports {
        let mut arrived = Vec::new();
        for source in sources {
            arrived.push(port_input(context, port, source)?);
        }
        input.ports.insert((*port).to_owned(), arrived);
    }
    Ok(input)
}

fn port_input(
    context: &mut EngineContext,
    port: &str,
    source: &GatherSource,
) -> Result<PortInput, StageError> {
    let reads_name = context.kind.input(port).is_some_and(|port| port.reads_name);
    let told = |stage: &String| if reads_name { stage.clone() } else { String::new() };
    match source {
        GatherSource::Artifact { stage, fields } => {
            Ok(PortInput::Artifact { stage: told(stage), fields: fields.clone() })
        }
        GatherSource::Dataset { stage, root, reads, rejects } => {
            let items = items(context, root, reads).map_err(|error| lost(context, error))?;
            let rejects = rejects.iter().map(|(id, reject)| (id.to_string(), reject.clone()));
            Ok(PortInput::Dataset { stage: told(stage), items, rejects: rejects.collect() })
        }
    }
}

fn items(
    context: &EngineContext,
    root: &cache::Digest,
    reads: &Reads,
) -> Result<Vec<Item>, PlanError> {
    match reads {
        Reads::Fields { names, id } => {
            let mut items = project(&context.store, root, names, *id)?;
            match id {
                true => items.sort_by(|(_, a), (_, b)| a.id.cmp(&b.id)),
                false => items.sort_by_key(|(key, _)| *key),
            }
            Ok(items.into_iter().map(|(_, item)| item).collect())
        }
        Reads::All => {
            let mut items = Vec::new();
            for bucket in context.store.dataset(root)?.buckets {
                items.extend(context.store.chunk(&bucket.chunk)?.items);
            }
            items.sort_by(|a, b| a.id.cmp(&b.id));
            Ok(items)
        }
    }
}

fn lost(context: &mut EngineContext, error: PlanError) -> StageError {
    if let PlanError::Read(ReadError::Lost(digest)) = &error {
        context.lost.push(*digest);
    }
    error.into()
}

/// Stores the output of a gather and returns its record.
pub fn keep(
    context: &mut EngineContext,
    ports: &'static [OutputPort],
    output: GatherOutput,
    took: Duration,
) -> Result<StageRecord, StageError> {
    let mut outputs = BTreeMap::new();
    for (name, output) in output.ports {
        if !ports.iter().any(|port| port.name == name) {
            return Err(StageError::failed(format!("the stage gave an unknown output `{name}`")));
        }
        let value = match output {
            PortOutput::Artifact(values) => PortValue::Artifact(fields(context, values)?),
            PortOutput::Dataset(items) => dataset(context, items)?,
        };
        outputs.insert(name, value);
    }
    if let Some(missing) = ports.iter().find(|port| !outputs.contains_key(port.name)) {
        return Err(StageError::failed(format!("the stage gave no output `{}`", missing.name)));
    }
    let (rejects, aside) = context.aside.take().map(Asides::close).unwrap_or_default();
    Ok(StageRecord {
        outputs,
        rejects,
        items: 1,
        notes: output.notes.into_iter().collect(),
        seconds: took.as_secs_f64(),
        aside,
    })
}

fn fields(
    context: &mut EngineContext,
    values: Vec<(String, stage_core::NewValue)>,
) -> Result<Fields, StageError> {
    context.keep_all(stage_core::Output { values, notes: Vec::new() })
}

fn dataset(context: &mut EngineContext, items: Vec<NewItem>) -> Result<PortValue, StageError> {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        kept.push(Item::new(Arc::<str>::from(item.id), fields(context, item.values)?));
    }
    write_dataset(&context.store, kept).map_err(|error| match error {
        WriteError::Cache(error) => context.cannot_keep(&error),
        WriteError::Dataset(error) => StageError::failed(error.to_string()),
    })
}
