//! A training of a text model, of all its weights or of adapters: from the inputs on the ports to
//! the result.

use stage_core::{Blob, Context, Fields, GatherInput, Setup, StageError};
use tch::{Device, Kind};

use super::clip::{Clips, Reading, SALT};
use super::model::Model;
use super::plan::Plan;
use super::preflight::Preflight;
use crate::fish::{DualArTrainee, Memory};
use crate::lineage::{self, AdapterLineage};
use crate::lora::{self, LoraSettings};
use crate::machine::Machine;
use crate::patterns::Match;
use crate::stored;
use crate::train::clips::Sides;
use crate::train::frozen::{check_frozen, frozen};
use crate::train::losses::Means;
use crate::train::run::{Job, Trained, train};
use crate::train::{ContextHost, Settings, Trainee};

/// The trained part.
pub enum Method {
    Whole,
    Adapters(LoraSettings),
}

/// The result.
pub struct Tuned {
    pub base: Model,
    /// The digest of the parent, if training continued from one.
    pub parent: Option<String>,
    pub trained: Trained<Blob>,
    /// The weights of the result, by name.
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
        let base = Model::read("base", input.artifact("base"), context)?;
        let max_length = plan.max_length(base.config.max_seq_len);
        let mut clips = self.clips(&plan, &base, max_length, input, context)?;
        let keep_kind = match self.method {
            Method::Whole => Some(base.kind(context)?),
            Method::Adapters(_) => None,
        };
        let (course, settings) = plan.settings(&clips, max_length, keep_kind)?;
        context.begins(&course);

        let devices = plan.training.devices.len();
        let _kernels = plan.training.kernels.begin()?;
        let threads = self.machine.share_threads(base.config.parameters(), devices);
        let is_new = context.last_checkpoint()?.is_none();
        let preflight =
            (plan.training.preflight && is_new).then(|| Preflight::new(&base, plan.parity, &clips));
        let parent = context.parent()?;
        let start = Start { plan: &plan, base: &base, parent: parent.as_ref(), input };
        let mut replicas = self.replicas(&start, preflight.as_ref(), &mut clips, context)?;
        if let Some(preflight) = &preflight {
            preflight.rehearse(&mut replicas, &settings, context)?;
            preflight.speak(replicas[0].model())?;
        }
        drop(preflight);

        let before = frozen(replicas[0].model().tensors())?;
        let earlier = start.earlier(&self.method);
        let host = ContextHost::new(context, settings.steps).from(earlier.unwrap_or(&base.fields));
        let trained = train_on(&mut replicas, &base, &clips, &settings, host)?;
        check_frozen(&before, &frozen(replicas[0].model().tensors())?)?;
        drop(threads);
        let weights = trained.taken(plan.training.take_best)?;
        let parent = earlier.map(|earlier| lineage::digest(earlier).to_string());
        Ok(Tuned { notes: clips.notes.close(&trained), base, parent, trained, weights })
    }

    fn clips(
        &self,
        plan: &Plan,
        base: &Model,
        max_length: usize,
        input: &GatherInput,
        context: &mut dyn Context,
    ) -> Result<Clips, StageError> {
        let reading = Reading { vocabulary: &base.vocabulary, format: plan.format, max_length };
        let sides = Sides::of(input, plan.training.validation_fraction, SALT)?;
        reading.clips(&sides, context)
    }

    /// One replica of the model per device, ready for training.
    fn replicas(
        &self,
        start: &Start<'_>,
        preflight: Option<&Preflight<'_>>,
        clips: &mut Clips,
        context: &mut dyn Context,
    ) -> Result<Vec<DualArTrainee>, StageError> {
        let mut replicas = Vec::with_capacity(start.plan.training.devices.len());
        for (at, name) in start.plan.training.devices.iter().enumerate() {
            let device = self.machine.open(name)?;
            let preflight = preflight.filter(|_| at == 0);
            let mut trainee = start.load(&self.method, device, context)?;
            let losses =
                preflight.map(|preflight| look(preflight, &trainee, context)).transpose()?;
            trainee = match &self.method {
                Method::Whole => trainee.train_all(),
                Method::Adapters(settings) => {
                    let matches = start.attach(&mut trainee, settings)?;
                    if at == 0 {
                        matches.iter().for_each(|(what, count)| clips.notes.add(what, *count));
                    }
                    trainee
                }
            };
            if let (Method::Adapters(_), Some(preflight), Some(without)) =
                (&self.method, preflight, &losses)
            {
                preflight.check_adapters(without, &preflight.losses(&trainee)?)?;
            }
            start.fill(&self.method, &mut trainee, context)?;
            replicas.push(trainee);
        }
        Ok(replicas)
    }
}

