//! Estimates the time, memory, disk space and money that a plan will need. Each figure has bounds
//! and a basis.

mod assumptions;
mod clips;
mod flow;
mod kept;
mod outcome;
mod overhead;
mod room;
mod shape;
mod stage;
mod sweep;
mod total;
mod training;

use std::collections::{BTreeMap, BTreeSet};

use cache::{Cache, CacheError};
use serde::Serialize;

pub use crate::figure::{Basis, ExpectedCourse, Figure, StageEstimate};
use crate::gpu_hours::WeeklyBudget;
use crate::machine::{Device, Machine};
use crate::pipeline::{Pipeline, Price, StageId, StageSpec, TrialPosition};
use crate::plan::Plan;
use crate::spending::MoneyBudget;
use assumptions::Assumptions;
use flow::Flows;
pub use outcome::{RunOutcome, StageOutcome};
pub use room::{Room, SessionFit};
pub use total::{EstimateTotal, FitVerdict, OnGpu};
use total::{Layout, Stages, mark_best, money};

/// The estimate of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// The stages that have work.
    pub stages: BTreeMap<String, StageEstimate>,
    pub total: EstimateTotal,
    /// One entry per GPU of the price table.
    pub gpus: Vec<OnGpu>,
    pub assumptions: Vec<String>,
    /// The assumptions about the number of items of sources.
    #[serde(skip)]
    pub assumed_counts: Vec<String>,
    /// The part of the work that fits into the session, if it is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<SessionFit>,
    /// The device of each stage, by its position in the pipeline.
    #[serde(skip)]
    pub devices: Vec<Device>,
}

struct Estimator<'a> {
    pipeline: &'a Pipeline,
    plan: &'a Plan,
    flows: Flows<'a>,
    machine: Machine,
    threads: usize,
    assumed: Assumptions,
    /// Trials and rungs that halving certainly leaves no place for.
    beyond: BTreeSet<TrialPosition>,
}

/// Estimates a plan on this machine with this number of threads, and on the GPUs of the price
/// table.
pub fn estimate(
    pipeline: &Pipeline,
    plan: &Plan,
    cache: &Cache,
    machine: Machine,
    threads: usize,
) -> Result<Estimate, CacheError> {
    let flows = Flows::new(pipeline, plan, cache);
    let assumed = Assumptions::default();
    let beyond = sweep::beyond(pipeline, plan);
    Estimator { pipeline, plan, flows, machine, threads: threads.max(1), assumed, beyond }.all()
}

/// The same on the actual machine, which is queried only if there is work.
pub fn estimate_here(
    pipeline: &Pipeline,
    plan: &Plan,
    cache: &Cache,
    threads: usize,
) -> Result<Estimate, CacheError> {
    let machine = if plan.is_fresh() { Machine::default() } else { Machine::known(cache) };
    estimate(pipeline, plan, cache, machine, threads)
}

/// The formula's time for a step of a training; none for a stage without one.
pub fn step_by_formula(
    pipeline: &Pipeline,
    plan: &Plan,
    cache: &Cache,
    (machine, threads): (Machine, usize),
    id: StageId,
) -> Option<f64> {
    let flows = Flows::new(pipeline, plan, cache);
    let assumed = Assumptions::default();
    let (threads, beyond) = (threads.max(1), BTreeSet::new());
    let estimator = Estimator { pipeline, plan, flows, machine, threads, assumed, beyond };
    estimator.step_by_formula(pipeline.stage(id))
}

