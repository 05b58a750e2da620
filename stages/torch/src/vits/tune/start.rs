//! The start of a training: a generator, and a discriminator from one of several sources.

use stage_core::{Context, Fields, StageError};
use stage_families::vits::DISCRIMINATOR_PREFIX;
use tch::Device;

use super::plan::{DiscriminatorSource, VitsPlan};
use super::voices;
use crate::nn::weights::Weights;
use crate::stored;
use crate::vits::artifact::VitsModel;
use crate::vits::{Networks, WeightForm, fresh, prepare};

pub struct VitsStart<'a> {
    pub plan: &'a VitsPlan,
    pub base: &'a VitsModel,
    /// The parent result, if there is one.
    pub parent: Option<&'a Fields>,
    /// A model that provides the discriminator.
    pub other: Option<&'a Fields>,
}

impl VitsStart<'_> {
    /// Of both networks.
    pub fn parameters(&self) -> i64 {
        let config = &self.base.config;
        let tensors = config.generator().into_iter().chain(config.discriminator());
        tensors.map(|(_, shape)| shape.iter().product::<i64>()).sum()
    }

    /// The stored tensors of both networks, with rows for new speakers, and the origin of the
    /// discriminator.
    pub fn weights(
        &self,
        context: &mut dyn Context,
    ) -> Result<(Weights, &'static str), StageError> {
        let (mut weights, from) = self.stored(context)?;
        let names = self.base.speakers.as_deref().unwrap_or_default();
        voices::seat(&mut weights, names, self.plan.training.seed);
        Ok((weights, from))
    }

    fn stored(&self, context: &mut dyn Context) -> Result<(Weights, &'static str), StageError> {
        if let Some(parent) = self.parent {
            let parent = VitsModel::read("parent", Some(parent), context)?;
            return Ok((stored::weights(&parent.fields, context)?, "parent"));
        }
        let weights = stored::weights(&self.base.fields, context)?;
        let (judge, mut weights) = parted(weights);
        let (judge, from) = match (self.other, self.plan.source, judge.is_empty()) {
            (Some(other), ..) => {
                let other = VitsModel::read("judge", Some(other), context)?;
                (parted(stored::weights(&other.fields, context)?).0, "port")
            }
            (None, DiscriminatorSource::Auto | DiscriminatorSource::Base, false) => (judge, "base"),
            (None, DiscriminatorSource::Base, true) => (judge, "none"),
            _ => (self.fresh()?, "new"),
        };
        if judge.is_empty() {
            return Err(StageError::with_help(
                "the model has no discriminator, which training needs",
                "set `discriminator` to `auto` for a fresh one, or pass a model with one on port \
                 `judge`",
            ));
        }
        judge.into_iter().for_each(|(name, tensor)| weights.insert(name, tensor));
        Ok((weights, from))
    }

    /// Both networks on a device.
    pub fn nets(&self, weights: &Weights, device: Device) -> Result<Networks, StageError> {
        let copy = weights.iter().map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone()));
        let prepared = prepare(&self.base.config, copy.collect(), WeightForm::Normed, device)?;
        Ok(Networks::new(&self.base.config, prepared, self.plan.options)?)
    }

    fn fresh(&self) -> Result<Vec<(String, tch::Tensor)>, StageError> {
        let seed = self.plan.training.seed;
        Ok(fresh::discriminator(&self.base.config, seed).into_iter().collect())
    }
}

/// Splits the tensors into those of the discriminator and the others.
fn parted(weights: Weights) -> (Vec<(String, tch::Tensor)>, Weights) {
    let (judge, others): (Vec<_>, Vec<_>) =
        weights.into_iter().partition(|(name, _)| name.starts_with(DISCRIMINATOR_PREFIX));
    (judge, others.into_iter().collect())
}
