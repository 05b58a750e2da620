//! A training of the GPT, of all its weights or of adapters: from the inputs on the ports to the
//! result.

pub mod base;
pub mod clip;
mod codes;
mod crop;
mod plan;
mod preflight;
mod start;

use stage_core::{Blob, Context, Fields, GatherInput, Setup, StageError};
use stage_families::artifact;
use tch::Device;

use self::base::Base;
use self::clip::{ClipData, Clips, Reading, SALT};
use self::plan::Plan;
use self::preflight::Preflight;
use self::start::Start;
use super::trainee::GptTrainee;
use crate::lineage::{self, AdapterLineage};
use crate::lora::LoraSettings;
use crate::machine::Machine;
use crate::train::clips::Sides;
use crate::train::frozen::{check_frozen, frozen};
use crate::train::run::{Job, Trained, train};
use crate::train::{ContextHost, Settings, Trainee};

/// The trained part.
pub enum Method {
    Whole,
    Adapters(LoraSettings),
}

/// The result.
pub struct Tuned {
    pub base: Base,
    /// The parent result, if training continued from one.
    pub earlier: Option<Base>,
    /// Its digest, or that of earlier adapters.
    pub parent: Option<String>,
    pub trained: Trained<Blob>,
    /// The trained tensors of the result, by name.
    pub weights: Vec<(String, Blob)>,
    pub notes: Vec<(String, u64)>,
}

pub struct Tuning<'a> {
    pub setup: &'a Setup,
    pub machine: &'a Machine,
    pub method: Method,
}

impl Tuning<'_> {
    pub fn run(&self, input: &GatherInput, context: &mut dyn Context) -> Result<Tuned, StageError> {
        let facts = |device: &str| self.machine.facts(device);
        let plan = Plan::read(&self.setup.parameters, &self.setup.device, facts)?;
        let base = Base::read("base", input.artifact("base"), context)?;
        let sides = Sides::of(input, plan.training.validation_fraction, SALT)?;
        let mut clips = Reading { base: &base, limits: &plan.limits }.clips(&sides, context)?;
        let is_whole = matches!(self.method, Method::Whole);
        let keep_kind = is_whole.then(|| base.kind(context)).transpose()?;
        let (course, settings) = plan.settings(&clips, keep_kind)?;
        context.begins(&course);

        let _kernels = plan.training.kernels.begin()?;
        let devices = plan.training.devices.len();
        let threads = self.machine.share_threads(base.parameters(), devices);
        let parent = self.parent(&base, context)?;
        let earlier = match (&self.method, &parent) {
            (Method::Whole, Some(parent)) => Some(Base::read("parent", Some(parent), context)?),
            _ => None,
        };
        let adapters = match self.method {
            Method::Whole => None,
            Method::Adapters(_) => parent.as_ref().or(input.artifact("adapters")),
        };
        let source = earlier.as_ref().unwrap_or(&base);
        let start = Start { plan: &plan, source, earlier: adapters };
        let is_new = context.last_checkpoint()?.is_none();
        let preflight =
            (plan.training.preflight && is_new).then(|| Preflight::new(&base, &plan, &clips));
        if preflight.is_some() {
            codes::check(&base, &clips, context)?;
        }
        let mut replicas = self.replicas(&start, &base, preflight.as_ref(), &mut clips, context)?;
        if let Some(preflight) = &preflight {
            preflight.rehearse(&mut replicas, &settings, context)?;
        }
        drop(preflight);

        let before = frozen(replicas[0].model().tensors())?;
        let origin = adapters.unwrap_or(&source.fields);
        let host = ContextHost::new(context, settings.steps).from(origin);
        let data = ClipData::new(&clips, &base, plan.parity, plan.layout)?;
        let trained = train_on(&mut replicas, &data, &clips, &settings, host)?;
        check_frozen(&before, &frozen(replicas[0].model().tensors())?)?;
        drop(threads);
        let weights = trained.taken(plan.training.take_best)?;
        let parent = adapters.or(parent.as_ref().filter(|_| is_whole));
        let parent = parent.map(|parent| lineage::digest(parent).to_string());
        let notes = clips.notes.close(&trained);
        Ok(Tuned { base, earlier, parent, trained, weights, notes })
    }

    /// The earlier result of this stage, where it fits the base: rows of another vocabulary stand
    /// for other tokens, and adapters for changes of other weights.
    fn parent(&self, base: &Base, context: &mut dyn Context) -> Result<Option<Fields>, StageError> {
        let Some(parent) = context.parent()? else { return Ok(None) };
        let fits = match self.method {
            Method::Whole => {
                let vocabulary =
                    |fields: &Fields| fields.blob(artifact::VOCABULARY).map(|blob| blob.digest);
                vocabulary(&parent) == vocabulary(&base.fields)
            }
            Method::Adapters(_) => {
                let lineage = AdapterLineage::read(&parent, artifact::XTTS_LORA)?;
                lineage.check_base(&base.fields).is_ok()
            }
        };
        Ok(fits.then_some(parent))
    }

    /// One replica of the model per device, ready for training.
    fn replicas(
        &self,
        start: &Start<'_>,
        base: &Base,
        preflight: Option<&Preflight<'_>>,
        clips: &mut Clips,
        context: &mut dyn Context,
    ) -> Result<Vec<GptTrainee>, StageError> {
        let mut replicas = Vec::with_capacity(start.plan.training.devices.len());
        for (at, name) in start.plan.training.devices.iter().enumerate() {
            let preflight = preflight.filter(|_| at == 0);
            let trainee = start.load(self.machine.open(name)?, context)?;
            let losses = preflight.map(|one| one.look(&trainee, context)).transpose()?;
            let (mut trainee, notes) = start.prepare(&self.method, trainee)?;
            if at == 0 {
                notes.iter().for_each(|(what, count)| clips.notes.add(what, *count));
            }
            if let (Method::Adapters(_), Some(preflight), Some(without)) =
                (&self.method, preflight, &losses)
            {
                preflight.check_adapters(without, &preflight.losses(&trainee)?)?;
            }
            start.fill(base, &mut trainee, context)?;
            replicas.push(trainee);
        }
        Ok(replicas)
    }
}

fn train_on(
    replicas: &mut [GptTrainee],
    data: &ClipData<'_>,
    clips: &Clips,
    settings: &Settings,
    host: ContextHost<'_>,
) -> Result<Trained<Blob>, StageError> {
    let device = |replica: &GptTrainee| Some(replica.parameters().first()?.1.device());
    let devices: Vec<Device> = replicas.iter().filter_map(device).collect();
    let order = clips.order();
    let job = Job { replicas, data, clips: &order, held_out: &clips.held_out, settings };
    train(job, &mut host.on(&devices))
}
