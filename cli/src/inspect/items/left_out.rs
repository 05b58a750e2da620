//! The items of its input that a stage has left out.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::pipeline::{Reference, StageSpec, StageWork};
use stage_core::{Item, PortType};

use super::outputs::Outputs;
use crate::error::CliError;

/// The items that neither an output nor the quarantine of the stage has.
pub fn rows(all: &Outputs<'_>, spec: &StageSpec) -> Result<Vec<Item>, CliError> {
    let outputs = || spec.kind.outputs.iter().filter(|port| port.port_type == PortType::Dataset);
    let chosen = outputs().find_map(|port| spec.inputs.get(port.passes?));
    let Some(input) = chosen.filter(|_| spec.work == StageWork::Gather) else {
        if spec.work == StageWork::Train {
            return Err(CliError::usage(
                format!(
                    "`{}` is a training, which does not list the clips that it leaves out",
                    spec.name
                ),
                "`--quarantined` lists those that it refused; its notes in `throstle log` count duplicates",
            ));
        }
        return Err(CliError::usage(
            format!("`{}` leaves out no items", spec.name),
            "`--left-out` is for stages that choose items of a data set, such as `dataset.filter`",
        ));
    };
    let mut known: BTreeSet<Arc<str>> = BTreeSet::new();
    for port in outputs() {
        let there = all.rows(spec, port.name)?;
        known.extend(there.into_iter().map(|item| item.id));
    }
    known.extend(all.quarantined(spec)?.into_iter().map(|(id, _)| id));
    let mut found = Vec::new();
    for reference in &input.references {
        let Reference::Stage { stage, port } = reference else { continue };
        let arriving = all.rows(all.stage(*stage), port)?;
        found.extend(arriving.into_iter().filter(|item| !known.contains(&item.id)));
    }
    Ok(found)
}
