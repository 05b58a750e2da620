//! Reports on steps: their losses, and their speed.

use super::Run;
use super::phase::StepResult;
use crate::train::trainee::Trainee;

/// The amount of data since the last report.
pub(super) struct Throughput {
    pub since: f64,
    pub clips: u64,
    pub labels: u64,
    pub steps: u64,
}

impl Throughput {
    pub fn new(now: f64) -> Throughput {
        Throughput { since: now, clips: 0, labels: 0, steps: 0 }
    }
}

impl<T: Trainee> Run<'_, T> {
    pub(super) fn report(&mut self, done: &StepResult, rate: f64) {
        let settings = self.job.settings;
        let step = self.state.step;
        let is_due = |every: u64| step.is_multiple_of(every.max(1)) || step == settings.steps;
        let (is_recorded, is_told) = (is_due(settings.record_every), is_due(settings.report_every));
        if !is_recorded && !is_told {
            return;
        }
        let means = &done.means;
        let loss = self.job.replicas.first().map_or(f64::NAN, |trainee| trainee.total(means));
        let mut values: Vec<(String, f64)> = vec![("loss".into(), loss)];
        if means.0.len() > 1 {
            values.extend(means.0.iter().map(|(name, mean)| (format!("loss/{name}"), *mean)));
        }
        let passes = self.order.passes(&self.state.cursor);
        values.push(("rate".into(), rate));
        values.extend(done.norms.iter().map(|(phase, norm)| match T::PHASES.len() {
            1 => ("gradient_norm".into(), *norm),
            _ => (format!("gradient_norm/{phase}"), *norm),
        }));
        values.push(("passes".into(), passes));
        if self.state.scaler.scale() != 1.0 {
            values.push(("loss_scale".into(), self.state.scaler.scale()));
        }
        if self.state.skipped > 0 {
            values.push(("skipped".into(), self.state.skipped as f64));
        }
        if is_recorded {
            values.iter().for_each(|(name, value)| self.record.push(step, name, *value));
        }
        if !is_told {
            return;
        }
        let now = self.host.seconds();
        values.extend(self.pace(now));
        let values: Vec<(&str, f64)> =
            values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        self.host.report(step, &values);
    }

    /// The speed since the last report.
    fn pace(&mut self, now: f64) -> Vec<(String, f64)> {
        let Throughput { since, clips, labels, steps } = self.pace;
        self.pace = Throughput { since: now, clips: 0, labels: 0, steps: 0 };
        let seconds = now - since;
        if seconds <= 0.0 || steps == 0 {
            return Vec::new();
        }
        let left = self.job.settings.last_step().saturating_sub(self.state.step) as f64;
        let values = [
            ("clips_per_second", clips as f64 / seconds),
            ("tokens_per_second", labels as f64 / seconds),
            ("seconds_left", left * seconds / steps as f64),
            ("step_seconds", seconds / steps as f64),
        ];
        values.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}
