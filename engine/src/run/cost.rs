//! The cost of a stage in a run: its time, its memory and the size of its outputs.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::measure::line::Line;

/// The metric in which a worker reports the peak memory of its GPU.
const VRAM: &str = "vram_peak_bytes";
/// The metrics in which a training reports the seconds per step since its last report, without the
/// time between steps, and those of a validation and of a checkpoint.
const STEP: &str = "step_seconds";
const VALIDATION: &str = "validation_seconds";
const SAVE: &str = "save_seconds";

#[derive(Default)]
pub struct Cost {
    /// The measures that are not in the index yet.
    pub unwritten: Tally,
    pub taken: PassCost,
    /// The progress of a whole stage: done and total.
    pub progress: Option<(u64, u64)>,
}

#[derive(Default)]
pub struct Tally {
    pub seconds: Line,
    pub bytes: Line,
    pub ram_bytes: f64,
    pub vram_bytes: f64,
    /// The last reported training step, and its time.
    step: Option<(u64, Instant)>,
    pub training: TrainingTally,
}

/// The progress of a training in a run.
#[derive(Default)]
pub struct TrainingTally {
    /// The step of the checkpoint that it resumes from.
    from: u64,
    pub validation: Line,
    pub save: Line,
    pub start: Line,
    /// The time of all reported steps, validations and checkpoints.
    told_seconds: f64,
    /// The last reported step.
    told: u64,
    has_preflight: bool,
}

/// The cost of a stage in this pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassCost {
    pub seconds: f64,
    pub bytes: f64,
}

impl Cost {
    /// Adds finished work: the size of its input, its time and the size of its output.
    pub fn add(&mut self, size: f64, seconds: f64, bytes: u64) {
        self.unwritten.seconds.add(size, seconds);
        self.add_output(size, seconds, bytes);
    }

    /// The same for a training, which reports the times of its steps.
    pub fn add_output(&mut self, size: f64, seconds: f64, bytes: u64) {
        self.unwritten.bytes.add(size, bytes as f64);
        self.taken.seconds += seconds;
        self.taken.bytes += bytes as f64;
    }

    /// Adds the figures of a training step: the time since the previous report belongs to the steps
    /// between the two.
    pub fn step(&mut self, step: u64, values: &BTreeMap<String, f64>) {
        let tally = &mut self.unwritten;
        if let Some(vram) = values.get(VRAM) {
            tally.vram_bytes = tally.vram_bytes.max(*vram);
        }
        let training = &mut tally.training;
        for (name, line) in [(VALIDATION, &mut training.validation), (SAVE, &mut training.save)] {
            if let Some(seconds) = values.get(name) {
                line.add(0.0, *seconds);
                training.told_seconds += seconds;
            }
        }
        if let Some(each) = values.get(STEP) {
            let before = training.told.max(training.from);
            let steps = step.saturating_sub(before);
            (0..steps).for_each(|_| tally.seconds.add(0.0, *each));
            training.told_seconds += steps as f64 * each;
            training.told = step;
            return;
        }
        // Other trainings only report finished steps.
        if training.told > 0 || values.contains_key(VALIDATION) || values.contains_key(SAVE) {
            return;
        }
        let now = Instant::now();
        if let Some((before, at)) = tally.step
            && step > before
        {
            let each = (now - at).as_secs_f64() / (step - before) as f64;
            (before..step).for_each(|_| tally.seconds.add(0.0, each));
        }
        tally.step = Some((step, now));
    }
}

impl TrainingTally {
    pub fn begin(from: u64, has_preflight: bool) -> TrainingTally {
        TrainingTally { from, has_preflight, ..TrainingTally::default() }
    }

    /// The training has ended or was stopped, after this time.
    pub fn end(&mut self, seconds: f64) {
        // Without reported times nothing is known.
        if self.told > 0 {
            let preflight = f64::from(u8::from(self.has_preflight));
            self.start.add(preflight, (seconds - self.told_seconds).max(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: u64, values: &[(&str, f64)], cost: &mut Cost) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value));
        cost.step(step, &values.collect());
    }

    #[test]
    fn steps_validations_checkpoints_and_the_start_of_a_training_are_told_apart() {
        let mut cost = Cost::default();
        cost.unwritten.training = TrainingTally::begin(5, true);
        let step = |step, cost: &mut Cost| told(step, &[("loss", 1.0), (STEP, 2.0)], cost);
        told(0, &[("preflight/loss", 1.0)], &mut cost);
        told(5, &[("held_out", 1.0), (VALIDATION, 7.0)], &mut cost);
        step(10, &mut cost);
        told(10, &[("held_out", 1.0), (VALIDATION, 5.0)], &mut cost);
        step(15, &mut cost);
        told(15, &[(SAVE, 0.5)], &mut cost);
        let Tally { seconds, training, .. } = &mut cost.unwritten;
        training.end(50.0);
        let mean = |line: &Line| (line.count, line.total(1.0, 1.0, 0.0).map(|mean| mean.likely));
        assert_eq!(mean(seconds), (10.0, Some(2.0)));
        assert_eq!(mean(&training.validation), (2.0, Some(6.0)));
        assert_eq!(mean(&training.save), (1.0, Some(0.5)));
        // 50 s without 20 s of steps, 12 s of validations and half a second of saving.
        assert_eq!(mean(&training.start), (1.0, Some(17.5)));
    }
}
