//! The estimate of a whole pipeline: its time, and its cost on each GPU.

use crate::figure::{Basis, Figure, StageEstimate};
use serde::Serialize;

use crate::machine::Device;
use crate::pipeline::{ITEMS, Pipeline, Price, StageId, StageWork};

/// The estimate of all work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EstimateTotal {
    /// From start to end.
    pub seconds: Figure,
    pub gpu_seconds: Figure,
    pub disk_bytes: Figure,
    /// Of the stage with the largest need.
    pub ram_bytes: Figure,
    pub vram_bytes: Figure,
    pub money: Option<Figure>,
    /// The weakest basis of its parts.
    pub basis: Basis,
    /// Stages without a known time.
    pub unknown: Vec<String>,
}

/// The estimate on one GPU of the price table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnGpu {
    pub name: String,
    pub seconds: Figure,
    pub gpu_seconds: Figure,
    pub money: Figure,
    pub fits: FitVerdict,
    /// The cheapest GPU that fits.
    pub is_best: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FitVerdict {
    Yes,
    /// The expected need fits, and the upper bound does not.
    Tight,
    No,
}

/// The estimates of stages by their position in the pipeline; `None`: no work.
pub type Stages = Vec<Option<StageEstimate>>;

/// Work that is laid out in time.
pub struct Layout<'a> {
    pub pipeline: &'a Pipeline,
    pub devices: &'a [Device],
    pub stages: &'a Stages,
    pub threads: usize,
    /// The speed of the GPUs relative to the ones that the estimates are for.
    pub gpu_speed: f64,
}

impl Layout<'_> {
    fn seconds(&self, id: StageId) -> Figure {
        let seconds = self.stages[id.0].as_ref().and_then(|stage| stage.seconds);
        let speed = if self.is_gpu(id) { self.gpu_speed } else { 1.0 };
        seconds.unwrap_or_default().times(1.0 / speed)
    }

    fn is_gpu(&self, id: StageId) -> bool {
        matches!(self.devices[id.0], Device::Gpu(_))
    }

    /// The longest path through the pipeline, or the total work of the GPUs, of the worker without a
    /// GPU, or of the engine's own threads, whichever is longest; the upper bound is the sum.
    pub fn wall(&self) -> Figure {
        let all: Figure = self.pipeline.ids().map(|id| self.seconds(id)).sum();
        let here = |id: &StageId| self.devices[id.0] == Device::Here;
        let processor: Figure = self.pipeline.ids().filter(here).map(|id| self.processor(id)).sum();
        // A worker does one task at a time.
        let worker = self.on_devices(|device| *device == Device::Cpu);
        let work = self.gpu().or_more(worker).or_more(processor);
        Figure { high: all.high, ..work.or_more(self.longest_way()) }
    }

    /// The time of all stages on these devices, one after the other.
    fn on_devices(&self, matches: fn(&Device) -> bool) -> Figure {
        let ids = self.pipeline.ids().filter(|id| matches(&self.devices[id.0]));
        ids.map(|id| self.seconds(id)).sum()
    }

    /// The share of the processor that a stage uses: one thread unless it works by items.
    fn processor(&self, id: StageId) -> Figure {
        let share = match self.pipeline.stage(id).work {
            StageWork::Item => 1.0,
            _ => 1.0 / self.threads.max(1) as f64,
        };
        self.seconds(id).times(share)
    }

    pub fn gpu(&self) -> Figure {
        self.on_devices(|device| matches!(device, Device::Gpu(_)))
    }

    /// Items flow on while their stage works; all other stages wait for complete inputs.
    fn longest_way(&self) -> Figure {
        let mut ends: Vec<(Figure, Figure)> = Vec::new();
        for spec in &self.pipeline.stages {
            let flowing = spec.inputs.get(ITEMS).filter(|_| spec.work == StageWork::Item);
            let flows = |above: &StageId| {
                flowing.is_some_and(|input| {
                    input.references.iter().any(|reference| {
                        matches!(reference, crate::pipeline::Reference::Stage { stage, .. } if stage == above)
                    })
                })
            };
            let (mut start, mut end) = (Figure::default(), Figure::default());
            for above in spec.upstream() {
                let (began, ended) = ends[above.0];
                start = start.or_more(if flows(&above) { began } else { ended });
                end = end.or_more(ended);
            }
            ends.push((start, end.or_more(start + self.seconds(spec.id))));
        }
        ends.into_iter().fold(Figure::default(), |longest, (_, end)| longest.or_more(end))
    }

    pub fn total(&self, price_per_hour: Option<f64>) -> EstimateTotal {
        let stages = || self.stages.iter().flatten();
        let most = |of: fn(&StageEstimate) -> Option<Figure>| {
            stages().filter_map(of).fold(Figure::default(), Figure::or_more)
        };
        let seconds = self.wall();
        let unknown = self.pipeline.stages.iter().filter(|spec| {
            self.stages[spec.id.0].as_ref().is_some_and(|stage| stage.seconds.is_none())
        });
        EstimateTotal {
            seconds,
            gpu_seconds: self.gpu(),
            disk_bytes: stages().filter_map(|stage| stage.disk_bytes).sum(),
            ram_bytes: most(|stage| stage.ram_bytes),
            vram_bytes: most(|stage| stage.vram_bytes),
            money: price_per_hour.map(|price| money(seconds, price)),
            basis: stages().map(|stage| stage.basis).max().unwrap_or(Basis::Unknown),
            unknown: unknown.map(|spec| spec.name.clone()).collect(),
        }
    }

    /// False if a stage demands a precision that the GPU does not have.
    fn computes_on(&self, price: &Price) -> bool {
        let is_open = |id: &StageId| self.is_gpu(*id) && self.stages[id.0].is_some();
        let mut open = self.pipeline.ids().filter(is_open);
        price.may_have_bf16() || open.all(|id| self.pipeline.stage(id).newer_precision().is_none())
    }

    /// The time on a GPU of the table; the estimates here are for a speed of 1.
    pub fn on(&self, price: &Price) -> OnGpu {
        let layout = Layout { gpu_speed: self.gpu_speed * price.speed, ..*self };
        let seconds = layout.wall();
        let vram = self.total(None).vram_bytes;
        let size = price.vram_bytes as f64;
        OnGpu {
            name: price.name.clone(),
            seconds,
            gpu_seconds: layout.gpu(),
            money: money(seconds, price.per_hour),
            fits: match (vram.high <= size, vram.likely <= size) {
                _ if !self.computes_on(price) => FitVerdict::No,
                (true, _) => FitVerdict::Yes,
                (false, true) => FitVerdict::Tight,
                (false, false) => FitVerdict::No,
            },
            is_best: false,
        }
    }
}

