//! The course of a training: the number of steps, the events between them, and the parts that can
//! never take effect. The plan computes it before anything runs, and the trainer reports it before
//! its first step.

use serde::{Deserialize, Serialize};

use crate::error::StageError;
use crate::parameter::{ParameterValue, Parameters};

/// Steps between validations, unless a manifest says otherwise: if this exceeds a training, its
/// author made no mistake.
pub const VALIDATE_EVERY: i64 = 100;
/// Steps between saved states, unless a manifest says otherwise. As with [`VALIDATE_EVERY`], more
/// than there are steps is no mistake.
pub const SAVE_EVERY: i64 = 100;

const STEPS: &str = "steps";
/// The parameter with the length of a training in passes over the clips: a number above 0, in place
/// of `steps`.
pub const EPOCHS: &str = "epochs";
/// The parameter with the step, or share of the steps, after which a training ends early. A sweep
/// sets it for the rungs of its trials.
pub const UNTIL: &str = "until";

/// The events between the steps of a training, all counted in steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timetable {
    /// The number of optimiser steps, at least 1.
    pub steps: u64,
    /// The steps over which the learning rate rises.
    pub warm_up: u64,
    /// Steps between validations on the held-out clips, at least 1.
    pub validate_every: u64,
    /// 0: by time alone.
    pub save_every: u64,
    /// Validations without a better loss that end the training; 0: no early stopping.
    pub patience: u64,
}

/// A written part that can never take effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// The name of the parameter in the manifest, such as `warm_up`.
    pub parameter: String,
    /// The problem with both numbers, as one line.
    pub message: String,
    /// A setting that would take effect.
    pub help: String,
}

/// The total number of optimiser steps, given the rows of one pass over the clips.
///
/// # Errors
///
/// [`StageError::Failed`] with the advice of [`length_mistake`] if there is such a mistake, or
/// without any if a parameter has a value of another type. Errors of `rows_of_pass` are passed on.
pub fn steps(
    parameters: &Parameters,
    rows_of_pass: impl FnOnce() -> Result<f64, StageError>,
) -> Result<u64, StageError> {
    match (parameters.is_set(STEPS), parameters.is_set(EPOCHS)) {
        (true, false) => Ok(parameters.integer(STEPS)?.max(1) as u64),
        (false, true) if length_mistake(parameters).is_none() => {
            let rows = rows_of_pass()? * parameters.number(EPOCHS)?;
            Ok((rows / rows_of_step(parameters)? as f64).ceil().max(1.0) as u64)
        }
        _ => {
            let (message, help) = length_mistake(parameters).unwrap_or_default();
            Err(StageError::with_help(message, help))
        }
    }
}

/// A mistake in the length of a training, with advice.
pub fn length_mistake(parameters: &Parameters) -> Option<(&'static str, &'static str)> {
    match (parameters.is_set(STEPS), parameters.is_set(EPOCHS)) {
        (true, true) => Some(("both `steps` and `epochs` are given", "remove one of them")),
        (false, false) => {
            Some(("the length of the training is missing", "set either `steps` or `epochs`"))
        }
        (false, true) if parameters.number(EPOCHS).is_ok_and(|epochs| epochs <= 0.0) => {
            Some(("`epochs` is 0: no clip would be trained on", "set more than 0"))
        }
        _ => None,
    }
}

/// Rows, or clips, per step.
///
/// # Errors
///
/// [`StageError::Failed`] if `batch` or `accumulation` is given and is not an integer.
pub fn rows_of_step(parameters: &Parameters) -> Result<u64, StageError> {
    let whole = |name: &str| parameters.integer_or(name, 1).map(|number| number.max(1) as u64);
    Ok(whole("batch")? * whole("accumulation")?)
}

