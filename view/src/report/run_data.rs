//! A run as the report sees it: its events, and the outputs of every stage of the pipeline.

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::fs::FsError;
use cache::{CacheError, Digest};
use engine::event::{Event, StageCounts};
use engine::history;
use engine::noted;
use engine::pipeline::{Pipeline, Reference, StageId, StageSpec};
use engine::record::{LastRecord, PortValue, RunRecord, StageRecord};
use engine::runlog;
use engine::store::{ReadError, Store};
use engine::unrecorded::{self, UnrecordedEnd};
use stage_core::{FieldType, Item, PortType, Reject, Work};

use crate::graph::End;

/// The field of recordings.
pub const AUDIO: &str = "audio";

/// A run, the pipeline, and their stored data.
pub struct RunData<'a> {
    pub pipeline: &'a Pipeline,
    pub store: &'a Store,
    pub run: RunRecord,
    /// By the position of the stage in the pipeline.
    pub stages: Vec<StageData<'a>>,
}

/// A stage in that run.
pub struct StageData<'a> {
    pub spec: &'a StageSpec,
    pub end: End,
    /// It was among the targets of the run.
    pub was_wanted: bool,
    pub counts: StageCounts,
    /// The reasons for its work.
    pub reasons: Vec<String>,
    /// The error if it failed.
    pub failure: Option<String>,
    /// Its outcome in that run, or else its last one.
    pub outcome: Option<StageRecord>,
    /// Items that it had quarantined when it failed.
    failed_with: Option<UnrecordedEnd>,
    /// Its state after the run that last reached it.
    pub last: Option<LastRecord>,
}

/// Data from the log of the run beyond its record.
#[derive(Default)]
struct LoggedData {
    reasons: BTreeMap<String, Vec<String>>,
    failures: BTreeMap<String, String>,
}

impl<'a> RunData<'a> {
    pub fn look(
        pipeline: &'a Pipeline,
        store: &'a Store,
        run: RunRecord,
    ) -> Result<RunData<'a>, ReadError> {
        let told = LoggedData::of(&events(store, run.run)?);
        let stage = |spec| StageData::look(pipeline, store, &run, &told, spec);
        let stages = pipeline.stages.iter().map(stage).collect::<Result<_, _>>()?;
        Ok(RunData { stages, pipeline, store, run })
    }

    pub fn stage(&self, id: StageId) -> &StageData<'a> {
        &self.stages[id.0]
    }

    /// The items on an output of a stage, by id; empty if it has no output, or no longer has it.
    pub fn items(&self, id: StageId, port: &str) -> Result<Vec<Item>, ReadError> {
        let outcome = self.stage(id).outcome.as_ref();
        let Some(PortValue::Dataset { root, .. }) = outcome.and_then(|o| o.outputs.get(port))
        else {
            return Ok(Vec::new());
        };
        match self.store.items(root) {
            Err(ReadError::Lost(_)) => Ok(Vec::new()),
            other => other,
        }
    }

    /// The items by id.
    pub fn by_id(&self, id: StageId, port: &str) -> Result<BTreeMap<Arc<str>, Item>, ReadError> {
        Ok(self.items(id, port)?.into_iter().map(|item| (item.id.clone(), item)).collect())
    }

    /// The stage that this one takes its items from, and the output port.
    pub fn carries_on(&self, spec: &StageSpec) -> Option<(StageId, &'static str)> {
        let port = spec.kind.outputs.first()?.passes?;
        match spec.inputs.get(port)?.references.first()? {
            Reference::Stage { stage, port } => Some((*stage, port)),
            Reference::Asset(_) => None,
        }
    }

    /// The source of the items of a stage: of the data set that it passes on, or for a stage on
    /// whole data sets of all its inputs.
    pub fn items_of(&self, spec: &StageSpec) -> Vec<(StageId, &'static str)> {
        if let Some(carried) = self.carries_on(spec) {
            return vec![carried];
        }
        let is_dataset = |port: &str| {
            spec.kind.input(port).is_some_and(|port| port.port_type == PortType::Dataset)
        };
        let ports = spec.inputs.iter().filter(|(port, _)| is_dataset(port));
        let stage = |reference: &Reference| match reference {
            Reference::Stage { stage, port } => Some((*stage, *port)),
            Reference::Asset(_) => None,
        };
        ports.flat_map(|(_, input)| input.references.iter().filter_map(stage)).collect()
    }

    /// Tests if a stage generates sound with a model, rather than processing existing sound.
    pub fn speaks(&self, spec: &StageSpec) -> bool {
        let is_model = |port: &stage_core::InputPort| port.port_type == PortType::Artifact;
        let writes = spec.kind.outputs.first().map_or(&[][..], |port| port.writes);
        spec.kind.work == Work::Item
            && spec.kind.inputs.iter().any(is_model)
            && writes.contains(&(AUDIO, FieldType::Blob))
    }

    /// The stage that generated the sounds of a stage, if a model did.
    pub fn spoken_by(&self, spec: &StageSpec) -> Option<StageId> {
        if self.speaks(spec) {
            return Some(spec.id);
        }
        let (above, _) = self.carries_on(spec)?;
        self.spoken_by(self.pipeline.stage(above))
    }
}

