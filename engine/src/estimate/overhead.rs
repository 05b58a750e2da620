//! The time of a training beside its steps: its start, with the preflight of a new one, validations
//! and checkpoints.

use crate::figure::Figure;
use stage_core::cost::WEIGHT_BYTES_PER_SECOND;
use stage_core::course::Course;

use super::Estimator;
use crate::measure::Measure;
use crate::measure::line::Line;
use crate::pipeline::StageSpec;

/// Seconds until a worker has started and read the weights.
const START: f64 = 5.0;
/// Rows with forward and backward pass in a preflight: two steps, a stop between them, and both
/// steps again, of two rows at most. It also looks at a few clips and speaks one.
const PREFLIGHT_STEPS: f64 = 5.0;
const PREFLIGHT_ROWS: f64 = 2.0;
/// State saves in a preflight.
const PREFLIGHT_SAVES: f64 = 3.0;
/// Share of a forward pass in the time of a row with both passes.
const FORWARD: f64 = 0.4;
/// The formulas may be off by this factor.
const SPREAD: f64 = 2.5;
/// The error that past times do not show by their spread.
const DOUBT: f64 = 0.1;

/// Validations that leave samples, and the clips of each.
const SAMPLED: f64 = 17.0;
const CLIPS: f64 = 3.0;

/// The expected number of each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// True when nothing is done yet: the training begins with a preflight.
    pub has_preflight: bool,
    pub validations: f64,
    pub saves: f64,
    /// Rows per step, and rows held out.
    pub rows: f64,
    pub held_out: f64,
    /// Bytes per save.
    pub state_bytes: f64,
    /// Time to speak a clip, in rows of a step; 0 for a model that is not heard in training.
    pub spoken: f64,
}

impl Overhead {
    /// With steps of this length.
    pub fn seconds(&self, step: f64, measure: Option<&Measure>) -> Figure {
        let row = step / self.rows.max(1.0);
        let save = self.state_bytes / WEIGHT_BYTES_PER_SECOND;
        let preflight_rows = PREFLIGHT_STEPS * self.rows.min(PREFLIGHT_ROWS) + self.spoken;
        let preflight = preflight_rows * row + PREFLIGHT_SAVES * save;
        let start = START + if self.has_preflight { preflight } else { 0.0 };
        let measured = |line: fn(&Measure) -> &Line, count: f64, size: f64| {
            measure.and_then(|measure| line(measure).total(count, size, DOUBT))
        };
        let formula = |seconds: f64| Figure::within(seconds, SPREAD);
        let has_preflight = f64::from(u8::from(self.has_preflight));
        let start = measured(|measure| &measure.start, 1.0, has_preflight)
            .unwrap_or_else(|| formula(start));
        let validations = measured(|measure| &measure.validation, self.validations, 0.0)
            .unwrap_or_else(|| formula(self.validation_rows() * row));
        let saves = measured(|measure| &measure.save, self.saves, 0.0)
            .unwrap_or_else(|| formula(self.saves * save));
        start + validations + saves
    }

    /// Time of all validations with their samples, in rows of a step.
    fn validation_rows(&self) -> f64 {
        let samples = self.validations.min(SAMPLED) * self.held_out.min(CLIPS);
        self.validations * self.held_out * FORWARD + samples * self.spoken
    }
}

impl Estimator<'_> {
    /// For a training with this number of steps left.
    pub fn overhead(&self, spec: &StageSpec, course: &Course, steps: f64) -> Overhead {
        let table = &course.timetable;
        let is_new = !self.has_checkpoint(spec.id);
        let clips = course.clips;
        let share = clips.held_out as f64 / (clips.used as f64).max(1.0);
        let held_out = (course.rows_of_pass * share).ceil();
        let first = f64::from(u8::from(is_new));
        let validations = (steps / table.validate_every.max(1) as f64).ceil() + first;
        let saves = match table.save_every {
            0 => 0.0,
            every => (steps / every as f64).floor(),
        };
        Overhead {
            has_preflight: is_new && spec.parameters.flag("preflight").unwrap_or(false),
            validations: if held_out > 0.0 { validations } else { 0.0 },
            saves: saves + 1.0,
            rows: course.rows_of_step as f64,
            held_out,
            state_bytes: 0.0,
            spoken: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overhead() -> Overhead {
        Overhead {
            has_preflight: true,
            validations: 3.0,
            saves: 2.0,
            rows: 4.0,
            held_out: 10.0,
            state_bytes: 4e8,
            spoken: 0.0,
        }
    }

    #[test]
    fn start_preflight_validations_and_saves_are_terms_of_their_own() {
        let seconds = |overhead: Overhead| overhead.seconds(8.0, None).likely;
        // Rows of 2 s: ten with both passes, three saves of 2 s, 30 forward passes, two saves.
        assert_eq!(seconds(overhead()), (5.0 + 20.0 + 6.0) + 24.0 + 4.0);
        let without = Overhead { has_preflight: false, ..overhead() };
        assert_eq!(seconds(without), 5.0 + 24.0 + 4.0);
        let blind = Overhead { validations: 0.0, ..without };
        assert_eq!(seconds(blind), 5.0 + 4.0);
    }

    #[test]
    fn a_model_that_is_heard_speaks_three_clips_at_some_of_its_validations() {
        let spoken = |validations| {
            let heard = Overhead { has_preflight: false, validations, spoken: 2.0, ..overhead() };
            let silent = Overhead { spoken: 0.0, ..heard };
            heard.seconds(8.0, None).likely - silent.seconds(8.0, None).likely
        };
        // Each of the three takes two rows of 2 s.
        assert_eq!((spoken(1.0), spoken(3.0)), (12.0, 36.0));
        assert_eq!((spoken(17.0), spoken(1_000.0)), (204.0, 204.0));
    }

    #[test]
    fn what_was_measured_takes_the_place_of_each_term() {
        let mut measure = Measure::default();
        measure.validation.add(0.0, 7.0);
        assert_eq!(overhead().seconds(8.0, Some(&measure)).likely, 31.0 + 21.0 + 4.0);
        measure.save.add(0.0, 0.5);
        measure.start.add(1.0, 40.0);
        measure.start.add(0.0, 10.0);
        assert_eq!(overhead().seconds(8.0, Some(&measure)).likely, 40.0 + 21.0 + 1.0);
        let going_on = Overhead { has_preflight: false, ..overhead() };
        assert_eq!(going_on.seconds(8.0, Some(&measure)).likely, 10.0 + 21.0 + 1.0);
    }
}
