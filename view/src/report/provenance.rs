//! Provenance: assets, sources, kinds and versions, parameters, licences.

use std::collections::{BTreeMap, BTreeSet};

use cache::Digest;
use engine::pipeline::Reference;
use engine::record::PortValue;
use stage_core::Work;

use super::seen::{Seen, SeenStage};

#[derive(Debug, Default)]
pub struct Provenance {
    pub assets: Vec<AssetOrigin>,
    pub stages: Vec<StageOrigin>,
    /// The stages with outputs under each licence.
    pub licenses: BTreeMap<String, Vec<String>>,
}

/// A file or folder that no stage made.
#[derive(Debug, PartialEq)]
pub struct AssetOrigin {
    pub name: String,
    pub path: String,
    pub license: Option<String>,
    /// The stages that read it.
    pub used_by: Vec<String>,
}

/// The inputs of a stage's result.
#[derive(Debug, Default)]
pub struct StageOrigin {
    pub stage: String,
    pub kind: String,
    pub version: u32,
    pub key: Option<Digest>,
    /// The data set or artifact on its first output, by content; for an artifact, its first object.
    pub content: Option<Digest>,
    pub is_source: bool,
    /// The parameters that determine the output, without secrets.
    pub parameters: Vec<(String, String)>,
    pub files: Vec<(String, Digest)>,
    pub licenses: BTreeSet<String>,
}

impl Provenance {
    pub fn of(seen: &Seen) -> Provenance {
        let mut licenses: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for stage in &seen.pipeline.stages {
            for license in &stage.licenses {
                licenses.entry(license.clone()).or_default().push(stage.name.clone());
            }
        }
        Provenance {
            assets: assets(seen),
            stages: seen.stages.iter().map(|stage| origin(seen, stage)).collect(),
            licenses,
        }
    }
}

fn assets(seen: &Seen) -> Vec<AssetOrigin> {
    let used_by = |name: &str| {
        let reads =
            |reference: &Reference| matches!(reference, Reference::Asset(own) if own == name);
        let stages = seen.pipeline.stages.iter();
        let readers = stages.filter(|s| s.inputs.values().any(|i| i.references.iter().any(reads)));
        readers.map(|stage| stage.name.clone()).collect()
    };
    let assets = seen.pipeline.assets.iter().map(|(name, asset)| AssetOrigin {
        name: name.clone(),
        path: asset.path.to_string(),
        license: asset.license.clone(),
        used_by: used_by(name),
    });
    assets.collect()
}

fn origin(seen: &Seen, stage: &SeenStage) -> StageOrigin {
    let spec = stage.spec;
    let last = stage.last.as_ref();
    let port = spec.kind.outputs.first().map_or("", |port| port.name);
    let value = stage.outcome.as_ref().and_then(|outcome| outcome.outputs.get(port));
    let run_key = seen.run.keys.get(&spec.name).copied();
    // Only the present state is stored in words; an older run may have had another.
    let known = last.filter(|last| run_key.is_none_or(|key| key == last.key.digest()));
    let shown = |parameters: &stage_core::Parameters| {
        let all = parameters.0.iter();
        all.map(|(name, value)| (name.clone(), value.to_string())).collect()
    };
    StageOrigin {
        stage: spec.name.clone(),
        kind: spec.kind.name.to_owned(),
        version: known.map_or(spec.kind.version, |last| last.key.version),
        key: run_key.or_else(|| last.map(|last| last.key.digest())),
        content: match value {
            Some(PortValue::Dataset { root, .. }) => Some(*root),
            Some(PortValue::Artifact(fields)) => fields.blobs().next().map(|blob| blob.digest),
            None => None,
        },
        is_source: spec.kind.work == Work::Source,
        parameters: known.map_or_else(Vec::new, |last| shown(&last.key.parameters)),
        files: known.map_or_else(Vec::new, |last| last.key.files.clone().into_iter().collect()),
        licenses: spec.licenses.clone(),
    }
}
