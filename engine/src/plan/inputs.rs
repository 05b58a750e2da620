//! The inputs of a stage by content, and the key that follows from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cache::Digest;
use stage_core::key::{HashSink, InputKey, ItemReads, Sink, StageKey};
use stage_core::{Fields, Item, Parameter, ParameterType, Reject, Role};

use super::parts;
use super::stage::StageKnowledge;
use super::value::PlannedValue;
use super::work::StageIdentity;
use crate::error::PlanError;
use crate::pipeline::{ITEMS, Input, Pipeline, Reads, Reference, StageId, StageSpec};
use crate::record::{MEMO, decode_digests, encode};
use crate::store::{ReadError, Store};
use crate::sweep::halving::Part;

/// The present values of a stage's references.
pub struct StageInputs<'a> {
    pipeline: &'a Pipeline,
    pub spec: &'a StageSpec,
    pub ports: BTreeMap<&'static str, Vec<InputValue<'a>>>,
    /// Its own part in a sweep, by those of its inputs.
    pub part: Part,
}

pub enum InputValue<'a> {
    Stage { stage: StageId, value: PlannedValue, rejects: &'a [(Arc<str>, Reject)] },
    Asset { name: String, fields: Fields },
}

impl InputValue<'_> {
    /// Its name in the manifest.
    fn name(&self, pipeline: &Pipeline) -> String {
        match self {
            InputValue::Stage { stage, .. } => pipeline.stage(*stage).name.clone(),
            InputValue::Asset { name, .. } => format!("assets.{name}"),
        }
    }

    pub fn root(&self) -> Option<Digest> {
        match self {
            InputValue::Stage { value: PlannedValue::Root { root, .. }, .. } => Some(*root),
            _ => None,
        }
    }

    pub fn artifact(&self) -> Option<&Fields> {
        match self {
            InputValue::Stage { value: PlannedValue::Artifact(fields), .. } => Some(fields),
            InputValue::Asset { fields, .. } => Some(fields),
            _ => None,
        }
    }

    fn is_complete(&self) -> bool {
        self.root().is_some() || self.artifact().is_some()
    }

    fn rejects(&self) -> &[(Arc<str>, Reject)] {
        match self {
            InputValue::Stage { rejects, .. } => rejects,
            InputValue::Asset { .. } => &[],
        }
    }
}

/// Collects the values of all references of a stage.
pub fn arriving<'a>(
    pipeline: &'a Pipeline,
    stages: &'a [impl AsRef<StageKnowledge>],
    assets: &BTreeMap<String, Fields>,
    spec: &'a StageSpec,
) -> StageInputs<'a> {
    debug_assert!(spec.id.0 < pipeline.stages.len());
    let value = |reference: &Reference| match reference {
        Reference::Asset(name) => {
            let fields = assets.get(name).cloned().unwrap_or_default();
            InputValue::Asset { name: name.clone(), fields }
        }
        Reference::Stage { stage, port } => {
            let known = stages[stage.0].as_ref();
            let value = known.outputs.get(port).cloned().unwrap_or(PlannedValue::Unknown);
            InputValue::Stage { stage: *stage, value, rejects: &known.rejects }
        }
    };
    let port = |(port, input): (&&'static str, &Input)| {
        (*port, taking_part(input, stages).map(value).collect())
    };
    let part = part(spec, stages);
    StageInputs { pipeline, spec, ports: spec.inputs.iter().map(port).collect(), part }
}

/// The references of a port without stages that do not take part in their sweep.
pub fn taking_part<'a>(
    input: &'a Input,
    stages: &'a [impl AsRef<StageKnowledge>],
) -> impl Iterator<Item = &'a Reference> {
    input.references.iter().filter(|reference| part_of(reference, stages) == Part::In)
}

fn part_of(reference: &Reference, stages: &[impl AsRef<StageKnowledge>]) -> Part {
    match reference {
        Reference::Stage { stage, .. } => stages[stage.0].as_ref().part,
        Reference::Asset(_) => Part::In,
    }
}

/// A port that takes many reads those that take part, as long as there is one.
fn part(spec: &StageSpec, stages: &[impl AsRef<StageKnowledge>]) -> Part {
    let of_port = |(port, input): (&&'static str, &Input)| {
        let parts = input.references.iter().map(|reference| part_of(reference, stages));
        if spec.kind.input(port).is_some_and(|port| port.many) {
            parts.min().unwrap_or_default()
        } else {
            parts.max().unwrap_or_default()
        }
    };
    spec.inputs.iter().map(of_port).max().unwrap_or_default()
}

