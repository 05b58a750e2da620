//! Estimates as values: every figure has bounds and a basis.

use serde::{Deserialize, Serialize};
use stage_core::course::{Course, Idle, Timetable};
use stage_core::{Parameters, StageError};

/// An uncertain quantity: it is `likely`, and rarely below `low` or above `high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub low: f64,
    pub likely: f64,
    pub high: f64,
}

impl Figure {
    pub const fn exact(value: f64) -> Figure {
        Figure { low: value, likely: value, high: value }
    }

    /// With bounds at this factor.
    pub fn within(likely: f64, factor: f64) -> Figure {
        Figure { low: likely / factor, likely, high: likely * factor }
    }

    /// With bounds at this difference, and never below zero.
    pub fn around(likely: f64, difference: f64) -> Figure {
        Figure { low: (likely - difference).max(0.0), likely, high: likely + difference }
    }

    pub fn times(self, factor: f64) -> Figure {
        Figure { low: self.low * factor, likely: self.likely * factor, high: self.high * factor }
    }

    /// The maximum, bound by bound.
    pub fn or_more(self, other: Figure) -> Figure {
        Figure {
            low: self.low.max(other.low),
            likely: self.likely.max(other.likely),
            high: self.high.max(other.high),
        }
    }
}

/// Errors of estimates are not independent, so bounds are added to bounds.
impl std::ops::Add for Figure {
    type Output = Figure;

    fn add(self, other: Figure) -> Figure {
        Figure {
            low: self.low + other.low,
            likely: self.likely + other.likely,
            high: self.high + other.high,
        }
    }
}

impl std::iter::Sum for Figure {
    fn sum<I: Iterator<Item = Figure>>(figures: I) -> Figure {
        figures.fold(Figure::default(), |sum, figure| sum + figure)
    }
}

/// The basis of an estimate, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// This kind of stage with these parameters has run on this device.
    Measured,
    /// A few items, or steps, were run.
    Probe,
    /// This kind of stage has run on this device, with other parameters.
    Similar,
    /// Sizes of models and data, and the rates in the kind's description.
    Formula,
    Unknown,
}

impl std::fmt::Display for Basis {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Basis::Measured => "measured",
            Basis::Probe => "probe",
            Basis::Similar => "similar",
            Basis::Formula => "formula",
            Basis::Unknown => "unknown",
        })
    }
}

/// The expected cost of the remaining work of a stage; `None` is unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageEstimate {
    /// Items to execute, or 1.
    pub items: u64,
    pub basis: Basis,
    /// From start to end, with all threads to itself.
    pub seconds: Option<Figure>,
    /// The part of it with a GPU at work.
    pub gpu_seconds: Option<Figure>,
    pub ram_bytes: Option<Figure>,
    pub vram_bytes: Option<Figure>,
    /// Bytes of new objects, before deduplication.
    pub disk_bytes: Option<Figure>,
    pub money: Option<Figure>,
    /// The course of a training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Box<ExpectedCourse>>,
    /// Consequences for the parameters, such as the largest batch that fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

impl StageEstimate {
    /// Only the number of items is known.
    pub fn unknown(items: u64) -> StageEstimate {
        StageEstimate {
            items,
            basis: Basis::Unknown,
            seconds: None,
            gpu_seconds: None,
            ram_bytes: None,
            vram_bytes: None,
            disk_bytes: None,
            money: None,
            training: None,
            advice: Vec::new(),
        }
    }
}

/// The forecast of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectedCourse {
    /// With bounds, if they follow from the clips.
    #[serde(rename = "steps")]
    pub bounds: Figure,
    pub steps_of_pass: f64,
    pub passes: f64,
    pub course: Course,
    /// The parts that can never take effect.
    pub idle: Vec<Idle>,
    /// The counts are known, or come from `[expect]`, so that a part without effect is a mistake.
    pub is_certain: bool,
}

impl ExpectedCourse {
    /// `bounds` are those of the steps, `course` has the most likely number of steps.
    pub fn new(
        parameters: &Parameters,
        course: Course,
        bounds: Figure,
        is_certain: bool,
        has_held_out: bool,
    ) -> Result<ExpectedCourse, StageError> {
        let most = Timetable::of(parameters, bounds.high.ceil().max(1.0) as u64)?;
        let surely: Vec<Idle> = most.idle(has_held_out);
        let likely = course.timetable.idle(has_held_out);
        let is_sure = |idle: &Idle| surely.iter().any(|own| own.parameter == idle.parameter);
        Ok(ExpectedCourse {
            bounds,
            steps_of_pass: course.steps_of_pass(),
            passes: course.passes(),
            is_certain: is_certain && likely.iter().all(is_sure),
            idle: likely,
            course,
        })
    }

    /// The parts that are certainly mistakes.
    pub fn mistakes(&self) -> &[Idle] {
        if self.is_certain { &self.idle } else { &[] }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::ParameterValue;

    use super::*;

    #[test]
    fn a_sum_is_as_uncertain_as_all_its_parts_together() {
        let sum: Figure = [Figure::within(10.0, 2.0), Figure::around(1.0, 3.0)].into_iter().sum();
        assert_eq!(sum, Figure { low: 5.0, likely: 11.0, high: 24.0 });
        assert_eq!(sum.times(2.0), Figure { low: 10.0, likely: 22.0, high: 48.0 });
    }

    #[test]
    fn of_two_figures_each_bound_is_the_larger_one() {
        let more = Figure::within(10.0, 2.0).or_more(Figure::exact(8.0));
        assert_eq!(more, Figure { low: 8.0, likely: 10.0, high: 20.0 });
    }

    #[test]
    fn what_was_measured_is_worth_more_than_a_formula() {
        let mut bases = [Basis::Unknown, Basis::Formula, Basis::Measured, Basis::Similar];
        bases.sort();
        assert_eq!(
            bases.map(|basis| basis.to_string()).join(" "),
            "measured similar formula unknown"
        );
    }

    #[test]
    fn what_bounds_leave_open_is_no_mistake() {
        let written = Parameters([("warm_up".to_owned(), ParameterValue::Integer(100))].into());
        let expected = |high: f64, is_certain| {
            let timetable = Timetable::of(&written, 81).unwrap();
            let course = Course { timetable, rows_of_step: 8, ..Course::default() };
            let bounds = Figure { low: 60.0, likely: 81.0, high };
            ExpectedCourse::new(&written, course, bounds, is_certain, true).unwrap()
        };
        assert_eq!(expected(97.0, true).mistakes().len(), 1);
        assert_eq!(
            (expected(120.0, true).mistakes(), expected(97.0, false).mistakes()),
            (&[][..], &[][..])
        );
        assert_eq!(expected(120.0, true).idle.len(), 1, "it is told all the same");
    }
}
