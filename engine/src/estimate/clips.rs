//! The clips of a training by use, and the course of the training that follows from them.

use std::collections::BTreeSet;

use crate::figure::ExpectedCourse;
use crate::figure::Figure;
use cache::Digest;
use stage_core::course::{self, ClipCounts, Course, Timetable};
use stage_core::{Item, Parameters, StageError};
use stage_families::clips::{expected_held_out, held_out};
use stage_families::training::{Rows, Setting, TokenRows, Trainable};

use super::Estimator;
use super::flow::{Flow, LengthLimit};
use crate::pipeline::{ITEMS, StageSpec};

/// The port of held-out clips.
const VALIDATION: &str = "validation";
/// The spread between languages in tokens, and so in rows, per clip.
const ROWS_SPREAD: f64 = 1.2;

/// The clips of a training, and the ones used for learning.
pub struct Clips {
    pub all: Flow,
    used: f64,
    held_out: f64,
    left_out: f64,
}

impl Clips {
    /// Tokens of all rows together, or of an average row if each has one clip.
    pub fn longest_row(&self, rows: Rows) -> f64 {
        match rows {
            Rows::Tokens(TokenRows { per_clip, filled: Some(_), .. }) => {
                self.all.tokens + self.all.items * per_clip
            }
            Rows::Tokens(TokenRows { per_clip, filled: None, .. }) => {
                self.all.mean_tokens() + per_clip
            }
            Rows::Clips => 1.0,
        }
    }

    /// Rows of a pass over the clips, and their spread. A clip is never divided, so short rows hold
    /// whole clips and a rest.
    fn rows(&self, rows: Rows, length: f64) -> (f64, f64) {
        let Rows::Tokens(TokenRows { per_clip, filled: Some(filled), .. }) = rows else {
            return (self.used, 1.0);
        };
        let clip = self.all.mean_tokens() + per_clip;
        let rows = self.used * clip / (length * filled);
        let rows = rows.max(self.used / (length / clip).floor().max(1.0));
        (rows.ceil(), ROWS_SPREAD)
    }

    pub fn expected(
        &self,
        parameters: &Parameters,
        rows: Rows,
        setting: &Setting,
    ) -> Result<ExpectedCourse, StageError> {
        let (rows_of_pass, spread) = self.rows(rows, setting.length as f64);
        let steps = course::steps(parameters, || Ok(rows_of_pass))?;
        let bounds = if parameters.is_set("steps") {
            Figure::exact(steps as f64)
        } else {
            Figure::within(steps as f64, spread)
        };
        let count = |clips: f64| clips.round().max(0.0) as u64;
        let clips = ClipCounts {
            used: count(self.used),
            held_out: count(self.held_out),
            left_out: count(self.left_out),
        };
        let timetable = Timetable::of(parameters, steps)?;
        let rows_of_step = course::rows_of_step(parameters)?;
        let course = Course { timetable, rows_of_step, rows_of_pass, clips };
        let is_certain = parameters.is_set("steps") || !self.all.is_guess;
        // Nothing follows from an empty data set: its clips are still to come.
        let is_empty = self.all.items == 0.0;
        let has_held_out = self.held_out > 0.0 || is_empty;
        let mut expected =
            ExpectedCourse::new(parameters, course, bounds, is_certain, has_held_out)?;
        if is_empty && !parameters.is_set("steps") {
            expected.idle.clear();
        }
        Ok(expected)
    }
}

impl Estimator<'_> {
    /// The clips of a training, by use. Known clips are held out as the training does it.
    pub fn clips_of(
        &self,
        spec: &StageSpec,
        model: &dyn Trainable,
        rows: Rows,
        length: i64,
    ) -> Clips {
        let limit = match rows {
            Rows::Tokens(rows) => LengthLimit::Tokens((length as f64 - rows.per_clip).max(0.0)),
            Rows::Clips => LengthLimit::Seconds(
                spec.parameters.seconds("max_seconds").unwrap_or(f64::INFINITY),
            ),
        };
        let all = self.flows.on_port(spec, ITEMS, &self.assumed);
        let fraction = spec.parameters.number("validation_fraction").unwrap_or(0.0);
        let is_given = spec.inputs.contains_key(VALIDATION);
        let (left, held_out) = match self.flows.known_items(spec, ITEMS).filter(|_| !is_given) {
            Some(items) => {
                let fitting = items.iter().filter(|item| !self.flows.is_longer(item, limit));
                let id = |item: &Item| model.clip(&spec.parameters, &item.fields);
                // A clip that comes twice counts once.
                let ids: BTreeSet<Digest> = fitting.filter_map(id).collect();
                let ids: Vec<String> = ids.iter().map(Digest::to_string).collect();
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                let sides = held_out(&ids, fraction, model.clip_salt());
                (ids.len() as f64, sides.into_iter().filter(|side| *side).count() as f64)
            }
            None => {
                let left = (all.items - self.flows.longer(spec, ITEMS, limit).items).max(0.0);
                let held_out = if is_given {
                    self.flows.on_port(spec, VALIDATION, &self.assumed).items
                } else {
                    expected_held_out(left, fraction)
                };
                (left, held_out)
            }
        };
        let used = if is_given { left } else { left - held_out };
        Clips { all, used, held_out, left_out: all.items - left }
    }
}