impl Timetable {
    /// Converts shares to steps. A parameter that the kind lacks is off.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if one of the parameters is neither an integer nor a share.
    pub fn of(parameters: &Parameters, steps: u64) -> Result<Timetable, StageError> {
        let counted = |name: &str, preset: i64, part: fn(f64) -> f64| {
            Ok::<u64, StageError>(
                in_steps(parameters, name, steps, part)?.unwrap_or(preset.max(0) as u64),
            )
        };
        let every = |name: &str, preset: i64| counted(name, preset, up);
        Ok(Timetable {
            steps,
            warm_up: counted("warm_up", 0, down)?,
            validate_every: every("validate_every", VALIDATE_EVERY)?.max(1),
            save_every: every("save_every", SAVE_EVERY)?,
            patience: every("patience", 0)?,
        })
    }

    /// The parts that can never take effect in these steps; `has_held_out`: there are held-out
    /// clips.
    pub fn idle(&self, has_held_out: bool) -> Vec<Idle> {
        let steps = told(self.steps, "step");
        let mut idle = Vec::new();
        let mut add = |parameter: &str, message: String, help: &str| {
            let (parameter, help) = (parameter.to_owned(), help.to_owned());
            idle.push(Idle { parameter, message, help });
        };
        if self.warm_up > 0 && self.warm_up >= self.steps {
            let warm_up = told(self.warm_up, "step");
            add(
                "warm_up",
                format!(
                    "`warm_up` takes {warm_up}, but the training has {steps}: the learning rate \
                     never reaches `learning_rate`"
                ),
                "set a share of the steps, such as `warm_up = \"5%\"`, or train for longer",
            );
        }
        if self.validate_every > self.steps && self.validate_every != VALIDATE_EVERY as u64 {
            add(
                "validate_every",
                format!(
                    "`validate_every` is {}, but the training has {steps}: there is no validation \
                     before its end",
                    told(self.validate_every, "step")
                ),
                "set a share of the steps, such as `validate_every = \"5%\"`",
            );
        }
        if self.patience > 0 && !has_held_out {
            add(
                "patience",
                "`patience` needs held-out losses, but no clips are held out".to_owned(),
                "raise `validation_fraction`, name a data set on `validation`, or remove `patience`",
            );
        } else if self.patience > 0 && self.first_end() >= self.steps {
            add(
                "patience",
                format!(
                    "`patience` needs {} of {} each, but the training has {steps}: it never ends \
                     early",
                    told(self.patience, "validation"),
                    told(self.validate_every, "step")
                ),
                if self.validate_every > 1 {
                    "validate more often, such as `validate_every = 1`, or lower `patience`"
                } else {
                    "lower or remove `patience`, or train for more steps"
                },
            );
        }
        if self.save_every > self.steps && self.save_every != SAVE_EVERY as u64 {
            add(
                "save_every",
                format!(
                    "`save_every` is {}, but the training has {steps}: no state is saved by steps",
                    told(self.save_every, "step")
                ),
                "set a share of the steps, such as `save_every = \"10%\"`, or 0 to save only by \
                 `save_interval`",
            );
        }
        idle
    }

    /// Refuses a timetable with a part that can never take effect.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] with the messages and the advice of all parts that
    /// [`Timetable::idle`] finds.
    pub fn check(&self, has_held_out: bool) -> Result<(), StageError> {
        let idle = self.idle(has_held_out);
        let joined = |part: fn(&Idle) -> &str| idle.iter().map(part).collect::<Vec<_>>().join("; ");
        if idle.is_empty() {
            Ok(())
        } else {
            Err(StageError::with_help(joined(|idle| &idle.message), joined(|idle| &idle.help)))
        }
    }

    /// The first step after which patience may end the training: the first validation comes before
    /// the first step.
    fn first_end(&self) -> u64 {
        self.patience.saturating_mul(self.validate_every)
    }
}

/// A number of steps, or a share of all; None if it is not given.
fn in_steps(
    parameters: &Parameters,
    name: &str,
    steps: u64,
    part: fn(f64) -> f64,
) -> Result<Option<u64>, StageError> {
    match parameters.get(name) {
        ParameterValue::Absent => Ok(None),
        ParameterValue::Share(share) => Ok(Some(part(share * steps as f64).max(0.0) as u64)),
        _ => parameters.integer(name).map(|number| Some(number.max(0) as u64)),
    }
}