pub fn money(seconds: Figure, price_per_hour: f64) -> Figure {
    seconds.times(price_per_hour / 3600.0)
}

/// Marks the cheapest GPU that fits, or the cheapest that may fit if none does for certain.
pub fn mark_best(table: &mut [OnGpu]) {
    let best = [FitVerdict::Yes, FitVerdict::Tight].into_iter().find_map(|fit| {
        let fitting = table.iter().enumerate().filter(|(_, row)| row.fits == fit);
        let cheapest = fitting.min_by(|(_, a), (_, b)| a.money.likely.total_cmp(&b.money.likely));
        cheapest.map(|(at, _)| at)
    });
    if let Some(at) = best {
        table[at].is_best = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pipeline;

    /// The time of four independent stages of a minute each, by two threads.
    fn wall_on(device: &Device) -> f64 {
        let stage = |number: u32| {
            format!("[stage.s{number}]\nuse = \"corpus.folder\"\nfolder = \"data{number}\"\n")
        };
        let stages: String = (0..4).map(stage).collect();
        let pipeline = pipeline(&format!("[pipeline]\nname = \"p\"\n{stages}"));
        let minute =
            StageEstimate { seconds: Some(Figure::exact(60.0)), ..StageEstimate::unknown(1) };
        let layout = Layout {
            pipeline: &pipeline,
            devices: &vec![device.clone(); 4],
            stages: &vec![Some(minute); 4],
            threads: 2,
            gpu_speed: 1.0,
        };
        layout.wall().likely
    }

    #[test]
    fn a_worker_does_one_task_at_a_time_and_the_engine_one_on_each_thread() {
        assert_eq!(wall_on(&Device::Here), 120.0);
        assert_eq!(wall_on(&Device::Cpu), 240.0);
        assert_eq!(wall_on(&Device::Gpu(None)), 240.0);
    }

    fn row(money: f64, fits: FitVerdict) -> OnGpu {
        OnGpu {
            name: String::new(),
            seconds: Figure::default(),
            gpu_seconds: Figure::default(),
            money: Figure::exact(money),
            fits,
            is_best: false,
        }
    }

    fn best(rows: &[(f64, FitVerdict)]) -> Option<usize> {
        let mut table: Vec<OnGpu> = rows.iter().map(|(money, fits)| row(*money, *fits)).collect();
        mark_best(&mut table);
        table.iter().position(|row| row.is_best)
    }

    #[test]
    fn the_cheapest_that_surely_fits_is_the_best() {
        assert_eq!(
            best(&[
                (1.0, FitVerdict::No),
                (2.0, FitVerdict::Tight),
                (4.0, FitVerdict::Yes),
                (3.0, FitVerdict::Yes)
            ]),
            Some(3)
        );
        assert_eq!(
            best(&[(1.0, FitVerdict::No), (3.0, FitVerdict::Tight), (2.0, FitVerdict::Tight)]),
            Some(2)
        );
        assert_eq!(best(&[(1.0, FitVerdict::No)]), None);
    }
}