impl<'a> StageData<'a> {
    fn look(
        pipeline: &Pipeline,
        store: &Store,
        run: &RunRecord,
        told: &LoggedData,
        spec: &'a StageSpec,
    ) -> Result<StageData<'a>, ReadError> {
        let cache = store.cache();
        let last = history::last(cache, &pipeline.name, &spec.name).map_err(ReadError::Cache)?;
        let keys = run.keys.get(&spec.name).copied().into_iter();
        let keys = keys.chain(last.as_ref().map(|last| last.key.digest()));
        let outcome = outcome(store, spec, keys)?;
        let counts = run.stages.get(&spec.name).copied().unwrap_or_default();
        let failure = told.failures.get(&spec.name).cloned();
        let failed_with =
            unrecorded::last(cache, &pipeline.name, &spec.name).map_err(ReadError::Cache)?;
        let failed_with = failed_with.filter(|unrecorded| unrecorded.run == run.run);
        let end = match run.keys.contains_key(&spec.name) {
            _ if failure.is_some() => End::Failed,
            _ if counts.executed > 0 => End::Executed,
            true => End::Reused,
            false => End::Missed,
        };
        let mut reasons = told.reasons.get(&spec.name).cloned().unwrap_or_default();
        if let (true, Some(last)) = (reasons.is_empty(), &last)
            && last.run == run.run
        {
            reasons = last.reasons.iter().map(ToString::to_string).collect();
        }
        let was_wanted = run.stages.contains_key(&spec.name);
        Ok(StageData {
            spec,
            end,
            was_wanted,
            counts,
            reasons,
            failure,
            outcome,
            failed_with,
            last,
        })
    }

    /// The number of items on its first output, or 1 for an artifact.
    pub fn given(&self) -> Option<u64> {
        let port = self.spec.kind.outputs.first()?.name;
        match self.outcome.as_ref()?.outputs.get(port)? {
            PortValue::Dataset { items, .. } => Some(*items),
            PortValue::Artifact(_) => Some(1),
        }
    }

    /// Items quarantined in this run, or else in the last outcome of the stage.
    pub fn rejects(&self) -> &[(Arc<str>, Reject)] {
        let outcome = || self.outcome.as_ref().map(|outcome| &outcome.rejects);
        self.failed_with
            .as_ref()
            .map(|unrecorded| &unrecorded.rejects)
            .or_else(outcome)
            .map_or(&[], |all| all)
    }

    /// True if it failed after it had quarantined items.
    pub fn failed_with_items(&self) -> bool {
        self.failure.is_some() && self.failed_with.is_some()
    }

    /// Tests if the run reached it.
    pub fn was_reached(&self) -> bool {
        self.end != End::Missed
    }
}

/// The first outcome that is still kept, with the notes on all of its items.
fn outcome(
    store: &Store,
    spec: &StageSpec,
    keys: impl Iterator<Item = Digest>,
) -> Result<Option<StageRecord>, ReadError> {
    for key in keys {
        let found = history::outcome_of(store.cache(), &key).map_err(ReadError::Cache)?;
        let Some(record) = found else { continue };
        return match noted::totals(store, spec, &key) {
            Ok(Some(notes)) => Ok(Some(StageRecord { notes, ..record })),
            Ok(None) | Err(ReadError::Lost(_)) => Ok(Some(record)),
            Err(error) => Err(error),
        };
    }
    Ok(None)
}

impl LoggedData {
    fn of(events: &[Event]) -> LoggedData {
        let mut told = LoggedData::default();
        for event in events {
            match event {
                Event::StageStarted { stage, reasons, .. } => {
                    told.reasons.insert(stage.clone(), reasons.clone());
                }
                Event::StageFailed { stage, message, .. } => {
                    told.failures.insert(stage.clone(), message.clone());
                }
                _ => {}
            }
        }
        told
    }
}

/// The events in the log of a run. The log is for people, so an unreadable one counts as missing.
pub fn events(store: &Store, run: u64) -> Result<Vec<Event>, ReadError> {
    let read = runlog::read(store.cache(), run);
    let failed = |error: FsError| ReadError::Cache(CacheError::Fs(error));
    Ok(read.map_err(failed)?.map(|(events, _)| events).unwrap_or_default())
}

/// Larger files are not read into a page.
const MAX_JSON_BYTES: u64 = 256 << 20;

/// A JSON part of an artifact, by its port and field; `None` if it is missing or not JSON.
pub fn json(
    store: &Store,
    outcome: &StageRecord,
    (port, field): (&str, &str),
) -> Result<Option<serde_json::Value>, ReadError> {
    let Some(PortValue::Artifact(fields)) = outcome.outputs.get(port) else { return Ok(None) };
    let Some(blob) = fields.blob(field).filter(|blob| blob.size <= MAX_JSON_BYTES) else {
        return Ok(None);
    };
    match store.read(&blob.digest) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(ReadError::Lost(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
