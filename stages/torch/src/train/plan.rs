//! The common parameters of all training stages.

use stage_core::course::{self, ClipCounts, Course, Timetable};
use stage_core::device::{DeviceId, DeviceName};
use stage_core::{Parameters, StageError};

use super::adamw::AdamWSettings;
use super::early_stop::EarlyStopSettings;
use super::kernels::Kernels;
use super::order::{ClipEntry, Grouping, Order};
use super::precision::{DeviceFacts, Precision};
use super::schedule::{Decay, Schedule};
use super::settings::{Checkpoints, Settings};

/// The parameters that are read before there are clips.
#[derive(Clone, Debug)]
pub struct TrainingPlan {
    parameters: Parameters,
    pub precision: Precision,
    pub kernels: Kernels,
    pub seed: u64,
    pub preflight: bool,
    pub take_best: bool,
    pub validation_fraction: f64,
    /// The devices to train on, at least one.
    pub devices: Vec<DeviceId>,
}

/// The clips of a training and their conversion to rows.
pub struct ClipRows<'a> {
    pub clips: &'a [ClipEntry],
    pub held_out: &'a [bool],
    pub grouping: Grouping,
}

impl ClipRows<'_> {
    /// The number of rows in one pass over the training clips.
    pub fn of_a_pass(&self, seed: u64) -> Result<usize, StageError> {
        let is_trained_on = |at: usize| !self.held_out[at];
        Ok(Order::new(self.grouping, seed, self.clips, is_trained_on)?.pass(0).len())
    }
}

impl TrainingPlan {
    /// `own` is the device of the stage.
    pub fn read(
        parameters: &Parameters,
        own: DeviceId,
        facts: impl Fn(DeviceId) -> DeviceFacts,
    ) -> Result<TrainingPlan, StageError> {
        let mut devices: Vec<DeviceId> =
            parameters.devices("devices")?.into_iter().map(DeviceName::first).collect();
        if devices.is_empty() {
            devices.push(own);
        }
        let rows = course::rows_of_step(parameters)?;
        if rows < devices.len() as u64 {
            return Err(StageError::with_help(
                format!(
                    "a step has {rows} rows for {} devices, so some devices would be idle",
                    devices.len()
                ),
                "raise `batch` or `accumulation`, or use fewer `devices`",
            ));
        }
        let facts: Vec<DeviceFacts> = devices.iter().map(|device| facts(*device)).collect();
        let precision = precision(parameters.text("precision")?, &facts)?;
        Ok(TrainingPlan {
            precision,
            kernels: Kernels::read(parameters, precision, &facts)?,
            seed: parameters.integer("seed")? as u64,
            preflight: parameters.flag("preflight")?,
            take_best: parameters.text("take")? == "best",
            validation_fraction: parameters.number("validation_fraction")?,
            parameters: parameters.clone(),
            devices,
        })
    }

    /// The course of the training, before its first step; refused if a part of it can never take
    /// effect.
    pub fn course(&self, rows: &ClipRows<'_>, left_out: u64) -> Result<Course, StageError> {
        let rows_of_pass = rows.of_a_pass(self.seed)? as f64;
        let steps = course::steps(&self.parameters, || Ok(rows_of_pass))?;
        let timetable = Timetable::of(&self.parameters, steps)?;
        let held_out = rows.held_out.iter().filter(|held| **held).count() as u64;
        let used = rows.clips.len() as u64 - held_out;
        // Without clips there are no steps, and the trainer reports the reason.
        if used > 0 {
            timetable.check(held_out > 0)?;
        }
        let clips = ClipCounts { used, held_out, left_out };
        let rows_of_step = course::rows_of_step(&self.parameters)?;
        Ok(Course { timetable, rows_of_step, rows_of_pass, clips })
    }

    /// The settings of the trainer.
    pub fn settings(&self, grouping: Grouping, table: &Timetable) -> Result<Settings, StageError> {
        let whole = |name: &str| self.parameters.integer(name).map(|number| number.max(0) as u64);
        let number = |name: &str| self.parameters.number(name);
        let steps = table.steps;
        // Recorded values are part of the result; the interval of reports is not.
        let record_every = (steps / 100).clamp(1, 10);
        let patience = table.patience;
        let early_stop = EarlyStopSettings { patience, min_delta: number("min_delta")? };
        let positive = |value: f64| (value > 0.0).then_some(value);
        Ok(Settings {
            seed: self.seed,
            steps,
            until: course::until(&self.parameters, steps)?,
            grouping,
            rows: whole("batch")? as usize,
            accumulate: whole("accumulation")? as usize,
            precision: self.precision,
            adamw: AdamWSettings {
                beta1: number("beta_1")?,
                beta2: number("beta_2")?,
                epsilon: number("epsilon")?,
                weight_decay: number("weight_decay")?,
                decays_all: false,
                fused: self.parameters.text("optimizer")? == "fused_adamw",
            },
            phases: Vec::new(),
            schedule: self.schedule(table)?,
            first: None,
            clip: positive(number("clip")?),
            validate_every: table.validate_every,
            early_stop: (patience > 0).then_some(early_stop),
            keep_best: (whole("keep")? as usize).max(usize::from(self.take_best)),
            keep_every: course::keep_every(&self.parameters, steps)?,
            keep_kind: None,
            checkpoint: Checkpoints {
                steps: Some(table.save_every).filter(|steps| *steps > 0),
                seconds: positive(self.parameters.seconds("save_interval")?),
            },
            bad_steps: whole("max_skipped")?,
            record_every,
            report_every: if self.parameters.is_set("report_every") {
                whole("report_every")?
            } else {
                record_every
            },
        })
    }

    /// The number of rows per step.
    pub fn rows_of_step(&self) -> Result<usize, StageError> {
        Ok(course::rows_of_step(&self.parameters)? as usize)
    }

    fn schedule(&self, table: &Timetable) -> Result<Schedule, StageError> {
        let (steps, warm_up) = (table.steps, table.warm_up);
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

/// The requested precision, which every device must support.
fn precision(name: &str, devices: &[DeviceFacts]) -> Result<Precision, StageError> {
    let precision = match name {
        "f32" => Precision::F32,
        "tf32" => Precision::Tf32,
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
