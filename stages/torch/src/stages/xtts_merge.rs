//! `xtts.merge`: adapters added to their base.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, PortOutput, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::xtts::tune;
use tch::Device;

use crate::error::{TorchError, guarded};
use crate::lineage::{self, AdapterLineage, ModelLineage};
use crate::stored;
use crate::train::lora::{self, LoraSettings};
use crate::xtts::tune::base::Base;

pub struct XttsMerge;

impl Stage for XttsMerge {
    fn kind(&self) -> &'static Kind {
        &tune::MERGE
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(MergeJob)))
    }
}

struct MergeJob;

impl GatherJob for MergeJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        guarded(|| merge(&input, context))
    }
}

fn merge(input: &GatherInput, context: &mut dyn Context) -> Result<GatherOutput, StageError> {
    let base = Base::read("base", input.artifact("base"), context)?;
    let adapters = input.artifact("adapters");
    let adapters =
        adapters.ok_or_else(|| StageError::failed("no adapters arrived on port `adapters`"))?;
    let trained = AdapterLineage::read(adapters, artifact::XTTS_LORA)?;
    trained.check_base(&base.fields)?;
    let float = tch::Kind::Float;
    let mut model = base.load(&base.config.gpt, Device::Cpu, float, context)?;
    let (rank, alpha, patterns) = (trained.rank, trained.alpha, trained.modules);
    let settings = LoraSettings { rank, alpha, dropout: 0.0, patterns };
    lora::attach(&mut model, &settings, 0, float)?;
    lora::load(&mut model, stored::weights(adapters, context)?)?;
    let merged = lora::merge(&mut model, float)?;

    let mut lineage = ModelLineage::from(&base.fields, tune::MERGE.name);
    lineage.adapters.push(lineage::digest(adapters).to_string());
    let tensors = model.tensors();
    let mut values = base.carried(&lineage, |name| tensors.iter().any(|(own, _)| own == name));
    let mut kept = Vec::with_capacity(tensors.len());
    for (name, tensor) in &tensors {
        let own = base.fields.blob(&artifact::tensor_field(name));
        let own = own.ok_or_else(|| StageError::failed(format!("no tensor `{name}`")))?;
        let kind = stored::recall(own, context)?.kind();
        // Rounded once.
        let rounded = tensor.f_to_kind(kind).map_err(TorchError::from)?;
        kept.push((name.clone(), stored::keep(&rounded, context)?));
    }
    values.extend(artifact::stored_tensors(&kept));
    let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
    Ok(GatherOutput { notes: vec![("modules merged".to_owned(), merged as u64)], ..output })
}
