//! `xtts.merge`: adapters added to their base.

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, PortOutput, Setup, Stage, StageError,
};
use stage_families::artifact;
use stage_families::xtts::{GPT_PREFIX, tune};

use crate::error::guarded;
use crate::lineage::{self, AdapterLineage, ModelLineage};
use crate::lora::{self, LoraSettings};
use crate::stored;
use crate::train::merge::merged;
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
    let mut model = base.shell(context)?;
    let (rank, alpha, patterns) = (trained.rank, trained.alpha, trained.modules);
    let settings = LoraSettings { rank, alpha, dropout: 0.0, patterns };
    lora::attach(&mut model, &settings, 0, tch::Kind::Float)?;
    lora::load(&mut model, stored::weights(adapters, context)?)?;
    let is_gpt = |name: &str| name.starts_with(GPT_PREFIX);
    let tensors = artifact::tensors(&base.fields).filter(|(name, _)| is_gpt(name));
    let merged = merged(tensors, &mut model, None, context)?;

    let mut lineage = ModelLineage::from(&base.fields, tune::MERGE.name);
    lineage.adapters.push(lineage::digest(adapters).to_string());
    let mut values = base.carried(&lineage, is_gpt);
    values.extend(artifact::stored_tensors(&merged.tensors));
    let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
    let notes = vec![("modules merged".to_owned(), merged.modules as u64)];
    Ok(GatherOutput { notes, ..output })
}
