//! The parameters of the stage.

use stage_core::course::Course;
use stage_core::device::DeviceId;
use stage_core::{Parameters, StageError};
use stage_families::vits::tune::discriminator_betas;

use super::clip::VitsClips;
use crate::train::adamw::AdamWSettings;
use crate::train::optimisers::PhaseSettings;
use crate::train::order::Grouping;
use crate::train::plan::{ClipRows, TrainingPlan};
use crate::train::precision::DeviceFacts;
use crate::train::schedule::{Decay, Schedule};
use crate::train::settings::Settings;
use crate::vits::trainee::JUDGING;
use crate::vits::{LossWeights, TrainingOptions, VitsConfig};

/// The origin of the discriminator if no other model is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscriminatorSource {
    Auto,
    Base,
    New,
    None,
}

/// The parameters that are read before there are clips.
#[derive(Clone, Debug)]
pub struct VitsPlan {
    pub training: TrainingPlan,
    pub options: TrainingOptions,
    pub freeze: Vec<String>,
    pub source: DiscriminatorSource,
    pub max_seconds: f64,
    /// True if unknown speakers may join the model.
    pub may_join: bool,
    segment: Option<f64>,
    /// The decay of the learning rate per pass; None with another schedule.
    decay: Option<f64>,
    judge: JudgeSettings,
}

/// The settings of the discriminator's optimiser that differ from those of the generator's.
#[derive(Clone, Copy, Debug)]
struct JudgeSettings {
    rate: Option<f64>,
    betas: Option<[f64; 2]>,
}

impl JudgeSettings {
    fn read(parameters: &Parameters) -> Result<JudgeSettings, StageError> {
        Ok(JudgeSettings {
            rate: parameters.if_set("discriminator_rate", Parameters::number)?,
            betas: discriminator_betas(parameters)?,
        })
    }

    /// For the phase of the discriminator, beside the settings and the learning rate of the other.
    fn phase(&self, adamw: AdamWSettings, rate: f64) -> PhaseSettings {
        let [beta1, beta2] = self.betas.unwrap_or([adamw.beta1, adamw.beta2]);
        let rate = self.rate.filter(|_| rate > 0.0).map_or(1.0, |own| own / rate);
        PhaseSettings { phase: JUDGING, adamw: AdamWSettings { beta1, beta2, ..adamw }, rate }
    }
}

impl VitsPlan {
    /// `own` is the device of the stage.
    pub fn read(
        parameters: &Parameters,
        own: DeviceId,
        facts: impl Fn(DeviceId) -> DeviceFacts,
    ) -> Result<VitsPlan, StageError> {
        let training = TrainingPlan::read(parameters, own, facts)?;
        let number = |name: &str| parameters.number(name);
        let is_exponential = parameters.text("schedule")? == "exponential";
        let is_set = parameters.is_set("segment");
        Ok(VitsPlan {
            options: TrainingOptions {
                bands: parameters.integer("bands")? as usize,
                weights: LossWeights {
                    mel: number("mel_weight")?,
                    kl: number("kl_weight")?,
                    duration: number("duration_weight")?,
                    adversarial: number("adversarial_weight")?,
                    features: number("feature_weight")?,
                },
                dropout: parameters.text("dropout")? == "original",
                fade_in: parameters.integer_or("fade_in", 0)?.max(0) as u64,
                kind: training.precision.kind(),
            },
            freeze: parameters.texts("freeze")?.into_iter().map(str::to_owned).collect(),
            source: match parameters.text("discriminator")? {
                "base" => DiscriminatorSource::Base,
                "new" => DiscriminatorSource::New,
                "none" => DiscriminatorSource::None,
                _ => DiscriminatorSource::Auto,
            },
            max_seconds: parameters.seconds("max_seconds")?,
            may_join: parameters.text("new_speakers")? == "add",
            segment: is_set.then(|| parameters.seconds("segment")).transpose()?,
            decay: is_exponential.then(|| number("rate_decay")).transpose()?,
            judge: JudgeSettings::read(parameters)?,
            training,
        })
    }

    /// Sets the segment length instead of the model's own.
    pub fn set_segment(&self, config: &mut VitsConfig) -> Result<(), StageError> {
        let Some(seconds) = self.segment else { return Ok(()) };
        let samples = seconds * config.sampling_rate as f64;
        let frames = (samples / config.hop() as f64).round().max(1.0);
        config.segment_size = frames as i64 * config.hop();
        // The reflected samples at the ends of a segment must be inside it.
        let least = config.transform() / 2;
        if config.segment_size > least {
            Ok(())
        } else {
            Err(StageError::with_help(
                format!(
                    "a `segment` of {} samples is too short to be analysed",
                    config.segment_size
                ),
                format!(
                    "it needs more than {least} samples; the default of the model is about half a \
                     second"
                ),
            ))
        }
    }

    /// The course of the training and the settings of the trainer.
    pub fn settings(
        &self,
        clips: &VitsClips,
        config: &VitsConfig,
    ) -> Result<(Course, Settings), StageError> {
        let frames = self.max_seconds * config.sampling_rate as f64 / config.hop() as f64;
        let rows_of_step = self.training.rows_of_step()?;
        let grouping = Grouping::Buckets { length: frames.ceil() as usize, rows: rows_of_step };
        let order = clips.order();
        let rows = ClipRows { clips: &order, held_out: &clips.held_out, grouping };
        let course = self.training.course(&rows, clips.left_out)?;
        let settings = self.training.settings(grouping, &course.timetable)?;
        let adamw = AdamWSettings { decays_all: true, ..settings.adamw };
        let every = course.steps_of_pass().ceil().max(1.0) as u64;
        let decay = match self.decay {
            Some(factor) => Decay::Exponential { factor, every },
            None => settings.schedule.decay,
        };
        let schedule = Schedule { decay, ..settings.schedule };
        let phases = vec![self.judge.phase(adamw, schedule.rate)];
        Ok((course, Settings { adamw, phases, schedule, ..settings }))
    }
}
