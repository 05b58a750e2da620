//! The text model in the common trainings.

use stage_core::course::Course;
use stage_core::{Context, StageError};
use stage_families::dual_ar::CLIP_SALT;
use tch::Kind;

use super::clip::{FishClips, FishData, FishReading};
use super::model::FishModel;
use super::plan::FishPlan;
use super::preflight::FishPreflight;
use crate::dual_ar::{ClipColumns, DualAr, DualArBatch};
use crate::error::TorchError;
use crate::fish::{DualArMemory, DualArTrainee};
use crate::train::clips::Sides;
use crate::train::losses::Means;
use crate::train::plan::TrainingPlan;
use crate::train::{Data, Settings, Trainee};
use crate::tune::{Base, Tuning, TuningRequest};

pub struct FishTuning {
    plan: FishPlan,
    base: FishModel,
    max_length: usize,
}

impl FishTuning {
    fn preflight(&self) -> FishPreflight<'_> {
        FishPreflight { model: &self.base, parity: self.plan.parity }
    }
}

impl Tuning for FishTuning {
    type Base = FishModel;
    type Trainee = DualArTrainee;
    type Clip = ClipColumns;

    const SALT: &'static str = CLIP_SALT;

    fn read(
        request: &TuningRequest<'_>,
        context: &mut dyn Context,
    ) -> Result<FishTuning, StageError> {
        let facts = |device| request.machine.facts(device);
        let plan = FishPlan::read(request.parameters, request.device, facts)?;
        let base = FishModel::read("base", request.input.artifact("base"), context)?;
        let max_length = plan.max_length(base.config.max_seq_len);
        Ok(FishTuning { plan, base, max_length })
    }

    fn base(&self) -> &FishModel {
        &self.base
    }

    fn into_base(self) -> FishModel {
        self.base
    }

    fn plan(&self) -> &TrainingPlan {
        &self.plan.training
    }

    fn parameters(&self) -> i64 {
        self.base.config.parameters()
    }

    fn clips(&self, sides: &Sides<'_>, context: &mut dyn Context) -> Result<FishClips, StageError> {
        let (vocabulary, max_length) = (&self.base.vocabulary, self.max_length);
        FishReading { vocabulary, format: self.plan.format, max_length }.clips(sides, context)
    }

    fn settings(
        &self,
        clips: &FishClips,
        keep_kind: Option<Kind>,
    ) -> Result<(Course, Settings), StageError> {
        self.plan.settings(clips, self.max_length, keep_kind)
    }

    fn data<'a>(
        &'a self,
        clips: &'a FishClips,
    ) -> Result<Box<dyn Data<DualArBatch> + 'a>, TorchError> {
        Ok(Box::new(FishData::new(clips, &self.base.vocabulary)))
    }

    fn trainee(&self, net: DualAr) -> Result<DualArTrainee, TorchError> {
        let memory = DualArMemory { recompute: self.plan.recompute, ..DualArMemory::default() };
        DualArTrainee::new(net.with_parity(self.plan.parity), memory)
    }

    fn look(
        &self,
        trainee: &DualArTrainee,
        losses: &Means,
        clips: &FishClips,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let preflight = self.preflight();
        preflight.check_scaling()?;
        let uniform = preflight.uniform();
        let figures = [("preflight/loss", losses.total()), ("preflight/loss_of_guessing", uniform)];
        context.metrics(0, &figures);
        preflight.check_base(losses)?;
        match clips.clips.first() {
            Some(clip) => preflight.check_passes(trainee.network(), &clip.content),
            None => Ok(()),
        }
    }

    fn speak(&self, net: &DualAr) -> Result<(), StageError> {
        self.preflight().speak(net).map(drop)
    }
}