/// The number of items on all ports of a stage, as far as it is known.
pub fn arriving_items(
    pipeline: &Pipeline,
    stages: &[impl AsRef<StageKnowledge>],
    id: StageId,
) -> u64 {
    let inputs = pipeline.stage(id).inputs.values();
    let items = |reference: &Reference| match reference {
        Reference::Stage { stage, port } => match stages[stage.0].as_ref().outputs.get(port) {
            Some(PlannedValue::Root { items, .. }) => *items,
            Some(PlannedValue::Partial(partial)) => partial.items(),
            _ => 0,
        },
        Reference::Asset(_) => 0,
    };
    inputs.flat_map(|input| &input.references).map(items).sum()
}

impl StageInputs<'_> {
    /// The stages that must finish before this one has a key.
    pub fn missing(&self, items_may_come: bool) -> Vec<StageId> {
        let mut missing = Vec::new();
        for (port, arrived) in &self.ports {
            for one in arrived {
                let partial = items_may_come && *port == ITEMS && !one.is_unknown();
                if let (InputValue::Stage { stage, .. }, false) =
                    (one, one.is_complete() || partial)
                    && !missing.contains(stage)
                {
                    missing.push(*stage);
                }
            }
        }
        missing
    }

    /// The items that arrive at an item stage.
    pub fn items(&self) -> Option<&PlannedValue> {
        match self.ports.get(ITEMS)?.first()? {
            InputValue::Stage { value, .. } => Some(value),
            InputValue::Asset { .. } => None,
        }
    }

    fn roots(&self) -> BTreeMap<String, Vec<Digest>> {
        let roots =
            |arrived: &Vec<InputValue>| arrived.iter().filter_map(InputValue::root).collect();
        self.ports.iter().map(|(port, arrived)| (port.to_string(), roots(arrived))).collect()
    }

    /// The key of an item stage without its items.
    pub fn job_key(&self, files: &BTreeMap<String, Digest>) -> StageKey {
        let mut key = base_key(self.spec, files);
        for (port, arrived) in self.ports.iter().filter(|(port, _)| **port != ITEMS) {
            let inputs = arrived.iter().filter_map(InputValue::artifact).cloned();
            key.inputs.insert(port.to_string(), inputs.map(InputKey::Artifact).collect());
        }
        key
    }

    /// The whole-stage key; every input must be complete.
    pub fn key(
        &self,
        store: &Store,
        files: &BTreeMap<String, Digest>,
        by_root: bool,
    ) -> Result<StageIdentity, PlanError> {
        let mut key = base_key(self.spec, files);
        for (port, arrived) in &self.ports {
            let reads_name = self.spec.kind.input(port).is_some_and(|port| port.reads_name);
            let mut inputs = Vec::new();
            for one in arrived {
                let input = match (one.artifact(), one.root()) {
                    (Some(fields), _) => InputKey::Artifact(fields.clone()),
                    (None, Some(root)) => {
                        InputKey::Dataset(self.dataset_key(store, port, root, one, by_root)?)
                    }
                    (None, None) => continue,
                };
                inputs.push(if reads_name {
                    let stage = one.name(self.pipeline);
                    InputKey::Named { stage, input: Box::new(input) }
                } else {
                    input
                });
            }
            key.inputs.insert(port.to_string(), inputs);
        }
        Ok(StageIdentity { digest: key.digest(), key, roots: self.roots() })
    }

    fn dataset_key(
        &self,
        store: &Store,
        port: &str,
        root: Digest,
        arrived: &InputValue,
        by_root: bool,
    ) -> Result<Digest, PlanError> {
        let reads_rejects = self.spec.kind.input(port).is_some_and(|port| port.reads_rejects);
        let digest = match &self.spec.inputs[port].reads {
            Reads::Fields { names, id } if !by_root => projection(store, root, names, *id)?,
            _ => root,
        };
        if reads_rejects { Ok(with_rejects(digest, arrived.rejects())) } else { Ok(digest) }
    }
}

impl InputValue<'_> {
    fn is_unknown(&self) -> bool {
        matches!(self, InputValue::Stage { value: PlannedValue::Unknown, .. })
    }
}

