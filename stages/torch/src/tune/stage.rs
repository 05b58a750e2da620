//! The stages of a family with adapters: training of the whole network, of adapters, and the merge
//! of adapters with their base.

use std::marker::PhantomData;

use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, PortOutput, Setup, Stage,
    StageError,
};
use stage_families::artifact;

use super::{Base, Method, TunedModel, Tuning, TuningRequest, tune};
use crate::device::Machine;
use crate::lineage::{self, AdapterLineage, ModelLineage};
use crate::nn::lora::LoraSettings;
use crate::nn::weights::kind_named;
use crate::train::log;
use crate::train::merge::merged;
use crate::train::outputs::{NamedValues, TrainingOutcome};

/// The stages of a family.
pub fn stages<T: Tuning + 'static>(machine: &Machine) -> [Box<dyn Stage>; 3] {
    let kinds = T::Base::kinds();
    let train = |kind| Train::<T> { kind, machine: machine.clone(), family: PhantomData };
    let merge = Merge::<T::Base>(PhantomData);
    [Box::new(train(kinds.finetune)), Box::new(train(kinds.lora)), Box::new(merge)]
}

struct Train<T> {
    kind: &'static Kind,
    machine: Machine,
    family: PhantomData<fn() -> T>,
}

impl<T: Tuning + 'static> Stage for Train<T> {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let (kinds, parameters) = (T::Base::kinds(), &setup.parameters);
        let method = if self.kind.name == kinds.lora.name {
            Method::Adapters(LoraSettings {
                rank: parameters.integer("rank")?,
                alpha: parameters.number("alpha")?,
                dropout: parameters.number(kinds.lora_dropout)?,
                patterns: parameters.texts("modules")?.into_iter().map(str::to_owned).collect(),
            })
        } else {
            Method::Whole
        };
        let (kind, machine, family) = (self.kind, self.machine.clone(), PhantomData);
        Ok(Job::Gather(Box::new(TrainJob::<T> { kind, setup, machine, method, family })))
    }
}

struct TrainJob<T> {
    kind: &'static Kind,
    setup: Setup,
    machine: Machine,
    method: Method,
    family: PhantomData<fn() -> T>,
}

impl<T: Tuning> GatherJob for TrainJob<T> {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let Setup { parameters, device, .. } = &self.setup;
        let device = *device;
        let request = TuningRequest { parameters, device, machine: &self.machine, input: &input };
        let tuned = tune::<T>(&request, &self.method, context)?;
        let (port, common) = match &self.method {
            Method::Whole => ("model", model(&tuned)),
            Method::Adapters(lora) => ("adapters", adapters(&tuned, lora)),
        };
        let how = log::LogContext { kind: self.kind, parameters, more: &[], tag: T::tag, rate: 0 };
        let (weights, trained, notes) = (&tuned.weights, &tuned.trained, tuned.notes);
        TrainingOutcome { port, common, weights, trained, notes }.output(&how, context)
    }
}

/// The fields of a trained model, without its trained tensors.
fn model<B: Base>(tuned: &TunedModel<B>) -> NamedValues {
    let lineage = ModelLineage {
        parent: tuned.parent.clone(),
        ..ModelLineage::from(tuned.base.fields(), B::kinds().finetune.name)
    };
    let source = tuned.earlier.as_ref().unwrap_or(&tuned.base);
    source.carried(&lineage, |name| !B::is_own(name) || tuned.frozen.iter().any(|own| own == name))
}

/// The fields of trained adapters, without their tensors.
fn adapters<B: Base>(tuned: &TunedModel<B>, lora: &LoraSettings) -> NamedValues {
    let base = tuned.base.fields();
    let lineage = AdapterLineage {
        base: lineage::digest(base).to_string(),
        rank: lora.rank,
        alpha: lora.alpha,
        modules: lora.patterns.clone(),
        parent: tuned.parent.clone(),
    };
    let text = |name: &str, text: &str| (name.to_owned(), NewValue::Text(text.to_owned()));
    let license = base.get(artifact::LICENSE);
    let own = [
        text(artifact::FAMILY, B::kinds().adapters),
        text(artifact::LINEAGE, &lineage::to_text(&lineage)),
    ];
    let license =
        license.map(|license| (artifact::LICENSE.to_owned(), NewValue::Kept(license.clone())));
    own.into_iter().chain(license).collect()
}

struct Merge<B>(PhantomData<fn() -> B>);

impl<B: Base + 'static> Stage for Merge<B> {
    fn kind(&self) -> &'static Kind {
        B::kinds().merge
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        // Without such a parameter, each tensor keeps its type.
        let kind = setup.parameters.text("dtype").ok().and_then(kind_named);
        Ok(Job::Gather(Box::new(MergeJob::<B> { kind, family: PhantomData })))
    }
}

struct MergeJob<B> {
    /// The type of all written tensors; None keeps each as it is.
    kind: Option<tch::Kind>,
    family: PhantomData<fn() -> B>,
}

impl<B: Base> GatherJob for MergeJob<B> {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        self.merge(&input, context)
    }
}

impl<B: Base> MergeJob<B> {
    fn merge(
        &self,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let base = B::read("base", input.artifact("base"), context)?;
        let adapters = input.artifact("adapters");
        let adapters =
            adapters.ok_or_else(|| StageError::failed("no adapters arrived on port `adapters`"))?;
        // Refused before a tensor is read.
        B::lineage_of(adapters)?.check_base(base.fields())?;
        let mut net = base.shell(context)?;
        base.adapt(&mut net, adapters, context)?;
        let merged = merged(base.own(), &mut net, self.kind, context)?;

        let mut lineage = ModelLineage::from(base.fields(), B::kinds().merge.name);
        lineage.adapters.push(lineage::digest(adapters).to_string());
        let mut values = base.carried(&lineage, |name| !B::is_own(name));
        values.extend(artifact::stored_tensors(&merged.tensors));
        let output = GatherOutput::default().with("model", PortOutput::Artifact(values));
        let notes = vec![("modules merged".to_owned(), merged.modules as u64)];
        Ok(GatherOutput { notes, ..output })
    }
}