impl Estimator<'_> {
    fn all(self) -> Result<Estimate, CacheError> {
        let mut stages: Stages = Vec::with_capacity(self.pipeline.stages.len());
        for spec in &self.pipeline.stages {
            stages.push(if self.has_work(spec.id) { Some(self.stage(spec)?) } else { None });
        }
        let devices: Vec<Device> =
            self.pipeline.stages.iter().map(|spec| self.machine.device(spec)).collect();
        let own = self.own_price();
        // Formulas are for a GPU of speed 1; measures are of the GPU in this machine.
        self.normalise(&mut stages, &devices, own);
        let layout = Layout {
            pipeline: self.pipeline,
            devices: &devices,
            stages: &stages,
            threads: self.threads,
            gpu_speed: 1.0,
        };
        // Without work for a GPU there is nothing to compare.
        let uses_gpu = uses_gpu(&devices, &stages);
        let prices: &[Price] = if uses_gpu { &self.pipeline.session.prices } else { &[] };
        let mut gpus: Vec<OnGpu> = prices.iter().map(|price| layout.on(price)).collect();
        mark_best(&mut gpus);
        let best = gpus.iter().position(|row| row.is_best).map(|at| &prices[at]);
        let chosen = own.or_else(|| self.paid_for()).or(best).or(prices.first());
        let speed = chosen.map_or(1.0, |price| price.speed);
        let per_hour = self.pipeline.session.price_per_hour.or(chosen.map(|price| price.per_hour));
        let total = Layout { gpu_speed: speed, ..layout }.total(per_hour);
        if uses_gpu {
            self.tell_gpu(chosen, gpus.iter().all(|row| row.fits == FitVerdict::No));
        }
        let room = self.room(per_hour)?;
        let mut named = BTreeMap::new();
        for (spec, stage) in self.pipeline.stages.iter().zip(stages) {
            let Some(mut stage) = stage else { continue };
            if let Device::Gpu(_) = devices[spec.id.0] {
                stage.seconds = stage.seconds.map(|seconds| seconds.times(1.0 / speed));
                stage.gpu_seconds = stage.seconds;
            }
            stage.money = stage.seconds.zip(per_hour).map(|(seconds, price)| money(seconds, price));
            named.insert(spec.name.clone(), stage);
        }
        let assumed_counts = self.assumed.counts();
        let assumptions = self.assumed.into_texts();
        let estimate = Estimate {
            stages: named,
            total,
            gpus,
            assumptions,
            assumed_counts,
            fitted: None,
            devices,
        };
        let fitted = room.is_limited().then(|| room.fit(self.pipeline, &estimate));
        Ok(Estimate { fitted, ..estimate })
    }

    /// The remaining time, money and GPU hours of the session.
    fn room(&self, price_per_hour: Option<f64>) -> Result<Room, CacheError> {
        let (cache, session) = (self.flows.store.cache(), &self.pipeline.session);
        let hours =
            session.gpu_hours_per_week.map(|hours| WeeklyBudget::read(cache, hours * 3600.0));
        let gpu_seconds = hours.transpose()?.map(|budget| budget.left_seconds());
        let purse = MoneyBudget::read(cache, self.pipeline)?;
        let room = Room { seconds: session.stop_after_seconds, gpu_seconds, price_per_hour };
        Ok(room.with_seconds(purse.map(|purse| purse.left_seconds())))
    }

    fn has_work(&self, id: StageId) -> bool {
        let stage = self.plan.stage(id);
        let is_wanted = stage.executed + stage.pending > 0 || !stage.reasons.is_empty();
        let is_beyond = self.pipeline.stage(id).place.is_some_and(|p| self.beyond.contains(&p));
        stage.verdict.may_have_work() && is_wanted && !is_beyond
    }

    /// The row of the price table that matches the name of the GPU in this machine.
    fn own_price(&self) -> Option<&Price> {
        let model = self.machine.gpus.first()?.to_lowercase();
        let kind = |price: &Price| price.name.to_lowercase();
        let is_own = |price: &&Price| {
            kind(price).split(['-', '_']).next().is_some_and(|name| model.contains(name))
        };
        self.pipeline.session.prices.iter().find(is_own)
    }

    /// The row of the price table with the price of the session.
    fn paid_for(&self) -> Option<&Price> {
        let session = &self.pipeline.session;
        session.prices.iter().find(|price| Some(price.per_hour) == session.price_per_hour)
    }

    fn normalise(&self, stages: &mut Stages, devices: &[Device], own: Option<&Price>) {
        use crate::estimate::Basis;
        let speed = own.map_or(1.0, |price| price.speed);
        for (stage, device) in stages.iter_mut().zip(devices) {
            if let (Some(stage), Device::Gpu(_)) = (stage, device)
                && stage.basis < Basis::Formula
            {
                stage.seconds = stage.seconds.map(|seconds| seconds.times(speed));
            }
        }
    }

    /// `none_fits`: no GPU in the price table can run all stages.
    fn tell_gpu(&self, chosen: Option<&Price>, none_fits: bool) {
        self.assumed.add(match chosen {
            Some(price) if none_fits => format!(
                "GPU times are for `{}` in `[prices]`, although no GPU there has the memory or the \
                 precision for all stages",
                price.name
            ),
            Some(price) => format!("GPU times are for `{}` in `[prices]`", price.name),
            None => "GPU times are for an A100 (speed 1): list available GPUs under `[prices]`"
                .to_owned(),
        });
    }
}

/// Tests if there is work for a GPU.
fn uses_gpu(devices: &[Device], stages: &Stages) -> bool {
    let mut stages = stages.iter().zip(devices);
    stages.any(|(stage, device)| stage.is_some() && matches!(device, Device::Gpu(_)))
}

impl Estimate {
    pub fn is_on_gpu(&self, id: StageId) -> bool {
        matches!(self.devices.get(id.0), Some(Device::Gpu(_)))
    }

    /// Stages to estimate, in the order of the pipeline.
    pub fn in_order<'a>(
        &'a self,
        pipeline: &'a Pipeline,
    ) -> impl Iterator<Item = (&'a StageSpec, &'a StageEstimate)> {
        let stages = pipeline.stages.iter();
        stages.filter_map(|spec| Some((spec, self.stages.get(&spec.name)?)))
    }
}
