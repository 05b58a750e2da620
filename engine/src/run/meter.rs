//! Measures the cost of stages in a run, for the ledger and for the comparison with the estimate.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use cache::CacheError;
use stage_core::device::Devices;
use stage_core::event::{Event, StageCounts};

use super::board::State;
use super::item_stage::Queued;
use super::schedule::Schedule;
use crate::engine::EngineError;
use crate::estimate::step_by_formula;
use crate::machine::{Device, Machine, resident_bytes};
use crate::measure::line::Line;
use crate::measure::weight::threads_of;
use crate::measure::{self, MEGABYTE, Measure};
use crate::pipeline::{StageId, StageWork};

/// The metric in which a worker reports the peak memory of its GPU.
const VRAM: &str = "vram_peak_bytes";
/// The metrics in which a training reports the seconds per step since its last report, without the
/// time between steps, and those of a validation and of a checkpoint.
const STEP: &str = "step_seconds";
const VALIDATION: &str = "validation_seconds";
const SAVE: &str = "save_seconds";

pub struct Meter {
    machine: Machine,
    tallies: Vec<Tally>,
    taken: Vec<Taken>,
    /// Progress of whole stages: done and total.
    progress: HashMap<StageId, (u64, u64)>,
    /// The processes of the workers, by device.
    workers: HashMap<String, u32>,
    /// The measures of a probe, which writes nothing itself.
    pub probed: Vec<(StageId, Measure)>,
    has_tidied: bool,
    /// A worker of this run has told its devices.
    has_asked: bool,
    /// Files and processes are those of the machine.
    is_real: bool,
}

/// The measures that are not in the ledger yet.
#[derive(Default)]
struct Tally {
    seconds: Line,
    bytes: Line,
    ram_bytes: f64,
    vram_bytes: f64,
    /// The last reported training step, and its time.
    step: Option<(u64, Instant)>,
    training: Session,
}

/// The progress of a training in a run.
#[derive(Default)]
struct Session {
    /// The step of the checkpoint that it resumes from.
    from: u64,
    validation: Line,
    save: Line,
    start: Line,
    /// The time of all reported steps, validations and checkpoints.
    told_seconds: f64,
    /// The last reported step.
    told: u64,
    has_preflight: bool,
}

/// The cost of a stage in this pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    pub seconds: f64,
    pub bytes: f64,
}

impl Meter {
    pub fn new(machine: Machine, stages: usize, is_real: bool) -> Meter {
        Meter {
            machine,
            tallies: std::iter::repeat_with(Tally::default).take(stages).collect(),
            taken: vec![Taken::default(); stages],
            progress: HashMap::new(),
            workers: HashMap::new(),
            probed: Vec::new(),
            has_tidied: false,
            has_asked: false,
            is_real,
        }
    }

    pub fn knows(&self, found: &Devices) -> bool {
        self.has_asked && self.machine.has(found)
    }

    /// The GPUs that a worker has found.
    pub fn learn(&mut self, found: &Devices) {
        self.machine.learn(found);
        self.has_asked = true;
    }

    /// Adds a finished item: its input, its time and its output.
    pub fn item(&mut self, id: StageId, queued: &Queued, seconds: f64, bytes: u64) {
        let size = queued.weight as f64 / MEGABYTE;
        self.tallies[id.0].seconds.add(size, seconds);
        self.tallies[id.0].bytes.add(size, bytes as f64);
        self.taken[id.0].seconds += seconds;
        self.taken[id.0].bytes += bytes as f64;
    }

    pub fn has_come_to(&mut self, id: StageId, done: u64, total: u64) {
        self.progress.insert(id, (done, total));
    }

