//! The complete inputs of a stage, in the form that its job takes.

use std::collections::BTreeMap;

use stage_core::Fields;

use super::message::{GatherSource, GatherSources};
use crate::pipeline::{Pipeline, Reference, StageSpec};
use crate::plan::inputs::{arriving, taking_part};
use crate::plan::{PlannedValue, StageKnowledge};

/// The artifacts by port.
pub fn artifacts(
    pipeline: &Pipeline,
    known: &[impl AsRef<StageKnowledge>],
    assets: &BTreeMap<String, Fields>,
    spec: &StageSpec,
) -> BTreeMap<String, Vec<Fields>> {
    let arriving = arriving(pipeline, known, assets, spec);
    let ports = arriving.ports.iter().map(|(port, arrived)| {
        let fields = arrived.iter().filter_map(|one| one.artifact().cloned());
        ((*port).to_owned(), fields.collect::<Vec<_>>())
    });
    ports.filter(|(_, fields)| !fields.is_empty()).collect()
}

pub fn gather_sources(
    pipeline: &Pipeline,
    known: &[impl AsRef<StageKnowledge>],
    assets: &BTreeMap<String, Fields>,
    spec: &StageSpec,
) -> GatherSources {
    let mut ports = BTreeMap::new();
    for (port, input) in &spec.inputs {
        let reads_rejects = spec.kind.input(port).is_some_and(|port| port.reads_rejects);
        let source = |reference: &Reference| match reference {
            Reference::Asset(name) => GatherSource::Artifact {
                stage: format!("assets.{name}"),
                fields: assets.get(name).cloned().unwrap_or_default(),
            },
            Reference::Stage { stage, port } => {
                let known = known[stage.0].as_ref();
                let stage = pipeline.stage(*stage).name.clone();
                match known.outputs.get(port) {
                    Some(PlannedValue::Root { root, .. }) => GatherSource::Dataset {
                        stage,
                        root: *root,
                        reads: input.reads.clone(),
                        rejects: if reads_rejects { known.rejects.clone() } else { Vec::new() },
                    },
                    Some(PlannedValue::Artifact(fields)) => {
                        GatherSource::Artifact { stage, fields: fields.clone() }
                    }
                    _ => GatherSource::Artifact { stage, fields: Fields::new() },
                }
            }
        };
        ports.insert(*port, taking_part(input, known).map(source).collect());
    }
    ports
}
