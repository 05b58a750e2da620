//! `fish.merge`: adapters added to their base.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, PortOutput, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::dual_ar::kinds as fish;

use crate::error::guarded;
use crate::fish::model::{Model, adapted};
use crate::lineage::{self, AdapterLineage, ModelLineage};
use crate::train::merge::merged;

pub struct FishMerge;

impl Stage for FishMerge {
    fn kind(&self) -> &'static Kind {
        &fish::MERGE
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let kind = match setup.parameters.text("dtype")? {
            "bf16" => Some(tch::Kind::BFloat16),
            "fp16" => Some(tch::Kind::Half),
            "f32" => Some(tch::Kind::Float),
            _ => None,
        };
        Ok(Job::Gather(Box::new(MergeJob { kind })))
    }
}

struct MergeJob {
    /// The type of all written tensors; None keeps each as it is.
    kind: Option<tch::Kind>,
}

impl GatherJob for MergeJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        guarded(|| self.merge(&input, context))
    }
}

impl MergeJob {
    fn merge(
        &self,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let base = Model::read("base", input.artifact("base"), context)?;
        let adapters = input.artifact("adapters");
        let adapters =
            adapters.ok_or_else(|| StageError::failed("no adapters arrived on port `adapters`"))?;
        AdapterLineage::of(adapters)?.check_base(&base.fields)?;
        let mut model = base.shell(context)?;
        adapted(&mut model, adapters, context)?;
        let tensors = artifact::tensors(&base.fields);
        let merged = merged(tensors, &mut model, self.kind, context)?;

        let mut lineage = ModelLineage::from(&base.fields, fish::MERGE.name);
        lineage.adapters.push(lineage::digest(adapters).to_string());
        let mut values = base.carried(&lineage);
        values.extend(artifact::stored_tensors(&merged.tensors));
        let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
        let notes = vec![("modules merged".to_owned(), merged.modules as u64)];
        Ok(GatherOutput { notes, ..output })
    }
}
