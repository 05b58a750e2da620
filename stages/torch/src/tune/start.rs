//! The start of a training: the network of the base or of an earlier result, whole or with adapters.

use stage_core::{Context, Fields, GatherInput, StageError};
use stage_formats::pattern::is_match;
use tch::Device;

use super::preflight::{check_adapters, losses};
use super::{Base, Method, Tuning};
use crate::device::Machine;
use crate::nn::lora::{self, Adaptable};
use crate::patterns::{Match, matches};
use crate::stored;
use crate::train::Trainee;
use crate::train::clips::Clips;

/// Notes with counts.
type NoteCounts = Vec<(String, u64)>;

pub struct Start<'a, T: Tuning> {
    tuning: &'a T,
    method: &'a Method,
    /// The earlier result of the stage that provides the weights, if it fits the base.
    earlier: Option<T::Base>,
    /// Adapters that training continues from.
    adapters: Option<Fields>,
}

impl<'a, T: Tuning> Start<'a, T> {
    pub fn of(
        tuning: &'a T,
        method: &'a Method,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<Start<'a, T>, StageError> {
        let (base, parent) = (tuning.base().fields(), context.parent()?);
        let (mut earlier, mut adapters) = (None, None);
        match (method, parent) {
            (Method::Whole, Some(parent)) if shares_fields::<T>(base, &parent) => {
                earlier = Some(T::Base::read("parent", Some(&parent), context)?);
            }
            (Method::Adapters(_), Some(parent))
                if T::Base::lineage_of(&parent)?.check_base(base).is_ok() =>
            {
                adapters = Some(parent);
            }
            (Method::Adapters(_), _) => adapters = input.artifact("adapters").cloned(),
            (Method::Whole, _) => {}
        }
        Ok(Start { tuning, method, earlier, adapters })
    }

    /// The artifact that training continues from.
    pub fn continued(&self) -> Option<&Fields> {
        self.adapters.as_ref().or(self.earlier.as_ref().map(T::Base::fields))
    }

    /// The artifact with the initial values of the trained parameters.
    pub fn origin(&self) -> &Fields {
        self.continued().unwrap_or(self.tuning.base().fields())
    }

    pub fn into_earlier(self) -> Option<T::Base> {
        self.earlier
    }

    /// One replica of the model per device, ready for training, and what patterns have matched. The
    /// first one is looked at with a few clips.
    pub fn replicas(
        &self,
        machine: &Machine,
        mut sample: Option<&Clips<T::Clip>>,
        context: &mut dyn Context,
    ) -> Result<(Vec<T::Trainee>, NoteCounts), StageError> {
        let (mut replicas, mut found) = (Vec::new(), NoteCounts::new());
        for device in &self.tuning.plan().devices {
            let (replica, matched) =
                self.replica(machine.open(*device)?, sample.take(), context)?;
            replicas.push(replica);
            found = matched;
        }
        Ok((replicas, found))
    }

    fn replica(
        &self,
        device: Device,
        sample: Option<&Clips<T::Clip>>,
        context: &mut dyn Context,
    ) -> Result<(T::Trainee, NoteCounts), StageError> {
        let (tuning, kind) = (self.tuning, self.tuning.plan().precision.kind());
        let source = self.earlier.as_ref().unwrap_or(tuning.base());
        let mut trainee = tuning.trainee(source.load(device, kind, context)?)?;
        let evaluate = |trainee: &T::Trainee, sample: &Clips<T::Clip>| {
            losses(trainee, &*tuning.data(sample)?, sample.clips.len())
        };
        let without = sample.map(|sample| evaluate(&trainee, sample)).transpose()?;
        if let (Some(sample), Some(losses)) = (sample, &without) {
            tuning.look(&trainee, losses, sample, context)?;
        }
        let (what, found) = match self.method {
            Method::Whole => ("frozen tensors", self.train_all(trainee.network())?),
            Method::Adapters(settings) => {
                let seed = tuning.plan().seed;
                ("modules", lora::attach(trainee.network_mut(), settings, seed)?)
            }
        };
        if let (Method::Adapters(_), Some(sample), Some(without)) = (self.method, sample, &without)
        {
            check_adapters(without, &evaluate(&trainee, sample)?)?;
        }
        if let Some(adapters) = &self.adapters {
            T::Base::lineage_of(adapters)?.check_base(tuning.base().fields())?;
            lora::load(trainee.network_mut(), stored::weights(adapters, context)?)?;
        }
        let note = |one: Match| (format!("{what} of `{}`", one.pattern), one.count as u64);
        Ok((trainee, found.into_iter().map(note).collect()))
    }

    /// Every tensor learns, except the frozen ones.
    fn train_all(&self, net: &<T::Base as Base>::Network) -> Result<Vec<Match>, StageError> {
        let (tensors, patterns) = (net.tensors(), self.tuning.frozen());
        let names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
        let found = matches(patterns, "tensor", &names)?;
        for (name, tensor) in &tensors {
            let is_frozen = patterns.iter().any(|pattern| is_match(pattern, name));
            let _ = tensor.set_requires_grad(!is_frozen);
        }
        Ok(found)
    }
}

/// Tests if rows of the vocabulary mean the same in both, as the engine does before a run.
fn shares_fields<T: Tuning>(base: &Fields, parent: &Fields) -> bool {
    let base_port = T::Base::kinds().finetune.input("base");
    base_port.is_none_or(|port| port.parent_needs.are_met(parent, base))
}