/// The interval in steps of states that are kept whatever their loss, if there is one.
///
/// # Errors
///
/// [`StageError::Failed`] if `keep_every` is neither an integer nor a share.
pub fn keep_every(parameters: &Parameters, steps: u64) -> Result<Option<u64>, StageError> {
    Ok(in_steps(parameters, "keep_every", steps, up)?.filter(|every| *every > 0))
}

/// The step after which the training ends, if that is before its last one.
///
/// # Errors
///
/// [`StageError::Failed`] if `until` is neither an integer nor a share.
pub fn until(parameters: &Parameters, steps: u64) -> Result<Option<u64>, StageError> {
    Ok(in_steps(parameters, UNTIL, steps, up)?.map(|step| step.max(1)).filter(|step| *step < steps))
}

/// A share such as 0.07 is not exact: 7 % of 100 is 7.
const EXACT: f64 = 1e-6;

/// Rounds an interval up, so that there are no more events than the share says.
fn up(steps: f64) -> f64 {
    (steps - EXACT).ceil()
}

/// Rounds a warm-up down, so that it stays within its share.
fn down(steps: f64) -> f64 {
    (steps + EXACT).floor()
}

fn told(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The clips of a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClipCounts {
    /// Clips that the optimiser learns from.
    pub used: u64,
    /// Clips for validations only.
    pub held_out: u64,
    /// Items that the training cannot use or that occur twice.
    pub left_out: u64,
}

/// A training just before it begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// The steps, and the events between them.
    pub timetable: Timetable,
    /// Rows of one optimiser step: `batch` times `accumulation`, at least 1.
    pub rows_of_step: u64,
    /// Rows of one pass over the clips. A fraction if it is estimated by the plan; a trainer counts
    /// them.
    pub rows_of_pass: f64,
    /// The division of the items into clips for learning, for validation, and others.
    pub clips: ClipCounts,
}

impl Course {
    /// Optimiser steps of one pass over the clips; a fraction if the last one is not full.
    pub fn steps_of_pass(&self) -> f64 {
        self.rows_of_pass / self.rows_of_step.max(1) as f64
    }

