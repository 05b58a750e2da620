//! The estimate of one stage: from measures, else from the cost model of its kind.

use crate::event::Verdict;
use crate::figure::{Basis, Figure, StageEstimate};
use cache::{CacheError, LOOSE_SIZE};
use stage_core::Unit;
use stage_core::cost::{Cost, Rates, WEIGHT_BYTES_PER_SECOND, Weights};
use stage_families::model::Model;
use stage_families::working::Working;

use super::Estimator;
use super::flow::Flow;
use crate::machine::Device;
use crate::measure::weight::{item_weight, threads_of};
use crate::measure::{self, MEGABYTE, Measure};
use crate::pipeline::{ITEMS, Reference, StageSpec, StageWork};
use crate::plan::inputs::arriving_items;
use crate::plan::items::item_reads;
use crate::plan::{ItemPlan, StagePlan, Work};
use crate::record::{PortValue, StageRecord};
use crate::store::MOST_PENDING;

/// The relative error of a time that past measurements do not show; sizes vary less.
const TIME_DOUBT: f64 = 0.1;
const SIZE_DOUBT: f64 = 0.02;
/// The factor by which other parameters may change a measure.
pub const SIMILAR: f64 = 1.5;
/// The slowdown of one current processor core against a GPU of speed 1.
const CORE_SLOWNESS: f64 = 100.0;
/// The memory of the engine: the program, and what a plan keeps of an item.
const ENGINE_RAM: f64 = 3e7;
const ENGINE_ITEM: f64 = 8e2;
/// The memory of a worker before it loads a model: libtorch and its kernels, measured on a CPU as 0.13
/// GB without any computation and 0.16 to 0.18 GB with it; with the backward pass and its threads
/// 0.26 GB. On a GPU its libraries are copied into memory as well.
const WORKER_RAM: f64 = 1.8e8;
pub const TRAINING_RAM: f64 = 2.6e8;
const GPU_WORKER_RAM: f64 = 3e9;
/// The memory of a process on a GPU beside that of libtorch's allocator, measured on an H200 with
/// CUDA 13.
pub const GPU_CONTEXT: f64 = 6.4e8;
const RAM_SPREAD: f64 = 1.7;
/// A tensor that is converted is in memory as it is read and as it is written.
const CONVERTED: f64 = 2.0;
/// The widest type of weights in files.
const WIDEST: f64 = 4.0;
/// A small model takes at least this share of the time of the published one.
const LEAST_SHARE: f64 = 0.01;
/// The size of a batch on a GPU, in seconds of sound.
const BATCH_SECONDS: f64 = 60.0;

const MAY_REUSE: &str = "a stage that has run before, and waits for others, gets as many items as \
    then, in proportion to its input; unchanged items are reused";

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Todo {
    /// Items, or 1.
    pub count: f64,
    /// Megabytes read of the items, or the number of items of a gather; `None`: unknown.
    pub size: Option<f64>,
    pub flow: Flow,
}

