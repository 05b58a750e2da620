//! The text model in the common trainings.

use stage_core::course::Course;
use stage_core::{Context, StageError};
use stage_families::dual_ar::CLIP_SALT;
use tch::Kind;

use super::clip::{Clip, ClipData, Clips, Reading};
use super::model::Model;
use super::plan::Plan;
use super::preflight::Preflight;
use crate::dual_ar::DualAr;
use crate::error::TorchError;
use crate::fish::{DualArTrainee, Memory};
use crate::train::Settings;
use crate::train::clips::Sides;
use crate::train::losses::Means;
use crate::train::plan::TrainingPlan;
use crate::tune::{Base, NetworkTrainee, Request, Tuning};

pub struct FishTuning {
    plan: Plan,
    base: Model,
    max_length: usize,
}

impl FishTuning {
    fn preflight(&self) -> Preflight<'_> {
        Preflight { model: &self.base, parity: self.plan.parity }
    }
}

impl Tuning for FishTuning {
    type Base = Model;
    type Trainee = DualArTrainee;
    type Clip = Clip;
    type Data<'a> = ClipData<'a>;

    const SALT: &'static str = CLIP_SALT;

    fn read(request: &Request<'_>, context: &mut dyn Context) -> Result<FishTuning, StageError> {
        let facts = |device| request.machine.facts(device);
        let plan = Plan::read(request.parameters, request.device, facts)?;
        let base = Model::read("base", request.input.artifact("base"), context)?;
        let max_length = plan.max_length(base.config.max_seq_len);
        Ok(FishTuning { plan, base, max_length })
    }

    fn base(&self) -> &Model {
        &self.base
    }

    fn into_base(self) -> Model {
        self.base
    }

    fn plan(&self) -> &TrainingPlan {
        &self.plan.training
    }

    fn parameters(&self) -> i64 {
        self.base.config.parameters()
    }

    fn clips(&self, sides: &Sides<'_>, context: &mut dyn Context) -> Result<Clips, StageError> {
        let (vocabulary, max_length) = (&self.base.vocabulary, self.max_length);
        Reading { vocabulary, format: self.plan.format, max_length }.clips(sides, context)
    }

    fn settings(
        &self,
        clips: &Clips,
        keep_kind: Option<Kind>,
    ) -> Result<(Course, Settings), StageError> {
        self.plan.settings(clips, self.max_length, keep_kind)
    }

    fn data<'a>(&'a self, clips: &'a Clips) -> Result<ClipData<'a>, TorchError> {
        Ok(clips.data(&self.base.vocabulary))
    }

    fn trainee(&self, net: DualAr) -> Result<DualArTrainee, TorchError> {
        let memory = Memory { recompute: self.plan.recompute, ..Memory::default() };
        DualArTrainee::new(net.with_parity(self.plan.parity), memory)
    }

    fn look(
        &self,
        trainee: &DualArTrainee,
        losses: &Means,
        clips: &Clips,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let preflight = self.preflight();
        preflight.check_scaling()?;
        let uniform = preflight.uniform();
        let figures = [("preflight/loss", losses.total()), ("preflight/loss_of_guessing", uniform)];
        context.metrics(0, &figures);
        preflight.check_base(losses)?;
        match clips.clips.first() {
            Some(clip) => preflight.check_passes(trainee.model(), clip),
            None => Ok(()),
        }
    }

    fn speak(&self, net: &DualAr) -> Result<(), StageError> {
        self.preflight().speak(net).map(drop)
    }
}
