//! The GPT in the common trainings.

pub mod clip;
mod codes;
mod crop;
mod plan;

use stage_core::course::Course;
use stage_core::{Context, StageError};
use stage_families::xtts::{CLIP_SALT, XttsTokenizer};
use tch::{Device, Kind, Tensor};

use self::clip::{XttsClip, XttsClips, XttsData, XttsReading};
use self::plan::XttsPlan;
use super::artifact::XttsModel;
use super::{AUDIO, Gpt, GptBatch, GptMemory, GptTrainee, Packer};
use crate::error::TorchError;
use crate::lineage::ModelLineage;
use crate::train::clips::Sides;
use crate::train::losses::Means;
use crate::train::plan::TrainingPlan;
use crate::train::{Data, Settings};
use crate::tune::{Base, Tuning, TuningRequest};

pub struct GptTuning {
    plan: XttsPlan,
    base: XttsModel,
    tokenizer: XttsTokenizer,
    /// The divisors of spectrograms: `[mels]`.
    mel_stats: Tensor,
}

impl Tuning for GptTuning {
    type Base = XttsModel;
    type Trainee = GptTrainee;
    type Clip = XttsClip;

    const SALT: &'static str = CLIP_SALT;

    fn read(
        request: &TuningRequest<'_>,
        context: &mut dyn Context,
    ) -> Result<GptTuning, StageError> {
        let facts = |device| request.machine.facts(device);
        let plan = XttsPlan::read(request.parameters, request.device, facts)?;
        let base = XttsModel::read("base", request.input.artifact("base"), context)?;
        let tokenizer = base.tokenizer("base", context)?;
        let mel_stats = base.mel_stats(Device::Cpu, context)?;
        Ok(GptTuning { plan, base, tokenizer, mel_stats })
    }

    fn base(&self) -> &XttsModel {
        &self.base
    }

    fn into_base(self) -> XttsModel {
        self.base
    }

    fn plan(&self) -> &TrainingPlan {
        &self.plan.training
    }

    fn parameters(&self) -> i64 {
        let tensors = self.base.config.gpt.tensors();
        tensors.iter().map(|(_, shape)| shape.iter().product::<i64>()).sum()
    }

    fn clips(&self, sides: &Sides<'_>, context: &mut dyn Context) -> Result<XttsClips, StageError> {
        let (tokenizer, gpt, limits) = (&self.tokenizer, &self.base.config.gpt, &self.plan.limits);
        XttsReading { tokenizer, gpt, limits }.clips(sides, context)
    }

    fn settings(
        &self,
        clips: &XttsClips,
        keep_kind: Option<Kind>,
    ) -> Result<(Course, Settings), StageError> {
        self.plan.settings(clips, keep_kind)
    }

    fn data<'a>(
        &'a self,
        clips: &'a XttsClips,
    ) -> Result<Box<dyn Data<GptBatch> + 'a>, TorchError> {
        let XttsPlan { parity, layout, .. } = self.plan;
        let packer = Packer { config: &self.base.config.gpt, parity, layout };
        Ok(Box::new(XttsData::new(clips, packer, &self.mel_stats)))
    }

    fn trainee(&self, mut net: Gpt) -> Result<GptTrainee, TorchError> {
        let XttsPlan { dropout, attention_dropout, recompute, .. } = self.plan;
        net.set_dropout(dropout, attention_dropout);
        Ok(GptTrainee::new(net, GptMemory { recompute, ..GptMemory::default() }))
    }

    fn frozen(&self) -> &[String] {
        &self.plan.freeze
    }

    fn check(&self, clips: &XttsClips, context: &mut dyn Context) -> Result<(), StageError> {
        codes::check(&self.base, clips, context)
    }

    fn look(
        &self,
        _: &GptTrainee,
        losses: &Means,
        _: &XttsClips,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let told = losses.0.iter().map(|(name, mean)| (format!("preflight/{name}"), *mean));
        let told: Vec<(String, f64)> = told.collect();
        let told: Vec<(&str, f64)> = told.iter().map(|(name, mean)| (&**name, *mean)).collect();
        context.metrics(0, &told);
        let guessing = (self.base.config.gpt.audio_tokens as f64).ln();
        let audio = losses.of(AUDIO).unwrap_or(0.0);
        if ModelLineage::of(&self.base.fields).random || audio < guessing {
            Ok(())
        } else {
            Err(StageError::with_help(
                format!(
                    "the base seems untrained: its loss over codes is {audio:.2} before training; \
                     guessing has {guessing:.2}"
                ),
                "its weights are lost, or the tokens are from another DVAE: import the published \
                 files again, and encode the clips with the DVAE of the same model; if the base \
                 is untrained on purpose, set `preflight = false`",
            ))
        }
    }

    fn tag(name: &str) -> &str {
        match name {
            "loss/audio" => "loss_mel_ce",
            "rate" => "current_lr",
            "gradient_norm" => "grad_norm",
            other => other,
        }
    }
}
