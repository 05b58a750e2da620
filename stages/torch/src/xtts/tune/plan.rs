//! The parameters of the training stages.

use stage_core::course::Course;
use stage_core::device::DeviceId;
use stage_core::{ParameterValue, Parameters, StageError};
use tch::Kind;

use super::clip::{Limits, XttsClips};
use crate::train::order::Grouping;
use crate::train::plan::{ClipRows, TrainingPlan};
use crate::train::precision::DeviceFacts;
use crate::train::settings::{FirstPhase, Settings};
use crate::xtts::{Parity, RowLayout};

/// The parameters that are trained alone at first.
const FIRST: [&str; 2] = ["gpt.text_embedding.*", "gpt.text_head.*"];

/// The parameters that are read before there are clips.
#[derive(Clone, Debug)]
pub struct XttsPlan {
    pub training: TrainingPlan,
    pub limits: Limits,
    pub parity: Parity,
    pub layout: RowLayout,
    pub recompute: bool,
    pub freeze: Vec<String>,
    train_first: ParameterValue,
    draws: bool,
    pub dropout: f64,
    pub attention_dropout: f64,
}

impl XttsPlan {
    /// `own` is the device of the stage.
    pub fn read(
        parameters: &Parameters,
        own: DeviceId,
        facts: impl Fn(DeviceId) -> DeviceFacts,
    ) -> Result<XttsPlan, StageError> {
        let language = parameters.if_set("language", Parameters::text)?.map(str::to_owned);
        let dropout = parameters.number("dropout")?;
        let attention_dropout = parameters.if_set("attention_dropout", Parameters::number)?;
        Ok(XttsPlan {
            training: TrainingPlan::read(parameters, own, facts)?,
            limits: Limits {
                min_seconds: parameters.seconds("min_seconds")?,
                max_seconds: parameters.seconds("max_seconds")?,
                max_text_tokens: parameters.integer("max_text_tokens")? as usize,
                language,
            },
            parity: Parity::read(parameters)?,
            layout: if parameters.flag("packing")? { RowLayout::Packed } else { RowLayout::Padded },
            recompute: parameters.flag("gradient_checkpointing")?,
            freeze: parameters.texts("freeze")?.into_iter().map(str::to_owned).collect(),
            train_first: parameters.get("train_first").clone(),
            draws: parameters.text("sampling")? == "upstream",
            dropout,
            attention_dropout: attention_dropout.unwrap_or(dropout),
        })
    }

    /// The course of the training and the settings of the trainer; `keep_kind` is the precision of
    /// the result.
    pub fn settings(
        &self,
        clips: &XttsClips,
        keep_kind: Option<Kind>,
    ) -> Result<(Course, Settings), StageError> {
        let order = clips.order();
        let length = order.iter().map(|clip| clip.length).max().unwrap_or(1);
        let grouping = if self.draws {
            Grouping::Drawn { length }
        } else {
            Grouping::Buckets { length, rows: self.training.rows_of_step()? }
        };
        let rows = ClipRows { clips: &order, held_out: &clips.held_out, grouping };
        let course = self.training.course(&rows, clips.left_out)?;
        let settings = self.training.settings(grouping, &course.timetable)?;
        let first = self.first(course.timetable.steps)?;
        Ok((course, Settings { keep_kind, first, ..settings }))
    }

    fn first(&self, steps: u64) -> Result<Option<FirstPhase>, StageError> {
        let alone = match &self.train_first {
            ParameterValue::Share(share) => (share * steps as f64).round() as u64,
            ParameterValue::Integer(count) => (*count).max(0) as u64,
            _ => 0,
        };
        if alone > 0 && alone >= steps {
            return Err(StageError::with_help(
                format!("`train_first` takes {alone} of {steps} steps: the GPT is never trained"),
                "lower it, or train for more steps",
            ));
        }
        let parameters = FIRST.map(str::to_owned).to_vec();
        Ok((alone > 0).then_some(FirstPhase { steps: alone, parameters }))
    }
}
