//! A training of a network, of all its weights or of adapters: from the inputs on the ports to the
//! result. A family states its part by [`Tuning`].

mod base;
pub mod preflight;
mod source;
pub mod stage;
mod start;

use stage_core::course::Course;
use stage_core::device::DeviceId;
use stage_core::{Blob, Context, GatherInput, Output, Parameters, StageError};

pub use self::base::{Base, Kinds};
pub use self::source::NetworkSource;
use self::start::Start;
use crate::device::Machine;
use crate::error::TorchError;
use crate::lineage;
use crate::nn::lora::LoraSettings;
use crate::train::clips::{Clips, Sides};
use crate::train::losses::Means;
use crate::train::plan::TrainingPlan;
use crate::train::{ContextHost, Data, Settings, Trainee, TrainingJob, TrainingResult, rehearsal};

/// The number of clips in a preflight.
const CLIPS: usize = 8;

/// The trained part.
#[derive(Clone, Debug)]
pub enum Method {
    Whole,
    Adapters(LoraSettings),
}

/// The inputs of a training.
pub struct TuningRequest<'a> {
    pub parameters: &'a Parameters,
    /// The device of the stage.
    pub device: DeviceId,
    pub machine: &'a Machine,
    pub input: &'a GatherInput,
}

/// The part of a family in its trainings.
pub trait Tuning: Sized {
    type Base: Base;
    type Trainee: Trainee<Network = <Self::Base as Base>::Network>;
    /// The content of a clip.
    type Clip: Clone;

    /// For the draw of held-out clips.
    const SALT: &'static str;

    /// Reads the parameters and the base.
    fn read(request: &TuningRequest<'_>, context: &mut dyn Context) -> Result<Self, StageError>;

    fn base(&self) -> &Self::Base;

    fn into_base(self) -> Self::Base;

    fn plan(&self) -> &TrainingPlan;

    /// Parameters of the network.
    fn parameters(&self) -> i64;

    fn clips(
        &self,
        sides: &Sides<'_>,
        context: &mut dyn Context,
    ) -> Result<Clips<Self::Clip>, StageError>;

    /// The course of the training and the settings of the trainer; `keep_kind` is the precision of
    /// the result.
    fn settings(
        &self,
        clips: &Clips<Self::Clip>,
        keep_kind: Option<tch::Kind>,
    ) -> Result<(Course, Settings), StageError>;

    /// Converts clips to batches.
    fn data<'a>(
        &'a self,
        clips: &'a Clips<Self::Clip>,
    ) -> Result<Box<dyn Data<<Self::Trainee as Trainee>::Batch> + 'a>, TorchError>;

    fn trainee(&self, net: <Self::Base as Base>::Network) -> Result<Self::Trainee, TorchError>;

    /// Patterns of tensors that stay as they are.
    fn frozen(&self) -> &[String] {
        &[]
    }

    /// Refuses clips that do not belong to the base; a part of the preflight.
    fn check(
        &self,
        _clips: &Clips<Self::Clip>,
        _context: &mut dyn Context,
    ) -> Result<(), StageError> {
        Ok(())
    }

    /// Reports the losses of the base on a few clips, and refuses lost weights.
    fn look(
        &self,
        trainee: &Self::Trainee,
        losses: &Means,
        clips: &Clips<Self::Clip>,
        context: &mut dyn Context,
    ) -> Result<(), StageError>;

    /// Synthesises a little; a part of the preflight.
    fn speak(&self, _net: &<Self::Base as Base>::Network) -> Result<(), StageError> {
        Ok(())
    }

    /// The TensorBoard name of a figure: that of the original project if it is the same measure.
    fn tag(name: &str) -> &str {
        name
    }
}

/// The result.
pub struct TunedModel<B> {
    pub base: B,
    /// The parent result, if training continued from one.
    pub earlier: Option<B>,
    /// Its digest, or that of earlier adapters.
    pub parent: Option<String>,
    pub trained: TrainingResult,
    /// The trained tensors of the result, by name, and the names of the frozen ones.
    pub weights: Vec<(String, Blob)>,
    pub frozen: Vec<String>,
    pub notes: Vec<(String, u64)>,
}

pub fn tune<T: Tuning>(
    request: &TuningRequest<'_>,
    method: &Method,
    context: &mut dyn Context,
) -> Result<TunedModel<T::Base>, StageError> {
    let tuning = T::read(request, context)?;
    let plan = tuning.plan();
    let sides = Sides::of(request.input, plan.validation_fraction, T::SALT)?;
    let mut clips = tuning.clips(&sides, context)?;
    let keep_kind = match method {
        Method::Whole => Some(tuning.base().kind(context)?),
        Method::Adapters(_) => None,
    };
    let (course, settings) = tuning.settings(&clips, keep_kind)?;
    context.begins(&course);

    let _kernels = plan.kernels.begin()?;
    let threads = request.machine.share_threads(tuning.parameters(), plan.devices.len());
    let start = Start::of(&tuning, method, request.input, context)?;
    let sample = clips.sample(CLIPS);
    let looked_at = preflight::identity(request, tuning.base().fields(), &sample);
    let is_due = plan.preflight
        && context.last_checkpoint()?.is_none()
        && context.recall(&looked_at)?.is_none();
    let sample = is_due.then_some(sample);
    if sample.is_some() {
        tuning.check(&clips, context)?;
    }
    let (mut replicas, found) = start.replicas(request.machine, sample.as_ref(), context)?;
    found.iter().for_each(|(what, count)| clips.notes.add(what, *count));
    if let Some(sample) = sample {
        let (data, order) = (tuning.data(&sample)?, sample.order());
        rehearsal::rehearse(&mut replicas, &*data, &order, &settings, context)?;
        tuning.speak(replicas[0].network())?;
        context.remember(&looked_at, Output::default())?;
    }

    let (data, order) = (tuning.data(&clips)?, clips.order());
    let job = TrainingJob {
        replicas: &mut replicas,
        data: &*data,
        clips: &order,
        held_out: &clips.held_out,
        settings: &settings,
    };
    let host = ContextHost::new(context, settings.last_step()).from(start.origin());
    let trained = host.train(job)?;
    drop((data, threads));
    let weights = trained.taken(plan.take_best)?;
    let parent = start.continued().map(|fields| lineage::digest(fields).to_string());
    let (earlier, notes) = (start.into_earlier(), clips.notes.close(&trained));
    let frozen = replicas[0].frozen().into_iter().map(|(name, _)| name).collect();
    Ok(TunedModel { base: tuning.into_base(), earlier, parent, trained, weights, frozen, notes })
}
