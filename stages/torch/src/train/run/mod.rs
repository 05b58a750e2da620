//! The training loop.
//!
//! A step takes its rows, counts their labels, and in each of its phases accumulates the gradients
//! of its micro-batches and updates the weights (`phase`). Validation and checkpoints are between
//! steps. An interrupted step leaves no trace: it is repeated from its start, so that a training
//! that was stopped or killed anywhere ends with the same bits as one that never was.

mod data;
mod diverged;
mod loader;
mod phase;
mod report;
mod rescue;
mod save;
mod validate;

use stage_core::{Blob, StageError};

pub use self::data::{Data, Purpose};
use self::loader::{Loader, StepBatches};
use self::report::Throughput;
use self::save::LastSave;
use crate::error::TorchError;
use crate::runtime::heap;
use crate::train::early_stop::StepLoss;
use crate::train::host::{Checkpoint, Host};
use crate::train::losses::Totals;
use crate::train::optimisers::Optimisers;
use crate::train::order::{ClipEntry, Cursor, Order, Row};
use crate::train::precision::Precision;
use crate::train::record::Record;
use crate::train::replicas;
use crate::train::samples::Sample;
use crate::train::settings::Settings;
use crate::train::state::{Return, Switch, TrainingState};
use crate::train::trainee::Trainee;

/// The work of a training.
pub struct TrainingJob<'a, T: Trainee> {
    /// The model, once per device, all with the same weights.
    pub replicas: &'a mut [T],
    pub data: &'a dyn Data<T::Batch>,
    pub clips: &'a [ClipEntry],
    /// The held-out clips.
    pub held_out: &'a [bool],
    pub settings: &'a Settings,
}

/// The results of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingResult {
    pub steps: u64,
    /// Ended by early stopping before all steps were done.
    pub stopped_early: bool,
    pub skipped: u64,
    /// The state that the training returned to, after too many unusable steps.
    pub went_back: Option<Return>,
    pub precision: Precision,
    /// The last change of the precision, at which the training was continued on another device.
    pub switched: Option<Switch>,
    pub passes: f64,
    /// The best states on held-out clips, best first; empty without any.
    pub best: Vec<(StepLoss, KeptWeights)>,
    /// The states of a fixed interval, in the order of their steps.
    pub regular: Vec<(u64, KeptWeights)>,
    pub last: KeptWeights,
    /// The reason why the last state is no result, if it is none.
    pub diverged: Option<StageError>,
    /// The loss of the last state on held-out clips.
    pub held_out: Option<f64>,
    pub record: Record,
    /// Samples of held-out clips on the way, by step and name.
    pub samples: Vec<Sample>,
}

/// Trained tensors by the names of the parameters.
pub type KeptWeights = Vec<(String, Blob)>;

impl TrainingResult {
    /// The weights of the result: the best state on request, if there is one, or else the last.
    pub fn taken(&self, best: bool) -> Result<KeptWeights, StageError> {
        match (self.best.first(), &self.diverged) {
            (Some((_, weights)), _) if best => Ok(weights.clone()),
            (_, Some(error)) => Err(error.clone()),
            (_, None) => Ok(self.last.clone()),
        }
    }
}

/// Trains to the end, from the last checkpoint if there is one. On a request to stop, it saves and
/// returns [`StageError::Stopped`].
pub fn train<T: Trainee>(
    job: TrainingJob<'_, T>,
    host: &mut dyn Host,
) -> Result<TrainingResult, StageError> {
    let mut run = to_the_end(job, host)?;
    run.check_learnt()?;
    let diverged = run.diverged();
    run.finish(diverged)
}

/// The same without that check: the few steps of a rehearsal may all be skipped until the loss
/// scale fits.
pub(super) fn rehearse<T: Trainee>(
    job: TrainingJob<'_, T>,
    host: &mut dyn Host,
) -> Result<(), StageError> {
    to_the_end(job, host).map(drop)
}