fn train_on(
    replicas: &mut [DualArTrainee],
    base: &Model,
    clips: &Clips,
    settings: &Settings,
    host: ContextHost<'_>,
) -> Result<Trained<Blob>, StageError> {
    let (data, order) = (clips.data(&base.vocabulary), clips.order());
    let device = |replica: &DualArTrainee| Some(replica.parameters().first()?.1.device());
    let devices: Vec<Device> = replicas.iter().filter_map(device).collect();
    let job = Job { replicas, data: &data, clips: &order, held_out: &clips.held_out, settings };
    train(job, &mut host.on(&devices))
}

/// The inputs that a model is prepared from.
struct Start<'a> {
    plan: &'a Plan,
    base: &'a Model,
    /// The parent result, if there is one.
    parent: Option<&'a Fields>,
    input: &'a GatherInput,
}

impl Start<'_> {
    fn load(
        &self,
        method: &Method,
        device: Device,
        context: &mut dyn Context,
    ) -> Result<DualArTrainee, StageError> {
        let kind = self.plan.training.precision.kind();
        let parity = self.plan.parity;
        let model = match (method, self.parent) {
            (Method::Whole, Some(parent)) => {
                let parent = Model::read("parent", Some(parent), context)?;
                parent.load(device, kind, parity, context)?
            }
            _ => self.base.load(device, kind, parity, context)?,
        };
        let memory = Memory { recompute: self.plan.recompute, ..Memory::default() };
        Ok(DualArTrainee::new(model, memory)?)
    }

    /// Fresh adapters, with the number of modules that each pattern matched.
    fn attach(
        &self,
        trainee: &mut DualArTrainee,
        settings: &LoraSettings,
    ) -> Result<Vec<(String, u64)>, StageError> {
        let kind: Kind = self.plan.training.precision.kind();
        let matches = lora::attach(trainee.model_mut(), settings, self.plan.training.seed, kind)?;
        let note = |one: Match| (format!("modules of `{}`", one.pattern), one.count as u64);
        Ok(matches.into_iter().map(note).collect())
    }

    /// The earlier result that training continues from, if it does not start from the base alone.
    fn earlier(&self, method: &Method) -> Option<&Fields> {
        let adapters = || match method {
            Method::Whole => None,
            Method::Adapters(_) => self.input.artifact("adapters"),
        };
        self.parent.or_else(adapters)
    }

    /// Loads the values of earlier adapters.
    fn fill(
        &self,
        method: &Method,
        trainee: &mut DualArTrainee,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let (Method::Adapters(_), Some(earlier)) = (method, self.earlier(method)) else {
            return Ok(());
        };
        AdapterLineage::of(earlier)?.check_base(&self.base.fields)?;
        Ok(lora::load(trainee.model_mut(), stored::weights(earlier, context)?)?)
    }
}

/// The checks before training.
fn look(
    preflight: &Preflight<'_>,
    trainee: &DualArTrainee,
    context: &mut dyn Context,
) -> Result<Means, StageError> {
    preflight.check_scaling()?;
    let losses = preflight.losses(trainee)?;
    let figures =
        [("preflight/loss", losses.total()), ("preflight/loss_of_guessing", preflight.uniform())];
    context.metrics(0, &figures);
    preflight.check_base(&losses)?;
    preflight.check_passes(trainee.model())?;
    Ok(losses)
}
