//! The start of a training: the GPT of the base or of an earlier result, whole or with adapters.

use stage_core::{Context, Fields, StageError};
use tch::Device;

use super::Method;
use super::base::Base;
use super::plan::Plan;
use crate::lineage::AdapterLineage;
use crate::lora::{self, LoraSettings};
use crate::patterns::{Match, matches};
use crate::stored;
use crate::xtts::{GptTrainee, Memory};
use stage_families::artifact;
use stage_formats::pattern::is_match;

pub struct Start<'a> {
    pub plan: &'a Plan,
    /// The model that provides the weights.
    pub source: &'a Base,
    /// Adapters that training continues from.
    pub earlier: Option<&'a Fields>,
}

impl Start<'_> {
    pub fn load(
        &self,
        device: Device,
        context: &mut dyn Context,
    ) -> Result<GptTrainee, StageError> {
        let config = self.plan.config(&self.source.config.gpt);
        let kind = self.plan.training.precision.kind();
        let mut model = self.source.load(&config, device, kind, context)?;
        model.set_attention_dropout(self.plan.attention_dropout());
        let recompute = self.plan.recompute;
        Ok(GptTrainee::new(model, Memory { recompute, ..Memory::default() }))
    }

    /// Prepares the trained parameters; counts the matches of patterns.
    pub fn prepare(
        &self,
        method: &Method,
        trainee: GptTrainee,
    ) -> Result<(GptTrainee, Vec<(String, u64)>), StageError> {
        let note =
            |what: &str, one: Match| (format!("{what} of `{}`", one.pattern), one.count as u64);
        match method {
            Method::Whole => {
                let trainee = trainee.train_all();
                let found = self.freeze(&trainee)?;
                Ok((trainee, found.into_iter().map(|one| note("frozen tensors", one)).collect()))
            }
            Method::Adapters(settings) => {
                let (trainee, found) = self.attach(settings, trainee)?;
                Ok((trainee, found.into_iter().map(|one| note("modules", one)).collect()))
            }
        }
    }

    fn freeze(&self, trainee: &GptTrainee) -> Result<Vec<Match>, StageError> {
        let tensors = trainee.model().tensors();
        let names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
        let found = matches(&self.plan.freeze, "tensor", &names)?;
        for (name, tensor) in &tensors {
            if self.plan.freeze.iter().any(|pattern| is_match(pattern, name)) {
                let _ = tensor.set_requires_grad(false);
            }
        }
        Ok(found)
    }

    fn attach(
        &self,
        settings: &LoraSettings,
        mut trainee: GptTrainee,
    ) -> Result<(GptTrainee, Vec<Match>), StageError> {
        let training = &self.plan.training;
        let kind = training.precision.kind();
        let found = lora::attach(trainee.model_mut(), settings, training.seed, kind)?;
        Ok((trainee, found))
    }

    /// Loads the values of earlier adapters.
    pub fn fill(
        &self,
        base: &Base,
        trainee: &mut GptTrainee,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let Some(earlier) = self.earlier else { return Ok(()) };
        AdapterLineage::read(earlier, artifact::XTTS_LORA)?.check_base(&base.fields)?;
        Ok(lora::load(trainee.model_mut(), stored::weights(earlier, context)?)?)
    }
}
