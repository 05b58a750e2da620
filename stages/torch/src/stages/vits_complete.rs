//! `vits.complete`: the posterior encoder of a model that only speaks.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, PortOutput, Setup, Stage,
    StageError, Value,
};
use stage_families::artifact;
use stage_families::vits::complete;

use crate::device::Machine;
use crate::lineage::ModelLineage;
use crate::train::log;
use crate::train::outputs::NamedValues;
use crate::vits::complete::{CompletedVits, VitsCompletion};

pub struct VitsComplete {
    pub machine: Machine,
}

impl Stage for VitsComplete {
    fn kind(&self) -> &'static Kind {
        &complete::COMPLETE
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(CompleteJob { setup, machine: self.machine.clone() })))
    }
}

struct CompleteJob {
    setup: Setup,
    machine: Machine,
}

impl GatherJob for CompleteJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let completion = VitsCompletion { setup: &self.setup, machine: &self.machine };
        let completed = completion.run(&input, context)?;
        let (kind, parameters) = (&complete::COMPLETE, &self.setup.parameters);
        let how = log::LogContext { kind, parameters, more: &[], tag: |name| name, rate: 0 };
        let log = log::fields(&completed.trained, &how, context)?;
        let output = GatherOutput::default()
            .with("model", PortOutput::Artifact(model(&completed)))
            .with("log", PortOutput::Artifact(log));
        Ok(GatherOutput { notes: completed.notes, ..output })
    }
}

/// The base with the new tensors.
fn model(completed: &CompletedVits) -> NamedValues {
    let base = &completed.base;
    let lineage = ModelLineage::from(&base.fields, complete::COMPLETE.name);
    let kept = artifact::tensors(&base.fields).map(|(name, blob)| {
        (artifact::tensor_field(name), NewValue::Kept(Value::Blob(blob.clone())))
    });
    let own = artifact::stored_tensors(&completed.weights);
    base.carried(&lineage).into_iter().chain(kept).chain(own).collect()
}