/// The key of an item stage without its items, from its whole key: see [`StageInputs::job_key`].
pub fn job_of(mut key: StageKey) -> StageKey {
    fn artifact(input: InputKey) -> Option<InputKey> {
        match input {
            InputKey::Artifact(_) => Some(input),
            InputKey::Named { input, .. } => artifact(*input),
            InputKey::Dataset(_) => None,
        }
    }
    key.inputs.remove(ITEMS);
    for inputs in key.inputs.values_mut() {
        *inputs = std::mem::take(inputs).into_iter().filter_map(artifact).collect();
    }
    key
}

pub fn base_key(spec: &StageSpec, files: &BTreeMap<String, Digest>) -> StageKey {
    let mut parameters = spec.parameters.clone();
    parameters.0.retain(|name, _| {
        let parameter = spec.kind.parameter(name);
        // The content of a file stands for its path.
        let has_files = |parameter: &Parameter| {
            let own = parameter.paths(spec.parameters.get(name));
            own.iter().any(|(name, _)| files.contains_key(name))
        };
        let is_path = |parameter: &Parameter| {
            matches!(parameter.parameter_type, ParameterType::OptionalFile) || has_files(parameter)
        };
        parameter.is_some_and(|parameter| parameter.role == Role::Content && !is_path(parameter))
    });
    StageKey {
        kind: spec.kind.name.to_owned(),
        version: spec.kind.version,
        parameters,
        files: files.clone(),
        inputs: BTreeMap::new(),
        salt: spec.policy.salt.clone(),
        parent: None,
    }
}

fn with_rejects(digest: Digest, rejects: &[(Arc<str>, Reject)]) -> Digest {
    let mut sink = HashSink::default();
    sink.digest("data", &digest);
    for (item, reject) in rejects {
        sink.text(item, &reject.code);
        sink.text(item, &reject.reason);
    }
    sink.finish()
}

/// The digest of the fields of a data set that a stage reads. Stored in the index, since computing
/// it reads every item.
fn projection(
    store: &Store,
    root: Digest,
    names: &[String],
    id: bool,
) -> Result<Digest, PlanError> {
    let reads = ItemReads::new(names, id);
    let question = question("projection", &reads);
    let mut sink = HashSink::default();
    sink.digest("question", &question);
    sink.digest("root", &root);
    let memo = sink.finish();
    let kept = store.cache().get(MEMO, &memo)?;
    if let Some(bytes) = kept.and_then(|bytes| <[u8; 32]>::try_from(&bytes[..]).ok()) {
        return Ok(Digest::from_bytes(bytes));
    }
    let base = projected();
    let keys = |items: Vec<Item>| -> Bytes {
        let keys = items.iter().map(|item| reads.see(item).key(&base));
        encode(&keys.collect::<Vec<Digest>>()).into()
    };
    let parts = parts::values(store, &root, Some(&question), keys)?;
    let mut keys = Vec::new();
    for part in parts {
        let unreadable = || ReadError::Unreadable("a list of keys cannot be read".to_owned());
        keys.extend(decode_digests(&part).ok_or_else(unreadable)?);
    }
    keys.sort_unstable();
    let mut sink = HashSink::default();
    keys.iter().for_each(|key| sink.digest("item", key));
    let digest = sink.finish();
    match store.cache().record(MEMO, &memo, digest.as_bytes().to_vec()) {
        Ok(()) | Err(cache::CacheError::ReadOnly { .. }) => Ok(digest),
        Err(error) => Err(error.into()),
    }
}

/// A question about the fields of items that a stage reads.
pub fn question(about: &str, reads: &ItemReads) -> Digest {
    let mut sink = HashSink::default();
    sink.text("question", about);
    sink.integer("id", i64::from(reads.id));
    reads.names.iter().for_each(|name| sink.text("field", name));
    sink.finish()
}

/// Stands for a job in the keys of items that no job has.
fn projected() -> Digest {
    Digest::of(b"projection")
}

/// The items of a data set with the fields that are read, each with its own digest.
pub fn project(
    store: &Store,
    root: &Digest,
    names: &[String],
    id: bool,
) -> Result<Vec<(Digest, Item)>, PlanError> {
    let dataset = store.dataset(root)?;
    let (reads, base) = (ItemReads::new(names, id), projected());
    let mut items = Vec::with_capacity(dataset.len());
    for bucket in &dataset.buckets {
        for item in store.chunk(&bucket.chunk)?.items {
            let seen = reads.see(&item);
            items.push((seen.key(&base), seen.to_item()));
        }
    }
    Ok(items)
}

/// Stage names for a reason.
pub fn names(pipeline: &Pipeline, stages: &[StageId]) -> Vec<String> {
    stages.iter().map(|id| pipeline.stage(*id).name.clone()).collect()
}