    pub fn progress(&self, id: StageId) -> Option<(u64, u64)> {
        self.progress.get(&id).copied()
    }

    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::WorkerStarted { device, process } => {
                self.workers.insert(device.clone(), *process);
            }
            Event::WorkerDied { device, .. } => {
                self.workers.remove(device);
            }
            _ => {}
        }
    }

    /// Figures of a step: the time since the previous report belongs to the steps between.
    fn step(&mut self, id: StageId, step: u64, values: &BTreeMap<String, f64>) {
        let tally = &mut self.tallies[id.0];
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

impl Session {
    /// The training has ended or was stopped, after this time.
    fn end(&mut self, seconds: f64) {
        // Without reported times nothing is known.
        if self.told > 0 {
            let preflight = f64::from(u8::from(self.has_preflight));
            self.start.add(preflight, (seconds - self.told_seconds).max(0.0));
        }
    }
}

impl Schedule<'_> {
    /// The expected output of the remaining items, from those before them. Very large if nothing is
    /// known yet.
    pub fn bytes_to_come(&self) -> u64 {
        let mut bytes = 0;
        for id in self.pipeline.ids() {
            let Some(stage) = self.board[id].items() else { continue };
            let StageCounts { executed, reused, .. } = self.board[id].counts;
            let left = stage.total.saturating_sub(executed + reused);
            if executed == 0 && left > 0 {
                return u64::MAX;
            }
            let each = self.meter.taken[id.0].bytes / executed.max(1) as f64;
            bytes += (left as f64 * each) as u64;
        }
        bytes
    }

    /// A whole stage is done, or is left for the next run.
    pub fn measure_whole(&mut self, id: StageId, seconds: f64, bytes: u64) {
        let size = self.arriving_items(id) as f64;
        let tally = &mut self.meter.tallies[id.0];
        if self.pipeline.stage(id).work != StageWork::Train {
            tally.seconds.add(size, seconds);
        }
        tally.bytes.add(size, bytes as f64);
        self.meter.taken[id.0].seconds += seconds;
        self.meter.taken[id.0].bytes += bytes as f64;
    }

    /// A training begins, or resumes from a step.
    pub fn begin_training(&mut self, id: StageId, from: u64) {
        let preflight = self.pipeline.stage(id).parameters.flag("preflight").unwrap_or(false);
        let has_preflight = preflight && from == 0;
        self.meter.tallies[id.0].training = Session { from, has_preflight, ..Session::default() };
    }

    /// A training has ended or was stopped.
    pub fn end_training(&mut self, id: StageId, seconds: f64) {
        if self.options.probe.is_none() {
            self.meter.tallies[id.0].training.end(seconds);
        }
    }

    pub fn measure_step(&mut self, id: StageId, step: u64, values: &BTreeMap<String, f64>) {
        if self.pipeline.stage(id).work == StageWork::Train {
            self.meter.step(id, step, values);
        }
    }

    fn arriving_items(&self, id: StageId) -> u64 {
        crate::plan::inputs::arriving_items(self.pipeline, self.board.runs(), id)
    }

    /// The cost of a stage in terms of its estimate: with all threads to itself.
    pub fn taken(&self, id: StageId) -> Taken {
        let taken = self.meter.taken[id.0];
        let spec = self.pipeline.stage(id);
        let threads = threads_of(spec, self.engine.threads);
        Taken { seconds: taken.seconds / threads, ..taken }
    }

    /// Reports the cost of a stage, and records it.
    pub fn end_measure(&mut self, id: StageId) -> Result<(), EngineError> {
        let taken = self.taken(id);
        if self.board[id].counts.executed > 0 && taken != Taken::default() {
            let tally = &self.meter.tallies[id.0];
            self.tell(Event::Measured {
                stage: self.pipeline.stage(id).name.clone(),
                seconds: taken.seconds,
                disk_bytes: taken.bytes,
                ram_bytes: tally.ram_bytes,
                vram_bytes: tally.vram_bytes,
            });
        }
        self.keep_measure(id)
    }

    /// Samples the memory of running processes.
    pub fn watch_memory(&mut self) {
        if !self.meter.is_real {
            return;
        }
        let mut own = None;
        for id in self.pipeline.ids() {
            let is_working = match self.board[id].items() {
                Some(stage) => stage.running > 0,
                None => self.board.is(id, State::RunsTask),
            };
            if !is_working {
                continue;
            }
            let resident = match self.meter.machine.device(self.pipeline.stage(id)) {
                Device::Here => *own.get_or_insert_with(|| resident_bytes(None)),
                device => self.worker_memory(&device),
            };
            let tally = &mut self.meter.tallies[id.0];
            tally.ram_bytes = tally.ram_bytes.max(resident.unwrap_or(0) as f64);
        }
    }

    fn worker_memory(&self, device: &Device) -> Option<u64> {
        let is_gpu = matches!(device, Device::Gpu(_));
        let workers = self.meter.workers.iter();
        let of_device = workers.filter(|(name, _)| crate::machine::is_gpu(name) == is_gpu);
        of_device.filter_map(|(_, process)| resident_bytes(Some(*process))).max()
    }

    /// Tests if a probe has run enough of a stage, or need not.
    pub fn is_probed(&self, id: StageId) -> bool {
        let Some(items) = self.options.probe else { return false };
        let spec = self.pipeline.stage(id);
        let run = &self.board[id];
        match (run.items(), spec.work) {
            (Some(stage), StageWork::Item) => run.counts.executed + stage.running as u64 >= items,
            // A training with known inputs; only a few of its steps are run.
            (None, StageWork::Train) => !run.has_pending_work(),
            _ => true,
        }
    }

    /// Adds the measures of a stage to the ledger.
    pub fn keep_measure(&mut self, id: StageId) -> Result<(), EngineError> {
        let tally = std::mem::take(&mut self.meter.tallies[id.0]);
        let formula = self.steps_by_formula(id, tally.seconds.count);
        let cache = self.store.cache();
        if (tally.seconds.is_empty() && tally.bytes.is_empty()) || cache.is_read_only() {
            return Ok(());
        }
        let spec = self.pipeline.stage(id);
        let Some(device) = self.meter.machine.label(&self.meter.machine.device(spec)) else {
            return Ok(());
        };
        let is_probe = self.options.probe.is_some();
        // The output of a few steps does not predict the checkpoints that a training keeps.
        let is_short = is_probe && spec.work == StageWork::Train;
        let measure = Measure {
            kind: spec.kind.name.to_owned(),
            device,
            model: self.model_of(id),
            is_probe,
            written: cache.fs().now() / 1_000_000_000,
            seconds: tally.seconds,
            bytes: if is_short { Line::default() } else { tally.bytes },
            ram_bytes: tally.ram_bytes,
            vram_bytes: tally.vram_bytes,
            validation: tally.training.validation,
            save: tally.training.save,
            start: tally.training.start,
            formula,
        };
        if measure.is_probe {
            self.meter.probed.push((id, measure));
            return Ok(());
        }
        measure::add(cache, spec, &measure)?;
        self.tidy_measures()?;
        self.committer.note(Vec::new());
        Ok(())
    }

    /// The formula's time for this number of steps, now that the clips are known.
    fn steps_by_formula(&self, id: StageId, steps: f64) -> Line {
        let mut line = Line::default();
        if self.pipeline.stage(id).work != StageWork::Train || steps < 1.0 {
            return line;
        }
        let known = self.board.known();
        let (cache, threads) = (self.store.cache(), self.engine.threads);
        let machine = self.meter.machine.clone();
        let seconds = step_by_formula(self.pipeline, &known, cache, (machine, threads), id);
        for _ in 0..seconds.map_or(0, |_| steps as u64) {
            line.add(0.0, seconds.unwrap_or_default());
        }
        line
    }

    /// The parameters of the stage's model, if they count.
    fn model_of(&self, id: StageId) -> i64 {
        let Some(family) = measure::sized_family(self.pipeline.stage(id)) else { return 0 };
        let artifacts = self.artifacts(id);
        let model = measure::MODEL_PORTS.iter().find_map(|port| artifacts.get(*port)?.first());
        // An unreadable model is reported by the stage that uses it.
        let model = model
            .and_then(|fields| family.read(&self.store.read(&fields.blob("config")?.digest).ok()?));
        model.map_or(0, |model| model.parameters())
    }

    /// Records the cost so far of stages that have not finished.
    pub fn keep_measures(&mut self) -> Result<(), EngineError> {
        self.pipeline.ids().try_for_each(|id| self.keep_measure(id))
    }

    fn tidy_measures(&mut self) -> Result<(), CacheError> {
        match std::mem::replace(&mut self.meter.has_tidied, true) {
            true => Ok(()),
            false => measure::forget_old(self.store.cache()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: u64, values: &[(&str, f64)], meter: &mut Meter) {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value));
        meter.step(StageId(0), step, &values.collect());
    }

    #[test]
    fn steps_validations_checkpoints_and_the_start_of_a_training_are_told_apart() {
        let mut meter = Meter::new(Machine::default(), 1, false);
        meter.tallies[0].training = Session { from: 5, has_preflight: true, ..Session::default() };
        let step = |step, meter: &mut Meter| told(step, &[("loss", 1.0), (STEP, 2.0)], meter);
        told(0, &[("preflight/loss", 1.0)], &mut meter);
        told(5, &[("held_out", 1.0), (VALIDATION, 7.0)], &mut meter);
        step(10, &mut meter);
        told(10, &[("held_out", 1.0), (VALIDATION, 5.0)], &mut meter);
        step(15, &mut meter);
        told(15, &[(SAVE, 0.5)], &mut meter);
        let Tally { seconds, training, .. } = &mut meter.tallies[0];
        training.end(50.0);
        let mean = |line: &Line| (line.count, line.total(1.0, 1.0, 0.0).map(|mean| mean.likely));
        assert_eq!(mean(seconds), (10.0, Some(2.0)));
        assert_eq!(mean(&training.validation), (2.0, Some(6.0)));
        assert_eq!(mean(&training.save), (1.0, Some(0.5)));
        // 50 s without 20 s of steps, 12 s of validations and half a second of saving.
        assert_eq!(mean(&training.start), (1.0, Some(17.5)));
    }
}
