//! The estimate of a training stage: steps from the clips, time and memory from the sizes of the
//! model until a run has measured them, and the batch that fits.

use crate::figure::ExpectedCourse;
use crate::figure::{Basis, Figure, StageEstimate};
use stage_core::cost::{self, Cost};
use stage_core::course;
use stage_core::device::DeviceName;
use stage_core::{Parameters, StageError};
use stage_families::find;
use stage_families::training::{Effort, Memory, Rows, Setting, Trainable};

use super::Estimator;
use super::kept::kept_by_steps;
use super::overhead::Overhead;
use super::stage::{GPU_CONTEXT, SIMILAR, TRAINING_RAM};
use crate::machine::Device;
use crate::measure::Measure;
use crate::pipeline::{StageId, StageSpec};
use crate::record::{CHECKPOINT, PROGRESS, decode};
use crate::units;

/// Operations per second of a GPU of speed 1, in half precision and in f32.
const HALF_SPEED: f64 = 3.9e13;
const F32_SPEED: f64 = 1e13;
const CORE_SPEED: f64 = 2e10;
const SPEED_ORIGIN: &str = "training runs at 39 TFLOP/s in half precision on an A100, and at 10 in \
    f32: users report 5.4 s for a step of 8 rows of 4,096 tokens with adapters, and 7 s without";
const TIME_SPREAD: f64 = 2.5;
/// Trainings with steps that differ by at most this factor have like times beside their steps.
const NEAR: f64 = 4.0;
/// The part of a batch that does not depend on its size.
const BATCH_START: f64 = 0.05;
/// With early stopping, a training may end after this share of its steps.
const EARLY: f64 = 0.2;
/// The error factor of counting tensors.
const MEMORY_SPREAD: f64 = 1.2;
/// The share of GPU memory that a batch may use.
const USABLE: f64 = 0.94;
/// Gradients are summed up in f32.
const GRADIENT_BYTES: f64 = 4.0;
/// f32 copies and both moments of each trained value in a saved state.
const STATE_BYTES: f64 = 12.0;

/// The model and the settings of a training.
struct TrainingSetup<'a> {
    model: &'a dyn Trainable,
    setting: Setting,
    rows: Rows,
    accumulation: i64,
    /// The number of devices that share the rows of each step.
    devices: i64,
    /// One of them is the CPU, for which the others wait.
    has_cpu: bool,
    clips: f64,
    expected: ExpectedCourse,
}

impl TrainingSetup<'_> {
    fn steps(&self) -> f64 {
        self.expected.course.timetable.steps as f64
    }

    fn may_end_early(&self) -> bool {
        self.expected.course.timetable.patience > 0
    }

    fn rows_of_step(&self) -> i64 {
        self.setting.rows * self.accumulation
    }

    /// The rows of a micro-batch with this `batch`: fewer if a device would otherwise get none.
    fn micro_batch(&self, batch: i64) -> i64 {
        let share = (self.rows_of_step() + self.devices - 1) / self.devices;
        batch.min(share).max(1)
    }

    fn memory(&self, rows: i64) -> Memory {
        self.model.memory(&Setting { rows, ..self.setting.clone() })
    }

    /// The peak memory of a device in steps with this `batch`. On a GPU, gradients reuse the memory
    /// of freed activations; the allocator of the CPU seldom allows that.
    fn peak(&self, batch: i64, is_gpu: bool) -> f64 {
        let rows = self.micro_batch(batch);
        let memory = self.memory(rows);
        if !is_gpu {
            memory.total_of_several() + memory.kept
        } else if rows * self.devices >= self.rows_of_step() {
            reserved(memory.total())
        } else {
            reserved(memory.total_of_several())
        }
    }

    /// The number of rows that fit, at most those of a step; 0 if not even one does.
    fn fitting(&self, bytes: f64, scale: f64) -> i64 {
        let fits = |rows: &i64| GPU_CONTEXT + self.peak(*rows, true) * scale <= bytes * USABLE;
        (1..=self.rows_of_step()).rev().find(fits).unwrap_or(0)
    }

    /// The size of saved states and of the resulting weights.
    fn bytes(&self, saves: f64, kept: f64) -> f64 {
        let trained = self.memory(1).gradients / GRADIENT_BYTES;
        saves * trained * STATE_BYTES + kept * trained * self.setting.width()
    }
}