fn to_the_end<'a, T: Trainee>(
    job: TrainingJob<'a, T>,
    host: &'a mut dyn Host,
) -> Result<Run<'a, T>, StageError> {
    std::thread::scope(|scope| {
        let mut run = Run::start(job, host)?;
        heap::give_back();
        run.loader.start(scope);
        run.advance()?;
        run.loader.end();
        Ok(run)
    })
}

/// The state that a resumed training would save if it were stopped immediately.
pub fn resumed_state<T: Trainee>(
    job: TrainingJob<'_, T>,
    host: &mut dyn Host,
) -> Result<Checkpoint, StageError> {
    Run::start(job, host)?.checkpoint()
}

struct Run<'a, T: Trainee> {
    job: TrainingJob<'a, T>,
    host: &'a mut dyn Host,
    loader: Loader<'a, T::Batch>,
    order: Order,
    held_out: Vec<Row>,
    optimisers: Optimisers,
    state: TrainingState,
    record: Record,
    /// The tensors of the best states, by step.
    best: Vec<(u64, KeptWeights)>,
    /// The same of a fixed interval.
    regular: Vec<(u64, KeptWeights)>,
    samples: Vec<Sample>,
    saved: LastSave,
    /// The f32 copies of the parameters as they were last kept, and the step.
    masters: Option<(u64, KeptWeights)>,
    pace: Throughput,
}

impl<'a, T: Trainee> Run<'a, T> {
    fn start(job: TrainingJob<'a, T>, host: &'a mut dyn Host) -> Result<Self, StageError> {
        replicas::check(job.replicas)?;
        replicas::sum_in_f32(job.replicas);
        let settings = job.settings;
        let is_held = |at: usize| job.held_out.get(at).copied().unwrap_or(false);
        let order = Order::new(settings.grouping, settings.seed, job.clips, |at| !is_held(at))?;
        if order.is_empty() {
            return Err(TorchError::Input("there are no clips to train on".into()).into());
        }
        let each_once = settings.grouping.each_once();
        let mut held_out_order = Order::new(each_once, 0, job.clips, is_held)?;
        let mut held_out = held_out_order.pass(0).to_vec();
        held_out.sort_by_key(|row| held_out_order.length(row));
        let optimisers = Optimisers::with_own(settings.adamw, &settings.phases, &job.replicas[0]);
        let state = TrainingState::new(settings.precision, settings.rows.max(1));
        let now = host.seconds();
        let (saved, pace) = (LastSave { step: 0, at: now }, Throughput::new(now));
        let record = Record::default();
        let loader = Loader::new(job.data, is_on_gpu(&job.replicas[0]));
        let mut run = Run {
            job,
            host,
            loader,
            order,
            held_out,
            optimisers,
            state,
            record,
            best: Vec::new(),
            regular: Vec::new(),
            samples: Vec::new(),
            saved,
            masters: None,
            pace,
        };
        match run.host.last()? {
            Some(checkpoint) => run.restore(&checkpoint)?,
            None => run.optimisers.refine(|name| run.host.origin(name))?,
        }
        replicas::share_weights(run.job.replicas);
        // An earlier trial may have left gradients.
        replicas::clear_gradients(run.job.replicas);
        Ok(run)
    }

    fn advance(&mut self) -> Result<(), StageError> {
        if self.state.held_out.is_none() {
            self.validate()?;
        }
        while !self.is_done() {
            let validates = self.validates_after(self.state.step + 1);
            if !self.host.may_begin_step(validates) || !self.step()? {
                self.save()?;
                return Err(StageError::Stopped);
            }
            if self.validation_is_due() {
                self.validate()?;
            }
            self.keep_regular()?;
            if self.save_is_due() {
                self.save()?;
            }
        }
        self.save()?;
        self.end_rung()
    }

