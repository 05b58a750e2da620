//! The input of a gather, and the storage of its output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache::Digest;
use stage_core::key::{HashSink, ItemReads, Sink};
use stage_core::{
    Fields, GatherInput, GatherJob, GatherOutput, Item, NewItem, OutputPort, PortInput, PortOutput,
    StageError,
};

use super::context::EngineContext;
use super::message::{GatherSource, GatherTask};
use crate::error::PlanError;
use crate::pipeline::Reads;
use crate::plan::inputs::{project, question};
use crate::plan::parts;
use crate::record::{PortValue, StageRecord};
use crate::run::items::quarantine_list::QuarantineList;
use crate::store::ReadError;
use crate::tables::{WriteError, write_dataset};

/// Loads the inputs of every port. A job in this process that adds items up gets their sums.
pub fn input(
    context: &mut EngineContext,
    task: &GatherTask,
    job: Option<&dyn GatherJob>,
) -> Result<GatherInput, StageError> {
    let adding = job.filter(|job| job.sum(&[]).is_some());
    let mut input = GatherInput::default();
    for (port, sources) in task.ports.iter() {
        let mut arrived = Vec::new();
        for source in sources {
            arrived.push(port_input(context, port, source, adding, task.own_key.as_ref())?);
        }
        input.ports.insert((*port).to_owned(), arrived);
    }
    Ok(input)
}

fn port_input(
    context: &mut EngineContext,
    port: &str,
    source: &GatherSource,
    adding: Option<&dyn GatherJob>,
    own_key: Option<&Digest>,
) -> Result<PortInput, StageError> {
    let reads_name = context.kind.input(port).is_some_and(|port| port.reads_name);
    let told = |stage: &String| if reads_name { stage.clone() } else { String::new() };
    let (stage, root, reads, rejects) = match source {
        GatherSource::Artifact { stage, fields } => {
            return Ok(PortInput::Artifact { stage: told(stage), fields: fields.clone() });
        }
        GatherSource::Dataset { stage, root, reads, rejects } => {
            (told(stage), root, reads, rejects)
        }
    };
    let rejects = rejects.iter().map(|(id, reject)| (id.to_string(), reject.clone())).collect();
    let input = match adding {
        Some(job) => sums(context, root, reads, job, own_key).map(|sums| PortInput::Sums {
            stage,
            sums,
            rejects,
        }),
        None => {
            items(context, root, reads).map(|items| PortInput::Dataset { stage, items, rejects })
        }
    };
    input.map_err(|error| lost(context, error))
}

/// The sum over each part of a data set. Without a key of the job nothing is remembered.
fn sums(
    context: &EngineContext,
    root: &Digest,
    reads: &Reads,
    job: &dyn GatherJob,
    own_key: Option<&Digest>,
) -> Result<Vec<Bytes>, PlanError> {
    let reads = match reads {
        Reads::Fields { names, id } => Some(ItemReads::new(names, *id)),
        Reads::All => None,
    };
    let question = own_key.map(|key| {
        let mut sink = HashSink::default();
        sink.digest("job", key);
        reads.iter().for_each(|reads| sink.digest("reads", &question("sum", reads)));
        sink.finish()
    });
    let sum = |items: Vec<Item>| {
        let seen = reads
            .as_ref()
            .map(|reads| items.iter().map(|item| reads.see(item).to_item()).collect::<Vec<Item>>());
        job.sum(&seen.unwrap_or(items)).unwrap_or_default()
    };
    parts::values(&context.store, root, question.as_ref(), sum)
}

fn items(context: &EngineContext, root: &Digest, reads: &Reads) -> Result<Vec<Item>, PlanError> {
    match reads {
        Reads::Fields { names, id } => {
            let mut items = project(&context.store, root, names, *id)?;
            if *id {
                items.sort_by(|(_, a), (_, b)| a.id.cmp(&b.id))
            } else {
                items.sort_by_key(|(key, _)| *key)
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
            return Err(StageError::failed(format!(
                "the stage returned an unknown output `{name}`"
            )));
        }
        let value = match output {
            PortOutput::Artifact(values) => PortValue::Artifact(fields(context, values)?),
            PortOutput::Dataset(items) => dataset(context, items)?,
        };
        outputs.insert(name, value);
    }
    if let Some(missing) = ports.iter().find(|port| !outputs.contains_key(port.name)) {
        return Err(StageError::failed(format!(
            "the stage did not return the output `{}`",
            missing.name
        )));
    }
    let (rejects, aside) = context.aside.take().map(QuarantineList::close).unwrap_or_default();
    Ok(StageRecord {
        outputs,
        rejects,
        items: 1,
        notes: output.notes.into_iter().collect(),
        seconds: took.as_secs_f64(),
        aside,
        settled: output.settled,
        failure: output.failure,
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