impl Estimator<'_> {
    pub fn training(
        &self,
        spec: &StageSpec,
        training: cost::Training,
        device: &Device,
        measured: Option<(Measure, Basis)>,
    ) -> StageEstimate {
        let model = find(training.family).and_then(|family| self.model(spec, family));
        let Some(model) = model.as_deref().and_then(|model| model.trainable()) else {
            return StageEstimate::unknown(0);
        };
        let Ok(plan) = self.plan_of(spec, training, device, model) else {
            return StageEstimate::unknown(0);
        };
        let is_gpu = matches!(device, Device::Gpu(_));
        let total = plan.peak(plan.setting.rows, is_gpu);
        let context = if is_gpu { GPU_CONTEXT } else { 0.0 };
        let memory = Figure::within(total, MEMORY_SPREAD) + Figure::exact(context);
        let mut estimate = StageEstimate {
            basis: Basis::Formula,
            seconds: None,
            disk_bytes: None,
            ram_bytes: Some(if is_gpu {
                Figure::within(3e9 + plan.memory(1).weights, 1.7)
            } else {
                memory + Figure::exact(TRAINING_RAM)
            }),
            vram_bytes: is_gpu.then_some(memory),
            ..StageEstimate::unknown(0)
        };
        let left = self.left_steps(spec, plan.expected.course.timetable.steps);
        let overhead = Overhead {
            state_bytes: plan.bytes(1.0, 0.0),
            spoken: plan.model.rows_of_sample(&plan.setting),
            ..self.overhead(spec, &plan.expected.course, left)
        };
        let mut scale = 1.0;
        let timed = self.training_seconds(&plan, device, measured.as_ref(), (left, &overhead));
        estimate.seconds = Some(early(timed.0, plan.may_end_early()));
        estimate.basis = timed.1;
        if let Some((measure, _)) = measured.filter(|(_, basis)| *basis != Basis::Similar) {
            estimate.disk_bytes =
                measure.bytes.total(1.0, plan.clips, 0.05).or(estimate.disk_bytes);
            let seen = |bytes: f64| (bytes > 0.0).then(|| Figure::around(bytes, 0.1 * bytes));
            estimate.ram_bytes = seen(measure.ram_bytes).or(estimate.ram_bytes);
            if let Some(vram) = seen(measure.vram_bytes).filter(|_| is_gpu) {
                // The measure is that of the allocator.
                scale = (vram.likely / total).clamp(0.25, 4.0);
                estimate.vram_bytes = Some(vram + Figure::exact(GPU_CONTEXT));
            }
        }
        if estimate.disk_bytes.is_none() {
            estimate.disk_bytes = Some(self.state_bytes(spec, &plan, estimate.seconds));
        }
        if is_gpu {
            estimate.advice = self.batch_advice(spec, &plan, scale);
        }
        estimate.training = Some(Box::new(plan.expected));
        estimate
    }

    /// The time of the steps that are left and of everything beside them, and its basis.
    fn training_seconds(
        &self,
        plan: &TrainingSetup<'_>,
        device: &Device,
        measured: Option<&(Measure, Basis)>,
        (left, overhead): (f64, &Overhead),
    ) -> (Figure, Basis) {
        let by_formula = || self.step_seconds(plan, device);
        match measured {
            Some((measure, Basis::Similar)) => {
                if let Some(factor) = measure.step_factor() {
                    let all = similar(measure, by_formula() * factor, left, overhead);
                    return (all, Basis::Similar);
                }
            }
            Some((measure, basis)) => {
                if let (Some(steps), Some(step)) =
                    (measure.seconds.total(left, 0.0, 0.1), measure.seconds.total(1.0, 0.0, 0.0))
                {
                    return (steps + overhead.seconds(step.likely, Some(measure)), *basis);
                }
            }
            None => {}
        }
        let step = by_formula();
        let all = Figure::within(step * left, TIME_SPREAD) + overhead.seconds(step, None);
        (all, Basis::Formula)
    }

    /// The time of a step by its formula.
    pub fn step_by_formula(&self, spec: &StageSpec) -> Option<f64> {
        let Cost::Training(training) = spec.kind.cost else { return None };
        let device = self.machine.device(spec);
        let model = find(training.family).and_then(|family| self.model(spec, family))?;
        let plan = self.plan_of(spec, training, &device, model.trainable()?).ok()?;
        Some(self.step_seconds(&plan, &device))
    }

    /// True if there is a state to resume from.
    pub fn has_checkpoint(&self, id: StageId) -> bool {
        let key = self.plan.stage(id).known.keyed.as_ref().map(|keyed| keyed.digest);
        let cache = self.flows.store.cache();
        key.is_some_and(|key| cache.get(CHECKPOINT, &key).ok().flatten().is_some())
    }

    /// The steps that are left: a checkpoint is resumed, and a rung of a sweep begins where the rung
    /// below ends.
    pub fn left_steps(&self, spec: &StageSpec, steps: u64) -> f64 {
        let cache = self.flows.store.cache();
        let key = self.plan.stage(spec.id).known.keyed.as_ref().map(|keyed| keyed.digest);
        let progress = key.filter(|_| self.has_checkpoint(spec.id)).and_then(|key| {
            let bytes = cache.get(PROGRESS, &key).ok()??;
            decode::<(u64, u64)>(&bytes)
        });
        let end = course::until(&spec.parameters, steps).ok().flatten().unwrap_or(steps) as f64;
        match progress {
            Some((done, total)) if total > 0 => end * (1.0 - (done as f64 / total as f64).min(1.0)),
            _ => end - self.begun_at(spec, steps) as f64,
        }
    }

    /// The step of the rung below.
    fn begun_at(&self, spec: &StageSpec, steps: u64) -> u64 {
        let Some(place) = spec.place.filter(|_| !spec.gate.is_empty()) else { return 0 };
        let sweep = &self.pipeline.sweeps[place.sweep];
        let below = place.rung.checked_sub(1).filter(|_| place.rung < sweep.rungs());
        let until = below.and_then(|below| sweep.until.get(below)).cloned();
        let parameters = Parameters([(course::UNTIL.to_owned(), until.unwrap_or_default())].into());
        course::until(&parameters, steps).ok().flatten().unwrap_or(0)
    }

    fn plan_of<'a>(
        &self,
        spec: &StageSpec,
        training: cost::Training,
        device: &Device,
        model: &'a dyn Trainable,
    ) -> Result<TrainingSetup<'a>, StageError> {
        let parameters = &spec.parameters;
        let rows = model.rows(parameters);
        let longest = match rows {
            Rows::Tokens(rows) => rows.longest,
            Rows::Clips => i64::MAX,
        };
        let length = parameters.integer("max_length").unwrap_or(1).min(longest);
        let clips = self.clips_of(spec, model, rows, length);
        let is_gpu = matches!(device, Device::Gpu(_));
        let setting = Setting {
            length: length.min(clips.longest_row(rows).ceil() as i64).max(1),
            clip_seconds: clips.all.mean_seconds(),
            ..Setting::read(parameters, training.adapters, is_gpu)?
        };
        let accumulation = parameters.integer("accumulation").unwrap_or(1);
        let expected = clips.expected(parameters, rows, &setting)?;
        let names = parameters.devices("devices").unwrap_or_default();
        let (devices, has_cpu) = (names.len().max(1) as i64, names.contains(&DeviceName::CPU));
        let clips = clips.all.items;
        Ok(TrainingSetup { model, setting, rows, accumulation, devices, has_cpu, clips, expected })
    }

    fn step_seconds(&self, plan: &TrainingSetup<'_>, device: &Device) -> f64 {
        let rows = plan.rows_of_step();
        let is_cpu = matches!(device, Device::Cpu) || plan.has_cpu;
        let step = match plan.model.effort(&Setting { rows, ..plan.setting.clone() }) {
            Effort::Operations(operations) => {
                let speed = match (is_cpu, plan.setting.is_half) {
                    (true, _) => CORE_SPEED * self.threads as f64,
                    (false, true) => HALF_SPEED,
                    (false, false) => F32_SPEED,
                };
                self.assumed.add(if is_cpu {
                    "training runs at 20 GFLOP/s on a CPU core"
                } else {
                    SPEED_ORIGIN
                });
                operations / speed
            }
            Effort::Seconds { seconds, on_core, told } => {
                self.assumed.add(told);
                let threads = if plan.model.is_small() { 1 } else { self.threads };
                if is_cpu { on_core / threads as f64 } else { seconds }
            }
        };
        if let Rows::Tokens(rows) = plan.rows {
            self.assumed.add(rows.told);
        }
        let micro_batch = plan.micro_batch(plan.setting.rows) as f64;
        let micro_batches = (rows as f64 / micro_batch).ceil();
        // Devices work at the same time, but several on the CPU share its cores.
        let at_once = if matches!(device, Device::Cpu) { 1 } else { plan.devices };
        let rounds = (micro_batches / at_once as f64).ceil();
        let share = (rounds * micro_batch / rows as f64).min(1.0);
        step * share + rounds * BATCH_START
    }

    fn state_bytes(
        &self,
        spec: &StageSpec,
        plan: &TrainingSetup<'_>,
        seconds: Option<Figure>,
    ) -> Figure {
        let every = plan.expected.course.timetable.save_every;
        let by_steps = if every > 0 { plan.steps() / every as f64 } else { 0.0 };
        let interval = spec.parameters.seconds("save_interval").unwrap_or(0.0);
        let by_time = match seconds {
            Some(seconds) if interval > 0.0 => seconds.likely / interval,
            _ => 0.0,
        };
        // A save by steps delays the next one by time.
        let saves = by_steps.max(by_time);
        let kept = spec.parameters.integer("keep").unwrap_or(0).max(1) as f64;
        let kept = kept + kept_by_steps(&spec.parameters, plan.expected.course.timetable.steps);
        let likely = plan.bytes(saves.floor() + 1.0, kept);
        Figure { low: plan.bytes(1.0, 1.0), likely, high: 2.0 * likely }
    }

    /// The largest batch that fits, and the accumulation that keeps the number of rows per step.
    fn batch_advice(&self, spec: &StageSpec, plan: &TrainingSetup<'_>, scale: f64) -> Vec<String> {
        let rows = plan.rows_of_step();
        let of = |price: &crate::pipeline::Price| {
            if let Some(precision) = spec.newer_precision().filter(|_| !price.may_have_bf16()) {
                return format!(
                    "{}: {precision} is not supported; use `precision = \"auto\"`",
                    price.name
                );
            }
            let size = units::bytes(price.vram_bytes);
            match plan.fitting(price.vram_bytes as f64, scale) {
                0 => format!("{}: not even a batch of 1 fits into {size}", price.name),
                most => {
                    // Another number of rows per step would be another training.
                    let fits = |batch: &i64| rows % batch == 0;
                    let batch = (1..=most).rev().find(fits).unwrap_or(1);
                    let accumulation = rows / batch;
                    format!(
                        "{}: batch = {batch} fits into {size}, with accumulation = {accumulation} \
                         for {rows} rows a step",
                        price.name
                    )
                }
            }
        };
        self.pipeline.session.prices.iter().map(of).collect()
    }
}

/// The memory that the allocator of a GPU reserves for live memory: it rounds sizes up, and has the
/// workspaces of cuBLAS. Fitted to trainings of all families on an H200, of 0.22 to 15.9 GB, within 13 %.
fn reserved(live: f64) -> f64 {
    1.05 * live + 1.5e8
}

/// The time of a training by those of its kind with other parameters.
fn similar(measure: &Measure, step: f64, steps: f64, overhead: &Overhead) -> Figure {
    let seen = measure.seconds.total(1.0, 0.0, 0.0).map_or(0.0, |seen| seen.likely);
    // Steps that are far longer are those of another model, for which all else differs as well.
    let is_near = (seen / NEAR..=seen * NEAR).contains(&step);
    Figure::within(step * steps, SIMILAR) + overhead.seconds(step, is_near.then_some(measure))
}

fn early(seconds: Figure, may_end_early: bool) -> Figure {
    if may_end_early { Figure { low: seconds.low * EARLY, ..seconds } } else { seconds }
}