    /// A training that ends before its last step is measured there. That comes after its state is
    /// saved: a longer training has no validation there.
    fn end_rung(&mut self) -> Result<(), StageError> {
        let is_measured = self.state.held_out.is_some_and(|place| place.step == self.state.step);
        if self.state.ended || is_measured || self.state.step >= self.job.settings.steps {
            Ok(())
        } else {
            self.validate()?;
            // Patience counts the validations of the whole training alone.
            self.state.ended = false;
            Ok(())
        }
    }

    fn is_done(&self) -> bool {
        self.state.ended || self.state.step >= self.job.settings.last_step()
    }

    /// One step; false if it was abandoned because training should stop.
    fn step(&mut self) -> Result<bool, StageError> {
        let mut cursor = self.state.cursor;
        let wanted = self.wanted(self.state.step, &mut cursor);
        let batches = self.loader.take(&wanted)?;
        if self.state.step + 1 < self.job.settings.last_step() {
            let next = self.wanted(self.state.step + 1, &mut cursor.clone());
            self.loader.prepare(next);
        }
        let rate = self.rate();
        let Some(done) = self.phases(&wanted.rows, batches, rate)? else {
            return Ok(false);
        };
        if self.is_lost(done.is_good, &done.means) {
            self.rescue(&wanted.rows)?;
        }

        self.pace.clips += cursor.clips - self.state.cursor.clips;
        self.pace.labels += done.labels;
        self.pace.steps += 1;
        self.state.cursor = cursor;
        self.state.step += 1;
        self.state.set_updates(&self.optimisers.updates());
        self.report(&done, rate);
        Ok(true)
    }

    /// Uses smaller micro-batches from now on. The number of rows per step stays the same.
    fn halve(&mut self) {
        self.state.rows = self.state.rows.div_ceil(2);
        replicas::clear_gradients(self.job.replicas);
    }

    /// The batches of a step, from its place in the data.
    fn wanted(&mut self, step: u64, cursor: &mut Cursor) -> StepBatches {
        let settings = self.job.settings;
        let mut rows = self.order.take(cursor, settings.rows_of_step());
        // Rows of similar length in one micro-batch waste the least.
        rows.sort_by_key(|row| self.order.length(row));
        self.divided(rows, Purpose::Step { seed: phase::seed_of_step(settings.seed, step) })
    }

    /// Rows in micro-batches: at least one for each device, as far as there are rows.
    fn divided(&self, rows: Vec<Row>, purpose: Purpose) -> StepBatches {
        let share = rows.len().div_ceil(self.job.replicas.len());
        StepBatches { rows, most: self.state.rows.min(share).max(1), purpose }
    }

    fn finish(mut self, diverged: Option<StageError>) -> Result<TrainingResult, StageError> {
        let last = self.keep_weights()?;
        self.samples.sort_by(|one, other| (one.step, &one.tag).cmp(&(other.step, &other.tag)));
        let weights = |step: u64| self.best.iter().find(|(own, _)| *own == step);
        let best = |place: &StepLoss| weights(place.step).map(|(_, kept)| (*place, kept.clone()));
        Ok(TrainingResult {
            steps: self.state.step,
            stopped_early: self.state.ended,
            skipped: self.state.skipped,
            went_back: self.state.went_back,
            precision: self.job.settings.precision,
            switched: self.state.switched,
            passes: self.order.passes(&self.state.cursor),
            best: self.state.ranking.places().iter().filter_map(best).collect(),
            regular: self.regular,
            last,
            diverged,
            held_out: self.state.held_out.map(|place| place.loss),
            record: self.record,
            samples: self.samples,
        })
    }
}

fn is_on_gpu<T: Trainee>(trainee: &T) -> bool {
    trainee.parameters().first().is_some_and(|(_, tensor)| tensor.device().is_cuda())
}

fn count<T: Trainee>(batches: &[T::Batch]) -> Totals {
    let mut totals = Totals::default();
    batches.iter().for_each(|batch| totals.add(&T::count(batch)));
    totals
}
