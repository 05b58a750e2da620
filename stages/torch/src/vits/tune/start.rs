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

/// The origin of a discriminator that was in the base.
const BASE: &str = "base";

/// The tensors of the duration predictor.
const DURATIONS: &str = "duration_predictor.*";

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
        let source = self.plan.source;
        if source == DiscriminatorSource::None && self.other.is_some() {
            return Err(StageError::with_help(
                "a model arrived on port `judge`, but `discriminator` is `none`",
                "remove one of them",
            ));
        }
        if let Some(parent) = self.parent {
            let parent = VitsModel::read("parent", Some(parent), context)?;
            let (judge, weights) = parted(stored::weights(&parent.fields, context)?);
            return self.judged(weights, judge, "parent");
        }
        let (judge, weights) = parted(stored::weights(&self.base.fields, context)?);
        match self.other {
            Some(other) => {
                let other = VitsModel::read("judge", Some(other), context)?;
                let (judge, _) = parted(stored::weights(&other.fields, context)?);
                match judge.is_empty() {
                    true => Err(no_discriminator()),
                    false => Ok((together(weights, judge), "port")),
                }
            }
            None => self.judged(weights, judge, BASE),
        }
    }

    /// With the discriminator `judge` of the model `from`, if it has one, or another.
    fn judged(
        &self,
        weights: Weights,
        judge: Vec<(String, tch::Tensor)>,
        from: &'static str,
    ) -> Result<(Weights, &'static str), StageError> {
        match (self.plan.source, judge.is_empty()) {
            (DiscriminatorSource::None, _) => Ok((weights, "none")),
            (DiscriminatorSource::New, _) if from == BASE => {
                Ok((together(weights, self.fresh()), "new"))
            }
            (_, false) => Ok((together(weights, judge), from)),
            (DiscriminatorSource::Base, true) => Err(no_discriminator()),
            (_, true) => Ok((together(weights, self.fresh()), "new")),
        }
    }

    /// Patterns of the tensors that stay as they are.
    pub fn frozen(&self) -> Vec<String> {
        let mut frozen = self.plan.freeze.clone();
        if self.base.config.fixed_durations && !frozen.iter().any(|own| own == DURATIONS) {
            frozen.push(DURATIONS.to_owned());
        }
        frozen
    }

    /// Both networks on a device.
    pub fn nets(&self, weights: &Weights, device: Device) -> Result<Networks, StageError> {
        let copy = weights.iter().map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone()));
        let prepared = prepare(&self.base.config, copy.collect(), WeightForm::Normed, device)?;
        Ok(Networks::new(&self.base.config, prepared, self.plan.options)?)
    }

    fn fresh(&self) -> Vec<(String, tch::Tensor)> {
        fresh::discriminator(&self.base.config, self.plan.training.seed).into_iter().collect()
    }
}

fn no_discriminator() -> StageError {
    StageError::with_help(
        "the model has no discriminator, which training needs",
        "set `discriminator` to `auto` for a fresh one, or pass a model with one on port `judge`",
    )
}

fn together(mut weights: Weights, judge: Vec<(String, tch::Tensor)>) -> Weights {
    judge.into_iter().for_each(|(name, tensor)| weights.insert(name, tensor));
    weights
}

/// Splits the tensors into those of the discriminator and the others.
fn parted(weights: Weights) -> (Vec<(String, tch::Tensor)>, Weights) {
    let (judge, others): (Vec<_>, Vec<_>) =
        weights.into_iter().partition(|(name, _)| name.starts_with(DISCRIMINATOR_PREFIX));
    (judge, others.into_iter().collect())
}
