//! The training loop.
//!
//! A step takes its rows, counts their labels, accumulates the gradients of its micro-batches,
//! and updates the weights. Validation and checkpoints lie between steps. A step that is cut
//! short leaves no trace: it is done again from its start, so that a training that was stopped
//! or killed anywhere ends with the same bits as one that never was.

use stage_core::StageError;
use tch::Tensor;

use super::adamw::AdamW;
use super::early_stop::Place;
use super::gradients::{clip_factor, norm};
use super::host::{Checkpoint, Host};
use super::losses::{Losses, Means, Totals};
use super::order::{Clip, Order, Row};
use super::precision::Scaler;
use super::record::Record;
use super::replicas::{self, MicroBatch};
use super::settings::Settings;
use super::state::State;
use super::trainee::Trainee;
use crate::error::TorchError;
use crate::random::scramble;

/// Makes batches of clips.
pub trait Data<B> {
    /// The clips of each row lie side by side in one row of the batch.
    fn batch(&self, rows: &[Row]) -> Result<B, TorchError>;
}

/// A training to be done.
pub struct Job<'a, T: Trainee, D> {
    /// The model, once for each device, all with the same weights.
    pub replicas: &'a mut [T],
    pub data: &'a D,
    pub clips: &'a [Clip],
    /// Which clips are held out for validation.
    pub held_out: &'a [bool],
    pub settings: &'a Settings,
}

/// What came of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained<K> {
    pub steps: u64,
    /// Ended by its patience before all steps were done.
    pub stopped_early: bool,
    pub skipped: u64,
    pub passes: f64,
    /// The best states on held-out clips, best first; empty without any.
    pub best: Vec<(Place, Weights<K>)>,
    pub last: Weights<K>,
    /// The loss of the last state on held-out clips.
    pub held_out: Option<f64>,
    pub record: Record,
}

/// Trained tensors by the names of the parameters.
pub type Weights<K> = Vec<(String, K)>;

/// Trains to the end, going on from the last checkpoint where there is one. Asked to stop, it
/// saves and returns [`StageError::Stopped`].
pub fn train<T: Trainee, D: Data<T::Batch>, H: Host>(
    job: Job<'_, T, D>,
    host: &mut H,
) -> Result<Trained<H::Kept>, StageError> {
    let mut run = Run::start(job, host)?;
    if run.state.held_out.is_none() {
        run.validate(host)?;
    }
    while !run.is_done() {
        if host.stopping() || !run.step(host)? {
            run.save(host)?;
            return Err(StageError::Stopped);
        }
        if run.validation_is_due() {
            run.validate(host)?;
        }
        if run.save_is_due(host) {
            run.save(host)?;
        }
    }
    run.save(host)?;
    run.finish(host)
}

struct Run<'a, T: Trainee, D, K> {
    job: Job<'a, T, D>,
    order: Order,
    held_out: Vec<Row>,
    adamw: AdamW,
    state: State,
    record: Record,
    /// The tensors of the best states, by step.
    best: Vec<(u64, Weights<K>)>,
    saved: Saved,
    pace: Pace,
}

/// The last save.
struct Saved {
    step: Option<u64>,
    at: f64,
    seconds: f64,
}

/// What went through since the last report.
struct Pace {
    since: f64,
    clips: u64,
    labels: u64,
    steps: u64,
}

impl<'a, T: Trainee, D: Data<T::Batch>, K: Clone> Run<'a, T, D, K> {
    fn start<H: Host<Kept = K>>(job: Job<'a, T, D>, host: &mut H) -> Result<Self, StageError> {
        replicas::check(job.replicas)?;
        let settings = job.settings;
        let is_held = |at: usize| job.held_out.get(at).copied().unwrap_or(false);
        let order = Order::new(settings.grouping, settings.seed, job.clips, |at| !is_held(at))?;
        if order.is_empty() {
            return Err(TorchError::Input("there are no clips to train on".into()).into());
        }
        let held_out = Order::new(settings.grouping, 0, job.clips, is_held)?.pass(0).to_vec();
        let adamw = AdamW::new(settings.adamw, job.replicas[0].parameters())?;
        let state = State::new(Scaler::new(settings.precision), settings.rows.max(1));
        let now = host.seconds();
        let saved = Saved { step: None, at: now, seconds: 0.0 };
        let pace = Pace { since: now, clips: 0, labels: 0, steps: 0 };
        let record = Record::default();
        let mut run =
            Run { job, order, held_out, adamw, state, record, best: Vec::new(), saved, pace };
        if let Some(checkpoint) = host.last()? {
            run.restore(&checkpoint, host)?;
        }
        replicas::share_weights(run.job.replicas)?;
        Ok(run)
    }

