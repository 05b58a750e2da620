//! The parameters of the training stages.

use stage_core::course::Course;
use stage_core::device::DeviceId;
use stage_core::{Parameters, StageError};
use tch::Kind;

use super::clip::FishClips;
use crate::dual_ar::Parity;
use crate::dual_ar::prompt::PromptFormat;
use crate::train::order::Grouping;
use crate::train::plan::{ClipRows, TrainingPlan};
use crate::train::precision::DeviceFacts;
use crate::train::settings::Settings;

/// The parameters that are read before there are clips.
#[derive(Clone, Debug)]
pub struct FishPlan {
    pub training: TrainingPlan,
    pub format: PromptFormat,
    pub parity: Parity,
    pub recompute: bool,
    packing: bool,
    max_length: i64,
}

impl FishPlan {
    /// `own` is the device of the stage.
    pub fn read(
        parameters: &Parameters,
        own: DeviceId,
        facts: impl Fn(DeviceId) -> DeviceFacts,
    ) -> Result<FishPlan, StageError> {
        Ok(FishPlan {
            training: TrainingPlan::read(parameters, own, facts)?,
            format: format(parameters.text("prompt_format")?),
            parity: Parity::read(parameters)?,
            recompute: parameters.flag("gradient_checkpointing")?,
            packing: parameters.flag("packing")?,
            max_length: parameters.integer("max_length")?,
        })
    }

    /// The longest row: never longer than the model allows.
    pub fn max_length(&self, longest: i64) -> usize {
        self.max_length.min(longest).max(1) as usize
    }

    /// The course of the training and the settings of the trainer; `keep_kind` is the precision of
    /// the result.
    pub fn settings(
        &self,
        clips: &FishClips,
        max_length: usize,
        keep_kind: Option<Kind>,
    ) -> Result<(Course, Settings), StageError> {
        let grouping = if self.packing {
            Grouping::Pack { length: max_length }
        } else {
            Grouping::Buckets { length: max_length, rows: self.training.rows_of_step()? }
        };
        let rows = ClipRows { clips: &clips.order(), held_out: &clips.held_out, grouping };
        let course = self.training.course(&rows, clips.left_out)?;
        let settings = self.training.settings(grouping, &course.timetable)?;
        Ok((course, Settings { keep_kind, ..settings }))
    }
}

fn format(name: &str) -> PromptFormat {
    match name {
        "speak_out" => PromptFormat::SpeakOut,
        _ => PromptFormat::Interleave,
    }
}
