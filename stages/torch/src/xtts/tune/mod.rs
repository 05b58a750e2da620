//! The GPT in the common trainings.

pub mod clip;
mod codes;
mod crop;
mod plan;

use stage_core::course::Course;
use stage_core::{Context, StageError};
use stage_families::xtts::{CLIP_SALT, Tokenizer};
use tch::{Device, Kind, Tensor};

use self::clip::{Clip, ClipData, Clips, Reading};
use self::plan::Plan;
use super::artifact::Model;
use super::{AUDIO, Gpt, GptTrainee, Memory, Packer};
use crate::error::TorchError;
use crate::lineage::ModelLineage;
use crate::train::Settings;
use crate::train::clips::Sides;
use crate::train::losses::Means;
use crate::train::plan::TrainingPlan;
use crate::tune::{Base, Request, Tuning};

pub struct GptTuning {
    plan: Plan,
    base: Model,
    tokenizer: Tokenizer,
    /// The divisors of spectrograms: `[mels]`.
    mel_stats: Tensor,
}

impl Tuning for GptTuning {
    type Base = Model;
    type Trainee = GptTrainee;
    type Clip = Clip;
    type Data<'a> = ClipData<'a>;

    const SALT: &'static str = CLIP_SALT;

    fn read(request: &Request<'_>, context: &mut dyn Context) -> Result<GptTuning, StageError> {
        let facts = |device| request.machine.facts(device);
        let plan = Plan::read(request.parameters, request.device, facts)?;
        let base = Model::read("base", request.input.artifact("base"), context)?;
        let tokenizer = base.tokenizer("base", context)?;
        let mel_stats = base.mel_stats(Device::Cpu, context)?;
        Ok(GptTuning { plan, base, tokenizer, mel_stats })
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
        let tensors = self.base.config.gpt.tensors();
        tensors.iter().map(|(_, shape)| shape.iter().product::<i64>()).sum()
    }

    fn clips(&self, sides: &Sides<'_>, context: &mut dyn Context) -> Result<Clips, StageError> {
        let (tokenizer, gpt, limits) = (&self.tokenizer, &self.base.config.gpt, &self.plan.limits);
        Reading { tokenizer, gpt, limits }.clips(sides, context)
    }

    fn settings(
        &self,
        clips: &Clips,
        keep_kind: Option<Kind>,
    ) -> Result<(Course, Settings), StageError> {
        self.plan.settings(clips, keep_kind)
    }

    fn data<'a>(&'a self, clips: &'a Clips) -> Result<ClipData<'a>, TorchError> {
        let Plan { parity, layout, .. } = self.plan;
        let packer = Packer { config: &self.base.config.gpt, parity, layout };
        ClipData::new(&clips.clips, packer, &self.mel_stats)
    }

    fn trainee(&self, mut net: Gpt) -> Result<GptTrainee, TorchError> {
        let Plan { dropout, attention_dropout, recompute, .. } = self.plan;
        net.set_dropout(dropout, attention_dropout);
        Ok(GptTrainee::new(net, Memory { recompute, ..Memory::default() }))
    }

    fn frozen(&self) -> &[String] {
        &self.plan.freeze
    }

    fn check(&self, clips: &Clips, context: &mut dyn Context) -> Result<(), StageError> {
        codes::check(&self.base, clips, context)
    }

    fn look(
        &self,
        _: &GptTrainee,
        losses: &Means,
        _: &Clips,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let told = losses.0.iter().map(|(name, mean)| (format!("preflight/{name}"), *mean));
        let told: Vec<(String, f64)> = told.collect();
        let told: Vec<(&str, f64)> = told.iter().map(|(name, mean)| (&**name, *mean)).collect();
        context.metrics(0, &told);
        let guessing = (self.base.config.gpt.audio_tokens as f64).ln();
        let audio = losses.of(AUDIO).unwrap_or(0.0);
        match ModelLineage::of(&self.base.fields).random || audio < guessing {
            true => Ok(()),
            false => Err(StageError::with_help(
                format!(
                    "the base seems untrained: its loss over codes is {audio:.2} before training; \
                     guessing has {guessing:.2}"
                ),
                "its weights are lost, or the tokens are from another DVAE: import the published \
                 files again, and encode the clips with the DVAE of the same model; if the base \
                 is untrained on purpose, set `preflight = false`",
            )),
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
