//! A training of VITS: from the inputs on the ports to the result.

pub mod clip;
mod plan;
mod preflight;
mod start;
mod voices;

use stage_core::{Blob, Context, GatherInput, Setup, StageError};
use stage_families::vits::CLIP_SALT;

use self::clip::{VitsClips, VitsData, VitsReading};
use self::plan::VitsPlan;
use self::preflight::VitsPreflight;
use self::start::VitsStart;
use super::artifact::VitsModel;
use super::trainee::VitsTrainee;
use crate::device::Machine;
use crate::lineage;
use crate::stored;
use crate::train::clips::Sides;
use crate::train::{ContextHost, Trainee, TrainingJob, TrainingResult, rehearsal};

/// The number of clips in a preflight.
const CLIPS: usize = 8;

/// The note on a model that only spoke before `vits.complete`.
const FIXED_DURATIONS: &str =
    "durations frozen: the half of their predictor that trains them is not in a published voice";

/// The result.
pub struct TunedVits {
    pub base: VitsModel,
    /// The digest of the parent, if training continued from one.
    pub parent: Option<String>,
    pub trained: TrainingResult,
    /// The trained tensors of the result, by name, and the frozen ones.
    pub weights: Vec<(String, Blob)>,
    pub frozen: Vec<(String, Blob)>,
    /// The origin of the discriminator.
    pub discriminator: &'static str,
    pub notes: Vec<(String, u64)>,
}

pub struct VitsTuning<'a> {
    pub setup: &'a Setup,
    pub machine: &'a Machine,
}

impl VitsTuning<'_> {
    pub fn run(
        &self,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<TunedVits, StageError> {
        let facts = |device| self.machine.facts(device);
        let plan = VitsPlan::read(&self.setup.parameters, self.setup.device, facts)?;
        let sides = Sides::of(input, plan.training.validation_fraction, CLIP_SALT)?;
        let mut base = VitsModel::read("base", input.artifact("base"), context)?;
        if base.config.speaks_only {
            return Err(StageError::with_help(
                "the model on port `base` only speaks: a graph lacks the parts that training needs",
                "put `vits.complete` before this stage, or train a model with them, such as one of MMS",
            ));
        }
        let parent = context.parent()?;
        voices::take_over(&mut base, parent.as_ref(), context)?;
        voices::name(&mut base, &sides, context)?;
        let joined = voices::join(&mut base, &sides, plan.may_join, context)?;
        plan.set_segment(&mut base.config)?;
        let reading = VitsReading { model: &base, max_seconds: plan.max_seconds };
        let mut clips = reading.clips(&sides, context)?;
        let (course, settings) = plan.settings(&clips, &base.config)?;
        context.begins(&course);
        if let Some(count) = voices::mixed(&base, &sides) {
            clips.notes.add("speakers, treated as one by the model", count);
        }

        for name in &joined {
            clips.notes.add(&format!("speaker `{name}` added to the model"), 1);
        }
        let is_new = context.last_checkpoint()?.is_none();
        let other = input.artifact("judge");
        let start = VitsStart { plan: &plan, base: &base, parent: parent.as_ref(), other };
        let devices = plan.training.devices.len();
        let threads = self.machine.share_threads(start.parameters(), devices);
        let (mut replicas, discriminator) = self.replicas(&start, &mut clips, context)?;
        if plan.training.preflight && is_new {
            let sample = clips.sample(CLIPS);
            let data = VitsData::new(&sample, &base.config);
            let preflight = VitsPreflight { base: &base, clips: &sample };
            preflight.look(&replicas[0], &data, context)?;
            rehearsal::rehearse(&mut replicas, &data, &sample.order(), &settings, context)?;
            preflight.speak(replicas[0].network().generator())?;
        }
        let (data, order) = (VitsData::new(&clips, &base.config), clips.order());
        let job = TrainingJob {
            replicas: &mut replicas,
            data: &data,
            clips: &order,
            held_out: &clips.held_out,
            settings: &settings,
        };
        let trained = ContextHost::new(context, settings.last_step()).train(job)?;
        drop(threads);
        let frozen = kept(&replicas[0].frozen(), context)?;
        let weights = trained.taken(plan.training.take_best)?;
        let parent = parent.map(|parent| lineage::digest(&parent).to_string());
        let notes = clips.notes.close(&trained);
        Ok(TunedVits { base, parent, trained, weights, frozen, discriminator, notes })
    }

    /// One replica of the model per device, ready for training.
    fn replicas(
        &self,
        start: &VitsStart<'_>,
        clips: &mut VitsClips,
        context: &mut dyn Context,
    ) -> Result<(Vec<VitsTrainee>, &'static str), StageError> {
        let mut replicas = Vec::new();
        let (weights, discriminator) = start.weights(context)?;
        clips.notes.add(&format!("discriminator: {discriminator}"), 1);
        let frozen = start.frozen();
        if start.base.config.fixed_durations {
            clips.notes.add(FIXED_DURATIONS, 1);
        }
        for (at, device) in start.plan.training.devices.iter().enumerate() {
            let mut nets = start.nets(&weights, self.machine.open(*device)?)?;
            for one in nets.freeze(&frozen)? {
                if at == 0 {
                    clips.notes.add(&format!("tensors of `{}`", one.pattern), one.count as u64);
                }
            }
            replicas.push(VitsTrainee::new(nets));
        }
        Ok((replicas, discriminator))
    }
}

fn kept(
    tensors: &[(String, tch::Tensor)],
    context: &mut dyn Context,
) -> Result<Vec<(String, Blob)>, StageError> {
    let keep =
        |(name, tensor): &(String, tch::Tensor)| Ok((name.clone(), stored::keep(tensor, context)?));
    tensors.iter().map(keep).collect()
}
