//! `fish.merge`: adapters added to their base.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, PortOutput, Setup, Stage,
    StageError,
};
use stage_families::artifact;
use stage_families::dual_ar::kinds as fish;
use tch::{Device, Tensor};

use crate::dual_ar::DualAr;
use crate::error::{TorchError, guarded};
use crate::fish::model::{Model, adapted};
use crate::lineage::{self, AdapterLineage, ModelLineage};
use crate::stored;
use crate::train::lora;

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
        let mut model = base.load(Device::Cpu, tch::Kind::Float, Default::default(), context)?;
        adapted(&mut model, adapters, context)?;
        let merged = lora::merge(&mut model, tch::Kind::Float)?;

        let mut lineage = ModelLineage::from(&base.fields, fish::MERGE.name);
        lineage.adapters.push(lineage::digest(adapters).to_string());
        let mut values = base.carried(&lineage);
        values.extend(self.tensors(&base, &model, context)?);
        let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
        Ok(GatherOutput { notes: vec![("modules merged".to_owned(), merged as u64)], ..output })
    }

    /// Rounded once. A tensor that did not change is the existing one.
    fn tensors(
        &self,
        base: &Model,
        model: &DualAr,
        context: &mut dyn Context,
    ) -> Result<Vec<(String, NewValue)>, StageError> {
        let mut values = Vec::new();
        for (name, tensor) in model.tensors() {
            let kind = match self.kind {
                Some(kind) => kind,
                None => base.kind_of(&name, context)?,
            };
            let rounded: Tensor = tensor.f_to_kind(kind).map_err(TorchError::from)?;
            let kept = stored::keep(&rounded, context)?;
            values.push((artifact::tensor_field(&name), NewValue::blob(kept)));
        }
        Ok(values)
    }
}
