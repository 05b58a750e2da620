//! Provenance: assets, sources, kinds and versions, parameters, licences.

use std::collections::{BTreeMap, BTreeSet};

use cache::Digest;
use engine::pipeline::Reference;
use engine::record::PortValue;
use stage_core::key::{HashSink, write_value};
use stage_core::{Value, Work};

use super::run_data::{RunData, StageData};

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
    /// The content of its first output.
    pub content: Option<Digest>,
    pub is_source: bool,
    /// The parameters that determine the output, without secrets.
    pub parameters: Vec<(String, String)>,
    pub files: Vec<(String, Digest)>,
    pub licenses: BTreeSet<String>,
}

impl Provenance {
    pub fn of(seen: &RunData) -> Provenance {
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

fn assets(seen: &RunData) -> Vec<AssetOrigin> {
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

fn origin(seen: &RunData, stage: &StageData) -> StageOrigin {
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
        content: value.map(content),
        is_source: spec.kind.work == Work::Source,
        parameters: known.map_or_else(Vec::new, |last| shown(&last.key.parameters)),
        files: known.map_or_else(Vec::new, |last| last.key.files.clone().into_iter().collect()),
        licenses: spec.licenses.clone(),
    }
}

/// The content of an output: the data set, the only file of an artifact, or all of its files by name.
/// An artifact without files has the content of its values.
fn content(value: &PortValue) -> Digest {
    let fields = match value {
        PortValue::Dataset { root, .. } => return *root,
        PortValue::Artifact(fields) => fields,
    };
    let mut blobs = fields.blobs();
    let (first, second) = (blobs.next(), blobs.next());
    match (first, second) {
        (Some(only), None) => only.digest,
        _ => {
            let mut sink = HashSink::default();
            let is_content = |value: &Value| first.is_none() || value.as_blob().is_some();
            for (name, value) in fields.iter().filter(|(_, value)| is_content(value)) {
                write_value(name, value, &mut sink);
            }
            sink.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stage_core::{Blob, Fields};

    use super::*;

    fn blob(bytes: &[u8]) -> Value {
        let (digest, size) = (Digest::of(bytes), bytes.len() as u64);
        Value::Blob(Arc::new(Blob { digest, size, kind: "bytes".into() }))
    }

    fn model(weights: &[u8], trained_as: &str) -> PortValue {
        let fields = [
            ("config", blob(b"{}")),
            ("lineage", Value::text(trained_as)),
            ("weight", blob(weights)),
        ];
        PortValue::Artifact(fields.into_iter().collect())
    }

    #[test]
    fn models_of_one_configuration_differ_by_their_weights() {
        let (untrained, trained) = (model(b"0", "a"), model(b"1", "a"));
        assert_ne!(content(&untrained), content(&trained));
        assert_eq!(content(&trained), content(&model(b"1", "b")), "the files are the same");
    }

    #[test]
    fn a_single_file_has_its_own_digest_and_values_have_one_too() {
        let of = |fields: [(&str, Value); 2]| {
            content(&PortValue::Artifact(fields.into_iter().collect()))
        };
        let report = of([("report", blob(b"{}")), ("score", Value::Number(1.0))]);
        assert_eq!(report, Digest::of(b"{}"));
        let score = |number| of([("score", Value::Number(number)), ("unit", Value::text("dB"))]);
        assert_ne!(score(1.0), score(2.0));
        let root = Digest::of(b"root");
        assert_eq!(content(&PortValue::Dataset { root, items: 1 }), root);
        assert_ne!(content(&PortValue::Artifact(Fields::new())), root);
    }
}
