//! What the parameters of a training stage mean for the trainer.

use stage_core::{Parameters, StageError};
use tch::Kind;

use super::clip::Clips;
use crate::dual_ar::Parity;
use crate::dual_ar::prompt::PromptFormat;
use crate::train::adamw::AdamWSettings;
use crate::train::early_stop::EarlyStopSettings;
use crate::train::order::{Grouping, Order};
use crate::train::precision::{DeviceFacts, Precision};
use crate::train::schedule::{Decay, Schedule};
use crate::train::settings::{Checkpoints, Settings};

/// The parameters that are read before there are clips.
#[derive(Clone, Debug)]
pub struct Plan {
    parameters: Parameters,
    pub format: PromptFormat,
    pub parity: Parity,
    pub precision: Precision,
    pub seed: u64,
    pub preflight: bool,
    pub recompute: bool,
    pub take_best: bool,
    /// The devices to train on, at least one.
    pub devices: Vec<String>,
}

impl Plan {
    /// `own` is the device of the stage.
    pub fn read(
        parameters: &Parameters,
        own: &str,
        facts: impl Fn(&str) -> DeviceFacts,
    ) -> Result<Plan, StageError> {
        let mut devices: Vec<String> =
            parameters.texts("devices")?.into_iter().map(str::to_owned).collect();
        if devices.is_empty() {
            devices.push(own.to_owned());
        }
        let facts: Vec<DeviceFacts> = devices.iter().map(|device| facts(device)).collect();
        Ok(Plan {
            format: format(parameters.text("prompt_format")?),
            parity: parity(parameters)?,
            precision: precision(parameters.text("precision")?, &facts)?,
            seed: parameters.integer("seed")? as u64,
            preflight: parameters.flag("preflight")?,
            recompute: parameters.flag("gradient_checkpointing")?,
            take_best: parameters.text("take")? == "best",
            parameters: parameters.clone(),
            devices,
        })
    }

    /// The longest row: never longer than the model is for.
    pub fn max_length(&self, longest: i64) -> Result<usize, StageError> {
        Ok(self.parameters.integer("max_length")?.min(longest).max(1) as usize)
    }

    pub fn validation_fraction(&self) -> Result<f64, StageError> {
        self.parameters.number("validation_fraction")
    }

    /// What the trainer is told; `keep_kind` is what the result is rounded to.
    pub fn settings(
        &self,
        clips: &Clips,
        max_length: usize,
        keep_kind: Option<Kind>,
    ) -> Result<Settings, StageError> {
        let whole = |name: &str| self.parameters.integer(name).map(|number| number.max(0) as u64);
        let number = |name: &str| self.parameters.number(name);
        let grouping = Grouping::Pack { length: max_length };
        let (rows, accumulate) = (whole("batch")? as usize, whole("accumulation")? as usize);
        let steps = self.steps(clips, grouping, rows * accumulate)?;
        // What is recorded is part of the result, how often it is told is not.
        let record_every = (steps / 100).clamp(1, 10);
        let patience = whole("patience")?;
        let early_stop = EarlyStopSettings { patience, min_delta: number("min_delta")? };
        let positive = |value: f64| (value > 0.0).then_some(value);
        Ok(Settings {
            seed: self.seed,
            steps,
            grouping,
            rows,
            accumulate,
            precision: self.precision,
            adamw: AdamWSettings {
                beta1: number("beta_1")?,
                beta2: number("beta_2")?,
                epsilon: number("epsilon")?,
                weight_decay: number("weight_decay")?,
                decays_all: false,
            },
            schedule: self.schedule(steps)?,
            clip: positive(number("clip")?),
            validate_every: whole("validate_every")?,
            early_stop: (patience > 0).then_some(early_stop),
            keep_best: (whole("keep")? as usize).max(usize::from(self.take_best)),
            keep_kind,
            checkpoint: Checkpoints {
                steps: Some(whole("save_every")?).filter(|steps| *steps > 0),
                seconds: positive(self.parameters.seconds("save_interval")?),
            },
            bad_steps: whole("max_skipped")?,
            record_every,
            report_every: match self.parameters.is_set("report_every") {
                true => whole("report_every")?,
                false => record_every,
            },
        })
    }

    fn steps(
        &self,
        clips: &Clips,
        grouping: Grouping,
        rows_of_step: usize,
    ) -> Result<u64, StageError> {
        let (steps, epochs) = ("steps", "epochs");
        match (self.parameters.is_set(steps), self.parameters.is_set(epochs)) {
            (true, false) => Ok(self.parameters.integer(steps)?.max(1) as u64),
            (false, true) => {
                let is_trained_on = |at: usize| !clips.held_out[at];
                let mut order = Order::new(grouping, self.seed, &clips.order(), is_trained_on)?;
                let rows = order.pass(0).len() as f64 * self.parameters.number(epochs)?;
                Ok((rows / rows_of_step as f64).ceil().max(1.0) as u64)
            }
            _ => Err(StageError::with_help(
                "how long to train is not said",
                "give either `steps` or `epochs`",
            )),
        }
    }

    fn schedule(&self, steps: u64) -> Result<Schedule, StageError> {
        let warm_up = self.parameters.integer("warm_up")?.max(0) as u64;
        let floor = self.parameters.number("final_rate")?;
        let decay = match self.parameters.text("schedule")? {
            "linear" => Decay::Linear { end: steps, floor },
            "cosine" => Decay::Cosine { end: steps, floor },
            "exponential" => {
                let falling = steps.saturating_sub(warm_up).max(1) as f64;
                Decay::Exponential { factor: floor.powf(1.0 / falling), every: 1 }
            }
            _ => Decay::Constant,
        };
        let rate = self.parameters.number("learning_rate")?;
        Ok(Schedule { rate, warm_up, from_zero: true, decay })
    }
}

fn format(name: &str) -> PromptFormat {
    match name {
        "speak_out" => PromptFormat::SpeakOut,
        _ => PromptFormat::Interleave,
    }
}

pub fn parity(parameters: &Parameters) -> Result<Parity, StageError> {
    Ok(match parameters.text("parity")? {
        "upstream" => Parity::Upstream,
        _ => Parity::Correct,
    })
}

/// The precision that was asked for, which every device must have.
fn precision(name: &str, devices: &[DeviceFacts]) -> Result<Precision, StageError> {
    let precision = match name {
        "f32" => Precision::F32,
        "bf16" => Precision::Bf16,
        "fp16" => Precision::Fp16,
        _ => match devices.iter().map(Precision::best).collect::<Vec<_>>()[..] {
            [first, ref others @ ..] if others.iter().all(|other| *other == first) => first,
            _ => Precision::F32,
        },
    };
    devices.iter().try_for_each(|device| precision.check(device))?;
    Ok(precision)
}