    /// Passes over the clips.
    pub fn passes(&self) -> f64 {
        if self.rows_of_pass > 0.0 {
            self.timetable.steps as f64 / self.steps_of_pass()
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ParameterValue::{Integer, Number, Share};

    fn parameters(values: &[(&str, ParameterValue)]) -> Parameters {
        Parameters(values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
    }

    fn idle(values: &[(&str, ParameterValue)], steps: u64) -> Vec<String> {
        let timetable = Timetable::of(&parameters(values), steps).unwrap();
        timetable.idle(true).into_iter().map(|idle| idle.parameter).collect()
    }

    #[test]
    fn no_pass_over_the_clips_is_no_training() {
        let of = |epochs| parameters(&[("epochs", Number(epochs))]);
        let (told, _) = length_mistake(&of(0.0)).unwrap();
        assert!(told.contains("`epochs` is 0"), "{told}");
        assert!(steps(&of(0.0), || Ok(10.0)).is_err());
        assert_eq!(length_mistake(&of(0.1)), None);
    }

    #[test]
    fn a_rung_ends_before_the_last_step_or_is_none() {
        let of = |value| until(&parameters(&[("until", value)]), 90).unwrap();
        assert_eq!([of(Integer(30)), of(Integer(90)), of(Integer(91))], [Some(30), None, None]);
        assert_eq!(
            [of(Share(1.0 / 9.0)), of(Share(1e-9)), of(Share(1.0))],
            [Some(10), Some(1), None]
        );
        assert_eq!(until(&parameters(&[]), 90).unwrap(), None);
    }

    #[test]
    fn a_share_is_of_all_steps_and_leaves_room_in_few_of_them() {
        let shares =
            [("warm_up", Share(0.05)), ("validate_every", Share(0.07)), ("save_every", Share(0.5))];
        let table = Timetable::of(&parameters(&shares), 81).unwrap();
        assert_eq!((table.warm_up, table.validate_every, table.save_every), (4, 6, 41));
        let table = Timetable::of(&parameters(&shares), 100).unwrap();
        assert_eq!((table.warm_up, table.validate_every, table.save_every), (5, 7, 50));
        let table = Timetable::of(&parameters(&shares), 1).unwrap();
        assert_eq!((table.warm_up, table.validate_every), (0, 1));
    }

    #[test]
    fn counts_are_as_written_and_what_a_kind_has_not_asks_for_nothing() {
        let counts = [("warm_up", Integer(3)), ("save_every", Integer(0))];
        let table = Timetable::of(&parameters(&counts), 10).unwrap();
        assert_eq!((table.warm_up, table.save_every, table.patience), (3, 0, 0));
        assert!(table.idle(false).is_empty());
        assert!(Timetable::of(&parameters(&[("warm_up", Number(3.0))]), 10).is_err());
    }

    /// The values that the recipe for Fish Speech once had, in the 81 steps of 4,000 clips.
    #[test]
    fn each_part_that_cannot_act_in_the_steps_is_named() {
        let written = [
            ("warm_up", Integer(100)),
            ("validate_every", Integer(200)),
            ("patience", Integer(5)),
            ("save_every", Integer(500)),
        ];
        let all = ["warm_up", "validate_every", "patience", "save_every"];
        assert_eq!(idle(&written, 81), all);
        assert_eq!(idle(&written, 100), all);
        assert_eq!(idle(&written, 101), all[1..]);
        assert_eq!(idle(&written, 200), ["patience", "save_every"]);
        assert_eq!(idle(&written, 1_000), ["patience"]);
        assert_eq!(idle(&written, 1_001), [""; 0]);
    }

    #[test]
    fn defaults_beyond_the_end_are_no_mistake_but_a_warm_up_that_never_ends_is() {
        let usual = [
            ("warm_up", Integer(10)),
            ("validate_every", Integer(VALIDATE_EVERY)),
            ("save_every", Integer(SAVE_EVERY)),
        ];
        assert_eq!(idle(&usual, 11), [""; 0]);
        assert_eq!(idle(&usual, 10), ["warm_up"]);
    }

    #[test]
    fn patience_without_held_out_clips_waits_for_nothing() {
        let written = parameters(&[("patience", Integer(2)), ("validate_every", Integer(1))]);
        let table = Timetable::of(&written, 100).unwrap();
        assert!(table.check(true).is_ok());
        let error = table.check(false).unwrap_err();
        assert!(error.to_string().contains("no clips are held out"), "{error}");
        assert!(error.help().unwrap().contains("`validation_fraction`"));
    }

    #[test]
    fn steps_are_given_or_follow_from_the_rows_of_a_pass() {
        let by = |values: &[(&str, ParameterValue)]| steps(&parameters(values), || Ok(216.0));
        let rows = [("batch", Integer(4)), ("accumulation", Integer(2))];
        assert_eq!(by(&[&rows[..], &[("epochs", Number(3.0))]].concat()).unwrap(), 81);
        assert_eq!(by(&[&rows[..], &[("steps", Integer(7))]].concat()).unwrap(), 7);
        assert!(by(&rows).is_err());
        let both = [("steps", Integer(7)), ("epochs", Number(3.0))];
        assert!(by(&both).is_err());
    }

    #[test]
    fn passes_follow_from_rows() {
        let timetable = Timetable { steps: 81, ..Timetable::default() };
        let course = Course {
            timetable,
            rows_of_step: 8,
            rows_of_pass: 216.0,
            clips: ClipCounts::default(),
        };
        assert_eq!((course.steps_of_pass(), course.passes()), (27.0, 3.0));
        assert_eq!(Course::default().passes(), 0.0);
    }
}
