//! The cost of stages: reports, and records in the index.

use crate::event::Event;

use super::Schedule;
use crate::engine::EngineError;
use crate::estimate::step_by_formula;
use crate::machine::{Device, devices_key, resident_bytes};
use crate::measure::line::Line;
use crate::measure::weight::threads_of;
use crate::measure::{self, Measure};
use crate::pipeline::{StageId, StageWork};
use crate::record::{DEVICES, encode};
use crate::run::board::StageState;
use crate::run::cost::PassCost;

/// Fewer items of a stage that did not end tell little about the others.
const MIN_ITEMS: f64 = 16.0;

impl Schedule<'_> {
    /// The cost of a stage in terms of its estimate: with all threads to itself.
    pub(super) fn taken(&self, id: StageId) -> PassCost {
        let taken = self.board[id].cost.taken;
        let spec = self.run.stage(id);
        let threads = threads_of(spec, self.run.engine.threads);
        PassCost { seconds: taken.seconds / threads, ..taken }
    }

    /// Reports the cost of a stage so far, and records it.
    pub(super) fn end_measure(&mut self, id: StageId) -> Result<(), EngineError> {
        let taken = self.taken(id);
        if self.board[id].counts.executed > 0 && taken != PassCost::default() {
            let tally = &self.board[id].cost.unwritten;
            let (ram_bytes, vram_bytes) = (tally.ram_bytes, tally.vram_bytes);
            self.tell(Event::Measured {
                stage: self.name(id),
                seconds: taken.seconds,
                disk_bytes: taken.bytes,
                ram_bytes,
                vram_bytes,
            });
        }
        self.keep_measure(id)
    }

    /// Samples the memory of running processes.
    pub(super) fn watch_memory(&mut self) {
        if !self.meter.is_real() {
            return;
        }
        let mut own = None;
        for id in self.run.pipeline.ids() {
            let is_working = match self.board[id].items() {
                Some(stage) => stage.running > 0,
                None => self.board.is(id, StageState::RunsTask),
            };
            if !is_working {
                continue;
            }
            let resident = match self.meter.machine().device(self.run.stage(id)) {
                Device::Here => *own.get_or_insert_with(|| resident_bytes(None)),
                device => self.meter.worker_memory(&device),
            };
            let tally = &mut self.board[id].cost.unwritten;
            tally.ram_bytes = tally.ram_bytes.max(resident.unwrap_or(0) as f64);
        }
    }

    /// Adds the measures of a stage to the index.
    fn keep_measure(&mut self, id: StageId) -> Result<(), EngineError> {
        let tally = std::mem::take(&mut self.board[id].cost.unwritten);
        let formula = self.steps_by_formula(id, tally.seconds.count);
        let cache = self.run.cache;
        if (tally.seconds.is_empty() && tally.bytes.is_empty()) || cache.is_read_only() {
            return Ok(());
        }
        let spec = self.run.stage(id);
        let machine = self.meter.machine();
        let Some(device) = machine.label(&machine.device(spec)) else { return Ok(()) };
        let is_probe = self.run.is_probe() || self.has_barely_begun(id, tally.seconds.count);
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
        if self.meter.keep(cache, spec, measure)? {
            self.committer.mark();
        }
        Ok(())
    }

    /// Tests if a stage has ended early after few items, whose times are mostly those of its start. They
    /// count like those of a probe, until a run measures more.
    fn has_barely_begun(&self, id: StageId, items: f64) -> bool {
        self.run.stage(id).work == StageWork::Item
            && !self.board.is(id, StageState::Done)
            && items < MIN_ITEMS
    }

    /// Keeps the GPUs that a worker has found, for estimates.
    pub(super) fn note_devices(&mut self) -> Result<(), EngineError> {
        let Some(found) = self.threads.found() else { return Ok(()) };
        if self.meter.knows(found) {
            return Ok(());
        }
        let cache = self.run.cache;
        if !cache.is_read_only() {
            cache.record(DEVICES, &devices_key(), encode(found))?;
        }
        self.meter.learn(found);
        self.committer.mark();
        Ok(())
    }

    /// The formula's time for this number of steps, now that the clips are known.
    fn steps_by_formula(&self, id: StageId, steps: f64) -> Line {
        let mut line = Line::default();
        if self.run.stage(id).work != StageWork::Train || steps < 1.0 {
            return line;
        }
        let known = self.board.known();
        let (cache, threads) = (self.run.cache, self.run.engine.threads);
        let machine = self.meter.machine().clone();
        let seconds = step_by_formula(self.run.pipeline, &known, cache, (machine, threads), id);
        for _ in 0..seconds.map_or(0, |_| steps as u64) {
            line.add(0.0, seconds.unwrap_or_default());
        }
        line
    }

    /// The parameters of the stage's model, if they count.
    fn model_of(&self, id: StageId) -> i64 {
        let Some(family) = measure::sized_family(self.run.stage(id)) else { return 0 };
        let artifacts = self.artifacts(id);
        let model = measure::MODEL_PORTS.iter().find_map(|port| artifacts.get(*port)?.first());
        // An unreadable model is reported by the stage that uses it.
        let model = model.and_then(|fields| {
            family.read(&self.store().read(&fields.blob("config")?.digest).ok()?)
        });
        model.map_or(0, |model| model.parameters())
    }

    /// Reports and records the cost so far of all stages that have not finished.
    pub(super) fn end_measures(&mut self) -> Result<(), EngineError> {
        let unfinished = self.run.pipeline.ids().filter(|id| !self.board.is(*id, StageState::Done));
        unfinished.collect::<Vec<_>>().into_iter().try_for_each(|id| self.end_measure(id))
    }
}