    fn is_done(&self) -> bool {
        self.state.ended || self.state.step >= self.job.settings.steps
    }

    /// One optimiser step; false when it was given up because training shall stop.
    fn step<H: Host>(&mut self, host: &mut H) -> Result<bool, StageError> {
        let settings = self.job.settings;
        let mut cursor = self.state.cursor;
        let mut rows = self.order.take(&mut cursor, settings.rows_of_step());
        // Rows of like length in one micro-batch waste the least.
        rows.sort_by_key(|row| self.order.length(row));
        let Some((losses, totals)) = self.accumulate(&rows, host)? else { return Ok(false) };

        let gradients = replicas::gradients(self.job.replicas)?;
        let means = losses.means(&totals)?;
        let norm = norm(&gradients)? / self.state.scaler.scale();
        let is_good = norm.is_finite() && means.total().is_finite();
        let rate = settings.schedule.rate(self.state.step);
        if is_good {
            let factor = clip_factor(norm, settings.clip) / self.state.scaler.scale();
            self.adamw.step(&gradients, rate, factor)?;
            replicas::share_weights(self.job.replicas)?;
        }
        drop(gradients);
        replicas::clear_gradients(self.job.replicas);
        self.judge(is_good, &means)?;

        self.pace.clips += cursor.clips - self.state.cursor.clips;
        self.pace.labels += totals.labels();
        self.pace.steps += 1;
        self.state.cursor = cursor;
        self.state.step += 1;
        self.state.updates = self.adamw.updates();
        self.report(&means, rate, norm, host);
        Ok(true)
    }

    /// The gradients of a step's rows, in micro-batches that fit into memory; none when
    /// training shall stop.
    fn accumulate<H: Host>(
        &mut self,
        rows: &[Row],
        host: &mut H,
    ) -> Result<Option<(Losses, Totals)>, StageError> {
        loop {
            match self.accumulate_once(rows, host) {
                Err(StageError::OutOfMemory { .. }) if self.state.rows > 1 => {
                    self.state.rows = self.state.rows.div_ceil(2);
                    replicas::clear_gradients(self.job.replicas);
                }
                result => return result,
            }
        }
    }

    fn accumulate_once<H: Host>(
        &mut self,
        rows: &[Row],
        host: &mut H,
    ) -> Result<Option<(Losses, Totals)>, StageError> {
        let batches = self.batches(rows)?;
        let totals = count::<T>(&batches).scaled(self.state.scaler.scale());
        let seeds = (0..).map(|at| seed(self.job.settings.seed, self.state.step, at));
        let micro: Vec<MicroBatch<'_, T::Batch>> =
            batches.iter().zip(seeds).map(|(batch, seed)| MicroBatch { batch, seed }).collect();
        let mut losses = Losses::default();
        for round in micro.chunks(self.job.replicas.len()) {
            if host.stopping() {
                replicas::clear_gradients(self.job.replicas);
                return Ok(None);
            }
            losses.add(replicas::accumulate(self.job.replicas, round, &totals)?)?;
        }
        Ok(Some((losses, totals)))
    }

    fn batches(&self, rows: &[Row]) -> Result<Vec<T::Batch>, TorchError> {
        rows.chunks(self.state.rows).map(|rows| self.job.data.batch(rows)).collect()
    }

    /// Takes note of whether a step could be used. One bad step is skipped: a single clip may
    /// do that, and so does a loss scale that has become too large. Many in a row mean that the
    /// training is lost, and going back would only lead to the same place again.
    fn judge(&mut self, is_good: bool, means: &Means) -> Result<(), StageError> {
        let is_overflow = means.total().is_finite() && self.state.scaler.can_shrink();
        self.state.scaler.update(is_good);
        if is_good {
            self.state.bad = 0;
            return Ok(());
        }
        self.state.skipped += 1;
        if is_overflow {
            return Ok(());
        }
        self.state.bad += 1;
        if self.state.bad < self.job.settings.bad_steps.max(1) {
            return Ok(());
        }
        Err(StageError::with_help(
            format!(
                "the loss or its gradients were not finite for {} steps in a row, up to step {}",
                self.state.bad,
                self.state.step + 1
            ),
            "a lower learning rate, more warm-up or `precision = \"f32\"` may help; the last \
             checkpoint is from before",
        ))
    }