impl Estimator<'_> {
    pub fn stage(&self, spec: &StageSpec) -> Result<StageEstimate, CacheError> {
        if let StagePlan { work: Work::Scanned(record), scan_seconds, .. } =
            self.plan.stage(spec.id)
        {
            return Ok(scanned(record, *scan_seconds));
        }
        let device = self.machine.device(spec);
        let cache = self.flows.store.cache();
        let measured = match self.machine.label(&device) {
            Some(label) => measure::find(cache, spec, &label, self.model_size(spec))?,
            None => None,
        };
        // Data sets are read only if a formula needs their contents.
        let by_formula = match spec.kind.cost {
            Cost::Unknown => false,
            Cost::Training(_) => true,
            Cost::Rates(_) | Cost::Weights(_) => measured.is_none(),
        };
        let todo = self.todo(spec, self.plan.stage(spec.id), by_formula);
        let mut estimate = match (spec.kind.cost, measured) {
            (Cost::Training(training), measured) => {
                self.training(spec, training, &device, measured)
            }
            (_, Some((measure, basis))) if spec.work == StageWork::Train => {
                self.by_steps(spec, &todo, &measure, basis)
            }
            (_, Some((measure, basis))) => self.by_measure(spec, &todo, &measure, basis),
            (Cost::Rates(rates), None) => self.by_rates(spec, &rates, &todo, &device),
            (Cost::Weights(weights), None) => self.by_weights(spec, weights, &device),
            (Cost::Unknown, None) => StageEstimate::unknown(0),
        };
        estimate.items = match spec.work {
            StageWork::Item => todo.count.round() as u64,
            _ => 1,
        };
        if self.may_reuse(spec) {
            self.assumed.add(MAY_REUSE);
            let at_most = |figure: Figure| Figure { low: 0.0, ..figure };
            estimate.seconds = estimate.seconds.map(at_most);
            estimate.disk_bytes = estimate.disk_bytes.map(at_most);
        }
        if matches!(device, Device::Gpu(_)) {
            estimate.gpu_seconds = estimate.seconds;
        }
        Ok(estimate)
    }

    /// True for a stage that has run before, and whose input is not known yet.
    fn may_reuse(&self, spec: &StageSpec) -> bool {
        self.plan.stage(spec.id).verdict == Verdict::Unknown && self.flows.last_run(spec).is_some()
    }

    fn todo(&self, spec: &StageSpec, plan: &StagePlan, by_formula: bool) -> Todo {
        let planned = match spec.work {
            StageWork::Item => plan.executed + plan.pending,
            _ => arriving_items(self.pipeline, &self.plan.stages, spec.id),
        };
        let arriving = if by_formula || planned == 0 {
            self.flows.arriving(spec, &self.assumed)
        } else {
            Flow { items: planned as f64, ..Flow::default() }
        };
        match spec.work {
            StageWork::Item => self.items_todo(spec, plan, arriving),
            StageWork::Source if by_formula => {
                let port = spec.kind.outputs.first().map_or("", |port| port.name);
                let flow = self.flows.of(spec.id, port, &self.assumed);
                Todo { count: 1.0, size: Some(flow.items), flow }
            }
            StageWork::Source | StageWork::Gather | StageWork::Train => {
                Todo { count: 1.0, size: Some(arriving.items), flow: arriving }
            }
        }
    }

    fn items_todo(&self, spec: &StageSpec, plan: &StagePlan, arriving: Flow) -> Todo {
        let reads = item_reads(spec);
        let (mut weight, mut known) = (0u64, 0u64);
        if let Work::Items(work) = &plan.work {
            for item in work.open.iter().flat_map(|bucket| &bucket.items) {
                if let ItemPlan::Todo { item, .. } = item {
                    weight += item_weight(&reads, item);
                    known += 1;
                }
            }
        }
        let planned = (plan.executed + plan.pending) as f64;
        let count = if planned > 0.0 { planned } else { arriving.items };
        let size = (known as f64 >= count).then_some(weight as f64 / MEGABYTE);
        let flow = arriving.of_items(count);
        Todo { count, size, flow }
    }

    fn threads(&self, spec: &StageSpec) -> f64 {
        threads_of(spec, self.threads)
    }

    fn by_measure(
        &self,
        spec: &StageSpec,
        todo: &Todo,
        measure: &Measure,
        basis: Basis,
    ) -> StageEstimate {
        let widened = |figure: Figure| match basis {
            Basis::Similar => Figure {
                low: figure.low / SIMILAR,
                likely: figure.likely,
                high: figure.high * SIMILAR,
            },
            _ => figure,
        };
        let size = |mean: f64| todo.size.unwrap_or(todo.count * mean);
        let (time, bytes) = (&measure.seconds, &measure.bytes);
        let seconds = time.total(todo.count, size(time.mean_size()), TIME_DOUBT);
        let disk = bytes.total(todo.count, size(bytes.mean_size()), SIZE_DOUBT);
        StageEstimate {
            basis,
            seconds: seconds.map(|seconds| widened(seconds).times(1.0 / self.threads(spec))),
            disk_bytes: disk.map(widened),
            ram_bytes: peak(measure.ram_bytes),
            // The measure is that of the allocator.
            vram_bytes: peak(measure.vram_bytes).map(|own| own + Figure::exact(GPU_CONTEXT)),
            ..StageEstimate::unknown(0)
        }
    }

    /// The estimate by steps, for a training with a model that this crate does not know.
    fn by_steps(
        &self,
        spec: &StageSpec,
        todo: &Todo,
        measure: &Measure,
        basis: Basis,
    ) -> StageEstimate {
        let whole = self.by_measure(spec, todo, measure, basis);
        let Ok(steps) = spec.parameters.integer("steps") else {
            return StageEstimate { seconds: None, ..whole };
        };
        let left = self.left_steps(spec, steps.max(1) as u64);
        StageEstimate { seconds: measure.seconds.total(left, 0.0, TIME_DOUBT), ..whole }
    }

    fn by_rates(
        &self,
        spec: &StageSpec,
        rates: &Rates,
        todo: &Todo,
        device: &Device,
    ) -> StageEstimate {
        self.assumed.add(rates.origin);
        let is_gpu = matches!(device, Device::Gpu(_));
        let working = self.working(spec, &todo.flow, is_gpu);
        let spoken = self.used_model(spec).map(|model| model.spoken_seconds(&working));
        let Flow { items, seconds, .. } = todo.flow;
        let seconds = spoken.map_or(seconds, |spoken| seconds.min(items * spoken));
        let linear = |each: f64, second: f64| each * items + second * seconds;
        // Passing an item to a worker costs the same on every device.
        let slowness = if rates.on_processor { 1.0 } else { self.slowness(device) };
        let second = rates.seconds_per_second * self.model_share(spec) * slowness;
        let work = linear(rates.seconds_per_item, second) + rates.start;
        let held = self.held_weights(spec, &working);
        let working = self.working_bytes(spec, &working);
        let vram = GPU_CONTEXT + held + BATCH_SECONDS * rates.vram_per_second + working;
        let in_ram = match device {
            Device::Here => ENGINE_ITEM * items,
            Device::Cpu => held + working,
            Device::Gpu(_) => 0.0,
        };
        StageEstimate {
            basis: Basis::Formula,
            seconds: Some(Figure::within(work / self.threads(spec), rates.spread)),
            disk_bytes: Some(Figure::within(
                linear(rates.bytes_per_item, self.bytes_per_second(spec, rates)),
                rates.spread.min(2.0),
            )),
            ram_bytes: Some(Figure::within(base_ram(device) + in_ram, RAM_SPREAD)),
            vram_bytes: is_gpu.then(|| Figure::within(vram, RAM_SPREAD)),
            ..StageEstimate::unknown(0)
        }
    }

    fn bytes_per_second(&self, spec: &StageSpec, rates: &Rates) -> f64 {
        let share = rates.sample_rate.zip(self.sample_rate(spec));
        rates.bytes_per_second * share.map_or(1.0, |(of_rates, own)| own / of_rates)
    }

    /// The sample rate of the sound that a stage writes: that of its parameter, else that of the stage
    /// that its items come from.
    fn sample_rate(&self, spec: &StageSpec) -> Option<f64> {
        const RATE: &str = "rate";
        let parameter = spec.kind.parameter(RATE).filter(|rate| rate.unit == Unit::Hertz);
        if let Some(Ok(rate)) = parameter.map(|_| spec.parameters.integer(RATE)) {
            return Some(rate as f64);
        }
        match spec.inputs.get(ITEMS)?.references.first()? {
            Reference::Stage { stage, .. } => self.sample_rate(self.pipeline.stage(*stage)),
            Reference::Asset(_) => None,
        }
    }

    fn by_weights(&self, spec: &StageSpec, weights: Weights, device: &Device) -> StageEstimate {
        let bytes = self.weight_bytes(spec);
        StageEstimate {
            basis: Basis::Formula,
            seconds: Some(Figure::within(weights.start + bytes / WEIGHT_BYTES_PER_SECOND, 3.0)),
            disk_bytes: Some(Figure::within(bytes * weights.written, 1.2)),
            ram_bytes: Some(Figure::within(
                base_ram(device) + self.converting_bytes(spec, weights, bytes, device),
                RAM_SPREAD,
            )),
            ..StageEstimate::unknown(0)
        }
    }

    /// The bytes of weights that are in memory at once: all, or those of the largest tensor. In the
    /// engine, small tensors are there until they are committed together.
    fn converting_bytes(
        &self,
        spec: &StageSpec,
        weights: Weights,
        bytes: f64,
        device: &Device,
    ) -> f64 {
        let Some(model) = self.converted(spec).filter(|_| weights.streams) else { return bytes };
        let parameters = model.parameters().max(1) as f64;
        let written = model.bytes(&spec.parameters) / parameters;
        // A file may have more tensors than the model.
        let read = (bytes / parameters).min(WIDEST);
        // It is written from memory while it is still there as it was read.
        let converted = (read + written).max(CONVERTED * written);
        let largest = model.largest_tensor() as f64 * converted;
        let of_tensors = model.sizes().into_iter().map(|values| values as f64 * written);
        let pending: f64 = of_tensors.filter(|bytes| *bytes < LOOSE_SIZE as f64).sum();
        match device {
            Device::Here => largest + pending.min(MOST_PENDING as f64),
            Device::Cpu | Device::Gpu(_) => largest,
        }
    }

    /// The parameters of the stage's model, for looking up a measure.
    fn model_size(&self, spec: &StageSpec) -> i64 {
        let model = measure::sized_family(spec).and_then(|family| self.model(spec, family));
        model.map_or(0, |model| model.parameters())
    }

    /// The amount of computation relative to the model or codec that the rates are for.
    fn model_share(&self, spec: &StageSpec) -> f64 {
        if let Some(family) = spec.family() {
            let model = self.model(spec, family);
            return model.map_or(1.0, |model| model.share().max(LEAST_SHARE));
        }
        let codec = self.codec(spec);
        codec.and_then(|codec| codec.told).into_iter().for_each(|told| self.assumed.add(told));
        codec.map_or(1.0, |codec| codec.share)
    }

    /// The weights that a stage holds in memory.
    fn held_weights(&self, spec: &StageSpec, working: &Working<'_>) -> f64 {
        let model = self.used_model(spec).map_or(0.0, |model| model.held_bytes(working));
        model + self.codec(spec).map_or(0.0, |codec| codec.bytes)
    }

    /// The memory of a stage for the items of a batch, without the weights of its model and codec.
    fn working_bytes(&self, spec: &StageSpec, working: &Working<'_>) -> f64 {
        let model = self.used_model(spec).map_or(0.0, |model| model.working_bytes(working));
        model + self.codec(spec).map_or(0.0, |codec| (codec.working_bytes)(working))
    }

    fn used_model(&self, spec: &StageSpec) -> Option<Box<dyn Model>> {
        self.model(spec, spec.family()?)
    }

    fn working<'b>(&self, spec: &'b StageSpec, flow: &Flow, is_gpu: bool) -> Working<'b> {
        let (kind, parameters, threads) = (spec.kind, &spec.parameters, self.threads as f64);
        let (items, seconds) = (flow.items, flow.mean_seconds());
        Working { kind, parameters, items, seconds, threads, is_gpu }
    }

    /// The slowdown of a device relative to the one that a formula is for.
    fn slowness(&self, device: &Device) -> f64 {
        match device {
            Device::Here | Device::Gpu(_) => 1.0,
            Device::Cpu => {
                self.assumed.add(
                    "on a CPU core, stages other than trainings take 100 times as long as on an A100",
                );
                CORE_SLOWNESS / self.threads as f64
            }
        }
    }
}

/// A source that the plan has just read: another scan takes as long.
fn scanned(record: &StageRecord, seconds: f64) -> StageEstimate {
    let items = |value: &PortValue| match value {
        PortValue::Dataset { items, .. } => *items,
        PortValue::Artifact(_) => 1,
    };
    let items: u64 = record.outputs.values().map(items).sum();
    StageEstimate {
        basis: Basis::Measured,
        seconds: Some(Figure::around(seconds, TIME_DOUBT * seconds)),
        disk_bytes: Some(Figure::default()),
        ram_bytes: Some(Figure::within(ENGINE_RAM + ENGINE_ITEM * items as f64, RAM_SPREAD)),
        ..StageEstimate::unknown(1)
    }
}

/// The memory of the process of a stage without its work.
fn base_ram(device: &Device) -> f64 {
    match device {
        Device::Here => ENGINE_RAM,
        Device::Cpu => WORKER_RAM,
        Device::Gpu(_) => GPU_WORKER_RAM,
    }
}

/// A measured peak, if there is one.
fn peak(bytes: f64) -> Option<Figure> {
    (bytes > 0.0).then(|| Figure::around(bytes, TIME_DOUBT * bytes))
}