    fn report<H: Host>(&mut self, means: &Means, rate: f64, norm: f64, host: &mut H) {
        let settings = self.job.settings;
        let step = self.state.step;
        if !step.is_multiple_of(settings.report_every.max(1)) && step != settings.steps {
            return;
        }
        let mut values: Vec<(String, f64)> = vec![("loss".into(), means.total())];
        if means.0.len() > 1 {
            values.extend(means.0.iter().map(|(name, mean)| (format!("loss/{name}"), *mean)));
        }
        let passes = self.order.passes(&self.state.cursor);
        let more = [("rate", rate), ("gradient_norm", norm), ("passes", passes)];
        values.extend(more.map(|(name, value)| (name.to_owned(), value)));
        if self.state.scaler.scale() != 1.0 {
            values.push(("loss_scale".into(), self.state.scaler.scale()));
        }
        if self.state.skipped > 0 {
            values.push(("skipped".into(), self.state.skipped as f64));
        }
        values.iter().for_each(|(name, value)| self.record.push(step, name, *value));
        values.extend(self.pace(host.seconds()));
        let values: Vec<(&str, f64)> =
            values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        host.report(step, &values);
    }

    /// How fast it went since the last report.
    fn pace(&mut self, now: f64) -> Vec<(String, f64)> {
        let Pace { since, clips, labels, steps } = self.pace;
        self.pace = Pace { since: now, clips: 0, labels: 0, steps: 0 };
        let seconds = now - since;
        if seconds <= 0.0 || steps == 0 {
            return Vec::new();
        }
        let left = (self.job.settings.steps - self.state.step) as f64;
        let values = [
            ("clips_per_second", clips as f64 / seconds),
            ("tokens_per_second", labels as f64 / seconds),
            ("seconds_left", left * seconds / steps as f64),
        ];
        values.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    fn validation_is_due(&self) -> bool {
        let settings = self.job.settings;
        let every = settings.validate_every.max(1);
        self.state.step.is_multiple_of(every) || self.state.step >= settings.steps
    }

    /// The loss on held-out clips; decides about the best states and the end.
    fn validate<H: Host<Kept = K>>(&mut self, host: &mut H) -> Result<(), StageError> {
        if self.held_out.is_empty() {
            return Ok(());
        }
        let means = self.held_out_means()?;
        let (step, loss) = (self.state.step, means.total());
        let mut values: Vec<(String, f64)> = vec![("held_out".into(), loss)];
        if means.0.len() > 1 {
            values.extend(means.0.iter().map(|(name, mean)| (format!("held_out/{name}"), *mean)));
        }
        values.iter().for_each(|(name, value)| self.record.push(step, name, *value));
        let shown: Vec<(&str, f64)> =
            values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        host.report(step, &shown);
        self.state.held_out = Some(Place { step, loss });
        let settings = self.job.settings;
        if let Some(early_stop) = &settings.early_stop {
            self.state.ended = self.state.early_stop.update(early_stop, loss);
        }
        // What was there before the first step is no result.
        if step > 0 && self.state.ranking.admits(settings.keep_best, loss) {
            self.best.push((step, self.keep_weights(host)?));
            let place = Place { step, loss };
            if let Some(out) = self.state.ranking.enter(settings.keep_best, place) {
                self.best.retain(|(step, _)| *step != out.step);
            }
        }
        // The time of a validation is not the time of the steps.
        self.pace.since = host.seconds();
        Ok(())
    }

    fn held_out_means(&mut self) -> Result<Means, StageError> {
        let batches = self.batches(&self.held_out)?;
        let micro: Vec<MicroBatch<'_, T::Batch>> =
            batches.iter().map(|batch| MicroBatch { batch, seed: 0 }).collect();
        let mut losses = Losses::default();
        for round in micro.chunks(self.job.replicas.len()) {
            losses.add(replicas::evaluate(self.job.replicas, round)?)?;
        }
        Ok(losses.means(&count::<T>(&batches))?)
    }

    fn keep_weights<H: Host<Kept = K>>(&self, host: &mut H) -> Result<Weights<K>, StageError> {
        let mut weights = Vec::new();
        for (name, master) in self.adamw.masters() {
            let kind = self.job.settings.keep_kind.unwrap_or(master.kind());
            let tensor = master.f_to_kind(kind).map_err(TorchError::from)?;
            weights.push((name.to_owned(), host.keep(&tensor)?));
        }
        Ok(weights)
    }

    fn save_is_due<H: Host>(&self, host: &mut H) -> bool {
        let when = self.job.settings.checkpoint;
        let by_steps = when.steps.is_some_and(|every| self.state.step.is_multiple_of(every.max(1)));
        let by_time = when.seconds.is_some_and(|every| host.seconds() - self.saved.at >= every);
        by_steps || by_time
    }

    /// Saves all that is needed to go on; nothing where it was just done. Frozen tensors are
    /// not part of it: they are what the training was started with.
    fn save<H: Host<Kept = K>>(&mut self, host: &mut H) -> Result<(), StageError> {
        if self.saved.step == Some(self.state.step) {
            return Ok(());
        }
        let start = host.seconds();
        let mut tensors = Vec::new();
        for (role, name, tensor) in self.adamw.state() {
            tensors.push((format!("{role}/{name}"), host.keep(tensor)?));
        }
        for (step, weights) in &self.best {
            let name = |name: &str| format!("best/{step}/{name}");
            tensors.extend(weights.iter().map(|(own, kept)| (name(own), kept.clone())));
        }
        tensors.push(("record".into(), host.keep(&self.record.to_tensor()?)?));
        self.state.recorded = self.record.names().to_vec();
        let state = serde_json::to_string(&self.state)
            .map_err(|error| StageError::failed(format!("the state cannot be saved: {error}")))?;
        host.commit(&Checkpoint { tensors, state })?;
        let end = host.seconds();
        self.saved = Saved { step: Some(self.state.step), at: end, seconds: end - start };
        host.report(self.state.step, &[("save_seconds", self.saved.seconds)]);
        self.pace.since += self.saved.seconds;
        Ok(())
    }

    fn restore<H: Host<Kept = K>>(
        &mut self,
        checkpoint: &Checkpoint<K>,
        host: &mut H,
    ) -> Result<(), StageError> {
        let wrong = |error| StageError::failed(format!("the checkpoint cannot be read: {error}"));
        self.state = serde_json::from_str(&checkpoint.state).map_err(wrong)?;
        let updates = self.state.updates;
        self.adamw.restore(updates, |role, name| -> Result<Tensor, StageError> {
            host.recall(checkpoint.tensor(&format!("{role}/{name}"))?)
        })?;
        let record = host.recall(checkpoint.tensor("record")?)?;
        self.record = Record::from_tensor(&self.state.recorded, &record)?;
        for place in self.state.ranking.places() {
            let prefix = format!("best/{}/", place.step);
            let own = |(name, kept): &(String, K)| {
                name.strip_prefix(&prefix).map(|name| (name.to_owned(), kept.clone()))
            };
            self.best.push((place.step, checkpoint.tensors.iter().filter_map(own).collect()));
        }
        self.saved.step = Some(self.state.step);
        Ok(())
    }

    fn finish<H: Host<Kept = K>>(self, host: &mut H) -> Result<Trained<K>, StageError> {
        let weights = |step: u64| self.best.iter().find(|(own, _)| *own == step);
        let best = |place: &Place| weights(place.step).map(|(_, kept)| (*place, kept.clone()));
        Ok(Trained {
            steps: self.state.step,
            stopped_early: self.state.ended,
            skipped: self.state.skipped,
            passes: self.order.passes(&self.state.cursor),
            best: self.state.ranking.places().iter().filter_map(best).collect(),
            last: self.keep_weights(host)?,
            held_out: self.state.held_out.map(|place| place.loss),
            record: self.record,
        })
    }
}

fn count<T: Trainee>(batches: &[T::Batch]) -> Totals {
    let mut totals = Totals::default();
    batches.iter().for_each(|batch| totals.add(&T::count(batch)));
    totals
}

/// The seed of a micro-batch: a matter of its place alone, not of the device it runs on.
fn seed(run: u64, step: u64, micro_batch: u64) -> u64 {
    scramble(scramble(scramble(run).wrapping_add(step)).wrapping_add(micro_batch))
}
